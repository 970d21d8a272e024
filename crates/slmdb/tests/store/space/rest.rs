//! What a store gives back once nobody writes to it any more: what was made ahead of writes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use slmdb::{Db, Medium, Options, Shared, SharedOptions};
use slmdb_env::Env;
use slmdb_testkit::MemoryEnv;

use crate::common::{self, Model, assert_same, assert_verified, contents, wait_until};

const STORE: &str = "/db";
const MEMTABLE_BYTES: u64 = 256 << 10;
const CAPACITY_BYTES: u64 = 1 << 30;
/// After this time a store gives back what it does not need at rest.
const LONG_REST_NS: u64 = 20_000_000_000;
/// In this time it has looked at the clock.
const LOOKS_AGAIN: Duration = Duration::from_millis(2500);

fn options(env: &MemoryEnv, medium: &Medium) -> Options {
    let options = common::options().env(Arc::new(env.clone())).medium(medium.clone());
    options.memtable_bytes(MEMTABLE_BYTES).memory_budget_bytes(1 << 16).pool_initial_bytes(16 << 20)
}

/// The number and bytes of files that end so.
fn files(env: &MemoryEnv, end: &str) -> (usize, u64) {
    let entries = env.list_directory(Path::new(STORE)).unwrap();
    let lengths: Vec<u64> =
        entries.iter().filter(|entry| entry.name.ends_with(end)).map(|entry| entry.length_bytes).collect();
    (lengths.len(), lengths.iter().sum())
}

fn put_many(db: &Db, model: &mut Model, count: usize) {
    for number in model.len()..model.len() + count {
        let (key, value) = (format!("key {number:06}").into_bytes(), vec![number as u8; 1000]);
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    }
}

/// Writes until arenas are there to be recycled, and a spare for the MemTable that is more than half full.
fn written(env: &MemoryEnv, medium: &Medium) -> (Db, Model) {
    let (db, mut model) = (options(env, medium).open(STORE).unwrap(), Model::new());
    put_many(&db, &mut model, 2000);
    db.flush().unwrap();
    put_many(&db, &mut model, 160);
    wait_until("a spare and its space are there", || files(env, ".space").0 == 3);
    (db, model)
}

#[test]
fn a_store_at_rest_gives_back_what_was_made_ahead_of_writes() {
    // (With a pool, TLSM sets no files aside.)
    let media = if crate::common::is_tlsm() { 1 } else { 2 };
    for medium in [Medium::Dram, Medium::Emulated { path: "/pool".into() }].into_iter().take(media) {
        let env = MemoryEnv::new();
        let (db, mut model) = written(&env, &medium);
        let arenas = usize::from(medium == Medium::Dram && !common::shares());
        let made = files(&env, ".space").1;
        assert!(files(&env, ".arena").0 >= 2 * arenas && made > 2 * MEMTABLE_BYTES, "{made} bytes");
        // Not before it has rested for long.
        let before = (files(&env, ".arena"), files(&env, ".space"));
        std::thread::sleep(LOOKS_AGAIN);
        assert_eq!((files(&env, ".arena"), files(&env, ".space")), before, "on {medium:?}");
        // The active MemTable's arena, and space for what is in it, for a step more, and for one file in the reserve. (It may
        // see the last writes only after the clock is put on. Then the rest begins there.)
        wait_until("it has given back", || {
            env.advance_clock(LONG_REST_NS);
            let reserve_bytes = files(&env, "RESERVE.space").1;
            files(&env, ".arena").0 == arenas && files(&env, ".space").1 - reserve_bytes < MEMTABLE_BYTES
        });
        assert_same(&contents(&db).unwrap(), &model, "at rest");
        // It goes on as before, and comes to rest again.
        put_many(&db, &mut model, 2000);
        put_many(&db, &mut model, 30);
        db.flush().unwrap();
        wait_until("it has given back again", || {
            env.advance_clock(LONG_REST_NS);
            files(&env, ".arena").0 == arenas
        });
        db.delete("key 000000").unwrap();
        model.remove(b"key 000000".as_slice());
        // What is left is what an opening after a kill needs. (The pool of this environment survives none.)
        let killed = (medium == Medium::Dram).then(|| env.kill());
        db.close().unwrap();
        let env = killed.unwrap_or(env);
        let db = options(&env, &medium).open(STORE).unwrap();
        assert_same(&contents(&db).unwrap(), &model, "after a kill");
        assert_verified(&db, "after a kill");
    }
}

/// There may be thousands of them: each has a MemTable only while it is written to.
#[test]
fn a_store_that_shares_has_no_memtable_before_it_is_written_to_nor_at_rest() {
    let env = MemoryEnv::new();
    let shared = Shared::new(SharedOptions::default()).unwrap();
    let open = |env: &MemoryEnv| options(env, &Medium::Dram).shared(&shared).open(STORE).unwrap();
    let has_none = |env: &MemoryEnv| files(env, ".arena").0 == 0 && files(env, ".space").1 < MEMTABLE_BYTES;
    let mut model = Model::new();
    let mut db = open(&env);
    for round in 0..3 {
        assert!(has_none(&env), "round {round}: opened");
        assert_same(&contents(&db).unwrap(), &model, "opened");
        // (Nothing was written to the MemTable of the second round but what a flush took.)
        put_many(&db, &mut model, 30);
        assert_eq!(files(&env, ".arena").0, 1);
        if round == 1 {
            db.flush().unwrap();
        }
        wait_until("it is at rest", || {
            env.advance_clock(LONG_REST_NS);
            has_none(&env)
        });
        assert_same(&contents(&db).unwrap(), &model, "at rest");
        assert!(!db.insert_if_absent("key 000000", "other").unwrap());
        db.delete("not there").unwrap();
        assert_verified(&db, "after a rest");
        db.flush().unwrap();
        wait_until("it is at rest again", || {
            env.advance_clock(LONG_REST_NS);
            has_none(&env)
        });
        db.close().unwrap();
        db = open(&env);
    }
    // Killed, with something in the log.
    put_many(&db, &mut model, 3);
    let killed = env.kill();
    drop(db);
    assert_same(&contents(&open(&killed)).unwrap(), &model, "killed");
}

/// What were given back could perhaps not be had again there.
#[test]
fn a_store_at_rest_keeps_all_that_it_has_on_a_disk_without_plenty() {
    let env = MemoryEnv::new();
    env.set_capacity(CAPACITY_BYTES);
    let (db, mut model) = written(&env, &Medium::Dram);
    let free_bytes = env.available_bytes(Path::new(STORE)).unwrap();
    env.set_capacity(CAPACITY_BYTES - free_bytes + 2 * MEMTABLE_BYTES);
    let before = (files(&env, ".arena"), files(&env, ".space").1);
    env.advance_clock(LONG_REST_NS);
    std::thread::sleep(LOOKS_AGAIN);
    // (The reserve may have grown with what a compaction has written.)
    assert_eq!(files(&env, ".arena"), before.0);
    assert!(files(&env, ".space").1 >= before.1, "{before:?}");
    put_many(&db, &mut model, 10);
    assert_verified(&db, "after a rest");
}
