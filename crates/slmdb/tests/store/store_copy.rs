//! Copies of a store in use: what was acknowledged before is in them, both go their own ways, and a copy that was cut
//! short is no store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Home, MEDIA, Model, Random, assert_same, assert_verified, contents, eager_compaction};
use slmdb::{Db, ErrorKind, Options};
use slmdb_env::memory::{Failure, MemoryEnv, Repeat};

#[test]
fn a_copy_holds_what_was_acknowledged_while_writes_and_compactions_go_on() {
    for on in MEDIA {
        let home = Home::new(on);
        let options = home.options().memtable_bytes(16 << 10).checkpoint_entries(200).compaction(eager_compaction());
        let db = options.open(home.store()).unwrap();
        let mut model = Model::new();
        let mut random = Random(3);
        let done = AtomicBool::new(false);
        for round in 0..4 {
            for _ in 0..1500 {
                let key = format!("key{:04}", random.below(500)).into_bytes();
                if random.one_in(4) {
                    db.delete(&key).unwrap();
                    model.remove(&key);
                } else {
                    let value = random.bytes(80);
                    db.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
            let copy = home.store().with_file_name(format!("copy{round}"));
            done.store(false, Ordering::Release);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for number in 0.. {
                        db.put(format!("other{:03}", number % 300), number.to_string()).unwrap();
                        if done.load(Ordering::Acquire) {
                            break;
                        }
                    }
                });
                db.checkpoint(&copy).unwrap();
                done.store(true, Ordering::Release);
            });
            let opened = Options::default().memtable_bytes(16 << 10).open(&copy).unwrap();
            let mut found = contents(&opened).unwrap();
            found.retain(|key, _| !key.starts_with(b"other"));
            assert_same(&found, &model, "the copy");
            assert_verified(&opened, "the copy");
            // They go their own ways.
            opened.delete("key0000").unwrap();
            opened.put("key0001", "of the copy").unwrap();
            opened.compact_range::<&[u8]>(..).unwrap();
            assert_verified(&opened, "the copy, compacted");
            opened.close().unwrap();
            let mut found = contents(&db).unwrap();
            found.retain(|key, _| !key.starts_with(b"other"));
            assert_same(&found, &model, "the store");
            let error = db.checkpoint(&copy).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        assert_verified(&db, "the store");
        db.close().unwrap();
        let db = home.on(Options::default()).open(home.store()).unwrap();
        assert_verified(&db, "the store, opened again");
    }
}

#[test]
fn a_copy_that_was_cut_short_is_no_store_and_harms_none() {
    let options = |env: &MemoryEnv| {
        Options::default().env(Arc::new(env.clone())).sync(true).memtable_bytes(4 << 10).pool_initial_bytes(1 << 20)
    };
    let fill = |db: &Db| {
        for number in 0..100 {
            db.put(format!("key{number:03}"), [1; 100]).unwrap();
        }
        db.flush().unwrap();
    };
    let mut cut_short = 0;
    for k in 0.. {
        let env = MemoryEnv::new();
        let db = options(&env).open("/db").unwrap();
        fill(&db);
        env.fail_at(env.operation_count() + k, Failure::Io, Repeat::ForGood);
        let copied = db.checkpoint("/copy");
        let struck = env.failures_struck() > 0;
        env.clear_failures();
        let env = env.crash();
        drop(db);
        let db = options(&env).open("/db").unwrap();
        assert_eq!(contents(&db).unwrap().len(), 100);
        let copy = options(&env).create_if_missing(false).open("/copy");
        if copied.is_ok() {
            assert_eq!(contents(&copy.unwrap()).unwrap().len(), 100, "a copy that was made outlives a power cut");
        } else {
            cut_short += 1;
            // Whole, if it failed at the very end; else no store.
            assert!(copy.map_or(true, |copy| contents(&copy).unwrap().len() == 100));
        }
        if !struck {
            break;
        }
    }
    assert!(cut_short > 5, "{cut_short}");
}
