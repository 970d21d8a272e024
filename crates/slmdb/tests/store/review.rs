//! One test for each bug that a review of the engine found, named after it.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::{Home, MEDIA, Model, On, assert_same, assert_verified, contents, wait_until};
use slmdb::{Db, ErrorKind, Medium, Options};
use slmdb_env::Env;
use slmdb_env::memory::{Failure, MemoryEnv, Repeat};

const STORE: &str = "/db";
const MEMTABLE_BYTES: u64 = 64 << 10;

fn options(env: &MemoryEnv) -> Options {
    Options::default()
        .env(Arc::new(env.clone()))
        .memtable_bytes(MEMTABLE_BYTES)
        .memory_budget_bytes(1 << 16)
        .pool_initial_bytes(4 << 20)
        .pool_maximum_bytes(1 << 28)
}

/// Waits until no background thread has done anything for a while.
fn until_quiet(env: &MemoryEnv) {
    let mut before = None;
    wait_until("the store is quiet", || {
        let now = Some(env.operation_count());
        let quiet = before == now;
        before = now;
        std::thread::sleep(Duration::from_millis(30));
        quiet
    });
}

/// Puts `count` keys of 100 bytes with values of 100 bytes.
fn put_many(db: &Db, model: &mut Model, count: usize) {
    for _ in 0..count {
        let key = format!("{:0100}", model.len()).into_bytes();
        db.put(&key, [7; 100]).unwrap();
        model.insert(key, vec![7; 100]);
    }
}

/// As many of them as take more than half of an arena, so that a spare is made.
const MORE_THAN_HALF: usize = 150;

#[test]
fn a_manifest_that_was_full_leaves_no_second_arena_of_one_generation() {
    for medium in [Medium::Dram, Medium::Emulated { path: "/pool".into() }] {
        let start = |env: &MemoryEnv, model: &mut Model| {
            let db = options(env).medium(medium.clone()).open(STORE).unwrap();
            put_many(&db, model, 10);
            until_quiet(env);
            db
        };
        let (env, mut model) = (MemoryEnv::new(), Model::new());
        let db = start(&env, &mut model);
        // Again and again: the reserve does not help.
        env.fail_next("allocate /db/MANIFEST", Failure::Full, Repeat::ForGood);
        put_many(&db, &mut model, MORE_THAN_HALF);
        wait_until("the failure", || env.failures_struck() > 0);
        until_quiet(&env);
        env.clear_failures();
        put_many(&db, &mut model, 2 * MORE_THAN_HALF);
        db.close().unwrap();
        let db = options(&env).open(STORE).unwrap();
        assert_same(&contents(&db).unwrap(), &model, "reopened");
        assert_verified(&db, "reopened");
    }
}

#[test]
fn a_large_record_that_finds_no_space_does_not_lose_the_spare() {
    let env = MemoryEnv::new();
    let db = options(&env).open(STORE).unwrap();
    let mut model = Model::new();
    put_many(&db, &mut model, MORE_THAN_HALF);
    until_quiet(&env);
    env.set_capacity(900 << 10);
    assert_eq!(db.put("large", vec![1; 1 << 20]).unwrap_err().kind(), ErrorKind::Full);
    put_many(&db, &mut model, MORE_THAN_HALF);
    env.set_capacity(1 << 30);
    db.put("large", vec![1; 1 << 20]).unwrap();
    model.insert(b"large".to_vec(), vec![1; 1 << 20]);
    db.flush().unwrap();
    assert_verified(&db, "at the end");
    db.close().unwrap();
    assert_same(&contents(&options(&env).open(STORE).unwrap()).unwrap(), &model, "reopened");
    assert_eq!(env.failures_struck(), 0);
}

#[test]
fn a_failed_sync_of_the_arena_thread_is_not_tried_again() {
    let env = MemoryEnv::new();
    let db = options(&env).open(STORE).unwrap();
    let mut model = Model::new();
    put_many(&db, &mut model, 1);
    until_quiet(&env);
    env.fail_at(env.operation_count(), Failure::FailedSync, Repeat::Once);
    for number in 0..MORE_THAN_HALF {
        let (key, value) = (format!("later{number}").into_bytes(), vec![7; 200]);
        match db.put(&key, &value) {
            Ok(()) => drop(model.insert(key, value)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ReadOnly),
        }
    }
    wait_until("the failure", || env.failures_struck() == 1);
    until_quiet(&env);
    assert_eq!(db.put("after", "the failure").unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_same(&contents(&db).unwrap(), &model, "reads go on");
    drop(db);
    assert_same(&contents(&options(&env.kill()).open(STORE).unwrap()).unwrap(), &model, "reopened");
}

/// The system writes pages back in any order: here all of an arena's but the first. With a sync in between that is damage.
#[test]
fn records_that_reach_the_disk_before_the_header_of_their_arena() {
    for synced in [false, true] {
        records_without_header(synced);
    }
}

fn records_without_header(synced: bool) {
    let env = MemoryEnv::new();
    let db = options(&env).open(STORE).unwrap();
    let mut model = Model::new();
    put_many(&db, &mut model, 4 * MORE_THAN_HALF - 30);
    if synced {
        db.sync().unwrap();
    }
    put_many(&db, &mut model, 30);
    until_quiet(&env);
    let flushed = db.stats().index_keys;
    let arena =
        (1..9).map(|generation| format!("/db/{generation:010}.arena")).rfind(|path| env.content(path).is_some());
    let arena = arena.unwrap();
    let crashed = env.crash();
    let mut bytes = crashed.content(&arena).unwrap_or_default();
    env.fail_at(env.operation_count(), Failure::FailedSync, Repeat::ForGood);
    drop(db);
    let written = env.content(&arena).unwrap();
    assert!(written[4096..].iter().any(|&byte| byte != 0), "there are records behind the first page");
    bytes.resize(4096, 0);
    bytes.truncate(4096);
    if synced {
        bytes.fill(0);
    }
    bytes.extend_from_slice(&written[4096..]);
    crashed.set_content(&arena, &bytes);
    if synced {
        assert_eq!(options(&crashed).open(STORE).unwrap_err().kind(), ErrorKind::Corruption);
        return;
    }
    let db = options(&crashed).open(STORE).unwrap();
    let expected = model.into_iter().take(flushed as usize).collect();
    assert_same(&contents(&db).unwrap(), &expected, "nothing was synced, and the first record is lost");
}

/// A recovery was cut short by a power cut, and the arena that it was filling lost its first page.
#[test]
fn an_unfinished_arena_of_a_recovery_without_its_header() {
    let env = MemoryEnv::new();
    // So large that what is copied takes several records.
    let open = |env: &MemoryEnv| options(env).memtable_bytes(16 << 20).open(STORE);
    let db = open(&env).unwrap();
    let mut model = Model::new();
    for number in 0..60 {
        db.put([number], vec![number; 40_000]).unwrap();
        model.insert(vec![number], vec![number; 40_000]);
    }
    drop(db);
    let recovering = env.kill();
    drop(open(&recovering).unwrap());
    // The arena of the copies, in the store as it was before: the MANIFEST does not know it.
    let mut bytes = recovering.content("/db/0000000002.arena").unwrap();
    assert_eq!(&bytes[..8], b"SLMARENA");
    bytes[..4096].fill(0);
    env.set_content("/db/0000000002.arena", &bytes);
    let db = open(&env).unwrap();
    assert_same(&contents(&db).unwrap(), &model, "recovered");
}

/// A kill, and then a power cut at every operation of the recovery and of the clean close after it.
#[test]
fn a_power_cut_while_a_killed_store_recovers() {
    for (count, what) in [(20, "moved into the new arena"), (200, "flushed")] {
        let env = MemoryEnv::new();
        let db = options(&env).open(STORE).unwrap();
        let mut model = Model::new();
        put_many(&db, &mut model, 5);
        db.sync().unwrap();
        put_many(&db, &mut model, count - 5);
        until_quiet(&env);
        // What is not synced is in the page cache alone.
        env.fail_at(env.operation_count(), Failure::FailedSync, Repeat::ForGood);
        drop(db);
        assert_same(&contents(&options(&env.kill()).open(STORE).unwrap()).unwrap(), &model, what);
        for k in 0.. {
            let recovering = env.kill();
            recovering.fail_at(k, Failure::Io, Repeat::ForGood);
            drop(options(&recovering).open(STORE));
            if recovering.failures_struck() == 0 {
                assert!(k > 20);
                break;
            }
            for (after, cut) in [(recovering.crash(), "power cut"), (recovering.kill(), "kill")] {
                let context = format!("{what}: {cut} at operation {k} of the recovery");
                let db = options(&after).open(STORE).unwrap_or_else(|error| panic!("{context}: {error:?}"));
                let found = contents(&db).unwrap();
                assert!(found.len() >= 5, "{context}: synced writes are lost");
                let prefix = model.iter().take(found.len()).map(|(key, value)| (key.clone(), value.clone())).collect();
                assert_same(&found, &prefix, &context);
                assert_verified(&db, &context);
            }
        }
    }
}

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
    let home = Home::new(On::Emulated);
    let db = home.open();
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

#[test]
fn files_of_large_arenas_are_not_kept_to_be_recycled() {
    let home = Home::new(On::Dram);
    let db = home.open();
    for number in 0..3 {
        db.put(format!("large{number}"), vec![7; 3 << 20]).unwrap();
    }
    db.flush().unwrap();
    wait_until("large arenas are gone", || {
        let entries = slmdb_env::OsEnv::new().list_directory(&home.store()).unwrap();
        entries.iter().filter(|entry| entry.name.ends_with(".arena")).all(|entry| entry.length_bytes < 1 << 20)
    });
}

#[test]
fn an_arena_with_the_last_of_all_generations_is_an_error_and_no_overflow() {
    for generation in [u64::MAX, u64::MAX - 1] {
        let env = MemoryEnv::new();
        options(&env).open(STORE).unwrap().put("k", "v").unwrap();
        env.set_content(format!("/db/{generation}.arena"), b"");
        let error = options(&env).open(STORE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
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
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Full);
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

/// Recovery took away the input of a compaction because the MANIFEST did not name it any more; that it did not was in the memory of the
/// system alone, and after a power cut the MANIFEST named a file that was gone.
#[test]
fn recovery_removes_nothing_before_the_manifest_that_says_so_is_durable() {
    for failure in [Failure::FailedSync, Failure::Io] {
        let env = MemoryEnv::new();
        let options = options(&env)
            .compaction(slmdb::CompactionOptions { policy: slmdb::CompactionPolicy::Manual, ..Default::default() });
        let mut model = Model::new();
        let db = options.open(STORE).unwrap();
        for round in 0..3 {
            for number in 0..20 {
                let (key, value) = (format!("key {number}").into_bytes(), format!("value {round}").into_bytes());
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            db.flush().unwrap();
        }
        until_quiet(&env);
        // The record of the compaction is written, and its sync fails.
        env.fail_next("sync /db/MANIFEST", failure, Repeat::Once);
        let struck = env.failures_struck();
        assert!(db.compact_range::<&[u8]>(..).is_err());
        assert_eq!(env.failures_struck(), struck + 1);
        until_quiet(&env);
        let killed = env.kill();
        killed.fail_next("sync /db/MANIFEST.tmp", Failure::Io, Repeat::ForGood);
        let opened = options.clone().env(Arc::new(killed.clone())).open(STORE);
        assert!(opened.is_err(), "it can't have written its MANIFEST");
        let cut = killed.crash();
        let db = options.clone().env(Arc::new(cut)).open(STORE).unwrap();
        assert_verified(&db, "after kill and power cut");
        assert_same(&contents(&db).unwrap(), &model, "after kill and power cut");
    }
}
