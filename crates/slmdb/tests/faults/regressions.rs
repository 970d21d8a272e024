//! Bugs that these tests have found, each by name.

use std::sync::atomic::AtomicU64;

use slmdb::ErrorKind;
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

use crate::common::{assert_verified, contents, no_compaction, watched};
use crate::workload::{self, End, STORE, Store};

/// Found by a failed sync of the directory, for good, on a device: the second opening saw the MANIFEST of the first, which was not
/// durable, and made the pool. After a power cut there was a pool and no MANIFEST, and no store could be made there any more.
#[test]
fn a_pool_is_made_only_when_the_manifest_is_durable() {
    let env = Store::Device.machine();
    let options = Store::Device.options(&env);
    env.fail_next("sync directory /db", Failure::FailedSync, Repeat::ForGood);
    for _ in 0..2 {
        assert_eq!(options.open(STORE).unwrap_err().kind(), ErrorKind::Io);
    }
    let left = env.crash();
    let db = Store::Device.options(&left).open(STORE).unwrap();
    db.put("k", "v").unwrap();
    db.close().unwrap();
}

/// Found by a disk that was full once although it has no limit: free space was added up beyond what a number can hold, and a
/// background thread panicked.
#[test]
fn a_disk_without_a_limit_may_be_full_all_the_same() {
    let env = Store::Dram.machine();
    let db = Store::Dram.options(&env).open(STORE).unwrap();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    // A long key wants more space for records.
    env.fail_next("reserve /db/MANIFEST", Failure::Full, Repeat::ForGood);
    if let Err(error) = db.put([7; 2000], "v") {
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    }
    db.flush().unwrap();
    env.clear_failures();
    db.put("k", "w").unwrap();
    db.close().unwrap();
}

/// The operations of a machine that begin like this, up to the next space.
fn first_words(env: &MemoryEnv, begin: &str, contain: &str) -> Vec<String> {
    let operations = env.operations();
    let matching = operations.iter().filter(|line| line.starts_with(begin) && line.contains(contain));
    matching.map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
}

/// Recovery writes arenas anew before it relies on them. It did so with bytes that it had read once more for that, and which nobody
/// had checked: a bit that was flipped on the way was written to the only copy of what was acknowledged.
#[test]
fn recovery_writes_anew_only_what_it_has_checked() {
    for seed in 0..10 {
        let (env, outcome) = workload::left_by_a_kill(Store::Dram);
        let options = Store::Dram.options(&env);
        let counted = env.kill();
        drop(Store::Dram.options(&counted).read_only(true).open(STORE).unwrap());
        let reads = first_words(&counted, "read", ".arena");
        // Replaying takes no more reads than these; and nothing is flushed.
        env.fail_after(reads.len() as u64, &reads[0], Failure::FlippedBit { seed }, Repeat::ForGood);
        env.fail_next("write /db/0000000004.sst", Failure::Full, Repeat::ForGood);
        let db = options.open(STORE);
        workload::check(&env.kill(), &options, &outcome, End::Kill, &format!("seed {seed}"));
        drop(db);
    }
}

/// A bit that was flipped when the last record of the log was read made it look like one that a crash had cut short: what was
/// acknowledged was dropped.
#[test]
fn a_last_record_read_wrong_is_not_taken_for_a_torn_one() {
    let (env, outcome) = workload::left_by_a_kill(Store::Dram);
    for seed in 0..400 {
        let env = env.kill();
        let options = Store::Dram.options(&env);
        env.fail_next("read /db/0000000004.arena", Failure::FlippedBit { seed }, Repeat::Once);
        match options.open(STORE) {
            Ok(db) => {
                let explained = outcome.history.explains(&contents(&db).unwrap(), outcome.history.len());
                explained.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
        }
        if seed % 40 == 0 {
            workload::check(&env.kill(), &options, &outcome, End::Kill, &format!("seed {seed}"));
        }
    }
}

/// The same with the last record of the MANIFEST: the store was opened as it had been before its last flush, whose table file was
/// removed.
#[test]
fn a_last_edit_that_was_read_wrong_is_not_taken_for_a_torn_one() {
    for store in [Store::Dram, Store::Device] {
        let (left, outcome) = workload::left_by_a_kill(store);
        for passed in 0.. {
            let env = left.kill();
            let options = store.options(&env);
            env.fail_after(passed, "read /db/MANIFEST", Failure::FlippedBit { seed: 1 }, Repeat::Once);
            match options.open(STORE) {
                Ok(db) => drop(db),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
            }
            if env.failures_struck() == 0 {
                assert!(passed > 5);
                break;
            }
            env.clear_failures();
            workload::check(&env.kill(), &options, &outcome, End::Kill, &format!("{store:?}, read {passed}"));
        }
    }
}

/// Found by kills, on LAB-DB: a flush replaces what level 0 had of a key, and is killed before it commits. Then level 0 has nothing of
/// the key until the log's version is flushed. Verification told of that as damage.
#[test]
fn a_flush_that_a_kill_cut_short_is_no_damage() {
    for (store, passed) in
        [Store::Dram, Store::Device].into_iter().flat_map(|store| (0..2).map(move |passed| (store, passed)))
    {
        let env = store.machine();
        let db = store.options(&env).open(STORE).unwrap();
        db.put("k", "1").unwrap();
        db.flush().unwrap();
        db.put("k", "2").unwrap();
        // First the MANIFEST gets the next arena, then the table file.
        env.fail_after(passed, "write /db/MANIFEST", Failure::Io, Repeat::ForGood);
        db.flush().unwrap_err();
        let left = env.kill();
        drop(db);
        // Which flushes nothing.
        let db = store.options(&left).read_only(true).open(STORE).unwrap();
        assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"2"[..]));
        assert_verified(&db, &format!("{store:?}, {passed}"));
    }
}

/// Found by a disk that is full for good: a compaction had moved keys, and its record found no space. It waited for that, and held
/// what an index checkpoint needs. Whoever asked for a compaction meanwhile, and had deletes to cover, waited for both without end.
#[test]
fn compact_range_does_not_wait_for_a_job_that_waits_for_space() {
    for store in [Store::Dram, Store::Device] {
        let env = store.machine();
        let db = store.options(&env).compaction(no_compaction()).open(STORE).unwrap();
        for number in 0..40 {
            db.put(format!("key{:02}", number % 10), [number; 90]).unwrap();
            db.delete(format!("key{:02}", (number + 5) % 10)).unwrap();
        }
        db.flush().unwrap();
        let before = contents(&db).unwrap();
        env.fail_next("allocate /db/MANIFEST", Failure::Full, Repeat::ForGood);
        for attempt in 0..3 {
            let compacted =
                watched(&format!("{store:?}, {attempt}"), &AtomicU64::new(0), || db.compact_range::<&[u8]>(..));
            // (Where nothing is left to do, it has done that.)
            compacted.unwrap_or_else(|error| assert_eq!(error.kind(), ErrorKind::Full, "{store:?}, {attempt}"));
            assert!(contents(&db).unwrap() == before, "{store:?}, {attempt}");
        }
        env.clear_failures();
        db.compact_range::<&[u8]>(..).unwrap();
        assert!(contents(&db).unwrap() == before, "{store:?}");
        assert_verified(&db, &format!("{store:?}"));
    }
}
