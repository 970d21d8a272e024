//! Cursors both ways, against a model.

use std::sync::Arc;

use proptest::prelude::*;
use slmdb_order::{Comparator, KeyOrder};
use slmdb_table::EntryKind;

use super::memory_run::MemoryRun;
use super::merging::{Step, entry, key, small, steps, take};
use super::store::Store;
use crate::{LevelsCursor, Version};

#[derive(Debug, Clone)]
enum Move {
    Seek(u8),
    SeekBefore(u8),
    First,
    Last,
    Next,
    Prev,
    /// The store goes on.
    Step(Step),
    /// And the cursor with it.
    Turn,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let step = steps().prop_map(|mut steps| Move::Step(steps.swap_remove(0)));
    let one = prop_oneof![
        2 => (0..26_u8).prop_map(Move::Seek),
        2 => (0..26_u8).prop_map(Move::SeekBefore),
        1 => Just(Move::First),
        1 => Just(Move::Last),
        8 => Just(Move::Next),
        8 => Just(Move::Prev),
        4 => step,
        2 => Just(Move::Turn),
    ];
    prop::collection::vec(one, 1..60)
}

pub(super) struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "test.backwards"
    }
    fn compare(&self, left: &[u8], right: &[u8]) -> std::cmp::Ordering {
        right.cmp(left)
    }
}

/// Moves a cursor in a store on and on, until it is on a put or on none. Puts alone are the model's.
fn settle(cursor: &mut LevelsCursor<MemoryRun>, is_forward: bool) {
    while cursor.kind() == Some(EntryKind::Delete) {
        assert_eq!(cursor.value_ref().unwrap(), b"");
        if is_forward { cursor.next().unwrap() } else { cursor.prev().unwrap() }
    }
}

fn check_moves(order: KeyOrder, steps: Vec<Step>, moves: Vec<Move>) {
    let mut store = Store::new(order.clone(), small());
    steps.into_iter().for_each(|step| take(&mut store, step));
    let moment = store.sequence;
    store.moments.insert(moment);
    let mut wanted: Vec<(Vec<u8>, Vec<u8>)> =
        store.model.keys().filter_map(|key| Some((key.clone(), store.wanted(key, moment)?.clone()))).collect();
    wanted.sort_by(|left, right| order.compare(&left.0, &right.0));
    let mut cursor = LevelsCursor::new(store.levels.current(), moment);
    // The model's position, from the first on; -1 and the length are none.
    let mut position: Option<usize> = None;
    let before = |key: &[u8]| wanted.partition_point(|(other, _)| order.compare(other, key).is_lt());
    for one in moves {
        let is_forward = !matches!(one, Move::SeekBefore(_) | Move::Last | Move::Prev);
        match one {
            Move::Seek(number) => {
                position = Some(before(&key(number)));
                cursor.seek(&key(number)).unwrap();
            }
            Move::SeekBefore(number) => {
                position = before(&key(number)).checked_sub(1);
                cursor.seek_before(&key(number)).unwrap();
            }
            Move::First => {
                position = Some(0);
                cursor.seek_first().unwrap();
            }
            Move::Last => {
                position = wanted.len().checked_sub(1);
                cursor.seek_last().unwrap();
            }
            Move::Next => {
                position = position.map(|position| position + 1);
                cursor.next().unwrap();
            }
            Move::Prev => {
                position = position.and_then(|position| position.checked_sub(1));
                cursor.prev().unwrap();
            }
            Move::Step(Step::Release(_)) => {}
            Move::Step(step) => take(&mut store, step),
            Move::Turn => cursor.turn_to(store.levels.current()).unwrap(),
        }
        settle(&mut cursor, is_forward);
        position = position.filter(|&position| position < wanted.len());
        let found = cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().unwrap().to_vec()));
        assert_eq!(found.as_ref(), position.map(|position| &wanted[position]));
        assert!(!cursor.valid() || cursor.sequence() <= moment);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_cursor_sees_its_moment_both_ways(steps in steps(), moves in moves()) {
        check_moves(KeyOrder::Bytewise, steps, moves);
    }

    #[test]
    fn a_cursor_sees_its_moment_under_a_comparator(moves in moves()) {
        let writes = (0..24).map(|number| (key(number), Some(vec![number]))).collect();
        check_moves(KeyOrder::Custom(Arc::new(Backwards)), vec![Step::Flush(writes)], moves);
    }
}

fn run(number: u32, keys: &[&str]) -> Arc<MemoryRun> {
    let entries = keys.iter().map(|key| entry(key, 100 - u64::from(number), Some("value"))).collect();
    Arc::new(MemoryRun::new(number, &KeyOrder::Bytewise, entries))
}

#[test]
fn one_run_of_a_level_is_open_at_a_time() {
    let runs = [run(1, &["a", "c"]), run(2, &["e", "g"]), run(3, &["i", "k"]), run(4, &["b", "j"])];
    let open = || runs.iter().map(|run| run.open_cursors()).collect::<Vec<_>>();
    let levels = [1, 1, 1, 2].into_iter().zip(runs.iter().cloned());
    let version = Arc::new(Version::new(KeyOrder::Bytewise, levels).unwrap());
    let mut cursor = LevelsCursor::new(version, 1000);
    assert_eq!(open(), [0, 0, 0, 0]);
    cursor.seek(b"f").unwrap();
    assert_eq!((cursor.key(), open()), (&b"g"[..], vec![0, 1, 0, 1]));
    cursor.next().unwrap();
    assert_eq!((cursor.key(), open()), (&b"i"[..], vec![0, 0, 1, 1]));
    cursor.seek_before(b"a").unwrap();
    assert_eq!((cursor.valid(), open()), (false, vec![0, 0, 0, 0]));
    assert!(cursor.value().is_err());
}
