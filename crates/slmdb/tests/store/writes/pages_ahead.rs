//! On `Dram` the pages of an arena that is filled for the first time are in memory before a put comes to them.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::time::{Duration, Instant};

use slmdb::Db;

const MIB: usize = 1 << 20;

/// How much of each arena of the store is mapped to memory, by the names of their files.
fn mapped_bytes(store: &Path) -> Vec<usize> {
    let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut arenas: Vec<_> = mappings.split(store.to_str().unwrap()).skip(1).collect();
    arenas.retain(|text| text.lines().next().is_some_and(|name| name.trim().ends_with(".arena")));
    arenas.sort();
    let resident = |text: &str| text.lines().find_map(|line| line.strip_prefix("Rss:")).map(str::to_owned).unwrap();
    let bytes = |rss: String| rss.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10;
    arenas.into_iter().map(resident).map(bytes).collect()
}

/// Waits until as much of each arena is in memory.
fn await_mapped(store: &Path, at_least: &[usize]) -> Vec<usize> {
    let began = Instant::now();
    loop {
        let mapped = mapped_bytes(store);
        if mapped.len() == at_least.len() && mapped.iter().zip(at_least).all(|(mapped, least)| mapped >= least) {
            return mapped;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{mapped:?} of {at_least:?} are in memory");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn put(db: &Db, bytes: usize) {
    for number in 0..bytes / MIB * 16 {
        db.put(number.to_be_bytes(), [7; MIB / 16]).unwrap();
    }
}

#[test]
fn pages_of_a_new_arena_come_before_puts_do() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("db");
    let db = crate::common::options().memtable_bytes(32 * MIB as u64).open(&store).unwrap();
    db.put("key", "value").unwrap();
    let first = await_mapped(&store, &[2 * MIB]);
    assert!(first[0] < 5 * MIB, "a small store takes little memory: {first:?}");
    put(&db, 6 * MIB);
    await_mapped(&store, &[12 * MIB]);
    // The next arena is made when this one is half full. All of it comes.
    put(&db, 11 * MIB);
    await_mapped(&store, &[32 * MIB, 32 * MIB]);
}
