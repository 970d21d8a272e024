//! A disk that is full, and then is not.

use slmdb::{ErrorKind, Options};
use slmdb_env::memory::MemoryEnv;

use crate::common::{Model, assert_same, assert_verified, contents};
use crate::workload::{STORE, Store};

fn options(env: &MemoryEnv) -> Options {
    Store::Dram.options(env).sync(true)
}

/// A full disk refuses writes and the store goes on when there is space.
#[test]
fn a_full_disk_refuses_writes_until_there_is_space() {
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

/// A store opened on a full disk takes writes as soon as there is space.
#[test]
fn a_store_opened_on_a_full_disk_takes_writes_with_space() {
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
