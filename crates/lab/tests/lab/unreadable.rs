//! A table file that can't be read any more: what becomes of writes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use slmdb_engine::{CompactionOptions, Options, WriteBatch};
use slmdb_env::{Env, ErrorKind};
use slmdb_lab::LabOptions;
use slmdb_testkit::MemoryEnv;

fn options(env: &MemoryEnv) -> Options {
    Options {
        env: Arc::new(env.clone()),
        memtable_bytes: 4 << 10,
        block_bytes: 256,
        compaction: CompactionOptions { table_file_bytes: 4 << 10, ..CompactionOptions::default() },
        own: Some(Arc::new(LabOptions {
            level_zero_bytes: 16 << 10,
            level_base_bytes: 4 << 10,
            level_growth: 2,
            ..LabOptions::default()
        })),
        ..Options::default()
    }
}

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sst")
}

/// Writes are refused only when level 0 is full of what can't be compacted, and the error says what to do. Nothing is lost
/// by that: when the file can be read again, all that was acknowledged is there.
#[test]
fn writes_are_refused_when_level_0_is_full_of_what_cannot_be_read() {
    let env = MemoryEnv::new();
    let engine = (slmdb_lab::KIND.open)(&options(&env), Path::new("/db"), None).unwrap();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut put = |number: u64| {
        let (key, value) = (format!("key {number:05}").into_bytes(), number.to_le_bytes().repeat(8));
        let mut batch = WriteBatch::new();
        batch.put(&key, &value).unwrap();
        engine.write(&batch, false).inspect(|()| drop(model.insert(key, value)))
    };
    (0..20).for_each(|number| put(number * 5000).unwrap());
    engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
    let entries = env.list_directory(Path::new("/db")).unwrap().into_iter();
    let tables: Vec<_> = entries.map(|entry| Path::new("/db").join(entry.name)).filter(|path| is_table(path)).collect();
    let [table] = &tables[..] else { panic!("{tables:?}") };
    let whole = env.content(table).unwrap();
    let mut bytes = whole.clone();
    bytes[1] ^= 4;
    env.set_content(table, &bytes);
    // Everything is between the file's bounds.
    let refused = (1..100_000).find_map(|number| put(number * 7919 % 95_000).err());
    let refused = refused.unwrap();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
    let text = refused.to_string();
    assert!(text.contains("slmdb repair") && text.contains(".sst"), "{text}");
    assert!(model.len() > 100, "level 0 was not full after {} writes", model.len());
    let _ = engine.close();
    drop(engine);
    env.set_content(table, &whole);
    let engine = (slmdb_lab::KIND.open)(&options(&env), Path::new("/db"), None).unwrap();
    for (key, value) in &model {
        assert_eq!(engine.get(key).unwrap().as_deref(), Some(&value[..]), "{}", key.escape_ascii());
    }
    assert!(engine.verify(&mut |_| ()).unwrap().is_clean());
    engine.close().unwrap();
}
