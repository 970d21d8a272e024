//! On `Dram` the arena that is made next is for synced writes where those come often: the system maps it page by page.
#![cfg(target_os = "linux")]

use std::path::Path;

use slmdb::{Db, Options, WriteOptions};

const MEMTABLE_BYTES: u64 = 256 << 10;
const VALUE: [u8; 1000] = [7; 1000];
/// So many puts are a little more than half of a MemTable, where the next is made.
const PUTS: u32 = 150;

/// Whether the newest arena of the store is mapped for use at random. (One that is being made has a file, and no mapping yet.)
fn newest_is_for_synced_writes(store: &Path) -> bool {
    let entries = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    let mut arenas: Vec<_> = entries.filter(|path| path.extension().is_some_and(|suffix| suffix == "arena")).collect();
    arenas.sort();
    let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut of_arenas = arenas.iter().rev().filter_map(|path| mappings.split_once(path.to_str().unwrap()));
    let (_, of_arena) = of_arenas.next().expect("one is mapped");
    let flags = of_arena.lines().find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
    flags.split_whitespace().any(|flag| flag == "rr")
}

fn put(db: &Db, syncs: bool) {
    for number in 0..PUTS {
        db.put(number.to_be_bytes(), VALUE).unwrap();
        if syncs {
            db.sync().unwrap();
        }
    }
}

fn options() -> Options {
    crate::common::options().memtable_bytes(MEMTABLE_BYTES)
}

#[test]
fn a_store_that_syncs_every_write_begins_with_an_arena_for_that() {
    for (syncs, name) in [(true, "synced"), (false, "not")] {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join(name);
        let db = options().sync(syncs).open(&store).unwrap();
        assert_eq!(newest_is_for_synced_writes(&store), syncs);
        db.put("key", "value").unwrap();
        // As after an opening of what is there.
        db.close().unwrap();
        let db = options().sync(!syncs).open(&store).unwrap();
        assert_eq!(newest_is_for_synced_writes(&store), !syncs);
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn arenas_are_for_what_was_done_with_the_last() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("db");
    let db = options().open(&store).unwrap();
    for syncs in [true, false, true, false] {
        // The next arena is made when one is half full: so the one after that is the first for which nothing else was done.
        for _ in 0..2 {
            put(&db, syncs);
            db.flush().unwrap();
        }
        assert_eq!(newest_is_for_synced_writes(&store), syncs);
    }
    for number in 0..PUTS {
        assert_eq!(db.get(number.to_be_bytes()).unwrap().as_deref(), Some(&VALUE[..]));
    }
}

/// It was some 50 bytes for each byte put until the arena was full.
#[test]
fn a_store_that_begins_to_sync_begins_an_arena_for_that_early() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("db");
    let db = options().memtable_bytes(16 << 20).open(&store).unwrap();
    let mut number = 0_u32;
    let mut put = |syncs: bool| {
        number += 1;
        db.put_with(number.to_be_bytes(), VALUE, WriteOptions::new().sync(syncs)).unwrap();
    };
    (0..2000).for_each(|_| put(false));
    (0..2000).for_each(|number| put(number % 100 == 0));
    assert!(!newest_is_for_synced_writes(&store), "syncs are rare");
    while !newest_is_for_synced_writes(&store) {
        put(true);
    }
    (0..1000).for_each(|_| put(true));
    assert!(newest_is_for_synced_writes(&store));
    let puts = number;
    db.flush().unwrap();
    assert_eq!(db.stats().table_files, 2, "it ended one arena early, and flush() ended one");
    drop(db);
    let db = options().open(&store).unwrap();
    for number in 1..=puts {
        assert_eq!(db.get(number.to_be_bytes()).unwrap().as_deref(), Some(&VALUE[..]));
    }
}
