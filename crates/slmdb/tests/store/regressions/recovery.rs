//! Bugs of recovery.

use super::{MORE_THAN_HALF, STORE, options, put_many, until_quiet};
use crate::common::{Model, assert_same, assert_verified, contents};
use slmdb::ErrorKind;
use slmdb_env::Env;
use slmdb_manifest::Manifest;
use slmdb_testkit::{Failure, MemoryEnv, Repeat};
use std::path::Path;
use std::sync::Arc;

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

/// Recovery took away the input of a compaction because the MANIFEST did not name it any more; that it did not was in the memory of the
/// system alone, and after a power cut the MANIFEST named a file that was gone.
#[test]
fn recovery_removes_nothing_before_the_manifest_is_durable() {
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

/// The process was killed between the write and the sync of the record that says "closed". Recovery took the close for durable and removed
/// the arena of the spare MemTable; after a power cut the MANIFEST named an arena that was gone.
#[test]
fn recovery_removes_nothing_before_a_clean_close_is_durable() {
    for (count, has_spare) in [(20, false), (MORE_THAN_HALF, true)] {
        let env = MemoryEnv::new();
        let db = options(&env).open(STORE).unwrap();
        let mut model = Model::new();
        put_many(&db, &mut model, count);
        db.sync().unwrap();
        until_quiet(&env);
        // The last sync of the MANIFEST is that of the close.
        env.fail_next("sync /db/MANIFEST", Failure::Io, Repeat::Once);
        assert!(db.close().is_err());
        assert_eq!(env.failures_struck(), 1);
        let state = Manifest::read(&env, Path::new(STORE)).unwrap().state;
        assert!(state.closed_at_sequence.is_some(), "the record of the close is in the file");
        let entries = env.list_directory(Path::new(STORE)).unwrap();
        let arenas = entries.iter().filter(|entry| entry.name.ends_with(".arena")).count();
        assert_eq!(arenas > state.arenas.len(), has_spare, "the arena that the close gives up");
        for k in 0.. {
            let recovering = env.kill();
            recovering.fail_at(k, Failure::Io, Repeat::ForGood);
            let opened = options(&recovering).open(STORE).map(drop);
            let context = format!("{count} keys, power cut at operation {k} of the recovery");
            let db = options(&recovering.crash()).open(STORE).unwrap_or_else(|error| panic!("{context}: {error:?}"));
            assert_same(&contents(&db).unwrap(), &model, &context);
            assert_verified(&db, &context);
            if recovering.failures_struck() == 0 {
                opened.unwrap();
                assert!(k > 10);
                break;
            }
        }
    }
}

/// Only SLM-DB's index has all keys that were flushed.
mod slm {
    use super::*;

    /// The system writes pages back in any order: here all of an arena's but the first. With a sync in between that is damage.
    #[test]
    fn records_that_reach_the_disk_before_the_header_of_their_arena() {
        for synced in [false, true] {
            records_without_header(synced);
        }
    }
}
