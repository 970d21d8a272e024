//! Compactions that a caller asks for.

use std::ops::Bound;
use std::path::Path;

use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, Options};
use slmdb_env::Env;
use slmdb_levels::{Picked, Run};
use slmdb_testkit::MemoryEnv;

use super::passed_over::{STORE, key, move_chunks, open_in, put, value};

/// Each level has a third of the keys.
const LEVELS: u8 = 3;
const KEYS_PER_LEVEL: u32 = 300;
const CAPACITY_BYTES: u64 = 1 << 30;
/// Less than two of the levels have together, and more than a few files.
const FREE_BYTES: u64 = 160 << 10;

/// Two levels were merged at once, for which there was no space, and nothing was garbage. So `compact_range` said that the disk was
/// full. `deletes_under_a_snapshot_leave_compactions_their_space` failed of that, but only where much else ran.
#[test]
fn a_range_for_which_there_is_no_space_at_once_goes_down_in_parts() {
    let env = MemoryEnv::new();
    env.set_capacity(CAPACITY_BYTES);
    let small_files = |options| Options {
        compaction: CompactionOptions {
            policy: CompactionPolicy::Manual,
            table_file_bytes: 16 << 10,
            ..CompactionOptions::default()
        },
        ..options
    };
    let (store, _) = open_in(&env, Path::new(STORE), small_files);
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let keys_of = |level: u8| (0..KEYS_PER_LEVEL).map(move |number| number * u32::from(LEVELS) + u32::from(level));
    for level in (1..=LEVELS).rev() {
        keys_of(level).for_each(|number| put(&store, number, level));
        store.flush().unwrap();
        let indexing = store.shared.tier.state.level_zero.indexing.lock();
        assert!(store.shared.tier.state.level_zero.switch(&store.shared.parts.catalog).unwrap());
        drop(indexing);
        move_chunks(&store).unwrap();
        for above in 1..level {
            while let Picked::Plan(plan) = store.shared.tier.state.levels.plan_range(above, everything) {
                store.shared.tier.compactor.levels.compact(plan).unwrap();
            }
        }
    }
    let level_bytes =
        |level| store.shared.tier.state.levels.current().level(level).iter().map(|run| run.record().bytes).sum::<u64>();
    assert!((1..=LEVELS).all(|level| level_bytes(level) > FREE_BYTES / 2), "{}", level_bytes(1));

    let used_bytes = CAPACITY_BYTES - env.available_bytes(Path::new(STORE)).unwrap();
    env.set_capacity(used_bytes + FREE_BYTES);
    store.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
    assert_eq!((level_bytes(1), level_bytes(2)), (0, 0));
    for level in 1..=LEVELS {
        for number in keys_of(level) {
            assert_eq!(store.get(&key(number)).unwrap().as_deref(), Some(&value(number, level)[..]), "key {number}");
        }
    }
    assert!(store.verify(&mut |_| ()).unwrap().is_clean());
    store.close().unwrap();
}
