//! A test for each bug that was found by reading, named after it. (Those that faults have found: `faults/regressions.rs`.)

mod admission;
mod arenas;
mod recovery;
mod requests;

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, Model, wait_until};
use slmdb::{Db, Options};
use slmdb_testkit::MemoryEnv;

const STORE: &str = "/db";
const MEMTABLE_BYTES: u64 = 64 << 10;

fn options(env: &MemoryEnv) -> Options {
    common::options()
        .env(Arc::new(env.clone()))
        .memtable_bytes(MEMTABLE_BYTES)
        .memory_budget_bytes(1 << 16)
        .pool_initial_bytes(4 << 20)
        .pool_maximum_bytes(1 << 28)
}

/// Waits until no background thread has done anything for a while.
fn until_quiet(env: &MemoryEnv) {
    let mut before = None;
    wait_until("the store is quiet", || {
        let now = Some(env.operation_count());
        let quiet = before == now;
        before = now;
        std::thread::sleep(Duration::from_millis(30));
        quiet
    });
}

/// Puts `count` keys of 100 bytes with values of 100 bytes.
fn put_many(db: &Db, model: &mut Model, count: usize) {
    for _ in 0..count {
        let key = format!("{:0100}", model.len()).into_bytes();
        db.put(&key, [7; 100]).unwrap();
        model.insert(key, vec![7; 100]);
    }
}

/// As many of them as take more than half of an arena, so that a spare is made.
const MORE_THAN_HALF: usize = 150;
