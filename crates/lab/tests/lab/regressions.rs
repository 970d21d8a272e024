//! What once went wrong, each under the name of what must hold.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use slmdb_engine::{CompactionOptions, Engine, Options, WriteBatch};
use slmdb_lab::LabOptions;
use slmdb_testkit::MemoryEnv;

fn key(number: u64) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

fn put(engine: &dyn Engine, key: &[u8], value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(key, value).unwrap();
    engine.write(&batch, false).unwrap();
}

/// A store that closes while its level 0 is full leaves all MemTables from one on to the next opening. None is flushed
/// that has one before it which is not.
#[test]
fn a_close_while_level_0_is_full_passes_over_no_memtable() {
    let env = MemoryEnv::new();
    let options = Options {
        env: Arc::new(env.clone()),
        memtable_bytes: 4 << 10,
        block_bytes: 256,
        compaction: CompactionOptions { table_file_bytes: 1 << 10, ..CompactionOptions::default() },
        own: Some(Arc::new(LabOptions {
            level_zero_bytes: 4 << 10,
            level_base_bytes: 4 << 10,
            level_growth: 2,
            ..LabOptions::default()
        })),
        ..Options::default()
    };
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for round in 0..150_u64 {
        let engine = (slmdb_lab::KIND.open)(&options, Path::new("/db"), None).unwrap();
        for (key, value) in &model {
            assert_eq!(engine.get(key).unwrap().as_deref(), Some(&value[..]), "round {round}, {}", key.escape_ascii());
        }
        for number in 0..120 {
            let (key, value) = (key((number * 7 + round * 13) % 200), [round.to_le_bytes(); 20].concat());
            put(&*engine, &key, &value);
            model.insert(key, value);
        }
        engine.close().unwrap();
    }
}
