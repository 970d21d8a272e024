//! Which engine a store has: it keeps the one that it was made with.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::common::{self, engine, engines};
use slmdb::{EngineName, Error, ErrorKind, Medium, Options};
use slmdb_env::Env;
use slmdb_manifest::{Manifest, StoreState};
use slmdb_testkit::MemoryEnv;

const STORE: &str = "/db";

fn options(env: &MemoryEnv, medium: &Medium) -> Options {
    common::options()
        .env(Arc::new(env.clone()))
        .medium(medium.clone())
        .pool_initial_bytes(1 << 20)
        .memtable_bytes(64 << 10)
}

fn media() -> [Medium; 2] {
    [Medium::Dram, Medium::Emulated { path: "/pool".into() }]
}

/// All files that there are, with their bytes.
fn files(env: &MemoryEnv) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut files = BTreeMap::from([("/pool".to_string(), env.content("/pool"))]);
    for entry in env.list_directory(Path::new(STORE)).unwrap_or_default() {
        let path = format!("{STORE}/{}", entry.name);
        let content = env.content(&path);
        files.insert(path, content);
    }
    files
}

#[test]
fn a_store_keeps_its_engine_and_refuses_another() {
    for medium in media() {
        let env = MemoryEnv::new();
        let own = options(&env, &medium);
        let db = own.open(STORE).unwrap();
        assert_eq!(db.stats().engine, engine().as_str());
        db.put("k", "v").unwrap();
        db.close().unwrap();

        let before = files(&env);
        for other in EngineName::ALL.into_iter().filter(|other| *other != engine()) {
            let asked = own.clone().engine(other);
            let refused = [
                asked.open(STORE).map(drop),
                asked.clone().read_only(true).open(STORE).map(drop),
                asked.repair(STORE, &mut |_| ()).map(drop),
                slmdb::destroy(STORE, &asked).map(drop),
            ];
            for refused in refused {
                let error = refused.unwrap_err();
                assert!(
                    matches!(&error, Error::Invalid { what } if what.contains(engine().as_str())),
                    "{other}: {error}"
                );
            }
        }
        assert_eq!(files(&env), before, "not a byte has changed");

        let db = own.engine(engine()).open(STORE).unwrap();
        assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"v"[..]));
    }
}

#[test]
fn a_store_is_opened_by_its_own_engine_if_none_is_named() {
    let env = MemoryEnv::new();
    options(&env, &Medium::Dram).open(STORE).unwrap().close().unwrap();
    let db = Options::default().env(Arc::new(env)).open(STORE).unwrap();
    assert_eq!(db.stats().engine, engine().as_str());
}

#[test]
fn a_new_store_is_made_by_slm_if_no_engine_is_named() {
    let db = Options::default().env(Arc::new(MemoryEnv::new())).open(STORE).unwrap();
    assert_eq!(db.stats().engine, "slm");
}

#[test]
fn an_engine_that_this_build_lacks_makes_no_store() {
    for medium in media() {
        for lacking in EngineName::ALL.into_iter().filter(|name| !engines().contains(name)) {
            let env = MemoryEnv::new();
            let error = options(&env, &medium).engine(lacking).open(STORE).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(lacking.as_str()), "{error}");
            assert!(!env.exists(Path::new(STORE)).unwrap() && !env.exists(Path::new("/pool")).unwrap());
        }
    }
}

/// Another build may have engines that this one has never heard of.
#[test]
fn a_store_of_an_unknown_engine_is_left_alone() {
    for engine in ["of the future", "of the past"] {
        let env = MemoryEnv::new();
        let own = options(&env, &Medium::Dram);
        own.open(STORE).unwrap().close().unwrap();
        let state = Manifest::read(&env, Path::new(STORE)).unwrap().state;
        drop(Manifest::rewrite(&env, Path::new(STORE), &StoreState { engine: engine.into(), ..state }).unwrap());

        let before = files(&env);
        for refused in
            [own.open(STORE).map(drop), own.repair(STORE, &mut |_| ()).map(drop), slmdb::destroy(STORE, &own).map(drop)]
        {
            let error = refused.unwrap_err();
            assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains(engine), "{engine}: {error}");
        }
        assert_eq!(files(&env), before, "not a byte has changed");
    }
}
