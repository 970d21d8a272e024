//! Snapshots: what they see of every history that a key can have across flushes, what they keep, and what they give back.

use std::collections::BTreeSet;

use crate::common::{Home, MEDIA, Model, On, assert_same, assert_verified, contents, engine, keeps_versions_in_place};
use slmdb::{Comparator, Db, EngineName, Error, Snapshot};

/// Everything a snapshot sees, forwards; compared with what it sees backwards, key by key, and by cursor.
fn seen(snapshot: &Snapshot) -> Model {
    let owned = |entry: slmdb::Result<(slmdb::Slice, slmdb::Slice)>| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    };
    let forward: Vec<_> = snapshot.iter().unwrap().map(owned).collect();
    assert!(forward.is_sorted_by(|one, other| one.0 < other.0), "keys out of order");
    let mut backward: Vec<_> = snapshot.iter().unwrap().rev().map(owned).collect();
    backward.reverse();
    assert!(forward == backward, "forwards and backwards differ");
    for (key, value) in &forward {
        assert_eq!(snapshot.get(key).unwrap().as_deref(), Some(&value[..]), "{}", key.escape_ascii());
    }
    forward.into_iter().collect()
}

/// Every history of five steps, each a put, a delete or nothing, is that of a key; a snapshot is taken after each step,
/// and there are flushes between steps in every combination. Kept is exactly what is seen and not in the index.
#[test]
fn every_history_of_a_key_is_seen_as_it_was() {
    const STEPS: u32 = 5;
    let keys = 3_u32.pow(STEPS);
    let name = |key: u32| format!("key{key:03}").into_bytes();
    let action = |key: u32, step: u32| key / 3_u32.pow(step) % 3;
    let value = |step: u32| format!("of step {step}").into_bytes();
    for on in MEDIA {
        for flushes in 0..1_u32 << STEPS {
            let home = Home::new(on);
            let db = home.options().memtable_bytes(1 << 20).open(home.store()).unwrap();
            let mut model = Model::new();
            let mut held = vec![(0, db.snapshot().unwrap(), model.clone())];
            for step in 0..STEPS {
                for key in 0..keys {
                    match action(key, step) {
                        0 => {}
                        1 => {
                            db.put(name(key), value(step)).unwrap();
                            model.insert(name(key), value(step));
                        }
                        _ => {
                            db.delete(name(key)).unwrap();
                            model.remove(&name(key));
                        }
                    }
                }
                held.push((step + 1, db.snapshot().unwrap(), model.clone()));
                if flushes >> step & 1 == 1 {
                    db.flush().unwrap();
                }
                // Some go before the next flush, so that what they saw need not be written.
                if flushes % 3 == step % 3 {
                    held.remove((flushes as usize + step as usize) % held.len());
                }
            }
            db.flush().unwrap();
            let context = format!("{on:?} flushes {flushes:05b}");
            loop {
                // The steps whose puts somebody sees though something newer is there.
                let mut kept = BTreeSet::new();
                for key in 0..keys {
                    for (after, ..) in &held {
                        let last = (0..*after).rev().find(|&step| action(key, step) != 0);
                        let is_newest = |step| (step + 1..STEPS).all(|later| action(key, later) == 0);
                        kept.extend(
                            last.filter(|&step| action(key, step) == 1 && !is_newest(step)).map(|step| (key, step)),
                        );
                    }
                }
                let stats = db.stats();
                if engine() == EngineName::Slm {
                    // (Others keep deletes, too, or have moved some versions to tables that are searched.)
                    assert_eq!(stats.replaced_records_kept, kept.len() as u64, "{context}, {} held", held.len());
                    assert_eq!(stats.replaced_records_bytes > 0, !kept.is_empty());
                }
                assert_eq!((stats.open_snapshots, stats.open_cursors), (held.len() as u64, 0));
                assert_eq!(stats.memtable_entries, 0);
                for (after, snapshot, was) in &held {
                    let context = format!("{context} after step {after}");
                    assert_same(&seen(snapshot), was, &context);
                    for key in (0..keys).map(name) {
                        assert_eq!(snapshot.contains_key(&key).unwrap(), was.contains_key(&key), "{context}");
                        assert_eq!(
                            snapshot.get(&key).unwrap().as_deref(),
                            was.get(&key).map(Vec::as_slice),
                            "{context}"
                        );
                    }
                }
                if held.is_empty() {
                    break;
                }
                held.remove(flushes as usize % held.len());
            }
            assert_same(&contents(&db).unwrap(), &model, &context);
            assert_verified(&db, &context);
            // Older versions in table files are nobody's any more, and come back for nobody.
            db.close().unwrap();
            let db = home.options().open(home.store()).unwrap();
            assert_same(&contents(&db).unwrap(), &model, &format!("{context}, opened again"));
            assert_verified(&db, &context);
        }
    }
}

/// The newest entry of a key in its MemTable is a delete, and the older version must stay visible;
/// or the key was deleted at the moment, and must stay so, though it was put later in the same MemTable.
#[test]
fn a_version_outlives_its_memtable() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        db.put("deleted, then put", "long ago").unwrap();
        db.flush().unwrap();
        db.delete("deleted, then put").unwrap();
        db.put("put, then deleted", "old").unwrap();
        db.put("put, twice", "old").unwrap();
        let snapshot = db.snapshot().unwrap();
        let again = snapshot.clone();
        db.put("deleted, then put", "new").unwrap();
        db.delete("put, then deleted").unwrap();
        db.put("put, twice", "new").unwrap();
        let before = db.stats().table_bytes;
        db.flush().unwrap();
        let stats = db.stats();
        assert!(stats.table_bytes > before || !crate::common::flushes_to_files(on));
        // (Where a key that is missing says nothing, its delete is kept, too.)
        let kept = match engine() {
            EngineName::Slm => 2,
            _ if keeps_versions_in_place() => 0,
            _ => 3,
        };
        assert_eq!((stats.memtable_entries, stats.replaced_records_kept, stats.open_snapshots), (0, kept, 1), "{on:?}");
        assert_eq!(snapshot.get("deleted, then put").unwrap(), None);
        assert_eq!(snapshot.get("put, then deleted").unwrap().as_deref(), Some(b"old".as_slice()));
        assert_eq!(snapshot.get("put, twice").unwrap().as_deref(), Some(b"old".as_slice()));
        assert_eq!(db.get("put, then deleted").unwrap(), None);
        assert_eq!(db.get("put, twice").unwrap().as_deref(), Some(b"new".as_slice()));
        assert_eq!(snapshot.sequence_number() + 3, db.stats().last_sequence_number);
        assert_eq!(snapshot.prefix("put").unwrap().count(), 2);
        assert_eq!(snapshot.range("a".."put, tw").unwrap().keys_only().count(), 1);
        assert_verified(&db, "with a snapshot");
        // A cursor goes on where the snapshot ends, and sees the same.
        let mut cursor = snapshot.cursor().unwrap();
        drop(snapshot);
        assert_eq!(again.get("put, twice").unwrap().as_deref(), Some(b"old".as_slice()));
        drop(again);
        assert_eq!(
            (db.stats().open_snapshots, db.stats().open_cursors, db.stats().replaced_records_kept),
            (0, 1, kept)
        );
        db.put("put, twice", "newer").unwrap();
        db.flush().unwrap();
        cursor.seek_last().unwrap();
        assert_eq!(&cursor.value().unwrap()[..], b"old");
        assert_eq!(cursor.key(), b"put, twice");
        cursor.prev().unwrap();
        assert_eq!(&cursor.value().unwrap()[..], b"old");
        cursor.prev().unwrap();
        assert!(!cursor.valid());
        drop(cursor);
        let stats = db.stats();
        assert_eq!((stats.open_cursors, stats.replaced_records_kept, stats.replaced_records_bytes), (0, 0, 0));
    }
}

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> std::cmp::Ordering {
        right.cmp(left)
    }
}

#[test]
fn in_another_order_of_keys() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.options().comparator(Backwards).open(home.store()).unwrap();
        let mut held = Vec::new();
        for round in 0..4 {
            for key in (0..50_u8).filter(|key| u32::from(*key) % (round + 2) == 0) {
                db.put([key], round.to_string()).unwrap();
                if key == 20 {
                    held.push((db.snapshot().unwrap(), db.iter().unwrap().map(Result::unwrap).collect::<Vec<_>>()));
                }
            }
            if round % 2 == 1 {
                db.flush().unwrap();
            }
        }
        db.flush().unwrap();
        assert!(db.stats().replaced_records_kept > 0 || keeps_versions_in_place());
        for (snapshot, was) in &held {
            let seen: Vec<_> = snapshot.iter().unwrap().map(Result::unwrap).collect();
            assert!(seen.is_sorted_by(|one, other| *one.0 > *other.0));
            assert!(seen == *was);
            assert!(was.iter().all(|(key, value)| snapshot.get(key).unwrap().as_ref() == Some(value)));
            assert!(snapshot.prefix("x").is_err());
        }
        assert_verified(&db, "backwards");
        drop(held);
        assert_eq!(db.stats().replaced_records_kept, 0);
    }
}

/// MemTables' arenas that take space, in bytes.
fn arena_bytes(home: &Home, db: &Db) -> u64 {
    if home.on != On::Dram {
        let stats = db.stats();
        return stats.fast_tier_bytes - stats.fast_tier_node_bytes - stats.fast_tier_key_segment_bytes;
    }
    let files = std::fs::read_dir(home.store()).unwrap().map(|file| file.unwrap());
    let arenas = files.filter(|file| file.file_name().to_string_lossy().ends_with(".arena"));
    arenas.map(|file| file.metadata().map_or(0, |metadata| metadata.len())).sum()
}

/// A snapshot keeps no MemTable at all, an iterator those that there were when it was made; writers go on and on.
#[test]
fn what_is_held_for_long_stops_no_writer() {
    const MEMTABLE_BYTES: u64 = 64 << 10;
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.options().memtable_bytes(MEMTABLE_BYTES).open(home.store()).unwrap();
        let value = [7; 500];
        let mut model = Model::new();
        let round = |first: &[u8]| {
            for key in 0..100 {
                db.put(format!("key{key:02}"), [first, &value].concat()).unwrap();
            }
        };
        let write_many = || (0..80).for_each(|number| round(format!("round {number}").as_bytes()));
        write_many();
        db.flush().unwrap();
        // What they take anyhow, with what a pool takes for itself; there may be a spare or not.
        let arenas_alone = arena_bytes(&home, &db);
        let few = |count: u64| arenas_alone + count * MEMTABLE_BYTES.next_multiple_of(64 << 10);
        round(b"first");
        model.extend((0..100).map(|key| (format!("key{key:02}").into_bytes(), [b"first".as_slice(), &value].concat())));
        // In the middle of a MemTable: what the snapshot sees will have been overwritten before the flush.
        let snapshot = db.snapshot().unwrap();
        write_many();
        db.flush().unwrap();
        assert!(db.stats().since_open.flushes > 100);
        let with_snapshot = arena_bytes(&home, &db);
        assert!(
            with_snapshot <= few(3),
            "{on:?}: {with_snapshot} bytes of arenas with a snapshot, {arenas_alone} without"
        );
        assert_same(&seen(&snapshot), &model, "the snapshot");
        // (What has gone to the levels is kept there.)
        let assert_kept = |most: u64| {
            let kept = db.stats().replaced_records_kept;
            assert!(kept == most || (kept < most && engine() != EngineName::Slm), "{kept}");
        };
        assert_kept(100);

        let mut iterator = db.iter().unwrap();
        let present = db.get("key00").unwrap().unwrap();
        write_many();
        db.flush().unwrap();
        let with_iterator = arena_bytes(&home, &db);
        assert!(
            with_iterator <= few(6),
            "{on:?}: {with_iterator} bytes of arenas with an iterator, {arenas_alone} without"
        );
        assert_eq!(iterator.next().unwrap().unwrap().1, present);
        assert_eq!(iterator.by_ref().count(), 99);
        assert_same(&seen(&snapshot), &model, "the snapshot, later");
        // Each version that one of the two sees, once.
        assert_kept(200);
        drop(snapshot);
        assert_kept(100);
        drop(iterator);
        let stats = db.stats();
        assert_eq!((stats.replaced_records_kept, stats.open_cursors, stats.open_snapshots), (0, 0, 0));
        round(b"last");
        db.flush().unwrap();
        assert!(arena_bytes(&home, &db) <= few(3));
        assert_verified(&db, "at the end");
    }
}

#[test]
fn a_snapshot_outlives_the_last_handle_and_keeps_the_lock() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        db.put("a", "1").unwrap();
        db.flush().unwrap();
        db.put("b", "2").unwrap();
        let snapshot = db.snapshot().unwrap();
        shared(&snapshot);
        db.put("a", "3").unwrap();
        db.close().unwrap();
        assert!(matches!(home.options().open(home.store()), Err(Error::Locked { .. })));
        let expected: Model = [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())].into();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert_same(&seen(&snapshot.clone()), &expected, "after the close"));
            }
        });
        drop(snapshot);
        let db = home.options().read_only(true).open(home.store()).unwrap();
        let snapshot = db.snapshot().unwrap();
        assert_eq!(snapshot.get("a").unwrap().as_deref(), Some(b"3".as_slice()));
        assert_eq!(snapshot.iter().unwrap().count(), 2);
    }
}
