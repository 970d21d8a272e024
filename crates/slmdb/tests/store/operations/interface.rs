//! The promises of the interface, one by one.

use std::path::PathBuf;

use crate::common::{Home, MEDIA, Model, On, assert_verified, contents, no_compaction};
use slmdb::{Db, Error, ErrorKind, LinkPolicy, Medium, Options, WriteBatch};

#[test]
fn puts_gets_deletes() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        assert!(db.get("a").unwrap().is_none());
        db.put("a", "1").unwrap();
        db.put("", "the empty key").unwrap();
        db.put("b", "").unwrap();
        assert_eq!(db.get("a").unwrap().as_deref(), Some(b"1".as_slice()));
        assert_eq!(db.get("b").unwrap().as_deref(), Some(b"".as_slice()));
        db.flush().unwrap();
        assert_eq!(db.get("").unwrap().as_deref(), Some(b"the empty key".as_slice()));
        assert!(db.contains_key("b").unwrap());
        db.delete("b").unwrap();
        db.delete("never there").unwrap();
        assert!(!db.contains_key("b").unwrap());
        db.flush().unwrap();
        assert!(!db.contains_key("b").unwrap());
        assert_eq!(db.iter().unwrap().count(), 2);
        assert_verified(&db, "at the end");
    }
}

#[test]
fn the_last_change_of_a_batch_counts() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        let mut batch = WriteBatch::new();
        batch.put("k", "1").unwrap();
        batch.delete("k").unwrap();
        batch.put("k", "2").unwrap();
        batch.put("gone", "1").unwrap();
        batch.delete("gone").unwrap();
        db.write(&batch).unwrap();
        for _ in 0..2 {
            assert_eq!(db.get("k").unwrap().as_deref(), Some(b"2".as_slice()));
            assert_eq!(db.get("gone").unwrap(), None);
            db.flush().unwrap();
        }
        db.write(&WriteBatch::new()).unwrap();
    }
}

#[test]
fn limits_are_clear_errors_and_write_nothing() {
    let home = Home::new(On::Dram);
    let db = home.open();
    let invalid = |result: slmdb::Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid);
    invalid(db.put(vec![0; 65_536], "v"));
    invalid(db.delete(vec![0; 65_536]));
    db.put(vec![1; 65_535], "v").unwrap();
    let huge = vec![0; (256 << 20) + 1];
    invalid(db.put("k", &huge));
    assert_eq!(db.iter().unwrap().count(), 1);
    assert_eq!(db.stats().last_sequence_number, 1);
}

#[test]
fn records_larger_than_an_arena_get_one_of_their_own() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        let large = vec![7; 3 << 20];
        for round in 0..3 {
            db.put(format!("small{round}"), "v").unwrap();
            db.put(format!("large{round}"), &large).unwrap();
        }
        drop(db);
        let db = home.open();
        for round in 0..3 {
            assert_eq!(db.get(format!("large{round}")).unwrap().as_deref(), Some(large.as_slice()));
            assert!(db.contains_key(format!("small{round}")).unwrap());
        }
        assert_verified(&db, "at the end");
    }
}

#[test]
fn a_second_opener_is_told_who_holds_the_store() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        for read_only in [false, true] {
            let error = home.options().read_only(read_only).open(home.store()).unwrap_err();
            let Error::Locked { holder, .. } = &error else { panic!("{error}") };
            assert_eq!(*holder, Some(std::process::id()));
            assert!(error.to_string().contains(&std::process::id().to_string()));
        }
        db.close().unwrap();
        let readers: Vec<Db> = (0..3).map(|_| home.options().read_only(true).open(home.store()).unwrap()).collect();
        assert!(matches!(home.options().open(home.store()), Err(Error::Locked { .. })));
        drop(readers);
        home.open();
    }
}

/// All files of a store, byte for byte.
fn bytes(home: &Home) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(home.store()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.extend(home.pool());
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn a_read_only_open_changes_no_byte_and_takes_no_write() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        for number in 0..2000 {
            db.put(format!("{number:04}"), [7; 50]).unwrap();
        }
        db.close().unwrap();
        let before = bytes(&home);
        let db = home.options().read_only(true).open(home.store()).unwrap();
        assert_eq!(db.iter().unwrap().count(), 2000);
        assert_verified(&db, "read-only");
        for result in [db.put("k", "v"), db.delete("k"), db.flush(), db.sync()] {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::ReadOnly);
        }
        db.close().unwrap();
        assert!(bytes(&home) == before, "{on:?}: a read-only open changed something");
    }
}

/// What an opening for writing would bring in order stays: a MANIFEST that may not be durable, logs, files that belong to nobody.
#[test]
fn a_read_only_open_of_a_killed_store_changes_no_byte() {
    let mut changed = Vec::new();
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.options().compaction(no_compaction()).open(home.store()).unwrap();
        for number in 0..1000 {
            db.put(format!("{number:04}"), [7; 50]).unwrap();
            // So that the MANIFEST has records behind its first.
            if number % 300 == 299 {
                db.flush().unwrap();
            }
        }
        let killed = home.copy();
        for name in ["0000000099.sst", "MANIFEST.tmp"] {
            std::fs::write(killed.store().join(name), b"nobody's").unwrap();
        }
        let before = bytes(&killed);
        for _ in 0..2 {
            let db = killed.options().read_only(true).open(killed.store()).unwrap();
            assert_eq!(db.iter().unwrap().count(), 1000, "{on:?}");
            assert_verified(&db, "read-only");
            db.close().unwrap();
        }
        if bytes(&killed) != before {
            changed.push(on);
        }
        // There was something to bring in order.
        killed.open().close().unwrap();
        assert!(bytes(&killed) != before, "{on:?}");
    }
    assert_eq!(changed, [], "a read-only open changed something");
}

/// MemTables with persisted links and without are opened with either setting, and a store goes on with its own.
#[test]
fn links_of_either_policy_are_opened_with_either_setting() {
    for on in MEDIA {
        let home = Home::new(on);
        let mut expected = Model::new();
        for round in 0..6_u32 {
            let links = LinkPolicy::ALL[(round / 2 % 2) as usize];
            let db = home.options().advanced(|advanced| advanced.memtable_links(links)).open(home.store()).unwrap();
            assert_eq!(contents(&db).unwrap(), expected, "{on:?}, round {round}");
            // Sometimes so little that the next opening copies it, sometimes several MemTables.
            for number in 0..(if round % 2 == 0 { 40 } else { 2_000 }) {
                let key = format!("{:05}", number * 7_919 % 10_007 + round * 13).into_bytes();
                let mut batch = WriteBatch::new();
                batch.put(&key, [round as u8; 50]).unwrap();
                batch.delete(b"00000").unwrap();
                db.write(&batch).unwrap();
                expected.insert(key, vec![round as u8; 50]);
                expected.remove(&b"00000"[..]);
            }
            assert_eq!(contents(&db).unwrap(), expected, "{on:?}, round {round}");
        }
    }
}

#[test]
fn a_store_keeps_its_medium() {
    let dram = Home::new(On::Dram);
    dram.open().close().unwrap();
    let emulated = Home::new(On::Emulated);
    emulated.open().close().unwrap();
    let pool = emulated.pool().unwrap();

    let other = Options::default().medium(Medium::Emulated { path: pool.clone() }).open(dram.store()).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Invalid);
    let other = Options::default().medium(Medium::Dram).open(emulated.store()).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Invalid);

    // Without a medium, the store's own is found.
    Options::default().open(emulated.store()).unwrap().put("k", "v").unwrap();
    // A pool that was moved is accepted at its new place, and remembered there.
    let moved = pool.with_file_name("moved");
    std::fs::rename(&pool, &moved).unwrap();
    let missing = Options::default().open(emulated.store()).unwrap_err();
    assert!(missing.to_string().contains("slmdb repair"), "{missing}");
    assert!(!pool.exists(), "a missing pool must never be made anew");
    let db = Options::default().medium(Medium::Emulated { path: moved.clone() }).open(emulated.store()).unwrap();
    assert!(db.contains_key("k").unwrap());
    db.close().unwrap();
    assert!(Options::default().open(emulated.store()).unwrap().contains_key("k").unwrap());

    // A pool of another store is refused.
    let foreign = Home::new(On::Emulated);
    foreign.open().close().unwrap();
    let medium = Medium::Emulated { path: foreign.pool().unwrap() };
    let error = Options::default().medium(medium).open(emulated.store()).unwrap_err();
    assert!(error.to_string().contains("slmdb repair"), "{error}");
}

#[test]
fn a_pool_of_another_boot_is_refused_and_names_repair() {
    let env = slmdb_testkit::MemoryEnv::new();
    let open = |env: &slmdb_testkit::MemoryEnv, read_only| {
        let options = crate::common::options().memtable_bytes(64 << 10).pool_initial_bytes(1 << 20);
        let options = options.read_only(read_only);
        options.medium(Medium::Emulated { path: "/pool".into() }).env(std::sync::Arc::new(env.clone())).open("/db")
    };
    let db = open(&env, false).unwrap();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    // Killed, then rebooted: whatever the pool's file holds, it was open.
    let rebooted = env.crash();
    rebooted.set_content("/pool", &env.content("/pool").unwrap());
    for read_only in [false, true] {
        let error = open(&rebooted, read_only).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("slmdb repair"), "{error}");
    }
    // Closed before, it is no matter.
    db.close().unwrap();
    let rebooted = env.crash();
    assert!(open(&rebooted, false).unwrap().contains_key("k").unwrap());
}

#[test]
fn stores_that_should_or_should_not_be_there() {
    let home = Home::new(On::Dram);
    for options in [home.options().create_if_missing(false), home.options().read_only(true)] {
        assert_eq!(options.open(home.store()).unwrap_err().kind(), ErrorKind::Invalid);
        assert!(!home.store().exists());
    }
    home.open().put("k", "v").unwrap();
    assert_eq!(home.options().error_if_exists(true).open(home.store()).unwrap_err().kind(), ErrorKind::Invalid);
    std::fs::remove_file(home.store().join("MANIFEST")).unwrap();
    assert_eq!(home.options().open(home.store()).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(home.options().read_only(true).open(home.store()).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn clones_work_from_many_threads_and_the_last_one_closes() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let db = db.clone();
                scope.spawn(move || {
                    for number in 0..1500 {
                        let key = format!("{thread}/{number:05}");
                        db.put(&key, &key).unwrap();
                        assert_eq!(
                            db.get(&key).unwrap().as_deref(),
                            Some(key.as_bytes()),
                            "own writes are seen at once"
                        );
                    }
                });
            }
        });
        let clone = db.clone();
        db.close().unwrap();
        assert_eq!(contents(&clone).unwrap().len(), 6000);
        clone.close().unwrap();
        assert_eq!(contents(&home.open()).unwrap().len(), 6000);
    }
}

#[test]
fn synced_writes_share_their_syncs_and_are_all_there() {
    let home = Home::new(On::Dram);
    let db = home.options().sync(true).open(home.store()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = db.clone();
            scope.spawn(move || (0..100).for_each(|number| db.put(format!("{thread}/{number}"), "v").unwrap()));
        }
    });
    assert_eq!(db.iter().unwrap().count(), 400);
}

#[test]
fn a_cursor_outlives_the_handle_it_came_from() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        db.put("a", "1").unwrap();
        db.flush().unwrap();
        db.put("b", "2").unwrap();
        let mut range = db.iter().unwrap();
        db.close().unwrap();
        assert_eq!(range.next().unwrap().unwrap().1, b"1".as_slice());
        assert_eq!(range.next().unwrap().unwrap().1, b"2".as_slice());
        assert!(
            matches!(home.options().open(home.store()), Err(Error::Locked { .. })),
            "the LOCK is held by the iterator"
        );
        drop(range);
        home.open();
    }
}

#[test]
fn batches_of_tiny_entries_fill_a_memtable_by_their_number() {
    for on in MEDIA {
        let home = Home::new(on);
        let options = home.options().memtable_bytes(64 << 10).compaction(crate::common::no_compaction());
        let db = options.open(home.store()).unwrap();
        let mut batch = slmdb::WriteBatch::new();
        for number in 0_u32..5000 {
            batch.put(number.to_be_bytes(), "").unwrap();
            if batch.len() == 100 {
                db.write(&batch).unwrap();
                batch.clear();
            }
        }
        db.flush().unwrap();
        // 1024 entries in each, though the arena has room for five times as many.
        assert_eq!(db.table_files().len(), 5);
        (0..5000_u32).for_each(|number| batch.put(number.to_be_bytes(), "v").unwrap());
        db.write(&batch).unwrap();
        db.flush().unwrap();
        // (In LAB-DB level 0 is full of them, and goes on to level 1.)
        if crate::common::engine() == slmdb::EngineName::Slm {
            assert_eq!(db.stats().table_files, 6, "one batch is never parted");
        }
        assert_eq!(db.get(4999_u32.to_be_bytes()).unwrap().as_deref(), Some(&b"v"[..]));
    }
}

/// Only SLM-DB's index has all keys.
mod slm {
    use super::*;

    #[test]
    fn the_numbers_of_stats_fit_what_was_done() {
        for on in MEDIA {
            let home = Home::new(on);
            let db = home.options().memtable_bytes(1 << 20).open(home.store()).unwrap();
            for number in 0..3000 {
                db.put(format!("{number:06}"), [1; 94]).unwrap();
            }
            let stats = db.stats();
            assert_eq!((stats.memtable_entries, stats.index_keys, stats.last_sequence_number), (3000, 0, 3000));
            assert_eq!(stats.since_open.user_bytes_put, 300_000);
            db.flush().unwrap();
            let stats = db.stats();
            assert_eq!((stats.memtable_entries, stats.index_keys, stats.table_files), (0, 3000, 1));
            assert_eq!(stats.live_bytes, stats.table_bytes);
            assert!(stats.fast_tier_index_bytes_per_key > 30.0, "{}", stats.fast_tier_index_bytes_per_key);
            assert_eq!(stats.since_open.persists > 3000, on != On::Dram);
            assert_eq!(stats.since_open.fast_tier_bytes_asked > 300_000, on != On::Dram);
            assert!(stats.since_open.file_bytes_written >= stats.table_bytes);
            db.close().unwrap();
            let db = home.open();
            assert_eq!(db.stats().lifetime.user_bytes_put, 300_000);
            assert_eq!(db.stats().since_open.user_bytes_put, 0);
            assert_eq!(db.stats().lifetime.flushes, 1);
        }
    }
}
