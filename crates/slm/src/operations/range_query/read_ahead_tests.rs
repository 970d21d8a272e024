//! How often a cursor reads from the disk.

use std::path::Path;
use std::sync::Arc;

use slmdb_testkit::{Failure, MemoryEnv, Repeat};

use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, MapTables, Options, WriteBatch};

const KEYS: u32 = 4000;

fn entry(number: u32) -> (String, [u8; 100]) {
    (format!("key {number:05}"), [number as u8; 100])
}

/// A store without a cache. Key n is in file n modulo `files`.
fn store(env: &MemoryEnv, files: u32) -> Arc<dyn Engine> {
    store_of(env, (0, 512), files, |number| number % files)
}

/// A store with this budget, blocks of this length and this many files. `file_of` says in which of them each key is.
fn store_of(
    env: &MemoryEnv,
    (memory_budget_bytes, block_bytes): (u64, usize),
    files: u32,
    file_of: impl Fn(u32) -> u32,
) -> Arc<dyn Engine> {
    let compaction = CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() };
    let (env, memtable_bytes) = (Arc::new(env.clone()), 1 << 20);
    // What is mapped is not read in pieces.
    let unmapped = Options { map_tables: MapTables::Never, ..Options::default() };
    let options = Options { env, compaction, memory_budget_bytes, memtable_bytes, block_bytes, ..unmapped };
    let engine = (crate::KIND.open)(&options, Path::new("/db"), None).unwrap();
    for file in 0..files {
        let mut batch = WriteBatch::new();
        for (key, value) in (0..KEYS).filter(|number| file_of(*number) == file).map(entry) {
            batch.put(key, value).unwrap();
        }
        engine.write(&batch, false).unwrap();
        engine.flush().unwrap();
    }
    engine
}

/// All entries in order, or backwards.
fn scan(engine: &Arc<dyn Engine>, backwards: bool) {
    let mut cursor = engine.cursor().unwrap();
    if backwards {
        cursor.seek_last().unwrap()
    } else {
        cursor.seek_first().unwrap()
    }
    for at in 0..KEYS {
        let (key, value) = entry(if backwards { KEYS - 1 - at } else { at });
        assert_eq!(cursor.key(), key.as_bytes());
        assert_eq!(cursor.value().unwrap()[..], value);
        if backwards { cursor.prev().unwrap() } else { cursor.next().unwrap() }
    }
    assert!(!cursor.valid());
}

/// How often files are read from for a scan of such a store.
fn reads_of_a_scan(files: u32, backwards: bool) -> usize {
    let env = MemoryEnv::new();
    reads_of(&env, &store(&env, files), backwards)
}

fn reads_of(env: &MemoryEnv, engine: &Arc<dyn Engine>, backwards: bool) -> usize {
    let before = env.operation_count();
    scan(engine, backwards);
    let operations = env.operations();
    let since = operations.len() - (env.operation_count() - before) as usize;
    operations[since..].iter().filter(|operation| operation.starts_with("read ")).count()
}

#[test]
fn what_lies_in_order_is_read_in_pieces_and_nothing_else_is() {
    let (blocks, in_order) = (reads_of_a_scan(1, true), reads_of_a_scan(1, false));
    assert!(blocks > 50, "{blocks}");
    assert!(in_order < blocks / 5, "{in_order} for {blocks} blocks");
    let taking_turns = reads_of_a_scan(2, false);
    assert!(taking_turns < blocks / 3, "{taking_turns} for {blocks} blocks");
}

#[test]
fn many_files_in_order_are_read_in_pieces_as_one_is() {
    let (env, files) = (MemoryEnv::new(), 30);
    let engine = store_of(&env, (0, 512), files, |number| number * files / KEYS);
    let (blocks, reads) = (reads_of(&env, &engine, true), reads_of(&env, &engine, false));
    assert!(blocks > 10 * files as usize, "{blocks}");
    assert!(reads <= 3 * files as usize, "{reads} for {blocks} blocks");
}

#[test]
fn more_files_than_buffers_are_read_block_by_block() {
    for (files, keys_a_turn, block_bytes) in [(7, 1, 512), (30, 1, 512), (30, 6, 512), (60, 6, 512), (2, 1, 32 << 10)] {
        let any_file = |number: u32| {
            (u64::from(number / keys_a_turn + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32 % files
        };
        let made = |env: &MemoryEnv| store_of(env, (16 << 20, block_bytes), files, any_file);
        let (env, other) = (MemoryEnv::new(), MemoryEnv::new());
        // Backwards each is read alone.
        let blocks = reads_of(&other, &made(&other), true);
        let reads = reads_of(&env, &made(&env), false);
        assert!(reads <= blocks + blocks / 8, "{files} files, {keys_a_turn} keys a turn: {reads} for {blocks} blocks");
    }
}

#[test]
fn a_piece_that_can_t_be_read_costs_nobody_a_block_that_can() {
    for failure in [Failure::Io, Failure::FlippedBit { seed: 5 }] {
        for passed in [0, 1, 2, 3] {
            let env = MemoryEnv::new();
            let engine = store(&env, 1);
            scan(&engine, true);
            env.fail_after(passed, "read ", failure, Repeat::Once);
            let mut cursor = engine.cursor().unwrap();
            cursor.seek_first().unwrap();
            let mut errors = 0;
            while cursor.valid() {
                errors += usize::from(cursor.value().is_err());
                cursor.next().unwrap();
            }
            assert_eq!(env.failures_struck(), 1);
            assert_eq!(errors > 0, passed == 0, "{failure:?} of read {passed}: {errors} errors");
        }
    }
}
