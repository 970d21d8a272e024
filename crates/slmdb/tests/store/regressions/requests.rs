//! Bugs of what is asked of an open store.

use std::os::unix::fs::FileExt;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::{MORE_THAN_HALF, STORE, options, put_many, until_quiet};
use crate::common::{Home, MEDIA, Model, On, assert_same, assert_verified, contents, engine};
use slmdb::{Db, EngineName, ErrorKind};
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

#[test]
fn options_that_no_flush_could_use_are_refused_at_once() {
    for on in MEDIA {
        let home = Home::new(on);
        let beyond = [
            home.options().block_bytes((1 << 20) + 1),
            home.options().advanced(|advanced| advanced.restart_interval(65_536)),
            home.options().memtable_bytes(5 << 30),
        ];
        for options in beyond {
            let error = options.open(home.store()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        assert!(!home.store().exists());
        let db = home
            .options()
            .block_bytes(1 << 20)
            .advanced(|advanced| advanced.restart_interval(65_535))
            .open(home.store())
            .unwrap();
        db.put("k", "v").unwrap();
        db.flush().unwrap();
    }
}

#[test]
fn a_cursor_is_on_no_entry_after_an_error() {
    // (The pool of ChameleonDB has nothing but arenas.)
    if engine() == EngineName::Chameleon {
        return;
    }
    let home = Home::new(On::Emulated);
    // An engine that keeps only its newest entries in the pool is to keep these there.
    let db = home.options().compaction(crate::common::no_compaction()).open(home.store()).unwrap();
    for number in 0..300 {
        db.put(format!("{number:04}"), "in a table file").unwrap();
    }
    db.flush().unwrap();
    db.put("0100a", "in a MemTable").unwrap();
    let cursor_on = |key: &str| {
        let mut cursor = db.cursor().unwrap();
        cursor.seek(key).unwrap();
        assert_eq!(cursor.key(), key.as_bytes());
        cursor
    };
    let mut cursors: Vec<_> = ["0000", "0100", "0100a", "0299"].into_iter().map(cursor_on).collect();
    // Nodes, key records, maps: everything but the header and the arenas.
    let pool = std::fs::File::options().write(true).open(home.pool().unwrap()).unwrap();
    for (unit, bytes) in std::fs::read(home.pool().unwrap()).unwrap().chunks(64 << 10).enumerate().skip(1) {
        if !bytes.starts_with(b"SLMARENA") {
            pool.write_all_at(&vec![0xa5; bytes.len()], (unit as u64) << 16).unwrap();
        }
    }
    let moves: [fn(&mut slmdb::Cursor) -> slmdb::Result<()>; 4] = [
        |cursor| cursor.seek("0200"),
        |cursor| cursor.seek_before("0200"),
        |cursor| cursor.seek_first(),
        |cursor| cursor.seek_last(),
    ];
    for cursor in &mut cursors {
        // What was copied out of a leaf before may still be there.
        while cursor.valid() {
            let _ = cursor.next();
        }
        assert!(!cursor.valid() && cursor.key().is_empty());
        for go in moves {
            assert_eq!(go(cursor).unwrap_err().kind(), ErrorKind::Corruption);
            assert!(!cursor.valid() && cursor.key().is_empty());
            assert_eq!(cursor.value().unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
}

/// A store whose active MemTable has something, with a spare, at rest.
fn store_at_rest(env: &MemoryEnv) -> Db {
    let db = options(env).open(STORE).unwrap();
    put_many(&db, &mut Model::new(), MORE_THAN_HALF);
    until_quiet(env);
    db
}

#[test]
fn verify_tells_of_a_full_disk_instead_of_waiting_for_it() {
    let env = MemoryEnv::new();
    let db = store_at_rest(&env);
    env.fail_next("allocate /db/MANIFEST", Failure::Full, Repeat::ForGood);
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Full);
    let (sender, receiver) = channel();
    let verifier = db.clone();
    std::thread::spawn(move || sender.send(verifier.verify(&mut |_| ()).map(|report| report.is_clean())));
    let outcome = receiver.recv_timeout(Duration::from_secs(60)).expect("verify waits for space on the disk");
    match outcome {
        // Where the flush that waits holds nothing that verification needs.
        Ok(is_clean) => assert!(is_clean),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Full, "{error}"),
    }
    env.clear_failures();
    db.flush().unwrap();
    assert_verified(&db, "with space again");
}

#[test]
fn keys_longer_than_any_can_be_are_looked_up_and_sought() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        let longest = vec![b'x'; 65_535];
        db.put(&longest, "v").unwrap();
        db.put("y", "v").unwrap();
        for _ in 0..2 {
            for length in [65_536, 131_072 + 65_535, 131_072] {
                let longer = vec![b'x'; length];
                assert_eq!(db.get(&longer).unwrap(), None);
                let mut cursor = db.cursor().unwrap();
                cursor.seek(&longer).unwrap();
                assert_eq!(cursor.key(), b"y");
                cursor.seek_before(&longer).unwrap();
                assert_eq!(cursor.key(), longest);
                assert_eq!(db.range(&longest[..]..=&longer[..]).unwrap().count(), 1);
            }
            db.flush().unwrap();
        }
    }
}

#[test]
fn a_store_without_memory_for_blocks() {
    let home = Home::new(On::Dram);
    let db = home.options().memory_budget_bytes(0).open(home.store()).unwrap();
    let mut model = Model::new();
    put_many(&db, &mut model, 500);
    db.flush().unwrap();
    assert_same(&contents(&db).unwrap(), &model, "without a cache");
}
