//! What compactions bound: files, memory, garbage.

use std::sync::Arc;
use std::time::{Duration, Instant};

use slmdb_chameleon::ChameleonOptions;
use slmdb_engine::{CompactionOptions, Engine, Options, WriteBatch};
use slmdb_testkit::{MemoryEnv, Random};

use crate::model::open;

fn put(engine: &dyn Engine, key: u64, value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(key.to_be_bytes(), value).unwrap();
    engine.write(&batch, false).unwrap();
}

/// Without garbage nothing merged files, however small: each cursor asked all of them.
#[test]
fn many_small_files_become_few() {
    let compaction = CompactionOptions { table_file_bytes: 64 << 10, files_merged_max: 4, ..Default::default() };
    let options =
        Options { env: Arc::new(MemoryEnv::new()), compaction, memtable_bytes: 64 << 10, ..Options::default() };
    let engine = open(&options);
    let mut random = Random(1);
    for _ in 0..200 {
        for _ in 0..10 {
            put(&*engine, random.below(u64::MAX), &[7; 40]);
        }
        engine.flush().unwrap();
    }
    let give_up = Instant::now() + Duration::from_secs(60);
    while engine.table_files().len() > 16 {
        assert!(Instant::now() < give_up, "{} table files", engine.table_files().len());
        std::thread::sleep(Duration::from_millis(10));
    }
    let written = engine.stats().since_open;
    assert!(written.compaction_bytes_written < 4 * written.user_bytes_put, "{written:?}");
    assert_eq!(engine.table_files().iter().map(|file| file.entries).sum::<u64>(), 2000);
}

/// Nobody slowed writers, and bypasses took what memory they needed.
#[test]
fn writers_wait_where_bypasses_are_overfull() {
    let own = ChameleonOptions { shards: Some(16), bypass_bytes: Some(64 << 10), ..Default::default() };
    let compaction = CompactionOptions { table_file_bytes: 64 << 10, ..Default::default() };
    let options = Options { compaction, memtable_bytes: 64 << 10, own: Some(Arc::new(own)), ..Options::default() };
    // (The clock of a machine in memory does not go on by itself.)
    let home = tempfile::tempdir().unwrap();
    let engine = (slmdb_chameleon::KIND.open)(&options, &home.path().join("db"), None).unwrap();
    let (began, mut most) = (engine.stats().memory.index_bytes, 0);
    for key in 0..400_000_u64 {
        put(&*engine, key.wrapping_mul(0x9e37_79b9_7f4a_7c15), b"v");
        if key % 4096 == 0 {
            most = most.max(engine.stats().memory.index_bytes - began);
        }
    }
    assert!(most < 24 * (64 << 10), "{most} bytes of the index in memory");
}
