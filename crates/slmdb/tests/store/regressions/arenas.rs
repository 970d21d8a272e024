//! Bugs of arenas and their files.

use super::{MORE_THAN_HALF, STORE, options, put_many, until_quiet};
use crate::common::{Home, Model, On, assert_same, assert_verified, contents, wait_until};
use slmdb::{ErrorKind, Medium};
use slmdb_env::Env;
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

/// A manifest that was full leaves no second arena of one generation.
#[test]
fn a_full_manifest_leaves_no_second_arena_of_a_generation() {
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

/// An arena with the last of all generations is an error and no overflow.
#[test]
fn an_arena_with_the_last_generation_is_an_error() {
    for generation in [u64::MAX, u64::MAX - 1] {
        let env = MemoryEnv::new();
        options(&env).open(STORE).unwrap().put("k", "v").unwrap();
        env.set_content(format!("/db/{generation}.arena"), b"");
        let error = options(&env).open(STORE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    }
}
