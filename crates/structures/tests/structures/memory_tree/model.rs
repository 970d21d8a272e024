//! Against a map: keys of every shape, random changes, small nodes and usual ones.

use std::ops::Bound;

use proptest::prelude::*;
use slmdb_env::{Error, ErrorKind};
use slmdb_order::Direction;
use slmdb_structures::memory_tree::{Decision, MAXIMUM_KEY_BYTES, MemoryTree, RangeRead, Settings};
use slmdb_sync::epoch;

use super::{Found, Model, check, found, read_all, tiny, tree};

/// Keys that are alike in one way or another.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let letter = prop_oneof![Just(0_u8), Just(1), Just(b'a'), Just(255)];
    prop_oneof![
        4 => prop::collection::vec(letter.clone(), 0..6),
        2 => prop::collection::vec(letter, 0..40),
        4 => (0..400_u32).prop_map(|number| format!("{number:020}").into_bytes()),
        2 => (0..200_u64).prop_map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()),
        2 => (0..300_u32, 0..9).prop_map(|(page, site)| format!("https://example{site}.org/page/{page}").into_bytes()),
        // The same head in all of them.
        2 => (0..300_u32).prop_map(|number| [b"same head ".as_slice(), &number.to_be_bytes()].concat()),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    prop_oneof![
        3 => Just(tiny()),
        2 => (1..9_usize, 3..7_usize).prop_map(|(leaf_keys, inner_children)| Settings { leaf_keys, inner_children, ..tiny() }),
        1 => Just(Settings::default()),
    ]
}

/// What is done with a key that comes up, and with what number.
#[derive(Debug, Clone, Copy)]
enum Act {
    Put(u64, u64),
    Remove,
    Keep,
}

fn act() -> impl Strategy<Value = Act> {
    let sequence = prop_oneof![3 => Just(0_u64), 3 => 1..100_u64, 1 => 1..u64::MAX];
    prop_oneof![
        4 => (any::<u64>(), sequence).prop_map(|(number, sequence)| Act::Put(number, sequence)),
        3 => Just(Act::Remove),
        1 => Just(Act::Keep),
    ]
}

type Batch = std::collections::BTreeMap<Vec<u8>, Act>;

/// Applies a batch to both, and fails at the key of this number, if there is one.
fn apply(tree: &MemoryTree, model: &mut Model, batch: &Batch, fails_at: Option<usize>) {
    let (keys, acts): (Vec<_>, Vec<_>) = batch.iter().unzip();
    let (before, mut told) = (model.clone(), vec![false; keys.len()]);
    let done = tree.update_sorted(
        &keys,
        |index, current| {
            assert_eq!(current, before.get(keys[index]).copied());
            if fails_at == Some(index) {
                return Err(Error::invalid("as it is meant"));
            }
            Ok(match acts[index] {
                Act::Put(number, sequence) => Decision::Put(found(number, sequence)),
                Act::Remove => Decision::Remove,
                Act::Keep => Decision::Keep,
            })
        },
        |index, was| {
            assert!(!std::mem::replace(&mut told[index], true), "told twice");
            let is = match acts[index] {
                Act::Put(number, sequence) => model.insert(keys[index].clone(), found(number, sequence)),
                Act::Remove => model.remove(keys[index]),
                Act::Keep => panic!("a key that was kept has changed"),
            };
            assert_eq!(was, is);
        },
    );
    assert_eq!(done.is_err(), fails_at.is_some_and(|at| at < keys.len()));
    for (index, act) in acts.iter().enumerate().filter(|_| done.is_ok()) {
        let changes = match act {
            Act::Put(..) => true,
            Act::Remove => before.contains_key(keys[index]),
            Act::Keep => false,
        };
        assert_eq!(told[index], changes);
    }
}

fn check_ranges(tree: &MemoryTree, model: &Model, keys: &[Vec<u8>]) {
    let guard = epoch::pin();
    let mut looked = Vec::new();
    tree.get_each(keys, &guard, |_, found| {
        looked.push(found);
        Ok(())
    })
    .unwrap();
    let mut read = RangeRead::default();
    for (key, looked) in keys.iter().zip(looked) {
        assert_eq!(looked, model.get(key).copied());
        assert_eq!(tree.get(key, &guard), looked);
        for from in [Bound::Included(&key[..]), Bound::Excluded(&key[..])] {
            tree.read(from, Direction::Forward, 5, &guard, &mut read);
            let expected: Vec<_> = model.range::<[u8], _>((from, Bound::Unbounded)).take(read.len()).collect();
            assert!(read.iter().eq(expected.iter().map(|(key, found)| (&key[..], **found))));
            let is_all = expected.len() == model.range::<[u8], _>((from, Bound::Unbounded)).count();
            assert!(if read.next().is_some() { read.len() >= 5 } else { is_all });
            tree.read(from, Direction::Backward, 5, &guard, &mut read);
            let expected: Vec<_> = model.range::<[u8], _>((Bound::Unbounded, from)).rev().take(read.len()).collect();
            assert!(read.iter().eq(expected.iter().map(|(key, found)| (&key[..], **found))));
            let is_all = expected.len() == model.range::<[u8], _>((Bound::Unbounded, from)).count();
            assert!(if read.next().is_some() { read.len() >= 5 } else { is_all });
        }
        let range = (Bound::Unbounded, Bound::Included(&key[..]));
        let sampled = tree.sample(range, &guard);
        assert_eq!(sampled.len(), model.range::<[u8], _>(range).count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_index_has_what_was_put_in(
        settings in settings(),
        batches in prop::collection::vec((prop::collection::btree_map(key(), act(), 0..80), prop::option::weighted(0.2, 0..80_usize)), 1..12),
        others in prop::collection::vec(key(), 8),
    ) {
        let (tree, mut model) = (tree(settings), Model::new());
        for (batch, fails_at) in &batches {
            apply(&tree, &mut model, batch, *fails_at);
            check(&tree, &model, &epoch::pin());
        }
        check_ranges(&tree, &model, &others);
        let present: Vec<_> = model.keys().cloned().collect();
        check_ranges(&tree, &model, &present);
        // Moved where it is as expected, to places of its own.
        let mut moved = Vec::new();
        let expected = |index: usize| model[&present[index]].place;
        tree.repoint(
            &present,
            |index| (if index % 3 == 0 { super::place(1) } else { expected(index) }, super::place(index as u64 * 11)),
            |index| moved.push(index),
        ).unwrap();
        let places: Vec<_> = (0..present.len()).map(expected).collect();
        for (index, key) in present.iter().enumerate() {
            if index % 3 > 0 || places[index] == super::place(1) {
                prop_assert!(moved.contains(&index));
                model.get_mut(key).unwrap().place = super::place(index as u64 * 11);
            }
        }
        check(&tree, &model, &epoch::pin());
        let all: Batch = present.into_iter().map(|key| (key, Act::Remove)).collect();
        apply(&tree, &mut model, &all, None);
        check(&tree, &model, &epoch::pin());
        prop_assert_eq!(tree.height(&epoch::pin()), 1);
    }

    #[test]
    fn parts_that_were_loaded_are_an_index(
        settings in settings(),
        entries in prop::collection::btree_map(key(), (any::<u64>(), prop_oneof![Just(0_u64), any::<u64>()]), 0..300),
        parts in 1..5_usize,
        batch in prop::collection::btree_map(key(), act(), 0..80),
    ) {
        let tree = tree(settings);
        let mut model: Model = entries.iter().map(|(key, (number, sequence))| (key.clone(), found(*number, *sequence))).collect();
        let all: Vec<_> = model.iter().collect();
        let fill = |entries: &[(&Vec<u8>, &Found)]| {
            let mut part = tree.bulk_part();
            entries.iter().for_each(|(key, found)| part.add(key, **found).unwrap());
            let last = entries.last().unwrap();
            assert_eq!(part.add(last.0, *last.1).unwrap_err().kind(), ErrorKind::Invalid);
            part
        };
        // Side by side.
        let parts = std::thread::scope(|scope| {
            let parts = all.chunks(all.len().div_ceil(parts).max(1)).map(|entries| scope.spawn(|| fill(entries)));
            let parts: Vec<_> = parts.collect();
            parts.into_iter().map(|part| part.join().unwrap()).collect()
        });
        tree.finish_bulk_load(parts).unwrap();
        check(&tree, &model, &epoch::pin());
        apply(&tree, &mut model, &batch, None);
        check(&tree, &model, &epoch::pin());
    }
}

/// Keys as long as they may be, and next to each other.
#[test]
fn long_keys_have_nodes_of_their_own() {
    for settings in [tiny(), Settings::default()] {
        let (tree, mut model) = (tree(settings), Model::new());
        let long = |letter: u8, less: usize| vec![letter; MAXIMUM_KEY_BYTES - less];
        for round in 0..4_u64 {
            let mut batch = Batch::new();
            for number in 0..40_u8 {
                let act = if round == 3 || (round + u64::from(number)) % 5 == 0 {
                    Act::Remove
                } else {
                    Act::Put(u64::from(number) + round, round)
                };
                let mut last_differs = long(7, 0);
                last_differs[MAXIMUM_KEY_BYTES - 1] = number;
                batch.insert(last_differs, act);
                batch.insert(long(7, usize::from(number) + 1), act);
                batch.insert(long(number.wrapping_mul(6), 3), act);
                batch.insert(vec![number], act);
                batch.insert(vec![7; usize::from(number) * 300], act);
            }
            apply(&tree, &mut model, &batch, None);
            check(&tree, &model, &epoch::pin());
        }
        assert!(model.is_empty());
    }
}

#[test]
fn what_can_not_be_done_is_refused() {
    let tree = tree(tiny());
    let put = |keys: &[Vec<u8>]| {
        tree.update_sorted(keys, |_, _| Ok(Decision::Put(found(1, 1))), |_, _| {}).map_err(|error| error.kind())
    };
    let kept = vec![b"a".to_vec(), b"a\0".to_vec(), b"b".to_vec()];
    put(&kept).unwrap();
    for refused in
        [vec![b"c".to_vec(), b"b".to_vec()], vec![b"c".to_vec(), b"c".to_vec()], vec![vec![0; MAXIMUM_KEY_BYTES + 1]]]
    {
        assert_eq!(put(&refused), Err(ErrorKind::Invalid));
    }
    let mut part = tree.bulk_part();
    part.add(b"x", found(1, 1)).unwrap();
    assert_eq!(part.add(&[0; MAXIMUM_KEY_BYTES + 1], found(1, 1)).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(tree.finish_bulk_load(vec![part]).unwrap_err().kind(), ErrorKind::Invalid);
    let model: Model = kept.into_iter().map(|key| (key, found(1, 1))).collect();
    check(&tree, &model, &epoch::pin());
    assert_eq!(tree.get(&[b'a'; MAXIMUM_KEY_BYTES + 1], &epoch::pin()), None);
}

/// All keys of its leaf have the same length, which is 0.
#[test]
fn an_empty_key_alone_is_read() {
    let tree = tree(tiny());
    tree.update_sorted(&[b""], |_, _| Ok(Decision::Put(found(1, 1))), |_, _| {}).unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        assert_eq!(read_all(&tree, direction, 1), [(Vec::new(), found(1, 1))]);
    }
}
