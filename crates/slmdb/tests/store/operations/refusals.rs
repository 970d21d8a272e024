//! Requests that can't be carried out are refused before a byte is changed, and the error says what is wrong with them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb::{Db, Error, ErrorKind, Options, destroy};
use slmdb_testkit::MemoryEnv;

use crate::common::{Home, MEDIA, On};

/// Everything in a directory and below it: names, and what files hold.
fn everything_in(directory: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(directory) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut everything_in(&path));
            found.insert(path, None);
        } else {
            found.insert(path.clone(), Some(std::fs::read(&path).unwrap()));
        }
    }
    found
}

#[track_caller]
fn assert_invalid<T>(done: Result<T, Error>, words: &[&str]) {
    let Err(error) = done else { panic!("it was not refused; {words:?} were expected in the error") };
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text:?}");
    }
}

/// They said `lock failed`, `look up failed`, or `list directory failed`, of a file in the path that need not be there.
#[test]
fn what_is_no_directory_is_named_by_every_verb() {
    let home = Home::new(On::Dram);
    let file = home.store();
    std::fs::write(&file, "a file").unwrap();
    let name = file.to_str().unwrap();
    let db = home.options().open(file.with_file_name("other")).unwrap();
    for path in [file.clone(), file.join("below"), file.join("far/below")] {
        for read_only in [false, true] {
            assert_invalid(home.options().read_only(read_only).open(&path), &["no directory", name]);
        }
        assert_invalid(Db::repair(&path, &mut |_| ()), &["no directory", name]);
        assert_invalid(destroy(&path, &Options::default()), &["no directory", name]);
        assert_invalid(db.checkpoint(&path), &["no directory", name]);
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"a file");
}

/// Some of these took it for the current directory.
#[test]
fn an_empty_path_is_refused_by_every_verb() {
    let home = Home::new(On::Dram);
    let in_memory = crate::common::options().env(Arc::new(MemoryEnv::new()));
    let db = home.open();
    for read_only in [false, true] {
        assert_invalid(home.options().read_only(read_only).open(""), &["path", "empty"]);
        assert_invalid(in_memory.clone().read_only(read_only).open(""), &["path", "empty"]);
    }
    assert_invalid(Db::repair("", &mut |_| ()), &["path", "empty"]);
    assert_invalid(destroy("", &Options::default()), &["path", "empty"]);
    assert_invalid(db.checkpoint(""), &["path", "empty"]);
}

/// It was made there, `destroy` left it, and so the directory stayed.
#[test]
fn a_copy_inside_the_store_itself_is_refused() {
    let home = Home::new(On::Dram);
    let store = home.store();
    let db = home.open();
    db.put("key", "value").unwrap();
    let link = store.with_file_name("link");
    std::os::unix::fs::symlink(&store, &link).unwrap();
    let up = std::env::current_dir().unwrap().components().map(|_| "..").collect::<PathBuf>();
    let relative = up.join(store.strip_prefix("/").unwrap());
    let inside = [
        store.clone(),
        store.join("copy"),
        store.join("far/below"),
        store.join("../db/copy"),
        store.join("missing/../copy"),
        store.with_file_name("missing").join("../db/copy"),
        link.join("copy"),
        store.with_file_name("missing").join("../link/copy"),
        relative.join("copy"),
    ];
    db.flush().unwrap();
    for path in inside {
        assert_invalid(db.checkpoint(&path), &["inside", path.to_str().unwrap()]);
    }
    let directories = std::fs::read_dir(&store).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir());
    assert_eq!(directories.count(), 0, "a directory was made in the store");
    assert!(!store.with_file_name("missing").exists());

    // What only looks like it is not.
    db.checkpoint(store.join("../db-copy")).unwrap();
    db.checkpoint(link.join("../db2")).unwrap();
    assert!(store.with_file_name("db2").join("MANIFEST").exists());
    db.close().unwrap();
    destroy(&store, &Options::default()).unwrap();
    assert!(!store.exists());
}

#[test]
fn a_copy_inside_a_store_in_memory_is_refused() {
    let options = crate::common::options().env(Arc::new(MemoryEnv::new())).memtable_bytes(4 << 10);
    let db = options.open("/stores/db").unwrap();
    for inside in ["/stores/db", "/stores/db/copy", "stores/db/copy", "/stores/../stores/./db/copy"] {
        assert_invalid(db.checkpoint(inside), &["inside"]);
    }
    db.checkpoint("/stores/db-copy").unwrap();
}

/// Options with a pool that may grow to so many bytes, and has as many from the start.
fn with_pool(home: &Home, memtable_bytes: u64, pool_bytes: u64) -> Options {
    home.options().memtable_bytes(memtable_bytes).pool_initial_bytes(1).pool_maximum_bytes(pool_bytes)
}

/// The store was made, and every put was refused with `Full`.
#[test]
fn a_pool_too_small_for_one_memtable_is_refused() {
    let words = ["pool_maximum_bytes", "memtable_bytes"];
    for on in MEDIA.into_iter().filter(|on| *on != On::Dram || !crate::common::needs_no_pool_on_dram()) {
        let home = Home::new(on);
        let too_small = with_pool(&home, 8 << 20, 1 << 18);
        assert_invalid(too_small.open(home.store()), &words);
        assert!(!home.store().exists(), "a directory is left on {on:?}");
        assert!(home.pool().is_none_or(|pool| !pool.exists()), "a pool is left on {on:?}");

        home.open().put("key", "value").unwrap();
        let before = (everything_in(&home.store()), home.pool().map(|pool| std::fs::read(pool).unwrap()));
        assert_invalid(too_small.open(home.store()), &words);
        let after = (everything_in(&home.store()), home.pool().map(|pool| std::fs::read(pool).unwrap()));
        assert!(before == after, "something has changed on {on:?}");
        // Who writes nothing needs no room.
        let db = too_small.clone().read_only(true).open(home.store()).unwrap();
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
        drop(db);
        assert_eq!(home.open().get("key").unwrap().as_deref(), Some(&b"value"[..]));
    }
}

/// And the smallest that is taken takes a put, and the flush of it.
#[test]
fn the_smallest_pool_that_is_taken_takes_puts() {
    for on in MEDIA {
        for memtable_bytes in [4 << 10, 100_000, 4 << 20] {
            let (mut refused, mut taken) = (0, 1 << 12);
            while taken - refused > 1 {
                let home = Home::new(on);
                let units = (refused + taken) / 2;
                match with_pool(&home, memtable_bytes, units << 16).open(home.store()) {
                    Ok(_) => taken = units,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                        refused = units;
                    }
                }
            }
            let home = Home::new(on);
            let db = with_pool(&home, memtable_bytes, taken << 16).open(home.store()).unwrap();
            db.put("key", "value").unwrap();
            db.flush().unwrap();
            println!("{on:?}: {memtable_bytes} bytes of a MemTable need a pool of {taken} units");
        }
    }
}
