//! What a cursor keeps in its buffers of the files that it scans.

use std::path::Path;
use std::sync::Arc;

use slmdb_testkit::{MemoryEnv, Random};

use slmdb_engine::{CompactionOptions, CompactionPolicy, Options, WriteBatch};

const LARGE_BYTES: usize = 1 << 20;

#[test]
fn of_files_that_were_left_only_what_is_small_is_kept() {
    let env = MemoryEnv::new();
    let compaction = CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() };
    let options = Options { env: Arc::new(env.clone()), compaction, memory_budget_bytes: 0, ..Options::default() };
    let engine = (crate::KIND.open)(&options, Path::new("/db"), None).unwrap();
    let mut value = vec![0; LARGE_BYTES];
    Random(7).fill(&mut value);
    for file in 0..4 {
        let mut batch = WriteBatch::new();
        for round in 0..5 {
            batch.put(format!("key {round} {file}"), &value).unwrap();
        }
        engine.write(&batch, false).unwrap();
        engine.flush().unwrap();
    }
    let mut cursor = engine.cursor().unwrap();
    cursor.seek_first().unwrap();
    let (mut keys, mut most_bytes) = (0, 0);
    while cursor.valid() {
        assert_eq!(cursor.value().unwrap()[..], value);
        most_bytes = engine.stats().memory.cursors_bytes.max(most_bytes);
        cursor.next().unwrap();
        keys += 1;
    }
    assert_eq!(keys, 20);
    // The present block, and the piece that it was cut from.
    assert!(most_bytes < 5 * LARGE_BYTES as u64 / 2, "{most_bytes}");
    drop(cursor);
    let mut batch = WriteBatch::new();
    batch.put("small", "1").unwrap();
    batch.put("small, too", "2").unwrap();
    engine.write(&batch, false).unwrap();
    engine.flush().unwrap();
    let mut cursor = engine.cursor().unwrap();
    for (key, largest_bytes) in [("small", 0), ("key 1 1", LARGE_BYTES), ("small, too", 0)] {
        cursor.seek(key.as_bytes()).unwrap();
        cursor.value().unwrap();
        let cursors_bytes = engine.stats().memory.cursors_bytes;
        assert!(cursors_bytes < largest_bytes as u64 + (64 << 10), "at {key}: {cursors_bytes}");
    }
    drop(cursor);
    assert_eq!(engine.stats().memory.cursors_bytes, 0);
}
