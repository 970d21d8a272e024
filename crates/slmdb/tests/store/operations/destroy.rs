//! Destroying a store: all of it, nothing else, and whatever cuts it short.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{Home, MEDIA, Model, assert_same, contents};
use slmdb::{Db, ErrorKind, Medium, Options, PoolFate, destroy};
use slmdb_env::Env;
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

const STORE: &str = "/above/db";
const POOL: &str = "/pools/pool";
const FOREIGN: &str = "/above/db/notes.txt";

fn fill(db: &Db) -> Model {
    let mut model = Model::new();
    for number in 0..60 {
        let (key, value) = (format!("{number:04}").into_bytes(), vec![number; 100]);
        db.put(&key, &value).unwrap();
        model.insert(key, value);
        if number % 25 == 24 {
            db.flush().unwrap();
        }
    }
    model
}

#[test]
fn everything_of_a_store_goes_on_every_medium() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        fill(&db);
        let error = destroy(home.store(), &Options::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked, "{on:?}: {error}");
        db.close().unwrap();
        let reader = home.options().read_only(true).open(home.store()).unwrap();
        assert_eq!(destroy(home.store(), &Options::default()).unwrap_err().kind(), ErrorKind::Locked);
        assert_eq!(contents(&reader).unwrap().len(), 60);
        drop(reader);

        let destroyed = destroy(home.store(), &Options::default()).unwrap();
        assert!(
            destroyed.files >= 2 + u64::from(crate::common::flushes_to_files(on)) && destroyed.bytes > 1000,
            "{destroyed:?}"
        );
        assert!(!home.store().exists());
        match home.pool() {
            None => assert_eq!(destroyed.pool, PoolFate::None),
            Some(pool) => {
                assert!(!pool.exists());
                assert_eq!(destroyed.pool, PoolFate::Removed(pool));
            }
        }
        assert_eq!(destroy(home.store(), &Options::default()).unwrap_err().kind(), ErrorKind::Invalid);
        assert!(contents(&home.open()).unwrap().is_empty(), "a new one in its place");
    }
}

#[test]
fn what_is_not_the_stores_stays() {
    let home = Home::new(crate::common::On::Emulated);
    fill(&home.open());
    let foreign = ["notes.txt", "0000000001.sst.bak", "1.sst", "LOCK.old"];
    for name in foreign {
        std::fs::write(home.store().join(name), "mine").unwrap();
    }
    std::fs::create_dir(home.store().join("0000000009.sst")).unwrap();
    let other = Home::new(crate::common::On::Emulated);
    other.open().close().unwrap();
    std::fs::copy(other.pool().unwrap(), home.pool().unwrap()).unwrap();

    let destroyed = destroy(home.store(), &Options::default()).unwrap();
    assert_eq!(destroyed.left, ["0000000001.sst.bak", "0000000009.sst", "1.sst", "LOCK.old", "notes.txt"]);
    assert!(
        matches!(&destroyed.pool, PoolFate::Left { path: Some(path), .. } if *path == home.pool().unwrap()),
        "{destroyed:?}"
    );
    assert!(home.pool().unwrap().exists());
    let mut left: Vec<_> = std::fs::read_dir(home.store()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["0000000001.sst.bak", "0000000009.sst", "1.sst", "LOCK.old", "notes.txt"]);
    for name in foreign {
        assert_eq!(std::fs::read(home.store().join(name)).unwrap(), b"mine");
    }
    assert_eq!(destroy(home.store(), &Options::default()).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_directory_that_is_no_store_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    for (name, names) in [
        ("empty", &[][..]),
        ("leveldb", &["LOCK", "CURRENT", "MANIFEST-000001", "000004.ldb"]),
        ("rocksdb", &["LOCK", "CURRENT", "000012.sst"]),
        ("python", &["MANIFEST", "MANIFEST.in", "setup.py"]),
        ("another", &["MANIFEST", "LOCK"]),
    ] {
        let path = directory.path().join(name);
        std::fs::create_dir(&path).unwrap();
        for name in names {
            std::fs::write(path.join(name), "include README").unwrap();
        }
        let error = destroy(&path, &Options::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), names.len(), "{name}");
    }
    assert!(destroy(directory.path().join("missing"), &Options::default()).is_err());
}

#[test]
fn a_moved_pool_is_found_by_the_path_that_is_told() {
    let home = Home::new(crate::common::On::Emulated);
    fill(&home.open());
    let moved = home.pool().unwrap().with_file_name("moved");
    std::fs::rename(home.pool().unwrap(), &moved).unwrap();
    let wrong = destroy(home.store(), &Options::default().medium(Medium::Dram)).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Invalid);
    assert_eq!(
        contents(&home.on(home.options()).medium(Medium::Emulated { path: moved.clone() }).open(home.store()).unwrap())
            .unwrap()
            .len(),
        60
    );
    let options = Options::default().medium(Medium::Emulated { path: moved.clone() });
    assert_eq!(destroy(home.store(), &options).unwrap().pool, PoolFate::Removed(moved.clone()));
    assert!(!moved.exists() && !home.store().exists());
}

/// A store with a damaged manifest goes and its pool is said to stay.
#[test]
fn a_store_with_a_damaged_manifest_goes_without_its_pool() {
    let home = Home::new(crate::common::On::Emulated);
    fill(&home.open());
    std::fs::write(home.store().join("MANIFEST"), "slmdbMAN, and no more").unwrap();
    let destroyed = destroy(home.store(), &Options::default()).unwrap();
    assert!(matches!(destroyed.pool, PoolFate::Left { path: None, .. }), "{destroyed:?}");
    assert!(home.pool().unwrap().exists() && !home.store().exists());
}

fn options(env: &MemoryEnv, medium: &Medium) -> Options {
    crate::common::options()
        .env(Arc::new(env.clone()))
        .medium(medium.clone())
        .memtable_bytes(4 << 10)
        .memory_budget_bytes(1 << 16)
        .pool_initial_bytes(1 << 20)
        .pool_maximum_bytes(1 << 28)
}

/// The store is whole; or it is none, and destroying it again leaves nothing but what is not its own.
fn check(env: &MemoryEnv, medium: &Medium, model: &Model, context: &str) -> bool {
    let options = options(env, medium);
    let is_whole = match options.clone().create_if_missing(false).open(STORE) {
        Ok(db) => {
            assert_same(&contents(&db).unwrap(), model, context);
            db.close().unwrap();
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{context}: {error}");
            if env.exists(&Path::new(STORE).join("MANIFEST.destroyed")).unwrap() {
                let error = options.open(STORE).unwrap_err();
                assert!(error.to_string().contains("destroy it again"), "{context}: nothing is made over it: {error}");
            }
            false
        }
    };
    match destroy(STORE, &options) {
        Ok(destroyed) => assert_eq!(destroyed.left, ["notes.txt"], "{context}"),
        Err(error) => assert!(!is_whole && error.kind() == ErrorKind::Invalid, "{context}: {error}"),
    }
    let left: Vec<_> = env.list_directory(Path::new(STORE)).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(left, ["notes.txt"], "{context}");
    assert!(!env.exists(Path::new(POOL)).unwrap(), "{context}");
    is_whole
}

#[test]
fn cut_short_anywhere_it_is_whole_or_can_be_finished() {
    for medium in [Medium::Dram, Medium::Emulated { path: PathBuf::from(POOL) }] {
        let env = MemoryEnv::new();
        env.create_directory(Path::new("/pools")).unwrap();
        env.sync_directory(Path::new("/")).unwrap();
        let db = options(&env, &medium).open(STORE).unwrap();
        let model = fill(&db);
        db.close().unwrap();
        env.set_content(FOREIGN, b"mine");
        let (mut whole, mut gone) = (0, 0);
        for k in 0.. {
            let env = env.kill();
            let before = env.operations().len() as u64;
            env.fail_at(before + k, Failure::Io, Repeat::ForGood);
            let destroyed = destroy(STORE, &options(&env, &medium));
            let is_over = env.failures_struck() == 0;
            assert_eq!(destroyed.is_ok(), is_over);
            env.clear_failures();
            for (what, left) in [("killed", env.kill()), ("power cut", env.crash())] {
                let context = format!("{medium:?}, {what} at operation {k}");
                if check(&left, &medium, &model, &context) {
                    whole += 1
                } else {
                    gone += 1
                }
                assert_eq!(left.content(FOREIGN).as_deref(), Some(&b"mine"[..]), "{context}");
            }
            // The same process tries again.
            check(&env, &medium, &model, &format!("{medium:?}, again after operation {k}"));
            if is_over {
                assert!(k > 15, "only {k} operations");
                break;
            }
        }
        println!("{medium:?}: {whole} times whole, {gone} times gone");
        assert!(whole > 5 && gone > 10, "{whole} {gone}");
    }
}

#[test]
fn the_directory_is_durably_gone_if_it_was_the_stores_alone() {
    let env = MemoryEnv::new();
    let options = options(&env, &Medium::Dram);
    fill(&options.open(STORE).unwrap());
    destroy(STORE, &options).unwrap();
    for env in [env.crash(), env.kill(), env] {
        assert!(!env.exists(Path::new(STORE)).unwrap());
        assert!(env.exists(Path::new("/above")).unwrap());
    }
}
