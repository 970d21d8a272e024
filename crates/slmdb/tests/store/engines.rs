//! Which engine a store has: it keeps the one that it was made with.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use slmdb::{EngineName, Error, ErrorKind, Medium, Options};
use slmdb_env::Env;
use slmdb_env::memory::MemoryEnv;
use slmdb_manifest::{Manifest, StoreState};

const STORE: &str = "/db";

fn options(env: &MemoryEnv, medium: &Medium) -> Options {
    Options::default()
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
        assert_eq!(db.stats().engine, "slm", "the default");
        db.put("k", "v").unwrap();
        db.close().unwrap();

        let before = files(&env);
        for other in [EngineName::Lab, EngineName::Tlsm, EngineName::Chameleon] {
            let asked = own.clone().engine(other);
            let refused = [
                asked.open(STORE).map(drop),
                asked.clone().read_only(true).open(STORE).map(drop),
                asked.repair(STORE, &mut |_| ()).map(drop),
                slmdb::destroy(STORE, &asked).map(drop),
            ];
            for refused in refused {
                let error = refused.unwrap_err();
                assert!(matches!(&error, Error::Invalid { what } if what.contains("slm")), "{other}: {error}");
            }
        }
        assert_eq!(files(&env), before, "not a byte has changed");

        let db = own.engine(EngineName::Slm).open(STORE).unwrap();
        assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"v"[..]));
    }
}

#[test]
fn an_engine_that_this_build_lacks_makes_no_store() {
    for medium in media() {
        for lacking in [EngineName::Lab, EngineName::Tlsm, EngineName::Chameleon] {
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
    for engine in ["lab", "of the future"] {
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
