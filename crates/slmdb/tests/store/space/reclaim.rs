//! The way out of a full store: deletes and `compact_range` give space back on a full disk and in a full pool, however slow compactions
//! and readers are; and it can be opened again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::machine::{
    Machine, PLENTY_BYTES, STORE, Scarce, fill, key, put, scarce, two_files, used_bytes, value_bytes,
};
use crate::common::{Model, Random, assert_same, assert_verified, contents, is_tlsm, watched};
use slmdb::{Comparator, Db, ErrorKind};

/// The order of bytes, in which compactions take their time once that is wanted.
#[derive(Debug, Default, Clone)]
struct SlowInCompactions {
    is_wanted: Arc<AtomicBool>,
    comparisons: Arc<AtomicU64>,
}

impl Comparator for SlowInCompactions {
    fn name(&self) -> &str {
        "slow in compactions"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> std::cmp::Ordering {
        let is_compacting = || std::thread::current().name() == Some("slmdb-compaction");
        if self.is_wanted.load(Ordering::Relaxed)
            && is_compacting()
            && self.comparisons.fetch_add(1, Ordering::Relaxed).is_multiple_of(32)
        {
            // (TLSM compares more.)
            std::thread::sleep(Duration::from_millis(if is_tlsm() { 1 } else { 5 }));
        }
        left.cmp(right)
    }
}

/// Deletes three of four of so many keys.
fn delete_most(db: &Db, model: &mut Model, full: u64, moves: &AtomicU64, context: &str) {
    for key in (0..full).filter(|number| number % 4 != 0).map(key) {
        db.delete(&key).unwrap_or_else(|error| panic!("{context}: a delete was refused: {error}"));
        model.remove(&key);
        moves.fetch_add(1, Ordering::Relaxed);
    }
}

/// Puts keys of up to 9 KiB until there is no space for another. Their numbers begin at `first` and go up by `step`.
fn fill_with_long_keys(
    db: &Db,
    model: &mut Model,
    random: &mut Random,
    (first, step): (u64, usize),
    moves: &AtomicU64,
) {
    for number in (first..).step_by(step) {
        let mut key = key(number);
        key.resize(9 + random.below(9000) as usize, 7);
        if let Err(error) = put(db, model, key, random.bytes(10)) {
            return assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        }
        moves.fetch_add(1, Ordering::Relaxed);
    }
}

/// In LAB-DB each compaction that found no space for its outputs said that it had given some back. So a writer that waited for
/// space asked for the next one, for ever.
#[test]
fn compactions_that_find_no_space_keep_no_writer_waiting() {
    for seed in 0..2 {
        let (context, moves) = (format!("seed {seed}"), AtomicU64::new(0));
        watched(&context, &moves, || {
            let machine = Machine::new(Scarce::DiskOnDram, 3 << 19);
            let order = SlowInCompactions::default();
            order.is_wanted.store(true, Ordering::Relaxed);
            let (mut model, mut random) = (Model::new(), Random(seed));
            let db = machine.open_with(machine.options().comparator(order.clone()));
            fill_with_long_keys(&db, &mut model, &mut random, (0, 1), &moves);
            order.is_wanted.store(false, Ordering::Relaxed);
            assert_same(&contents(&db).unwrap(), &model, &context);
        });
    }
}

/// The MANIFEST of a store with long keys takes much of the disk, and is written anew at the next opening. If deletes and compactions
/// have used up what was set aside for that, the store opens for reading, and for writing once there is space.
#[test]
fn a_disk_too_full_for_a_manifest_lets_only_readers_in() {
    for seed in 0..2 * crate::common::budget() {
        let context = format!("seed {seed}");
        let machine = Machine::new(Scarce::DiskOnDram, 3 << 19);
        let order = SlowInCompactions::default();
        order.is_wanted.store(true, Ordering::Relaxed);
        let (mut model, mut random, moves) = (Model::new(), Random(seed), AtomicU64::new(0));
        let db = machine.open_with(machine.options().comparator(order.clone()));
        for round in 0..2 {
            fill_with_long_keys(&db, &mut model, &mut random, (round, 2), &moves);
            let doomed: Vec<Vec<u8>> = model.keys().take(20).cloned().collect();
            for key in doomed {
                if db.delete(&key).is_ok() {
                    model.remove(&key);
                }
            }
            db.flush().unwrap();
        }
        let machine = machine.killed(db);
        let options = machine.options().comparator(order);
        if seed % 2 == 0 {
            // Others have taken all there is.
            machine.env.set_capacity(1);
            let error = options.clone().open(STORE).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Full, "{context}: {error}");
            assert!(error.to_string().contains("for reading alone"), "{context}: {error}");
            let db = options.clone().read_only(true).open(STORE).unwrap();
            assert_same(&contents(&db).unwrap(), &model, &format!("{context}, for reading"));
            db.close().unwrap();
        }
        machine.env.set_capacity(PLENTY_BYTES);
        let db = options.open(STORE).unwrap();
        assert_same(&contents(&db).unwrap(), &model, &context);
        assert_verified(&db, &context);
    }
}

/// It may have taken the space that the MANIFEST needs.
#[test]
fn an_output_left_on_a_full_disk_is_in_no_openings_way() {
    let machine = Machine::new(Scarce::DiskOnDram, PLENTY_BYTES);
    let model = two_files(&machine.env);
    let stray = format!("{STORE}/0000000007.sst");
    machine.env.set_content(&stray, &[0; 100_000]);
    // With it there is not even space for a MANIFEST.
    let options = crate::common::options().env(Arc::new(machine.env.clone())).sync(true);
    machine.env.set_capacity(used_bytes(&machine.env) + 1);
    let db = options.open(STORE).unwrap();
    assert_same(&contents(&db).unwrap(), &model, "contents");
    assert!(machine.env.content(&stray).is_none());
}

/// Of SLM-DB: its pool has all keys, and deletes take no more than they free.
mod slm {
    use super::*;

    /// Filled to the last byte, then most keys deleted: there is space again without anything from outside.
    #[test]
    fn deletes_and_compact_range_give_a_full_store_space_back() {
        for &scarce in scarce() {
            let context = format!("{scarce:?}");
            let moves = AtomicU64::new(0);
            watched(&context, &moves, || {
                let machine = Machine::new(scarce, 3 << 19);
                let (mut model, mut random) = (Model::new(), Random(3));
                let db = machine.open();
                let full = fill(&db, &mut model, &mut random, value_bytes(scarce), &moves);
                db.flush().unwrap();
                delete_most(&db, &mut model, full, &moves, &context);
                db.compact_range::<&[u8]>(..).unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_same(&contents(&db).unwrap(), &model, &context);
                assert_verified(&db, &context);
                let again = (0..).map(|number| key(1 << 40 | number));
                let mut taken = 0;
                for key in again {
                    match put(&db, &mut model, key, random.bytes(value_bytes(scarce))) {
                        Ok(()) => taken += 1,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Full, "{context}: {error}");
                            break;
                        }
                    }
                    moves.fetch_add(1, Ordering::Relaxed);
                }
                assert!(
                    taken > full / 4,
                    "{context}: {full} were in it, and after most were deleted only {taken} more went in"
                );
                let machine = machine.killed(db);
                let db = machine.open();
                assert_same(&contents(&db).unwrap(), &model, &format!("{context}, opened again"));
                assert_verified(&db, &context);
            });
        }
    }

    /// Deletes that come faster than compaction gives their garbage back wait for it, and leave it the space that it needs.
    #[test]
    fn deletes_do_not_use_up_what_a_slow_compaction_needs() {
        for scarce in [Scarce::DiskOnDram, Scarce::DiskOnEmulated] {
            let context = format!("{scarce:?}");
            let moves = AtomicU64::new(0);
            watched(&context, &moves, || {
                let machine = Machine::new(scarce, 3 << 19);
                let (mut model, mut random) = (Model::new(), Random(6));
                let order = SlowInCompactions::default();
                let db = machine.open_with(machine.options().comparator(order.clone()));
                let full = fill(&db, &mut model, &mut random, value_bytes(scarce), &moves);
                db.flush().unwrap();
                order.is_wanted.store(true, Ordering::Relaxed);
                delete_most(&db, &mut model, full, &moves, &context);
                order.is_wanted.store(false, Ordering::Relaxed);
                assert_same(&contents(&db).unwrap(), &model, &context);
                assert_verified(&db, &context);
            });
        }
    }

    /// Space that readers are still in is not space that there is not: who needs it waits for them.
    #[test]
    fn slow_readers_make_nobody_believe_that_the_pool_is_full() {
        let machine = Machine::new(Scarce::PoolOnDram, 3 << 19);
        let (mut model, mut random, moves) = (Model::new(), Random(7), AtomicU64::new(0));
        let db = machine.open();
        let full = fill(&db, &mut model, &mut random, value_bytes(machine.scarce), &moves);
        db.flush().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // As one whose thread the processor is taken from, between a look-up's beginning and its end.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _guard = slmdb_sync::epoch::pin();
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
            let refused = (0..full).step_by(4).map(key).find_map(|key| {
                model.remove(&key);
                db.delete(&key).err()
            });
            // Before anything can fail: the scope waits for that reader.
            is_over.store(true, Ordering::Relaxed);
            assert!(refused.is_none(), "a delete was refused: {refused:?}");
        });
        assert_same(&contents(&db).unwrap(), &model, "contents");
        assert_verified(&db, "verify");
    }
}
