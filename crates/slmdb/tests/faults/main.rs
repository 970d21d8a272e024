//! File operations that fail, one after the other: the k-th of a workload, for every k until none is left to fail, in
//! every way the environment in memory knows, once and for good. Then the machine loses power, or the process is killed.
//! Whatever a synced write was acknowledged for is there, of a refused one all or nothing, and the store opens.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Model, Random, assert_same, assert_verified, contents, eager_compaction};
use slmdb::{CompactionOptions, ErrorKind, Options};
use slmdb_env::memory::{Failure, MemoryEnv, Repeat};

const STORE: &str = "/db";

fn options(env: &MemoryEnv) -> Options {
    Options::default()
        .env(Arc::new(env.clone()))
        .sync(true)
        .memtable_bytes(4 << 10)
        .compaction(CompactionOptions { table_file_bytes: 1 << 10, ..eager_compaction() })
        .checkpoint_entries(64)
        .memory_budget_bytes(1 << 16)
        .pool_initial_bytes(1 << 20)
        .pool_maximum_bytes(1 << 28)
}

/// What the store may hold: certain changes are applied to both, those that failed to `maybe` alone.
#[derive(Default)]
struct Expected {
    certain: Model,
    /// Changes whose write gave an error: each may be there, wholly, unless a later acknowledged one says otherwise.
    refused: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Writes, flushes, reopens; stops at nothing. Returns what was acknowledged.
fn workload(env: &MemoryEnv) -> Expected {
    let mut expected = Expected::default();
    let mut random = Random(7);
    for _ in 0..3 {
        let Ok(db) = options(env).open(STORE) else { continue };
        for number in 0..40 {
            let key = format!("key{:02}", random.below(30)).into_bytes();
            let value = (!random.one_in(4)).then(|| vec![number; 90]);
            let written = match &value {
                Some(value) => db.put(&key, value),
                None => db.delete(&key),
            };
            match written {
                Ok(()) => {
                    expected.refused.retain(|(refused, _)| *refused != key);
                    match value {
                        Some(value) => drop(expected.certain.insert(key, value)),
                        None => drop(expected.certain.remove(&key)),
                    }
                }
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Full | ErrorKind::ReadOnly), "{error:?}");
                    expected.refused.push((key, value));
                }
            }
            if number == 25 {
                let _ = db.flush();
            }
            if number == 35 {
                let _ = db.compact_range::<&[u8]>(..);
            }
        }
        let _ = db.close();
    }
    expected
}

/// A refused write may have reached the arena before its sync failed; then recovery finds it.
fn check(env: &MemoryEnv, expected: &Expected, context: &str) {
    let db = options(env).open(STORE).unwrap_or_else(|error| panic!("{context}: does not open: {error:?}"));
    let mut found = contents(&db).unwrap();
    assert_verified(&db, context);
    for (key, _) in &expected.refused {
        let possible = std::iter::once(expected.certain.get(key).cloned())
            .chain(expected.refused.iter().filter(|(other, _)| other == key).map(|(_, value)| value.clone()));
        let now = found.get(key).cloned();
        assert!(
            possible.into_iter().any(|value| value == now),
            "{context}: key {} has a strange value",
            key.escape_ascii()
        );
    }
    let mut certain = expected.certain.clone();
    for (key, _) in &expected.refused {
        found.remove(key);
        certain.remove(key);
    }
    assert_same(&found, &certain, context);
    db.put("afterwards", "it works").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
}

fn every_operation_fails_in_turn(failure: Failure, repeat: Repeat) {
    for k in 0.. {
        let env = MemoryEnv::new();
        env.fail_at(k, failure, repeat);
        let expected = workload(&env);
        if env.failures_struck() == 0 {
            assert!(k > 100, "the workload has too few operations to mean anything");
            println!("{failure:?} {repeat:?}: {k} places");
            return;
        }
        env.clear_failures();
        check(&env.crash(), &expected, &format!("{failure:?} {repeat:?} at operation {k}, then a power cut"));
        check(&env.kill(), &expected, &format!("{failure:?} {repeat:?} at operation {k}, then a kill"));
    }
}

#[test]
fn an_input_output_error_anywhere_once() {
    every_operation_fails_in_turn(Failure::Io, Repeat::Once);
}

#[test]
fn an_input_output_error_anywhere_for_good() {
    every_operation_fails_in_turn(Failure::Io, Repeat::ForGood);
}

#[test]
fn a_full_disk_anywhere() {
    every_operation_fails_in_turn(Failure::Full, Repeat::Once);
    every_operation_fails_in_turn(Failure::Full, Repeat::ForGood);
}

#[test]
fn a_short_write_anywhere() {
    every_operation_fails_in_turn(Failure::ShortWrite, Repeat::Once);
}

#[test]
fn a_failed_sync_anywhere() {
    every_operation_fails_in_turn(Failure::FailedSync, Repeat::Once);
    every_operation_fails_in_turn(Failure::FailedSync, Repeat::ForGood);
}

#[test]
fn a_full_disk_refuses_writes_and_the_store_goes_on_when_there_is_space() {
    let env = MemoryEnv::new();
    let db = options(&env).open(STORE).unwrap();
    env.set_capacity(64 << 10);
    let mut model = Model::new();
    let error = loop {
        let key = format!("{:05}", model.len()).into_bytes();
        match db.put(&key, [1; 200]) {
            Ok(()) => drop(model.insert(key, vec![1; 200])),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert_same(&contents(&db).unwrap(), &model, "while the disk is full");
    env.set_capacity(1 << 30);
    for number in 0..200 {
        let key = format!("later{number:05}").into_bytes();
        db.put(&key, [2; 200]).unwrap();
        model.insert(key, vec![2; 200]);
    }
    db.flush().unwrap();
    assert_same(&contents(&db).unwrap(), &model, "with space again");
    assert_verified(&db, "with space again");
    db.close().unwrap();
    assert_same(&contents(&options(&env).open(STORE).unwrap()).unwrap(), &model, "reopened");
}

#[test]
fn an_arena_that_found_no_space_is_not_left_behind() {
    let env = MemoryEnv::new();
    env.set_capacity(2 << 10);
    for _ in 0..3 {
        // There is room for a MANIFEST and for no arena: it opens, and takes no writes.
        let db = options(&env).open(STORE).unwrap();
        let error = db.put("k", "v").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        assert_eq!(db.get("k").unwrap(), None);
        let listed = slmdb_env::Env::list_directory(&env, std::path::Path::new(STORE)).unwrap();
        assert!(!listed.iter().any(|entry| entry.name.ends_with(".arena")), "{listed:?}");
    }
    env.set_capacity(1 << 20);
    let db = options(&env).open(STORE).unwrap();
    db.put("k", "v").unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_store_opened_on_a_full_disk_takes_writes_as_soon_as_there_is_space() {
    let env = MemoryEnv::new();
    env.set_capacity(2 << 10);
    let db = options(&env).open(STORE).unwrap();
    assert_eq!(db.put("k", "v").unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(db.delete("k").unwrap_err().kind(), ErrorKind::Full);
    db.flush().unwrap();
    env.set_capacity(1 << 20);
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    assert_eq!(options(&env).open(STORE).unwrap().get("k").unwrap().as_deref(), Some(&b"v"[..]));
}
