//! What readers see while chunks move from level 0 to level 1, and who waits for chunks.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use slmdb_engine::{CompactionOptions, Engine, EngineCursor, EngineSnapshot, Options, WriteBatch};
use slmdb_testkit::MemoryEnv;

use super::passed_over::{KEYS, STORE, fill, key, move_chunks, open_in, put, value};
use crate::operations::pauses::{Paused, meanwhile};
use crate::options::LabOptions;
use crate::tier::Lab;

/// A store with all keys in the immutable tree.
fn filled() -> Arc<Lab> {
    let (store, _) = open_in(&MemoryEnv::new(), Path::new(STORE), |options| options);
    fill(&store, 1);
    Arc::new(store)
}

/// Moves everything to level 1, when the next reader comes to this place. The run files go, too.
fn move_at(store: &Arc<Lab>, place: Paused) {
    let store = store.clone();
    meanwhile(place, move || {
        move_chunks(&store).unwrap();
        assert_eq!(store.shared.tier.state.level_zero.immutable().counts().keys, 0);
        let state = store.shared.parts.catalog.lock().state().clone();
        assert!(state.files.values().all(|file| file.level == 1), "the run files have gone");
    });
}

/// The levels are loaded after the trees. A reader that loaded them before would find the key in neither (trap 1).
#[test]
fn a_key_that_moves_on_before_the_trees_are_looked_at_is_found() {
    let store = filled();
    move_at(&store, Paused::BeforeTrees);
    assert_eq!(store.get(&key(77)).unwrap().as_deref(), Some(&value(77, 1)[..]));
    assert_eq!(store.shared.tier.state.level_zero.immutable().counts().keys, 0, "nothing was moved meanwhile");
}

/// What a record leads to may go before it is read. Then the key is looked up again.
#[test]
fn a_key_whose_run_file_goes_before_it_is_read_is_looked_up_again() {
    for is_at_a_moment in [false, true] {
        let store = filled();
        let snapshot = store.snapshot().unwrap();
        move_at(&store, Paused::BehindTrees);
        let found = if is_at_a_moment { snapshot.get(&key(77)) } else { store.get(&key(77)) };
        assert_eq!(found.unwrap().as_deref(), Some(&value(77, 1)[..]));
        assert_eq!(store.shared.tier.state.level_zero.immutable().counts().keys, 0, "nothing was moved meanwhile");
    }
}

/// Walks on from where a cursor stands. Returns the numbers of the keys.
fn walk(cursor: &mut dyn EngineCursor, is_forward: bool, mut each: impl FnMut(usize)) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    while cursor.valid() {
        seen.push(cursor.key().to_vec());
        let number = std::str::from_utf8(&cursor.key()[4..]).unwrap().parse().unwrap();
        each(seen.len());
        assert_eq!(&cursor.value().unwrap()[..], value(number, 1), "key {number}");
        if is_forward { cursor.next().unwrap() } else { cursor.prev().unwrap() }
    }
    seen
}

fn all_keys(is_forward: bool) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = (0..KEYS).map(key).collect();
    if !is_forward {
        keys.reverse();
    }
    keys
}

/// A cursor loads the levels after its window, too (trap 1).
#[test]
fn a_cursor_sees_what_moves_on_before_its_window_is_copied() {
    for is_forward in [true, false] {
        let store = filled();
        let mut cursor = store.cursor().unwrap();
        move_at(&store, Paused::BeforeWindow);
        if is_forward {
            cursor.seek_first().unwrap()
        } else {
            cursor.seek_last().unwrap()
        }
        assert_eq!(store.shared.tier.state.level_zero.immutable().counts().keys, 0, "nothing was moved meanwhile");
        assert!(walk(&mut *cursor, is_forward, |_| ()) == all_keys(is_forward));
    }
}

/// It looks at the levels anew after each window: else it would miss what has moved on since, or see it twice (trap 10).
#[test]
fn a_cursor_sees_each_key_once_while_chunks_move_on() {
    for is_forward in [true, false] {
        for moves_all_at in [1, 60, 150] {
            let store = filled();
            let mut cursor = store.cursor().unwrap();
            if is_forward {
                cursor.seek_first().unwrap()
            } else {
                cursor.seek_last().unwrap()
            }
            let seen = walk(&mut *cursor, is_forward, |count| {
                if count == moves_all_at {
                    move_chunks(&store).unwrap();
                }
            });
            assert!(seen == all_keys(is_forward), "forwards {is_forward}, moved at {moves_all_at}");
            assert_eq!(store.shared.tier.state.level_zero.immutable().counts().keys, 0);
        }
    }
}

/// What each snapshot of [`histories`] sees of a key.
type Seen = Vec<(Arc<dyn EngineSnapshot>, Vec<Option<Vec<u8>>>)>;

/// Snapshots of a store whose keys are put, deleted and put again, with level 0 moved on after each step or not.
fn histories(store: &Lab, moves_after: u32) -> Seen {
    let mut seen = Seen::new();
    for round in 0..4_u8 {
        for number in 0..KEYS {
            // Each key has a history of its own.
            match (number >> (2 * round)) % 4 {
                0 => {}
                1 => {
                    let mut batch = WriteBatch::new();
                    batch.delete(key(number)).unwrap();
                    store.write(&batch, false).unwrap();
                }
                _ => put(store, number, round),
            }
        }
        let now = (0..KEYS).map(|number| store.get(&key(number)).unwrap().map(|value| value.to_vec())).collect();
        seen.push((store.snapshot().unwrap(), now));
        if moves_after >> round & 1 == 1 {
            store.flush().unwrap();
            move_chunks(store).unwrap();
            store.shared.tier.compactor.switch().unwrap();
            move_chunks(store).unwrap();
        }
    }
    seen
}

/// A delete that is newer than a moment hides nothing from it, wherever it and the put have come to. And one that the moment sees
/// hides what is below level 0 (trap 5).
#[test]
fn a_moment_sees_the_same_while_its_versions_move_to_level_1() {
    for moves_after in 0..16 {
        let (store, _) = open_in(&MemoryEnv::new(), Path::new(STORE), |options| options);
        let seen = histories(&store, moves_after);
        let check = |when: &str| {
            for (round, (snapshot, was)) in seen.iter().enumerate() {
                let context = format!("moved after {moves_after:04b}, moment {round}, {when}");
                for (number, was) in (0..).zip(was) {
                    let found = snapshot.get(&key(number)).unwrap();
                    assert!(found.as_deref() == was.as_deref(), "{context}: key {number}");
                }
                let mut cursor = snapshot.cursor().unwrap();
                cursor.seek_first().unwrap();
                for (number, _) in (0..).zip(was).filter(|(_, was)| was.is_some()) {
                    assert!(cursor.valid() && cursor.key() == key(number), "{context}: key {number}");
                    cursor.next().unwrap();
                }
                assert!(!cursor.valid(), "{context}: more keys than there were");
            }
        };
        check("as it is");
        store.flush().unwrap();
        check("flushed");
        for _ in 0..2 {
            move_chunks(&store).unwrap();
            store.shared.tier.compactor.switch().unwrap();
        }
        check("moved");
        store.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
        check("compacted");
    }
}

/// A flush waits until chunks have gone, so level 0 never has more than its bytes and one MemTable's keys (trap 13).
#[test]
fn level_0_takes_no_more_than_its_bytes_and_a_memtables_keys() {
    const LEVEL_ZERO_BYTES: u64 = 16 << 10;
    let (store, _) = open_in(&MemoryEnv::new(), Path::new(STORE), |options| Options {
        memtable_bytes: 4 << 10,
        compaction: CompactionOptions { table_file_bytes: 4 << 10, ..CompactionOptions::default() },
        own: Some(Arc::new(LabOptions {
            level_zero_bytes: LEVEL_ZERO_BYTES,
            level_growth: 2,
            ..LabOptions::default()
        })),
        ..options
    });
    let name = |number: u32| format!("{:08}", number.wrapping_mul(0x9e37_79b1)).into_bytes();
    let store = &store;
    std::thread::scope(|scope| {
        // No chunk can go.
        let chunk = store.shared.tier.compactor.chunk.lock();
        let writer = scope.spawn(move || {
            for number in 0..4000 {
                let mut batch = WriteBatch::new();
                batch.put(name(number), number.to_le_bytes()).unwrap();
                store.write(&batch, false).unwrap();
            }
        });
        let (mut before, mut same) = (0, 0);
        while same < 20 || (before < LEVEL_ZERO_BYTES && same < 2000) {
            std::thread::sleep(Duration::from_millis(25));
            let used_bytes = store.shared.tier.state.level_zero.used_bytes();
            same = if used_bytes == before { same + 1 } else { 0 };
            before = used_bytes;
        }
        assert!(!writer.is_finished(), "the writer waits for nothing");
        assert!(before >= LEVEL_ZERO_BYTES, "{before} bytes are not full");
        assert!(before <= LEVEL_ZERO_BYTES + (16 << 10), "{before} bytes in level 0");
        drop(chunk);
        writer.join().unwrap();
    });
    for number in 0..4000 {
        assert_eq!(store.get(&name(number)).unwrap().as_deref(), Some(&number.to_le_bytes()[..]), "key {number}");
    }
    store.close().unwrap();
}
