//! Stores among people: moved, copied, restored, reached through links, and mistaken for something else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{Home, MEDIA, Model, On, assert_same, assert_verified, contents};
use slmdb::{Db, ErrorKind, Medium, PoolFate};
use slmdb_env::Env;
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

/// As `cp -r` does it.
fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Every file of a directory, with its content. (The process that is in `LOCK` may be another one.)
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("LOCK"))
        .map(|path| (path.clone(), fs::read(&path).unwrap_or_default()))
        .collect();
    files.sort();
    files
}

fn beside(home: &Home, name: &str) -> PathBuf {
    home.store().with_file_name(name)
}

fn put(db: &Db, model: &mut Model, key: &str, value: &str) {
    db.put(key, value).unwrap();
    model.insert(key.into(), value.into());
}

/// Everything that a store does to its directory.
fn work(db: &Db, model: &mut Model, value: &str) {
    for round in 0..3 {
        for number in 0..200 {
            put(db, model, &format!("key{number:03}"), &format!("{value}{round}{}", "x".repeat(200)));
        }
        db.flush().unwrap();
    }
    db.compact_range::<&[u8]>(..).unwrap();
    put(db, model, "last", value);
}

#[test]
fn a_store_that_was_moved_writes_into_no_other() {
    for on in MEDIA {
        for by_link in [false, true] {
            let home = Home::new(on);
            let (real, moved, restored) = (home.store(), beside(&home, "moved"), beside(&home, "restored"));
            // The path that the store is opened by.
            let path = if by_link { beside(&home, "link") } else { real.clone() };
            let mut model = Model::new();
            let db = home.open();
            work(&db, &mut model, "before");
            db.checkpoint(&restored).unwrap();
            db.close().unwrap();
            let mut of_restored = model.clone();
            if by_link {
                symlink(&real, &path).unwrap();
            }
            let db = home.options().open(&path).unwrap();
            put(&db, &mut model, "open", "yes");
            // Another store gets the path of the open one.
            if by_link {
                fs::remove_file(&path).unwrap();
                symlink(&restored, &path).unwrap();
            } else {
                fs::rename(&real, &moved).unwrap();
                fs::rename(&restored, &real).unwrap();
            }
            let other = crate::common::options().open(&path).unwrap();
            put(&other, &mut of_restored, "fresh", "yes");
            work(&db, &mut model, "after");
            assert_verified(&db, "the store that was moved");
            let copy = beside(&home, "copy");
            db.checkpoint(&copy).unwrap();
            put(&db, &mut model, "copied", "yes");
            drop(db);
            assert_same(&contents(&other).unwrap(), &of_restored, "the other store");
            assert_verified(&other, "the other store");
            drop(other);
            let at = |directory: &Path| crate::common::options().open(directory).unwrap();
            let (own, others) = if by_link { (&real, &restored) } else { (&moved, &real) };
            let db = at(own);
            assert_same(&contents(&db).unwrap(), &model, "the store, opened where it was moved");
            assert_verified(&db, "the store, opened where it was moved");
            let other = at(others);
            assert_same(&contents(&other).unwrap(), &of_restored, "the other store, opened again");
            model.remove(&b"copied"[..]);
            assert_same(&contents(&at(&copy)).unwrap(), &model, "the copy");
        }
    }
}

#[test]
fn a_copied_directory_takes_no_pool_from_its_original() {
    for on in MEDIA.into_iter().filter(|on| *on != On::Dram) {
        for is_open in [false, true] {
            let home = Home::new(on);
            let (copy, pool) = (beside(&home, "copy"), home.pool().unwrap());
            let mut model = Model::new();
            let db = home.open();
            work(&db, &mut model, "both");
            let db = if is_open {
                Some(db)
            } else {
                db.close().unwrap();
                None
            };
            copy_directory(&home.store(), &copy);
            let (of_copy, of_pool) = (files(&copy), fs::read(&pool).unwrap());
            for options in [crate::common::options(), crate::common::options().read_only(true), home.options()] {
                let error = options.open(&copy).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                let text = error.to_string();
                assert!(text.contains("slmdb repair") && text.contains("slmdb checkpoint"), "{text}");
            }
            assert!(files(&copy) == of_copy, "a refused copy has changed");
            if !is_open {
                assert!(fs::read(&pool).unwrap() == of_pool, "a refused copy has changed the pool");
            }
            let repaired = Db::repair(&copy, &mut |_| ());
            if let Some(db) = db {
                assert_eq!(repaired.unwrap_err().kind(), ErrorKind::Locked, "the original has its pool open");
                put(&db, &mut model, "more", "yes");
                db.close().unwrap();
            } else {
                let report = repaired.unwrap();
                assert!(report.losses.is_empty() && report.set_aside.is_empty(), "{report:?}");
                assert_eq!(report.left_pool.as_deref(), Some(&*pool));
                let own = report.pool.unwrap();
                assert!(own != pool && own.exists());
                let db = crate::common::options().open(&copy).unwrap();
                assert_same(&contents(&db).unwrap(), &model, "the repaired copy");
                assert_verified(&db, "the repaired copy");
                db.put("of the copy", "alone").unwrap();
                db.close().unwrap();
                let destroyed = slmdb::destroy(&copy, &slmdb::Options::default()).unwrap();
                assert_eq!(
                    destroyed.pool,
                    PoolFate::Removed(fs::canonicalize(pool.parent().unwrap()).unwrap().join(own.file_name().unwrap()))
                );
                assert!(!own.exists());
            }
            if copy.exists() {
                let destroyed = slmdb::destroy(&copy, &slmdb::Options::default()).unwrap();
                assert!(matches!(destroyed.pool, PoolFate::Left { .. }), "{destroyed:?}");
                assert!(!copy.exists());
            }
            let db = home.open();
            assert_same(&contents(&db).unwrap(), &model, "the original");
            assert_verified(&db, "the original");
        }
    }
}

#[test]
fn a_copy_is_repaired_with_its_pool_where_it_is_told() {
    let home = Home::new(On::Emulated);
    let (copy, pool) = (beside(&home, "copy"), home.pool().unwrap());
    let mut model = Model::new();
    work(&home.open(), &mut model, "both");
    copy_directory(&home.store(), &copy);
    let with_pool = |path: &Path| crate::common::options().medium(Medium::Emulated { path: path.into() });
    let error = with_pool(&pool).repair(&copy, &mut |_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "the place of the original's pool: {error}");
    let own = pool.with_file_name("own");
    let report = with_pool(&own).repair(&copy, &mut |_| ()).unwrap();
    assert_eq!((report.pool.as_ref(), report.left_pool.as_ref()), (Some(&own), Some(&pool)));
    for directory in [&copy, &home.store()] {
        let db = crate::common::options().open(directory).unwrap();
        assert_same(&contents(&db).unwrap(), &model, "after the repair");
        assert_verified(&db, "after the repair");
    }
}

#[test]
fn a_store_with_a_pool_may_be_moved() {
    for on in MEDIA.into_iter().filter(|on| *on != On::Dram) {
        let home = Home::new(on);
        let (moved, pool) = (beside(&home, "moved"), home.pool().unwrap());
        let mut model = Model::new();
        work(&home.open(), &mut model, "mine");
        // Renamed.
        fs::rename(home.store(), &moved).unwrap();
        let db = crate::common::options().open(&moved).unwrap();
        put(&db, &mut model, "renamed", "yes");
        drop(db);
        // The pool, too.
        let elsewhere = pool.with_file_name("elsewhere");
        fs::rename(&pool, &elsewhere).unwrap();
        let named = || crate::common::options().medium(on.medium(Some(elsewhere.clone())));
        let db = named().open(&moved).unwrap();
        put(&db, &mut model, "pool renamed", "yes");
        drop(db);
        // To another file system: copied with its pool, and the pool is named.
        let (far, far_pool) = (beside(&home, "far"), pool.with_file_name("far"));
        copy_directory(&moved, &far);
        fs::copy(&elsewhere, &far_pool).unwrap();
        assert_eq!(crate::common::options().open(&far).unwrap_err().kind(), ErrorKind::Invalid);
        let db = crate::common::options().medium(on.medium(Some(far_pool.clone()))).open(&far).unwrap();
        put(&db, &mut model, "far", "yes");
        drop(db);
        let db = crate::common::options().open(&far).unwrap();
        assert_same(&contents(&db).unwrap(), &model, "moved with its pool");
        assert_verified(&db, "moved with its pool");
    }
}

#[test]
fn an_older_copy_of_the_pool_is_refused() {
    let home = Home::new(On::Emulated);
    let pool = home.pool().unwrap();
    let older = pool.with_file_name("older");
    let mut model = Model::new();
    work(&home.open(), &mut model, "first");
    fs::copy(&pool, &older).unwrap();
    work(&home.open(), &mut model, "second");
    let options = home.options().medium(Medium::Emulated { path: older.clone() });
    let before = fs::read(&older).unwrap();
    for options in [options.clone(), options.read_only(true)] {
        let error = options.open(home.store()).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("older copy"), "{error}");
    }
    assert!(fs::read(&older).unwrap() == before);
    let db = home.open();
    assert_same(&contents(&db).unwrap(), &model, "with its own pool");
}

#[test]
fn no_store_is_made_among_the_files_of_others() {
    let above = tempfile::tempdir().unwrap();
    for (name, others) in [
        ("leveldb", &["CURRENT", "LOCK", "LOG", "000003.log", "000005.ldb", "MANIFEST-000002"][..]),
        ("rocksdb", &["CURRENT", "IDENTITY", "LOCK", "LOG", "OPTIONS-000007", "000012.sst", "MANIFEST-000005"]),
        ("lmdb", &["data.mdb", "lock.mdb"]),
        ("notes", &["notes.txt"]),
        ("hidden", &[".keep"]),
    ] {
        let directory = above.path().join(name);
        fs::create_dir(&directory).unwrap();
        others.iter().for_each(|file| fs::write(directory.join(file), file).unwrap());
        let before = files(&directory);
        let error = crate::common::options().open(&directory).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
        let error = slmdb::destroy(&directory, &slmdb::Options::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
        assert!(files(&directory) == before, "{name}");
    }
    // What a file system has at its root is nobody's.
    let root = above.path().join("mounted");
    fs::create_dir_all(root.join("lost+found")).unwrap();
    crate::common::options().open(&root).unwrap().put("k", "v").unwrap();
    // A store goes on beside what somebody has put there since.
    fs::write(root.join("notes.txt"), "mine").unwrap();
    assert!(crate::common::options().open(&root).unwrap().get("k").unwrap().is_some());
}

#[test]
fn nothing_is_made_inside_a_store() {
    let home = Home::new(On::Dram);
    let db = home.open();
    db.put("k", "v").unwrap();
    let other = Home::new(On::Dram);
    let of_other = other.open();
    let link = beside(&home, "link");
    symlink(home.store(), &link).unwrap();
    for inside in [home.store().join("below"), home.store().join("far/below"), link.join("below")] {
        let copied = of_other.checkpoint(&inside).unwrap_err();
        let made = crate::common::options().open(&inside).unwrap_err();
        let pool = Medium::Emulated { path: inside.clone() };
        let with_pool = crate::common::options().medium(pool).open(beside(&home, "new")).unwrap_err();
        for error in [copied, made, with_pool] {
            assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("inside"), "{error}");
        }
        assert!(slmdb::containing_store(&inside).unwrap().is_some());
    }
    assert!(slmdb::containing_store(home.store()).unwrap().is_none());
    assert!(slmdb::containing_store(beside(&home, "new")).unwrap().is_none());
    assert!(!home.store().join("below").exists() && !beside(&home, "new").exists());
    assert_verified(&db, "the store");
}

#[test]
fn destroy_through_links_removes_what_is_behind_them() {
    for on in MEDIA {
        let home = Home::new(on);
        let (link, real_pool) = (beside(&home, "link"), home.pool().map(|pool| pool.with_file_name("real")));
        if let (Some(pool), Some(real)) = (home.pool(), &real_pool) {
            symlink(real, pool).unwrap();
        }
        home.open().put("k", "v").unwrap();
        symlink(home.store(), &link).unwrap();
        let destroyed = slmdb::destroy(&link, &slmdb::Options::default()).unwrap();
        assert!(destroyed.files >= 2 && destroyed.left.is_empty() && !destroyed.is_directory_left, "{destroyed:?}");
        assert!(!home.store().exists() && link.is_symlink());
        if let Some(real) = real_pool {
            let real = fs::canonicalize(real.parent().unwrap()).unwrap().join("real");
            assert!(!real.exists());
            assert_eq!(destroyed.pool, PoolFate::Removed(real));
        }
        assert_eq!(slmdb::destroy(&link, &slmdb::Options::default()).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_store_that_may_only_be_read_can_be_copied() {
    for on in MEDIA {
        let home = Home::new(on);
        let copy = beside(&home, "copy");
        let mut model = Model::new();
        let db = home.open();
        work(&db, &mut model, "old");
        db.delete("key000").unwrap();
        model.remove(&b"key000"[..]);
        put(&db, &mut model, "in a MemTable", "yes");
        db.close().unwrap();
        let before = files(&home.store());
        let reader = home.options().read_only(true).open(home.store()).unwrap();
        reader.checkpoint(&copy).unwrap();
        assert_eq!(reader.checkpoint(&copy).unwrap_err().kind(), ErrorKind::Invalid, "it is there");
        drop(reader);
        assert!(files(&home.store()) == before, "{on:?}");
        let db = crate::common::options().open(&copy).unwrap();
        assert_same(&contents(&db).unwrap(), &model, "the copy");
        assert_verified(&db, "the copy");
    }
}

/// As `cp -l` does it, after a kill. Both stores then have the same files, MemTables and `LOCK` included.
#[test]
fn a_copy_of_hard_links_harms_no_store() {
    let options = |env: &MemoryEnv| crate::common::options().env(Arc::new(env.clone())).memtable_bytes(16 << 10);
    let env = MemoryEnv::new();
    let mut model = Model::new();
    let db = options(&env).open("/db").unwrap();
    work(&db, &mut model, "both");
    // More than recovery copies into the new MemTable.
    (0..40).for_each(|number| put(&db, &mut model, &format!("in a MemTable {number}"), &"x".repeat(200)));
    let env = env.kill();
    env.create_directory(Path::new("/copy")).unwrap();
    for entry in env.list_directory(Path::new("/db")).unwrap() {
        let (from, to) = (Path::new("/db").join(&entry.name), Path::new("/copy").join(&entry.name));
        assert!(env.link_file(&from, &to).unwrap());
    }
    let mut of_copy = model.clone();
    let db = options(&env).open("/copy").unwrap();
    assert_eq!(options(&env).open("/db").unwrap_err().kind(), ErrorKind::Locked, "they have one LOCK");
    work(&db, &mut of_copy, "copy");
    drop(db);
    let db = options(&env).open("/db").unwrap();
    assert_same(&contents(&db).unwrap(), &model, "the original");
    assert_verified(&db, "the original");
    work(&db, &mut model, "original");
    drop(db);
    let db = options(&env).open("/copy").unwrap();
    assert_same(&contents(&db).unwrap(), &of_copy, "the copy");
    assert_verified(&db, "the copy");
}

/// The repair of a copy fails for good at each of its operations, and is begun again after a kill.
#[test]
fn a_repair_of_a_copy_cut_short_leaves_the_original() {
    let options = |env: &MemoryEnv| {
        crate::common::options()
            .env(Arc::new(env.clone()))
            .memtable_bytes(4 << 10)
            .pool_initial_bytes(1 << 20)
            .pool_maximum_bytes(1 << 28)
    };
    let env = MemoryEnv::new();
    let mut model = Model::new();
    let db = options(&env).medium(Medium::Emulated { path: "/pool".into() }).open("/db").unwrap();
    for number in 0..60 {
        put(&db, &mut model, &format!("key{number:02}"), &"x".repeat(100));
    }
    db.close().unwrap();
    for entry in env.list_directory(Path::new("/db")).unwrap() {
        let content = env.content(Path::new("/db").join(&entry.name)).unwrap();
        env.set_content(Path::new("/copy").join(&entry.name), &content);
    }
    let is_whole = |env: &MemoryEnv, directory: &str, context: &str| {
        let db = options(env).open(directory).unwrap_or_else(|error| panic!("{context}, {directory}: {error}"));
        assert_same(&contents(&db).unwrap(), &model, context);
        assert_verified(&db, context);
        db.close().unwrap();
    };
    let pool = env.content("/pool").unwrap();
    for operation in 0.. {
        let env = env.kill();
        env.fail_at(operation, Failure::Io, Repeat::ForGood);
        let repaired = options(&env).repair("/copy", &mut |_| ());
        let is_through = env.failures_struck() == 0;
        let context = format!("cut short at {operation}");
        let env = env.kill();
        assert!(env.content("/pool").unwrap() == pool, "{context}: the original's pool has changed");
        if is_through {
            assert!(repaired.unwrap().losses.is_empty() && operation > 20);
        } else {
            options(&env).repair("/copy", &mut |_| ()).unwrap_or_else(|error| panic!("{context}: {error}"));
        }
        is_whole(&env, "/copy", &context);
        is_whole(&env, "/db", &context);
        if is_through {
            break;
        }
    }
}
