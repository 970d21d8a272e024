//! A store whose pool is a device-dax: made there, found again, and kept apart from whatever else a device may hold.
//!
//! Most of it runs on a device of the environment in memory. One test runs on a real one, where `SLMDB_TEST_DAX_DEVICE` names
//! it; `kill.rs` has kills there, `full.rs` a device that is full.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{
    DeviceOfTests, Model, Random, assert_same, assert_verified, contents, dax_device, no_compaction, put_or_delete,
    wait_until,
};
use slmdb::{Db, ErrorKind, Medium, Options};
use slmdb_env::{DaxDevice, Env};
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

const DEVICE: &str = "/dev/dax0.0";
const DEVICE_BYTES: u64 = 16 << 20;

fn machine() -> (MemoryEnv, File) {
    let env = MemoryEnv::new();
    let memory = add_device(&env, DEVICE);
    (env, memory)
}

fn add_device(env: &MemoryEnv, path: &str) -> File {
    let device = DaxDevice { size_bytes: DEVICE_BYTES, alignment_bytes: 2 << 20, is_persistent: true };
    env.add_dax_device(path, device)
}

fn content(memory: &File) -> Vec<u8> {
    let mut content = vec![0; DEVICE_BYTES as usize];
    memory.read_exact_at(&mut content, 0).unwrap();
    content
}

fn options(env: &MemoryEnv) -> Options {
    crate::common::options().memtable_bytes(64 << 10).memory_budget_bytes(1 << 20).env(Arc::new(env.clone()))
}

fn on_device(env: &MemoryEnv) -> Options {
    // A kill copies the device's memory, which nobody may be writing to meanwhile; see `at_rest`.
    options(env).compaction(no_compaction()).medium(Medium::Dax { path: DEVICE.into() })
}

/// Waits until nobody writes to the device any more, so that a copy of it is of one moment.
pub(crate) fn at_rest(db: &Db, memory: &File) {
    let mut before = Vec::new();
    wait_until("the device at rest", || {
        std::thread::sleep(Duration::from_millis(20));
        let now = content(memory);
        let is_at_rest = db.stats().immutable_memtables == 0 && now == before;
        before = now;
        is_at_rest
    });
}

/// Puts and deletes, some keys again and again.
fn change(db: &Db, model: &mut Model, random: &mut Random, changes: u64) {
    for _ in 0..changes {
        let key = format!("key {}", random.below(2000)).into_bytes();
        put_or_delete(db, model, random, key, 400, 5);
    }
}

/// A store on a device survives kills and power cuts without a sync.
#[test]
fn a_store_on_a_device_survives_crashes_without_a_sync() {
    let (env, _memory) = machine();
    let (mut model, mut random) = (Model::new(), Random(1));
    let mut machine = env;
    for round in 0..8 {
        let context = format!("round {round}");
        let db = on_device(&machine).open("/db").unwrap();
        assert_same(&contents(&db).unwrap(), &model, &context);
        assert_verified(&db, &context);
        change(&db, &mut model, &mut random, 1500);
        at_rest(&db, &machine.dax_device_memory(DEVICE).unwrap());
        let next = match round % 4 {
            0 => machine.kill(),
            1 => machine.crash(),
            2 => {
                db.flush().unwrap();
                at_rest(&db, &machine.dax_device_memory(DEVICE).unwrap());
                machine.crash()
            }
            _ => {
                db.close().unwrap();
                machine.crash()
            }
        };
        machine = next;
        // Read-only first: what it recovers stays in memory.
        if round % 3 == 0 {
            let db = options(&machine).read_only(true).open("/db").unwrap();
            assert_same(&contents(&db).unwrap(), &model, &context);
            assert_verified(&db, &context);
        }
    }
}

#[test]
fn a_read_only_opening_changes_no_byte_of_the_device() {
    for closed in [true, false] {
        let (env, memory) = machine();
        let (mut model, mut random) = (Model::new(), Random(2));
        let db = on_device(&env).open("/db").unwrap();
        change(&db, &mut model, &mut random, 1000);
        at_rest(&db, &memory);
        let mut db = Some(db);
        if closed {
            db.take().unwrap().close().unwrap();
        }
        let left = env.kill();
        drop(db);
        let memory = left.dax_device_memory(DEVICE).unwrap();
        let before = content(&memory);
        let db = options(&left).read_only(true).open("/db").unwrap();
        assert_same(&contents(&db).unwrap(), &model, "read-only");
        assert_verified(&db, "read-only");
        drop(db);
        assert!(content(&memory) == before, "closed {closed}");
    }
}

#[test]
fn a_device_that_holds_something_takes_no_store() {
    let (env, memory) = machine();
    on_device(&env).open("/one").unwrap().close().unwrap();
    let before = content(&memory);
    for medium in [Medium::Dax { path: DEVICE.into() }, Medium::Emulated { path: DEVICE.into() }] {
        let error = options(&env).medium(medium).open("/two").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(DEVICE), "{error}");
        assert!(!env.exists(Path::new("/two")).unwrap(), "nothing was made");
    }
    assert!(content(&memory) == before);
    // Nor is it another store's pool.
    let other = add_device(&env, "/dev/dax1.0");
    options(&env).medium(Medium::Dax { path: "/dev/dax1.0".into() }).open("/two").unwrap().close().unwrap();
    let error = on_device(&env).open("/two").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(content(&memory) == before && content(&other) != before);
    on_device(&env).open("/one").unwrap().close().unwrap();
}

/// A device can't be set aside under another name, as a pool's file is; `repair` once tried.
#[test]
fn a_repair_makes_the_pool_anew_on_its_own_device_alone() {
    let (env, memory) = machine();
    let (mut model, mut random) = (Model::new(), Random(3));
    let db = on_device(&env).open("/db").unwrap();
    change(&db, &mut model, &mut random, 1500);
    db.close().unwrap();
    let report = options(&env).repair("/db", &mut |_| ()).unwrap();
    assert!(
        report.losses.is_empty() && report.set_aside.is_empty() && report.memtable_entries_saved > 0,
        "{report:#?}"
    );
    let open = || {
        // (Compactions of TLSM bring back to the pool what a repair has written to files.)
        let db = options(&env).compaction(no_compaction()).open("/db").unwrap();
        assert_same(&contents(&db).unwrap(), &model, "repaired");
        assert_verified(&db, "repaired");
    };
    open();

    memory.write_all_at(b"something else", 0).unwrap();
    let before = content(&memory);
    let error = options(&env).repair("/db", &mut |_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(content(&memory) == before);
    // It says how the device is given to the store.
    memory.write_all_at(&vec![0; 1 << 16], 0).unwrap();
    options(&env).repair("/db", &mut |_| ()).unwrap();
    open();
}

#[test]
fn a_device_may_be_found_under_another_name() {
    let (env, memory) = machine();
    let db = on_device(&env).open("/db").unwrap();
    db.put("k", "v").unwrap();
    db.close().unwrap();
    let moved = add_device(&env, "/dev/dax7.0");
    moved.write_all_at(&content(&memory), 0).unwrap();
    memory.write_all_at(&vec![0; 1 << 16], 0).unwrap();
    assert_eq!(options(&env).open("/db").unwrap_err().kind(), ErrorKind::Corruption, "no pool is there");
    let db = options(&env).medium(Medium::Dax { path: "/dev/dax7.0".into() }).open("/db").unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"v"[..]));
    db.put("k", "w").unwrap();
    db.close().unwrap();
    let db = options(&env).open("/db").unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"w"[..]), "the new name is remembered");
}

/// A creation that fails anywhere is finished by the next opening.
#[test]
fn a_creation_that_fails_is_finished_by_the_next_opening() {
    for number in 0.. {
        let (env, _memory) = machine();
        env.fail_at(number, Failure::Io, Repeat::ForGood);
        let opened = on_device(&env).open("/db").is_ok();
        let struck = env.failures_struck() > 0;
        for left in [env.kill(), env.crash()] {
            let db = on_device(&left).open("/db").unwrap_or_else(|error| panic!("operation {number}: {error}"));
            db.put("k", "v").unwrap();
            assert_verified(&db, "finished");
            db.close().unwrap();
        }
        if opened && !struck {
            return;
        }
        assert!(number < 500, "a creation has no end");
    }
}

#[test]
fn a_real_device_is_filled_and_found_again() {
    let Some(path) = dax_device() else {
        return println!("SKIPPED: SLMDB_TEST_DAX_DEVICE is not set; `scripts/dax-machine test` sets it");
    };
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("db");
    let device = DeviceOfTests::new(&path, &store);
    let options =
        || crate::common::options().memtable_bytes(256 << 10).memory_budget_bytes(1 << 20).pool_maximum_bytes(6 << 20);
    let on_device = || options().medium(Medium::Dax { path: path.clone() });
    let (mut model, mut random) = (Model::new(), Random(3));
    let db = on_device().open(&store).unwrap();
    change(&db, &mut model, &mut random, 500);
    let other = on_device().open(directory.path().join("other")).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Invalid, "{other}");
    // Long keys are what fills a pool.
    let refused = (0_u64..)
        .find_map(|number| {
            let mut key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
            key.resize(8000, 7);
            let put = db.put(&key, b"value");
            put.map(|()| model.insert(key, b"value".to_vec())).err()
        })
        .unwrap();
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    db.flush().unwrap();
    drop(db);
    let db = options().read_only(true).open(&store).unwrap();
    assert_same(&contents(&db).unwrap(), &model, "full, read-only");
    drop(db);
    // The device has more.
    let db = crate::common::options().memtable_bytes(256 << 10).open(&store).unwrap();
    change(&db, &mut model, &mut random, 500);
    assert_verified(&db, "with space");
    db.close().unwrap();
    let db = options().open(&store).unwrap();
    assert_same(&contents(&db).unwrap(), &model, "closed and opened");
    drop(db);
    drop(device);
    // Free for the next.
    on_device().open(directory.path().join("other")).unwrap().close().unwrap();
    drop(DeviceOfTests::new(&path, &directory.path().join("other")));
}

/// Found by the simulator: the second opening made the pool while the name of the MANIFEST was not durable.
#[test]
fn a_creation_cut_short_twice_is_begun_again() {
    let (env, _memory) = machine();
    env.fail_next("sync directory /db", Failure::Io, Repeat::Once);
    on_device(&env).open("/db").unwrap_err();
    let killed = env.kill();
    // The opening that finishes the creation comes to the next such sync, and no further.
    killed.fail_next("sync directory /db", Failure::Io, Repeat::Once);
    on_device(&killed).open("/db").unwrap_err();
    on_device(&killed.crash()).open("/db").unwrap().close().unwrap();
}
