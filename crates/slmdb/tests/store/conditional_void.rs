//! The place of a conditional write that was beaten to its key stays in the log, void. To get there for certain, a test
//! has a large write under way, whose filling takes a while: what comes meanwhile has to take its place behind it.

use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::common::{Home, MEDIA, Model, On, assert_same, assert_verified, contents};
use slmdb::{Db, ErrorKind, WriteBatch};

const MEMTABLE_BYTES: u64 = 32 << 20;

/// How often a test may try to be quick enough.
const ATTEMPTS: usize = 50;

fn open(home: &Home) -> Db {
    home.options().memtable_bytes(MEMTABLE_BYTES).open(home.store()).unwrap()
}

/// Waits until so many bytes more than `before` are reserved in MemTables; false if it takes too long.
fn reserved(db: &Db, before: u64, bytes: u64) -> bool {
    let start = Instant::now();
    while db.stats().memtable_bytes < before + bytes {
        if start.elapsed() > Duration::from_secs(10) {
            return false;
        }
    }
    true
}

/// Puts `first` and a value of `large_bytes` in one batch, and does `then` while that is being filled.
fn while_filling<T>(db: &Db, first: &str, large_bytes: usize, then: impl FnOnce(&Db) -> T) -> T {
    let mut batch = WriteBatch::new();
    batch.put(first, "first").unwrap();
    batch.put("large", vec![7; large_bytes]).unwrap();
    let before = db.stats().memtable_bytes;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| db.write(&batch).unwrap());
        assert!(reserved(db, before, large_bytes as u64));
        let done = then(db);
        writer.join().unwrap();
        done
    })
}

/// Tries in a new home until `attempt` says that it came in time.
fn until_in_time(on: On, mut attempt: impl FnMut(&Home) -> bool) {
    let in_time = (0..ATTEMPTS).any(|_| attempt(&Home::new(on)));
    assert!(in_time, "{on:?}: {ATTEMPTS} attempts were all too late");
}

/// Recovered MemTables that are small are copied, large ones are sealed: either way the numbers stay.
#[test]
fn void_places_keep_the_log_without_a_gap() {
    for on in MEDIA {
        for large_bytes in [3 << 20, 12 << 20] {
            until_in_time(on, |home| {
                let db = open(home);
                let in_time = while_filling(&db, "key", large_bytes, |db| {
                    assert!(!db.insert_if_absent("key", vec![1; 100_000]).unwrap());
                    db.stats().last_sequence_number == 3
                });
                if !in_time {
                    return false;
                }
                assert_eq!(db.stats().memtable_entries, 2, "a void entry is none");
                let mut model = Model::new();
                let mut put = |db: &Db, key: &str, value: &str| {
                    db.put(key, value).unwrap();
                    model.insert(key.into(), value.into());
                };
                put(&db, "key", "newer");
                put(&db, "after", "the void");
                model.insert(b"large".into(), vec![7; large_bytes]);
                // As after a kill: the copy is recovered, and then it once more.
                let killed = home.copy();
                for opening in 0..3 {
                    let db = open(&killed);
                    assert_eq!(db.stats().last_sequence_number, 5, "opening {opening}");
                    assert_same(&contents(&db).unwrap(), &model, &format!("{on:?}, opening {opening}"));
                    assert_verified(&db, "recovered");
                }
                let db = open(&killed);
                assert!(!db.insert_if_absent("after", "v").unwrap());
                db.put("more", "v").unwrap();
                assert_eq!(db.stats().last_sequence_number, 6);
                db.flush().unwrap();
                assert_verified(&db, "flushed");
                true
            });
        }
    }
}

#[test]
fn a_memtable_of_void_places_alone_is_flushed_to_nothing() {
    for (on, flushed_first) in MEDIA.into_iter().flat_map(|on| [(on, true), (on, false)]) {
        until_in_time(on, |home| {
            let db = open(home);
            // More than half, so that a spare is there when it is wanted.
            db.put("filler", vec![1; 17 << 20]).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            let in_time = while_filling(&db, "key", 14 << 20, |db| {
                assert!(!db.insert_if_absent("key", vec![2; 2 << 20]).unwrap());
                db.stats().last_sequence_number == 4
            });
            if !in_time {
                return false;
            }
            let check = |db: &Db, context: &str| {
                db.flush().unwrap();
                let stats = db.stats();
                assert_eq!((stats.last_sequence_number, stats.index_keys), (4, 3), "{on:?}, {context}");
                assert_eq!((stats.memtable_entries, stats.table_files), (0, 1), "{on:?}, {context}");
                assert_verified(db, context);
            };
            if flushed_first {
                check(&db, "flushed");
            }
            db.close().unwrap();
            let db = open(home);
            check(&db, "reopened");
            db.put("more", "v").unwrap();
            assert_eq!(db.stats().last_sequence_number, 5);
            true
        });
    }
}

/// The index is damaged between the look beforehand and the decision: the place is filled all the same, and those behind
/// it go on.
#[test]
fn a_decision_that_fails_leaves_a_void_place() {
    until_in_time(On::Emulated, |home| {
        let db = open(home);
        for number in 0..300 {
            db.put(format!("{number:04}"), "in a table file").unwrap();
        }
        db.flush().unwrap();
        let pool = std::fs::File::options().write(true).open(home.pool().unwrap()).unwrap();
        // Nodes, key records, maps: everything but the header and the arenas.
        let bytes = std::fs::read(home.pool().unwrap()).unwrap();
        let used = |bytes: &[u8]| bytes.iter().any(|&byte| byte != 0) && !bytes.starts_with(b"SLMARENA");
        let units: Vec<usize> =
            bytes.chunks(64 << 10).enumerate().skip(1).filter(|unit| used(unit.1)).map(|unit| unit.0).collect();
        let last_before = db.stats().last_sequence_number;
        let before = db.stats().memtable_bytes;
        let large_bytes = 24 << 20;
        let (updated, after) = while_filling(&db, "key", large_bytes, |db| {
            std::thread::scope(|scope| {
                let update = scope.spawn(|| db.update_if_present("0100", vec![1; 1 << 20]));
                if reserved(db, before, large_bytes as u64 + (1 << 20)) {
                    for unit in units {
                        pool.write_all_at(&[0xa5; 64 << 10], (unit as u64) << 16).unwrap();
                    }
                }
                (update.join().unwrap(), db.stats().last_sequence_number)
            })
        });
        let Err(error) = updated else { return false };
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert_eq!(after, last_before + 3, "two entries of the batch, and a void place");
        db.put("behind", "it").unwrap();
        assert_eq!(db.get("behind").unwrap().as_deref(), Some(b"it".as_slice()));
        assert_eq!(db.get("large").unwrap().unwrap().len(), large_bytes);
        true
    });
}
