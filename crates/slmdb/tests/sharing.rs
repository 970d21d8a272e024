//! Stores that share ([`slmdb::Shared`]) take the threads, the memory and the open files of one, and are as whole as others.
//!
//! One test after the other, in a process of its own: it counts the process's threads.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::Random;
use slmdb::{Db, Options, Shared, SharedOptions};

const STORES: usize = 40;

/// The most threads that stores of one engine take together.
const THREADS_MAX: usize = 12;

fn options(shared: &Arc<Shared>) -> Options {
    common::options().memtable_bytes(1 << 20).shared(shared)
}

fn open(options: &Options, directory: &Path, number: usize) -> Db {
    options.clone().open(directory.join(number.to_string())).unwrap()
}

fn open_all(options: &Options, directory: &Path) -> Vec<Db> {
    (0..STORES).map(|number| open(options, directory, number)).collect()
}

/// The threads of this process that are a store's.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.starts_with("slmdb-")).count()
}

fn open_tables() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    targets.filter(|target| target.extension().is_some_and(|extension| extension == "sst")).count()
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn value(store: usize, number: u64) -> Vec<u8> {
    let mut random = Random(number * STORES as u64 + store as u64);
    (0..50).flat_map(|_| random.next().to_le_bytes()).collect()
}

#[test]
fn stores_that_share_take_no_more_than_one() {
    let directory = tempfile::tempdir().unwrap();
    let budget = SharedOptions { memory_budget_bytes: 16 << 20, threads: 2, open_tables_max: 30 };
    let shared = Shared::new(budget).unwrap();
    let options = options(&shared);
    let mut stores = open_all(&options, directory.path());
    assert!((3..=THREADS_MAX).contains(&threads()), "{} threads", threads());

    // 64 MB, four times the budget: MemTables would take 40 MB if none were flushed before it is full.
    let mut most_bytes = 0;
    for number in 0..4000 {
        for (store, db) in stores.iter().enumerate() {
            db.put(key(number), value(store, number)).unwrap();
        }
        if number % 200 == 0 {
            let memories = stores.iter().map(|db| db.stats().memory);
            most_bytes =
                most_bytes.max(memories.map(|m| m.memtable_lists_bytes + m.memtable_arenas_bytes).sum::<u64>());
        }
    }
    assert!(threads() <= THREADS_MAX, "{} threads", threads());
    assert!((1 << 20..12 << 20).contains(&most_bytes), "MemTables took {most_bytes} bytes");

    // A store that closes leaves the others alone, also while they have work.
    for number in (0..STORES).step_by(3) {
        stores.remove(number).close().unwrap();
        stores.insert(number, open(&options, directory.path(), number));
    }
    for (store, db) in stores.iter().enumerate() {
        for number in (0..4000).step_by(7) {
            assert_eq!(db.get(key(number)).unwrap().as_deref(), Some(&value(store, number)[..]), "{store}: {number}");
        }
    }
    let cached_bytes = stores[0].stats().memory.block_cache_bytes;
    assert!(cached_bytes <= 16 << 20, "the cache has {cached_bytes} bytes");
    assert!(open_tables() <= 30 + 5, "{} files are open", open_tables());

    drop(stores);
    assert!(threads() > 0, "more may be opened");
    let db = open(&options, directory.path(), 1);
    assert_eq!(db.get(key(17)).unwrap().as_deref(), Some(&value(1, 17)[..]));
    drop((options, shared));
    db.put("more", "of it").unwrap();
    assert!(threads() > 0);
    drop(db);
    let deadline = Instant::now() + Duration::from_secs(10);
    while threads() > 0 {
        assert!(Instant::now() < deadline, "{} threads are left", threads());
        std::thread::sleep(Duration::from_millis(10));
    }
    what_all_may_take_is_checked();
}

fn what_all_may_take_is_checked() {
    for wrong in [
        SharedOptions { threads: 0, ..SharedOptions::default() },
        SharedOptions { threads: 5, ..SharedOptions::default() },
        SharedOptions { open_tables_max: 0, ..SharedOptions::default() },
    ] {
        assert_eq!(Shared::new(wrong).unwrap_err().kind(), slmdb::ErrorKind::Invalid);
    }
}

#[test]
fn every_other_engine_passes() {
    common::every_other_engine_passes();
}
