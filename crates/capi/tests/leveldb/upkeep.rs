//! Opening, destroying, repairing, and what a store tells of itself.

use super::*;

#[test]
fn a_missing_or_existing_store_is_an_error_as_the_options_say() {
    let mut store = Store::new();
    assert!(store.put(b"k", b"v").is_none());
    store.close();
    unsafe { leveldb_options_set_error_if_exists(store.options, 1) };
    assert!(store.open().unwrap().starts_with("Invalid argument: there is a store in "));
    unsafe { leveldb_options_set_error_if_exists(store.options, 0) };
    unsafe { leveldb_options_set_create_if_missing(store.options, 0) };
    assert_eq!(store.open(), None);
    assert_eq!(store.get(b"k").as_deref(), Some(&b"v"[..]));
    store.close();
    let path = store.path();
    let destroy = || with_error(|error| unsafe { leveldb_destroy_db(store.options, path.as_ptr(), error) }).1;
    assert_eq!((destroy(), destroy()), (None, None), "there may be nothing to destroy");
    assert!(store.open().unwrap().starts_with("Invalid argument: there is no store in "));
}

#[test]
fn an_open_store_is_locked() {
    let mut store = Store::new();
    let first = store.db;
    assert!(store.open().unwrap().starts_with("IO error: the store is in use"));
    store.db = first;
}

/// LAB-DB has levels, as LevelDB has.
#[test]
fn files_are_told_by_their_levels() {
    let mut store = Store::new();
    store.close();
    let path = std::path::PathBuf::from(store.path().to_str().unwrap());
    std::fs::remove_dir_all(&path).unwrap();
    let db = slmdb::Options::default().engine(slmdb::EngineName::Lab).open(&path).unwrap();
    for key in 0..2000 {
        db.put(format!("{key:06}"), [7; 100]).unwrap();
    }
    db.compact_range::<&[u8]>(..).unwrap();
    db.put("000000", "flushed, and not compacted").unwrap();
    db.flush().unwrap();
    let of_level = |level| db.table_files().iter().filter(|file| file.level == level).count();
    let levels = [0, 1].map(of_level);
    assert_eq!(levels[0], 1);
    assert!(levels[1] > 0 || of_level(2) > 0, "nothing was compacted");
    db.close().unwrap();
    assert_eq!(store.open(), None);
    for (level, files) in levels.into_iter().enumerate() {
        let name = std::ffi::CString::new(format!("leveldb.num-files-at-level{level}")).unwrap();
        assert_eq!(store.property(&name), Some(files.to_string()), "level {level}");
    }
    let files = store.property(c"leveldb.sstables").unwrap();
    let level_one = files.split("--- level 1 ---").nth(1).unwrap_or_else(|| panic!("{files}"));
    assert!(level_one.contains("'001999'"), "{files}");
}

#[test]
fn properties_and_sizes_tell_of_table_files() {
    let store = Store::with(|options| unsafe { leveldb_options_set_compression(options, 0) });
    assert_eq!(store.property(c"leveldb.num-files-at-level0").as_deref(), Some("0"));
    for key in 0..2000 {
        assert_eq!(store.put(format!("{key:06}").as_bytes(), &[7; 100]), None);
    }
    unsafe { leveldb_compact_range(store.db, null(), 0, null(), 0) };
    assert_eq!(store.property(c"leveldb.num-files-at-level0").as_deref(), Some("1"));
    assert_eq!(store.property(c"leveldb.num-files-at-level6").as_deref(), Some("0"));
    for unknown in [
        c"leveldb.num-files-at-level7",
        c"leveldb.num-files-at-level",
        c"leveldb.num-files-at-level+1",
        c"leveldb.nosuch",
        c"stats",
        c"",
    ] {
        assert_eq!(store.property(unknown), None, "{unknown:?}");
    }
    assert!(store.property(c"leveldb.stats").unwrap().contains("table files"));
    assert!(store.property(c"leveldb.sstables").unwrap().contains("['000000' .. '001999']"));
    let memory_bytes: u64 = store.property(c"leveldb.approximate-memory-usage").unwrap().parse().unwrap();
    assert!(memory_bytes > 0);

    let (starts, limits) = (["000000", "001000", "9", "z"], ["001000", "002000", "0", "zz"]);
    let pointers = |texts: [&str; 4]| texts.map(|text| text.as_ptr().cast::<c_char>());
    let lengths = |texts: [&str; 4]| texts.map(str::len);
    let mut sizes = [u64::MAX; 4];
    unsafe {
        leveldb_approximate_sizes(
            store.db,
            4,
            pointers(starts).as_ptr(),
            lengths(starts).as_ptr(),
            pointers(limits).as_ptr(),
            lengths(limits).as_ptr(),
            sizes.as_mut_ptr(),
        );
    }
    let about = 80_000..130_000;
    assert!(about.contains(&sizes[0]) && about.contains(&sizes[1]), "{sizes:?}");
    assert_eq!(sizes[2..], [0, 0], "upside down, and empty");
}

#[test]
fn a_store_is_repaired() {
    let mut store = Store::new();
    store.put(b"k", b"v");
    store.close();
    let path = store.path();
    assert_eq!(with_error(|error| unsafe { leveldb_repair_db(store.options, path.as_ptr(), error) }).1, None);
    assert_eq!(store.open(), None);
    assert_eq!(store.get(b"k").as_deref(), Some(&b"v"[..]));
}

/// An empty store in the place of LevelDB's data would look like a loss of all of it.
#[test]
fn what_leveldb_itself_made_is_refused_and_left_alone() {
    let mut store = Store::new();
    let path = store.path();
    let directory = store.directory.path().join("of-leveldb");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("CURRENT"), "MANIFEST-000002\n").unwrap();
    let of_leveldb = path_of(&directory);
    unsafe {
        for call in [
            with_error(|error| leveldb_open(store.options, of_leveldb.as_ptr(), error)).1,
            with_error(|error| leveldb_destroy_db(store.options, of_leveldb.as_ptr(), error)).1,
            with_error(|error| leveldb_repair_db(store.options, of_leveldb.as_ptr(), error)).1,
        ] {
            assert!(call.unwrap().contains("LevelDB itself made"));
        }
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    store.close();
    assert!(Path::new(path.to_str().unwrap()).exists());
}

#[test]
fn the_version_is_that_of_the_interface() {
    assert_eq!(unsafe { (leveldb_major_version(), leveldb_minor_version()) }, (1, 23));
}
