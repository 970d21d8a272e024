//! Bugs that these tests have found, each by name.

use slmdb::ErrorKind;
use slmdb_env::memory::{Failure, Repeat};

use crate::workload::{STORE, Store};

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
