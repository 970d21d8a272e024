//! Durability per write: what `sync` of one write promises, whatever the store does by itself.

use std::sync::Arc;

use slmdb::{Db, WriteBatch, WriteOptions};
use slmdb_testkit::MemoryEnv;

fn open(env: &MemoryEnv, sync: bool) -> Db {
    crate::common::options().env(Arc::new(env.clone())).memtable_bytes(64 << 10).sync(sync).open("/db").unwrap()
}

/// The keys that a power cut at this moment leaves.
fn left(env: &MemoryEnv) -> Vec<String> {
    let db = open(&env.crash(), false);
    let keys = db.iter().unwrap().map(|entry| String::from_utf8(entry.unwrap().0.to_vec()).unwrap());
    keys.collect()
}

#[test]
fn a_synced_write_outlives_a_power_cut_with_all_before_it() {
    let env = MemoryEnv::new();
    let db = open(&env, false);
    let synced = WriteOptions::new().sync(true);
    let mut batch = WriteBatch::new();
    batch.put("b1", "").unwrap();
    batch.put("b2", "").unwrap();

    db.put("a", "").unwrap();
    assert!(left(&env).is_empty(), "nothing was synced: as the store does it");
    db.put_with("c", "", synced).unwrap();
    assert_eq!(left(&env), ["a", "c"]);

    db.write(&batch).unwrap();
    assert_eq!(left(&env), ["a", "c"]);
    db.write_with(&batch, synced).unwrap();
    assert_eq!(left(&env), ["a", "b1", "b2", "c"]);

    db.delete("a").unwrap();
    assert_eq!(left(&env), ["a", "b1", "b2", "c"]);
    db.delete_with("b1", synced).unwrap();
    assert_eq!(left(&env), ["b2", "c"]);
}

#[test]
fn a_store_that_syncs_every_write_may_leave_one_out() {
    let env = MemoryEnv::new();
    let db = open(&env, true);
    db.put("a", "").unwrap();
    db.put_with("b", "", WriteOptions::new()).unwrap();
    assert_eq!(left(&env), ["a", "b"]);
    db.put_with("c", "", WriteOptions::new().sync(false)).unwrap();
    assert_eq!(left(&env), ["a", "b"]);
    assert!(db.get("c").unwrap().is_some());
}
