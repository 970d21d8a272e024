//! Bugs that these tests have found, each by name.

use slmdb::ErrorKind;
use slmdb_env::memory::{Failure, Repeat};

use crate::workload::{STORE, Store};

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
    // A long key wants more ballast.
    env.fail_next("allocate /db/0000000000.space", Failure::Full, Repeat::ForGood);
    if let Err(error) = db.put([7; 2000], "v") {
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    }
    db.flush().unwrap();
    env.clear_failures();
    db.put("k", "w").unwrap();
    db.close().unwrap();
}
