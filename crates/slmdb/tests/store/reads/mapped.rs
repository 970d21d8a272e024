//! Table files that are mapped for reading: what is read is right or an error whatever becomes of the files, values outlive them, and
//! who wants no mapping gets none.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use slmdb::{Compression, Db, ErrorKind, MapTables, Options};
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

use crate::common::{Home, On, Random, SetAtEnd, no_compaction};

const KEYS: u64 = 5_000;

fn key(number: u64) -> Vec<u8> {
    format!("key {number:08}").into_bytes()
}

/// Values of all lengths around a block's, of noise.
fn value(number: u64) -> Vec<u8> {
    let lengths = [100, 100, 100, 1000, 3000, 20_000];
    Random(number + 1).bytes(lengths[number as usize % lengths.len()])
}

fn options() -> Options {
    Options::default().compression(Compression::None).compaction(no_compaction())
}

fn filled(db: &Db) {
    for number in 0..KEYS {
        db.put(key(number), value(number)).unwrap();
    }
    db.flush().unwrap();
}

/// Reads everything, so that it is in memory and mapped.
fn read_all(db: &Db) {
    for number in 0..KEYS {
        assert_eq!(db.get(key(number)).unwrap().unwrap(), value(number));
    }
}

/// A store of one large file, all of which is mapped; and the file.
fn mapped_store(home: &Home) -> (Db, PathBuf) {
    let db = home.on(options()).open(home.store()).unwrap();
    filled(&db);
    read_all(&db);
    let stats = db.stats();
    assert_eq!((stats.mapped_table_files, stats.mapped_table_bytes), (1, stats.table_bytes));
    let number = db.table_files()[0].number;
    let path = home.store().join(format!("{number:010}.sst"));
    assert!(path.exists());
    (db, path)
}

/// Gets and ranges by three threads while something is done to the file. Each gets right values, or an error that says what is wrong;
/// says how many errors there were.
fn read_while(db: &Db, change: impl FnOnce()) -> u64 {
    let (is_over, errors) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for seed in 0..3 {
            let (is_over, errors) = (&is_over, &errors);
            scope.spawn(move || {
                let mut random = Random(seed + 1);
                while !is_over.load(Ordering::Relaxed) {
                    let number = random.below(KEYS);
                    match db.get(key(number)) {
                        Ok(found) => assert!(found.unwrap() == value(number), "a wrong value of key {number}"),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                            errors.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    for (entry, number) in db.range(key(number)..).unwrap().zip(number..).take(5) {
                        match entry {
                            Ok((found, its)) => assert!((found, its) == (key(number).into(), value(number).into())),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
                        }
                    }
                }
            });
        }
        let _end = SetAtEnd(&is_over);
        change();
    });
    errors.into_inner()
}

#[test]
fn a_table_file_cut_short_under_readers_is_an_error() {
    let home = Home::new(On::Dram);
    let (db, path) = mapped_store(&home);
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let errors = read_while(&db, || {
        for sixteenth in (0..16).rev() {
            file.set_len(length / 16 * sixteenth).unwrap();
            thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    assert!(errors > 0);
    let failed = (0..KEYS).filter(|&number| db.get(key(number)).is_err()).count() as u64;
    assert!(failed > KEYS / 2, "nothing is left of the file but what was read by calls since, and cached: {failed}");
}

#[test]
fn bytes_that_change_under_readers_are_never_a_wrong_value() {
    let home = Home::new(On::Dram);
    let (db, path) = mapped_store(&home);
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let mut random = Random(9);
    let errors = read_while(&db, || {
        for _ in 0..3_000 {
            let (at, mut was) = (random.below(length - 4096), vec![0; 1 + random.below(4096) as usize]);
            file.read_exact_at(&mut was, at).unwrap();
            file.write_all_at(&random.bytes(was.len()), at).unwrap();
            thread::yield_now();
            file.write_all_at(&was, at).unwrap();
        }
    });
    println!("{errors} errors");
    read_all(&db);
}

#[test]
fn values_and_cursors_outlive_mapped_files() {
    let home = Home::new(On::Dram);
    let (db, path) = mapped_store(&home);
    let held: Vec<_> = (0..KEYS).map(|number| db.get(key(number)).unwrap().unwrap()).collect();
    let mut range = db.range(key(0)..).unwrap();
    let first = range.next().unwrap().unwrap();
    for number in 0..KEYS {
        db.put(key(number), b"new").unwrap();
    }
    db.compact_range::<&[u8]>(..).unwrap();
    drop(db.iter().unwrap());
    assert_eq!(first.1, value(0));
    for (entry, number) in range.zip(1..) {
        assert_eq!(entry.unwrap().1, value(number));
    }
    crate::common::wait_until("the file is gone", || !path.exists());
    assert!(held.iter().zip(0..).all(|(held, number)| *held == value(number)));
    assert_eq!(db.get(key(7)).unwrap().unwrap(), b"new");
    let stats = db.stats();
    assert_eq!((stats.mapped_table_files, stats.mapped_table_bytes), (1, stats.table_bytes));
}

/// A store in memory with these options.
fn in_memory(env: &MemoryEnv, options: Options) -> Db {
    let db = options.env(Arc::new(env.clone())).open("/db").unwrap();
    filled(&db);
    read_all(&db);
    db
}

#[test]
fn files_are_mapped_only_where_they_fit_and_are_wanted_so() {
    let env = MemoryEnv::new();
    let db = in_memory(&env, options().advanced(|advanced| advanced.map_tables(MapTables::Never)));
    assert_eq!(db.stats().mapped_table_files, 0);
    drop(db);
    let env = MemoryEnv::new();
    env.set_memory_to_give(Some(1 << 20));
    let db = in_memory(&env, options());
    assert_eq!((db.stats().mapped_table_files, db.stats().mapped_table_bytes), (0, 0));
    let is_mapped_soon = |wanted| {
        // Whoever reads looks now and then.
        env.advance_clock(1_000_000_000);
        read_all(&db);
        (db.stats().mapped_table_files > 0) == wanted
    };
    env.set_memory_to_give(Some(1 << 40));
    assert!(is_mapped_soon(true));
    env.set_memory_to_give(Some(1 << 20));
    assert!(is_mapped_soon(false));
    env.set_memory_to_give(None);
    assert!(is_mapped_soon(false));
}

#[test]
fn only_what_had_to_be_unpacked_is_cached_beside_a_mapping() {
    for (compression, is_cached) in [(Compression::None, false), (Compression::Lz4, true)] {
        let env = MemoryEnv::new();
        let db = options().compression(compression).env(Arc::new(env.clone())).open("/db").unwrap();
        for number in 0..1_000 {
            db.put(key(number), [7; 500]).unwrap();
        }
        db.flush().unwrap();
        let before = db.stats().memory.block_cache_bytes;
        (0..1_000).for_each(|number| assert_eq!(db.get(key(number)).unwrap().unwrap(), [7; 500]));
        assert_eq!(db.iter().unwrap().map(Result::unwrap).count(), 1_000);
        assert_eq!(db.stats().memory.block_cache_bytes > before + 100_000, is_cached, "{compression:?}");
        let reads = env.operation_count();
        (0..1_000).for_each(|number| assert_eq!(db.get(key(number)).unwrap().unwrap(), [7; 500]));
        assert_eq!(env.operation_count() == reads, is_cached, "{compression:?}");
    }
}

#[test]
fn a_failure_of_a_mapped_read_is_the_readers() {
    let env = MemoryEnv::new();
    let db = in_memory(&env, options());
    assert!(db.stats().mapped_table_files > 0);
    for failure in [Failure::Io, Failure::FlippedBit { seed: 11 }] {
        env.fail_next("read ", failure, Repeat::Once);
        let expected = if failure == Failure::Io { ErrorKind::Io } else { ErrorKind::Corruption };
        assert_eq!(db.get(key(100)).unwrap_err().kind(), expected);
        assert_eq!(db.get(key(100)).unwrap().unwrap(), value(100));
        env.fail_next("read ", failure, Repeat::Once);
        assert_eq!(db.range(key(100)..).unwrap().next().unwrap().unwrap_err().kind(), expected);
        assert_eq!(db.range(key(100)..).unwrap().next().unwrap().unwrap().1, value(100));
    }
}
