//! Bugs of admission.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{STORE, options};
use crate::common::{Model, SetAtEnd, assert_same, assert_verified, contents, engine, wait_until};
use slmdb::{Db, EngineName, ErrorKind, Medium};
use slmdb_env::Env;
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

/// What all files of the store take.
fn used_bytes(env: &MemoryEnv) -> u64 {
    env.list_directory(Path::new(STORE)).unwrap().iter().map(|entry| entry.length_bytes).sum()
}

fn put(db: &Db, model: &mut Model, key: String, value: Vec<u8>) {
    db.put(&key, &value).unwrap();
    model.insert(key.into_bytes(), value);
}

#[test]
fn a_large_write_that_was_refused_does_not_keep_its_arena() {
    for medium in [Medium::Dram, Medium::Emulated { path: "/pool".into() }] {
        let mut refused = 0;
        for kib in (1024..8192).step_by(32) {
            let context = format!("{medium:?}, {kib} KiB");
            let env = MemoryEnv::new();
            let db = options(&env).medium(medium.clone()).pool_maximum_bytes(8 << 20).open(STORE).unwrap();
            let mut model = Model::new();
            put(&db, &mut model, "first".into(), vec![1; 100]);
            env.set_capacity(if medium == Medium::Dram { 2 << 20 } else { 1 << 30 });
            // At some length its arena alone is almost all there is.
            match db.put("large", vec![2; kib << 10]) {
                Ok(()) => drop(model.insert(b"large".to_vec(), vec![2; kib << 10])),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Full, "{context}: {error}");
                    refused += 1;
                }
            }
            for number in 0..300 {
                let key = format!("small {number}");
                db.put(&key, [3; 1000]).unwrap_or_else(|error| panic!("{context}: {key}: {error}"));
                model.insert(key.into_bytes(), vec![3; 1000]);
            }
            db.flush().unwrap();
            assert_same(&contents(&db).unwrap(), &model, &context);
            assert_verified(&db, &context);
            if refused == 34 {
                break;
            }
        }
        // (ChameleonDB takes nothing of the pool but the arena.)
        assert!(refused > if engine() == EngineName::Chameleon { 0 } else { 20 }, "{medium:?}: {refused}");
    }
}

#[test]
fn two_flushes_that_wait_for_space_do_not_wake_each_other() {
    let env = MemoryEnv::new();
    let db = options(&env).open(STORE).unwrap();
    let mut model = Model::new();
    env.fail_next("write /db/0000000001.sst", Failure::Full, Repeat::ForGood);
    let mut number = 0;
    while db.stats().immutable_memtables < 2 {
        put(&db, &mut model, format!("{number}"), vec![7; 100]);
        number += 1;
    }
    // Now one waits for the MANIFEST, and the one behind it for its table file.
    env.clear_failures();
    env.fail_next("allocate /db/MANIFEST", Failure::Full, Repeat::ForGood);
    env.fail_next("write /db/0000000002.sst", Failure::Full, Repeat::ForGood);
    std::thread::sleep(Duration::from_secs(1));
    let before = env.failures_struck();
    std::thread::sleep(Duration::from_secs(1));
    let tries = env.failures_struck() - before;
    assert!(tries < 60, "{tries} attempts in a second");
    wait_until("another attempt", || env.failures_struck() > before);
    env.clear_failures();
    db.flush().unwrap();
    assert_same(&contents(&db).unwrap(), &model, "with space again");
    assert_verified(&db, "with space again");
}

#[test]
fn what_is_too_large_for_one_is_no_setback_for_others() {
    let env = MemoryEnv::new();
    let db = options(&env).open(STORE).unwrap();
    env.set_capacity(3 << 20);
    let (over, refused) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _over = SetAtEnd(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(db.put("large", vec![1; 8 << 20]).unwrap_err().kind(), ErrorKind::Full);
                refused.fetch_add(1, Ordering::Relaxed);
            }
        });
        wait_until("a refusal", || refused.load(Ordering::Relaxed) > 0);
        let start = Instant::now();
        let mut outcome = Ok(());
        let mut number = 0_u64;
        while start.elapsed() < Duration::from_secs(2) && outcome.is_ok() {
            number += 1;
            outcome = db.put(format!("{}", number % 100), [number as u8; 300]);
            if outcome.is_ok() && number.is_multiple_of(50) {
                outcome = db.flush();
            }
            if used_bytes(&env) > 2 << 20 {
                break;
            }
        }
        outcome.unwrap_or_else(|error| panic!("after {number} writes, each small: {error}"));
    });
}

/// A new arena does not take the space that recovered memtables need.
#[test]
fn a_new_arena_leaves_recovered_memtables_their_space() {
    let env = MemoryEnv::new();
    let db = options(&env).sync(true).open(STORE).unwrap();
    let mut model = Model::new();
    put(&db, &mut model, "first".into(), vec![1; 300]);
    // Enough for a full MemTable, the table file that it becomes, and an output of a compaction; but not for a spare.
    env.set_capacity(235 << 10);
    for number in 0..170 {
        put(&db, &mut model, format!("{number}"), vec![number; 300]);
    }
    let killed = env.kill();
    killed.set_capacity(used_bytes(&killed));
    let db = options(&killed).open(STORE).unwrap();
    assert_same(&contents(&db).unwrap(), &model, "recovered");
    db.flush().unwrap();
    assert_same(&contents(&db).unwrap(), &model, "flushed");
    assert_verified(&db, "flushed");
}

/// A table that found no space after all keeps what was set aside.
#[test]
fn a_table_that_found_no_space_keeps_what_was_set_aside() {
    let env = MemoryEnv::new();
    let db = options(&env).open(STORE).unwrap();
    let mut model = Model::new();
    for number in 0..100 {
        put(&db, &mut model, format!("{number:05}"), vec![7; 200]);
    }
    env.fail_next("write /db/0000000001.sst", Failure::Full, Repeat::Once);
    // The flush is told of it, or has tried again already.
    if let Err(error) = db.flush() {
        assert_eq!(error.kind(), ErrorKind::Full);
    }
    env.set_capacity(used_bytes(&env));
    db.flush().unwrap();
    assert_eq!(env.failures_struck(), 1);
    let back = "rename /db/0000000001.sst";
    assert!(env.operations().iter().any(|line| line.starts_with(back)), "{:?}", env.operations());
    assert_same(&contents(&db).unwrap(), &model, "flushed");
    assert_verified(&db, "flushed");
}
