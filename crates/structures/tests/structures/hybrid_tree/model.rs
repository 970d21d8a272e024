//! Against a `BTreeMap`.

use std::cmp::Ordering;
use std::sync::Arc;

use proptest::prelude::*;
use slmdb_order::{Comparator, KeyOrder};
use slmdb_pmem::{Dram, Slots};
use slmdb_structures::hybrid_tree::{Entry, HybridTree, MAXIMUM_KEY_BYTES, MAXIMUM_SEQUENCE};
use slmdb_sync::epoch;
use slmdb_testkit::Simulated;

use super::{Model, Store, version};

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        right.cmp(left)
    }
}

fn orders() -> [KeyOrder; 2] {
    [KeyOrder::Bytewise, KeyOrder::Custom(Arc::new(Backwards))]
}

#[derive(Debug, Clone)]
enum Operation {
    /// So many keys from a number on, so far apart, with ever higher sequence numbers.
    Apply(u16, u16, u8),
    /// The same with numbers that are lower than before.
    ApplyOld(u16, u16),
    Remove(u16, u16, u8),
    CutThrough(u16),
    Reopen,
    BeginAgain,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        6 => (any::<u16>(), 1u16..900, 1u8..9).prop_map(|(from, count, step)| Operation::Apply(from, count, step)),
        1 => (any::<u16>(), 1u16..300).prop_map(|(from, count)| Operation::ApplyOld(from, count)),
        3 => (any::<u16>(), 1u16..900, 1u8..4).prop_map(|(from, count, step)| Operation::Remove(from, count, step)),
        1 => any::<u16>().prop_map(Operation::CutThrough),
        1 => Just(Operation::Reopen),
    ];
    let rarely = prop_oneof![19 => operation, 1 => Just(Operation::BeginAgain)];
    prop::collection::vec(rarely, 1..25)
}

/// Keys with long common beginnings, short ones, and some that are very long.
fn key(number: u16) -> Vec<u8> {
    let number = number % 4000;
    match number % 97 {
        0 => format!("k{number:04}{}", "x".repeat(usize::from(number) * 16)).into_bytes(),
        1..10 => format!("k{number:04}\0\0").into_bytes(),
        _ => format!("k{number:04}").into_bytes(),
    }
}

fn run(operations: &[Operation], order: &KeyOrder) {
    let mut store = Store::create(Dram, order.clone());
    let (mut model, mut sequence, mut epoch) = (Model::new(), 1, 1);
    for operation in operations {
        match *operation {
            Operation::Apply(from, count, step) => {
                let numbers = (0..count).map(|index| from.wrapping_add(index.wrapping_mul(u16::from(step))));
                let batch: Model = numbers.map(|number| (key(number), version(sequence))).collect();
                let batch: Model = batch
                    .into_keys()
                    .map(|key| {
                        sequence += 1;
                        (key, version(sequence))
                    })
                    .collect();
                let mut entries: Vec<_> = batch.iter().map(|(key, version)| Entry { key, version: *version }).collect();
                entries.sort_by(|left, right| order.compare(left.key, right.key));
                let mut replaced = Model::new();
                store
                    .tree
                    .apply(entries, |entry, version| assert!(replaced.insert(entry.key.to_vec(), version).is_none()))
                    .unwrap();
                let was: Model = batch.keys().filter_map(|key| Some((key.clone(), *model.get(key)?))).collect();
                assert!(replaced == was, "what was replaced");
                model.extend(batch);
            }
            Operation::ApplyOld(from, count) => {
                let batch: Model = (0..count).map(|index| (key(from.wrapping_add(index)), version(1))).collect();
                store.apply(&batch);
                for (key, version) in batch {
                    model.entry(key).or_insert(version);
                }
            }
            Operation::Remove(from, count, step) => {
                let numbers = (0..count).map(|index| from.wrapping_add(index.wrapping_mul(u16::from(step))));
                let mut keys: Vec<_> = numbers.map(key).collect();
                keys.sort_by(|left, right| order.compare(left, right));
                keys.dedup();
                // Every fourth with a number that it has not.
                let mut numbered: Vec<(&[u8], u64)> = Vec::new();
                for (index, key) in keys.iter().enumerate() {
                    let has = model.get(key).map_or(1, |version| version.sequence);
                    numbered.push((key, has + u64::from(index % 4 == 3)));
                }
                store.tree.remove(numbered.iter().copied()).unwrap();
                for (key, sequence) in numbered {
                    if model.get(key).is_some_and(|version| version.sequence == sequence) {
                        model.remove(key);
                    }
                }
            }
            Operation::CutThrough(number) => {
                let key = key(number);
                store.tree.cut_through(&key).unwrap();
                model.retain(|other, _| order.compare(other, &key).is_gt());
            }
            Operation::Reopen => {
                let slots = Arc::new(Slots::open(Arc::clone(&store.pool)).unwrap());
                // What waits for readers in the old life is free in the new one.
                let tree = HybridTree::open(Arc::clone(&slots), 0, order.clone(), |_| true).unwrap();
                slots.return_empty();
                store = Store { pool: Arc::clone(&store.pool), tree };
                assert_eq!(store.tree.epoch(), epoch);
            }
            Operation::BeginAgain => {
                epoch += 1;
                store.tree.begin_again(epoch).unwrap();
                model.clear();
            }
        }
        store.check(&model);
        assert_eq!(store.tree.get(b"j").unwrap(), None);
        assert!(!store.tree.contains(b"k0000~").unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_has_what_a_map_has(operations in operations()) {
        run(&operations, &KeyOrder::Bytewise);
    }

    #[test]
    fn a_tree_under_a_comparator_has_what_a_map_has(operations in operations()) {
        run(&operations, &orders()[1]);
    }
}

#[test]
fn keys_of_every_length() {
    for order in orders() {
        let store = Store::create(Dram, order.clone());
        let lengths = [0, 1, 7, 8, 9, 255, 256, 257, 4000, 32_768, 40_000, MAXIMUM_KEY_BYTES - 1, MAXIMUM_KEY_BYTES];
        let mut model: Model = lengths.iter().map(|&length| (vec![b'a'; length], version(length as u64 + 1))).collect();
        store.apply(&model);
        store.check(&model);
        model.values_mut().for_each(|value| *value = version(value.sequence + 100_000));
        store.apply(&model);
        store.check(&model);
        let too_long = vec![0; MAXIMUM_KEY_BYTES + 1];
        assert!(store.tree.apply([Entry { key: &too_long, version: version(1) }], |_, _| {}).is_err());
        assert!(store.tree.apply([Entry { key: b"a", version: version(MAXIMUM_SEQUENCE + 1) }], |_, _| {}).is_err());
    }
}

#[test]
fn entries_out_of_order_are_refused() {
    let store = Store::create(Dram, KeyOrder::Bytewise);
    let entry = |key| Entry { key, version: version(1) };
    for keys in [[&b"b"[..], b"a"], [b"a", b"a"]] {
        assert!(store.tree.apply(keys.map(entry), |_, _| {}).is_err());
    }
    store.check(&Model::new());
}

#[test]
fn two_trees_share_a_pool() {
    let store = Store::create(Dram, KeyOrder::Bytewise);
    let slots = Arc::clone(store.tree.slots());
    let other = HybridTree::create(Arc::clone(&slots), 1, 9, KeyOrder::Bytewise).unwrap();
    assert!(HybridTree::create(Arc::clone(&slots), 1, 9, KeyOrder::Bytewise).is_err());
    let other = Store { pool: Arc::clone(&store.pool), tree: other };
    let model =
        |from: u64| (0..3000).map(|number| (format!("{number:05}").into_bytes(), version(from + number))).collect();
    let (mine, theirs): (Model, Model) = (model(1), model(5000));
    store.apply(&mine);
    other.apply(&theirs);
    let faults = HybridTree::verify(&[&store.tree, &other.tree]);
    assert!(faults.is_empty(), "{faults:#?}");
    assert_eq!(HybridTree::verify(&[&store.tree]).len(), 1, "the other's slots are lost to this one alone");
    assert!(store.forwards().into_iter().eq(mine) && other.forwards().into_iter().eq(theirs.clone()));

    other.tree.begin_again(11).unwrap();
    store.tree.cut_through(b"99999").unwrap();
    assert_eq!((other.tree.counts().keys, store.tree.counts().keys), (0, 0));
    // Readers of other tests may be in the way for a while.
    let begin = std::time::Instant::now();
    while store.tree.slots().retiring() > 0 && begin.elapsed().as_secs() < 60 {
        epoch::pin().flush();
        std::thread::yield_now();
    }
    assert_eq!(store.tree.slots().usage(slmdb_pmem::ExtentKind::Records).used, 0);
    other.apply(&theirs);
    drop(store);
    let slots = Arc::new(Slots::open(Arc::clone(&other.pool)).unwrap());
    let again = HybridTree::open(Arc::clone(&slots), 1, KeyOrder::Bytewise, |_| true).unwrap();
    assert_eq!((again.epoch(), again.counts().keys), (11, 3000));
    let wrong = HybridTree::<Dram>::open(slots, 1, orders()[1].clone(), |_| true).unwrap_err();
    assert_eq!(wrong.kind(), slmdb_env::ErrorKind::Unsupported);
}

#[test]
fn an_opening_takes_out_what_is_not_wanted() {
    let medium = Simulated::new();
    let store = Store::create(medium.clone(), KeyOrder::Bytewise);
    let model: Model = (0..4000).map(|number| (format!("{number:05}").into_bytes(), version(1 + number))).collect();
    store.apply(&model);
    let keep = |key: &[u8], file: u32| key > &b"01234"[..] && file != 30 && !(40..60).contains(&file);
    let rest: Model = model.into_iter().filter(|(key, version)| keep(key, version.file)).collect();
    let mut replay = medium.history().replay();
    while replay.to_next_crash() {}
    for image in replay.images(3, 1) {
        let store =
            Store::open_keeping(Dram, image, KeyOrder::Bytewise, |entry| keep(entry.key, entry.version.file)).unwrap();
        store.check(&rest);
        let slots = Arc::new(Slots::open(Arc::clone(&store.pool)).unwrap());
        let again = HybridTree::open(slots, 0, KeyOrder::Bytewise, |_| true).unwrap();
        assert_eq!(again.counts().keys, rest.len() as u64, "taken out for good");
    }
}
