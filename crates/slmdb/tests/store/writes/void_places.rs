//! The place of a conditional write that was beaten to its key stays in the log, void. To get there for certain, a test stops a
//! large write in the middle of its filling: what comes meanwhile has to take its place behind it.

use std::cmp::Ordering;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex};

use crate::common::{Home, MEDIA, Model, On, assert_same, assert_verified, contents, wait_until};
use slmdb::{Comparator, Db, ErrorKind, WriteBatch};

const MEMTABLE_BYTES: u64 = 32 << 20;

/// The key whose filling can be stopped.
const LARGE: &[u8] = b"large";

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Filling {
    #[default]
    GoesOn,
    /// The next one of [`LARGE`] stops.
    IsToStop,
    Stands,
}

/// The order by bytes. Whoever fills the place of a key compares it with those that are there, so here he can be stopped.
#[derive(Debug, Default, Clone)]
struct Gate(Arc<(Mutex<Filling>, Condvar)>);

impl Gate {
    fn set(&self, filling: Filling) {
        let Gate(shared) = self;
        *shared.0.lock().unwrap() = filling;
        shared.1.notify_all();
    }

    fn is(&self, filling: Filling) -> bool {
        *self.0.0.lock().unwrap() == filling
    }
}

impl Comparator for Gate {
    fn name(&self) -> &str {
        "test.by-bytes-with-a-gate"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        if left == LARGE || right == LARGE {
            let Gate(shared) = self;
            let mut filling = shared.0.lock().unwrap();
            if *filling == Filling::IsToStop {
                *filling = Filling::Stands;
                shared.1.notify_all();
                drop(shared.1.wait_while(filling, |now| *now == Filling::Stands).unwrap());
            }
        }
        left.cmp(right)
    }
}

/// Lets the filling go on when it goes, after a panic too: else its thread would not end.
struct GoesOnAtEnd<'a>(&'a Gate);

impl Drop for GoesOnAtEnd<'_> {
    fn drop(&mut self) {
        self.0.set(Filling::GoesOn);
    }
}

fn open(home: &Home, gate: &Gate) -> Db {
    let options = home.options().memtable_bytes(MEMTABLE_BYTES).compaction(crate::common::no_compaction());
    options.comparator(gate.clone()).open(home.store()).unwrap()
}

/// Puts `first` and a value of `large_bytes` in one batch, and stops that in the middle. Meanwhile `behind` takes a place of at least
/// `behind_bytes`; once it has, `then` is done, and all go on. Returns what `behind` does.
fn behind_a_filling<T: Send>(
    (db, gate): (&Db, &Gate),
    (first, large_bytes): (&str, usize),
    (behind, behind_bytes): (impl FnOnce() -> T + Send, u64),
    then: impl FnOnce(),
) -> T {
    let mut batch = WriteBatch::new();
    batch.put(first, "first").unwrap();
    batch.put(LARGE, vec![7; large_bytes]).unwrap();
    std::thread::scope(|scope| {
        let _goes_on = GoesOnAtEnd(gate);
        gate.set(Filling::IsToStop);
        let writer = scope.spawn(|| db.write(&batch).unwrap());
        wait_until("half a filling", || gate.is(Filling::Stands));
        let before = db.stats().memtable_bytes;
        let behind = scope.spawn(behind);
        wait_until("a place behind", || db.stats().memtable_bytes >= before + behind_bytes);
        then();
        gate.set(Filling::GoesOn);
        writer.join().unwrap();
        behind.join().unwrap()
    })
}

/// Recovered MemTables that are small are copied, large ones are sealed: either way the numbers stay.
#[test]
fn void_places_keep_the_log_without_a_gap() {
    for on in MEDIA {
        for large_bytes in [3 << 20, 12 << 20] {
            let (home, gate) = (Home::new(on), Gate::default());
            let db = open(&home, &gate);
            let insert = || db.insert_if_absent("key", vec![1; 100_000]).unwrap();
            let inserted = behind_a_filling((&db, &gate), ("key", large_bytes), (insert, 100_000), || ());
            assert!(!inserted);
            assert_eq!(db.stats().last_sequence_number, 3);
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
                let db = open(&killed, &gate);
                assert_eq!(db.stats().last_sequence_number, 5, "opening {opening}");
                assert_same(&contents(&db).unwrap(), &model, &format!("{on:?}, opening {opening}"));
                assert_verified(&db, "recovered");
            }
            let db = open(&killed, &gate);
            assert!(!db.insert_if_absent("after", "v").unwrap());
            db.put("more", "v").unwrap();
            assert_eq!(db.stats().last_sequence_number, 6);
            db.flush().unwrap();
            assert_verified(&db, "flushed");
        }
    }
}

#[test]
fn a_memtable_of_void_places_alone_is_flushed_to_nothing() {
    for (on, flushed_first) in MEDIA.into_iter().flat_map(|on| [(on, true), (on, false)]) {
        let (home, gate) = (Home::new(on), Gate::default());
        let db = open(&home, &gate);
        db.put("filler", vec![1; 17 << 20]).unwrap();
        // There is no room for it behind the large one: it begins the next MemTable.
        let insert = || db.insert_if_absent("key", vec![2; 2 << 20]).unwrap();
        let inserted = behind_a_filling((&db, &gate), ("key", 14 << 20), (insert, 2 << 20), || ());
        assert!(!inserted);
        assert_eq!(db.stats().last_sequence_number, 4);
        let check = |db: &Db, context: &str| {
            db.flush().unwrap();
            let stats = db.stats();
            assert_eq!((stats.last_sequence_number, stats.index_keys), (4, 3), "{on:?}, {context}");
            assert_eq!((stats.memtable_entries, db.table_files().len()), (0, 1), "{on:?}, {context}");
            assert_verified(db, context);
        };
        if flushed_first {
            check(&db, "flushed");
        }
        db.close().unwrap();
        let db = open(&home, &gate);
        check(&db, "reopened");
        db.put("more", "v").unwrap();
        assert_eq!(db.stats().last_sequence_number, 5);
    }
}

/// Only SLM-DB looks up all keys in the pool.
mod slm {
    use super::*;

    /// The index is damaged between the look beforehand and the decision, which asks MemTables alone: nobody behind it waits for
    /// more.
    #[test]
    fn a_decision_does_not_ask_the_index_again() {
        let (home, gate) = (Home::new(On::Emulated), Gate::default());
        let db = open(&home, &gate);
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
        let large_bytes = 24 << 20;
        let update = || db.update_if_present("0100", vec![1; 1 << 20]);
        let updated = behind_a_filling((&db, &gate), ("key", large_bytes), (update, 1 << 20), || {
            for unit in units {
                pool.write_all_at(&[0xa5; 64 << 10], (unit as u64) << 16).unwrap();
            }
        });
        assert!(updated.unwrap());
        assert_eq!(db.contains_key("0101").unwrap_err().kind(), ErrorKind::Corruption, "the index is damaged");
        let after = db.stats().last_sequence_number;
        assert_eq!(after, last_before + 3, "two entries of the batch, and the update");
        assert_eq!(db.get("0100").unwrap().unwrap().len(), 1 << 20);
        db.put("behind", "it").unwrap();
        assert_eq!(db.get("behind").unwrap().as_deref(), Some(b"it".as_slice()));
        assert_eq!(db.get("large").unwrap().unwrap().len(), large_bytes);
    }
}
