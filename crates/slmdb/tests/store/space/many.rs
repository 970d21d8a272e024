//! Many stores in one process. Each case has a process of its own, whose limits are raised or lowered: this test program,
//! started again.

use std::fs;

use rustix::process::{Resource, getrlimit};
use slmdb::{Db, ErrorKind};
use slmdb_env::{Env, OsEnv};

use super::lacks::{assert_passes_in, on};
use crate::common::{Home, MEDIA, budget, options};

const STORES: usize = 1000;
/// A process has 65,530 mappings, of which table files take 16,384 at most: so many are left for each store.
const MAPPINGS_MAX: usize = (65_530 - 16_384) / STORES;
/// More than each store takes.
const DESCRIPTORS_MAX: usize = 12;
/// Stores on a file system in memory are opened sooner. All of them take less than this there, in bytes.
const SPACE_BYTES: u64 = 4 << 30;

/// Options with the default limits, and everything else small.
fn open(home: &Home, number: usize) -> slmdb::Result<Db> {
    let pool = home.pool().map(|pool| pool.with_file_name(format!("pool{number}")));
    let options = options().memtable_bytes(64 << 10).pool_initial_bytes(256 << 10).memory_budget_bytes(1 << 20);
    options.medium(home.on.medium(pool)).open(home.store().with_file_name(format!("db{number}")))
}

/// How many entries a file or a directory of `/proc/self` has.
fn count(name: &str) -> usize {
    let path = format!("/proc/self/{name}");
    fs::read_dir(&path)
        .map(|entries| entries.count())
        .unwrap_or_else(|_| fs::read_to_string(&path).unwrap().lines().count())
}

/// Each took a TiB of addresses, and a process has 128. (A quarter of them show what each takes; all are opened with
/// `SLMDB_TEST_BUDGET=2`.)
#[test]
fn a_process_can_open_a_thousand_stores() {
    let test = "a_process_can_open_a_thousand_stores";
    let Some(on) = on() else {
        let is_roomy = OsEnv::new().available_bytes("/dev/shm".as_ref()).is_ok_and(|bytes| bytes >= SPACE_BYTES);
        let place = if is_roomy { "export TMPDIR=/dev/shm; " } else { "" };
        let first = format!("{place}ulimit -n $(ulimit -H -n)");
        MEDIA.into_iter().for_each(|on| assert_passes_in("many", on, test, &first));
        return;
    };
    // (Where the system allows fewer descriptors, there are fewer stores.)
    let descriptors = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize);
    let stores = if budget() > 1 { STORES } else { STORES / 4 };
    let stores_max = stores.min(descriptors / DESCRIPTORS_MAX);
    let home = Home::new(on);
    let before = ["maps", "fd"].map(count);
    let mut stores = Vec::new();
    for number in 0..stores_max {
        let db = open(&home, number).unwrap_or_else(|error| panic!("store {number}: {error}"));
        db.put("key", "value").unwrap();
        stores.push(db);
    }
    let taken = [0, 1].map(|index| (["maps", "fd"].map(count)[index] - before[index]) / stores_max);
    assert!(taken[0] <= MAPPINGS_MAX && taken[1] < DESCRIPTORS_MAX, "mappings and descriptors of a store: {taken:?}");
    for db in &stores {
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    }
    stores.iter().step_by(100).for_each(|db| db.flush().unwrap());
    stores.into_iter().for_each(|db| db.close().unwrap());
    drop(open(&home, 0).unwrap());
}

/// All other stores of the process were full then, and the program had no memory.
#[test]
fn a_store_without_addresses_fails_alone() {
    let test = "a_store_without_addresses_fails_alone";
    let Some(on) = on() else {
        MEDIA.into_iter().for_each(|on| assert_passes_in("many", on, test, "ulimit -v 4000000"));
        return;
    };
    let home = Home::new(on);
    let mut stores = Vec::new();
    let refused = loop {
        match open(&home, stores.len()) {
            Ok(db) => stores.push(db),
            Err(refused) => break refused,
        }
    };
    let memory = Vec::<u8>::new().try_reserve_exact(64 << 20);
    assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
    assert!(refused.is_passing_lack() && refused.to_string().contains("too few addresses left"), "{refused}");
    memory.unwrap();
    assert!(stores.len() > 10, "only {} stores", stores.len());
    for (number, db) in stores.iter().enumerate() {
        for key in 0..100 {
            db.put(format!("key{key}"), [7; 1000]).unwrap_or_else(|error| panic!("store {number}: {error}"));
        }
        db.flush().unwrap();
    }
    stores.drain(..3).for_each(|db| db.close().unwrap());
    stores.push(open(&home, 0).unwrap());
    stores.into_iter().for_each(|db| db.close().unwrap());
}
