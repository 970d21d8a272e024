//! Ranges that are deleted: at once for readers, as one record in the log, and as deletes of single keys once they are flushed.

use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::common::{Home, MEDIA, Model, assert_same, assert_verified, budget, contents, flushes_to_files, share};
use slmdb::{Change, Comparator, Db, Medium, Options, WriteBatch};
use slmdb_env::{Env, OpenMode};
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

const STORE: &str = "/db";

fn key(number: usize) -> String {
    format!("k{number:04}")
}

fn keys_of(db: &Db) -> Vec<String> {
    db.range::<&[u8]>(..).unwrap().map(|entry| String::from_utf8(entry.unwrap().0.to_vec()).unwrap()).collect()
}

/// Bounds of each kind, while the range is in memory, when it is flushed, and after an opening, forwards and backwards.
#[test]
fn a_deleted_range_is_gone_for_every_reader() {
    let bounds: [(Bound<&str>, Bound<&str>); 6] = [
        (Bound::Included("b"), Bound::Excluded("d")),
        (Bound::Excluded("b"), Bound::Included("d")),
        (Bound::Unbounded, Bound::Included("c")),
        (Bound::Excluded("c"), Bound::Unbounded),
        (Bound::Unbounded, Bound::Unbounded),
        // No keys.
        (Bound::Included("d"), Bound::Excluded("b")),
    ];
    for on in MEDIA {
        for (case, range) in bounds.into_iter().enumerate() {
            let home = Home::new(on);
            let mut db = home.open();
            let keys = ["a", "b", "c", "d", "e"];
            // Some below the MemTable, some in it.
            for (number, key) in keys.iter().enumerate() {
                db.put(key, key).unwrap();
                if number == 2 {
                    db.flush().unwrap();
                }
            }
            let mut before = Some(db.snapshot().unwrap());
            db.delete_range::<&str>(range).unwrap();
            let left: Vec<&str> = keys.into_iter().filter(|key| !range.contains(key)).collect();
            for step in ["in memory", "flushed", "opened again"] {
                let context = format!("{on:?}, case {case}, {step}");
                if step == "flushed" {
                    let before = before.as_ref().unwrap();
                    let seen: Vec<_> = before.range::<&[u8]>(..).unwrap().map(|entry| entry.unwrap().0).collect();
                    assert_eq!(seen, keys.map(|key| key.as_bytes().to_vec()), "{context}: the snapshot");
                    db.flush().unwrap();
                    let seen: Vec<_> = before.range::<&[u8]>(..).unwrap().map(|entry| entry.unwrap().0).collect();
                    assert_eq!(seen, keys.map(|key| key.as_bytes().to_vec()), "{context}: the snapshot");
                } else if step == "opened again" {
                    before = None;
                    db.close().unwrap();
                    db = home.open();
                }
                assert_eq!(keys_of(&db), left, "{context}");
                let backwards = db.range::<&[u8]>(..).unwrap().rev().map(|entry| entry.unwrap().0);
                let expected = left.iter().rev().map(|key| key.as_bytes().to_vec());
                assert!(backwards.eq(expected), "{context}: backwards");
                for key in keys {
                    let is_left = left.contains(&key);
                    assert_eq!(db.get(key).unwrap().is_some(), is_left, "{context}: {key}");
                    assert_eq!(db.contains_key(key).unwrap(), is_left, "{context}: {key}");
                    assert_eq!(db.update_if_present(key, key).unwrap(), is_left, "{context}: {key}");
                }
                assert_verified(&db, &context);
            }
            let key = keys.into_iter().find(|key| !left.contains(key));
            if let Some(key) = key {
                assert!(db.insert_if_absent(key, "again").unwrap());
                assert_eq!(db.get(key).unwrap().as_deref(), Some(&b"again"[..]));
            }
        }
    }
}

/// A range takes what came before it, and nothing of what comes after it.
#[test]
fn a_batch_is_applied_in_its_order() {
    for on in MEDIA {
        for is_flushed in [false, true] {
            let home = Home::new(on);
            let db = home.open();
            db.put("a", "old").unwrap();
            if is_flushed {
                db.flush().unwrap();
            }
            let mut batch = WriteBatch::new();
            batch.put("b", "before").unwrap();
            batch.put("c", "before").unwrap();
            batch.delete_range("a".."d").unwrap();
            batch.put("b", "after").unwrap();
            batch.delete_range("x"..).unwrap();
            assert_eq!((batch.len(), batch.is_empty()), (5, false));
            let ranges = batch.iter().filter(|change| matches!(change, Change::DeleteRange { .. })).count();
            assert_eq!(ranges, 2);
            db.write(&batch).unwrap();
            assert_eq!(keys_of(&db), ["b"]);
            db.flush().unwrap();
            assert_eq!((keys_of(&db), db.get("b").unwrap().as_deref()), (vec!["b".into()], Some(&b"after"[..])));
            batch.clear();
            assert_eq!((batch.len(), batch.user_bytes(), batch.range_deletes()), (0, 0, 0));
        }
    }
}

/// Trap 1 of the design: a version that a range hides, and that is replaced by one which comes after the range.
#[test]
fn a_snapshot_between_a_range_and_the_next_put_sees_no_key() {
    for on in MEDIA {
        for flushed_after in 0..4 {
            let home = Home::new(on);
            let db = home.open();
            let mut snapshots = Vec::new();
            for (step, expected) in [Some("old"), None, Some("new"), Some("new")].into_iter().enumerate() {
                match step {
                    0 => db.put("key", "old").unwrap(),
                    1 => db.delete_range("a".."z").unwrap(),
                    2 => db.put("key", "new").unwrap(),
                    _ => db.flush().unwrap(),
                }
                if step == flushed_after {
                    db.flush().unwrap();
                }
                snapshots.push((db.snapshot().unwrap(), expected));
                for (snapshot, expected) in &snapshots {
                    let context = format!("{on:?}, flushed after {flushed_after}, step {step}");
                    let found = snapshot.get("key").unwrap();
                    assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{context}");
                    assert_eq!(
                        snapshot.range::<&[u8]>(..).unwrap().count(),
                        usize::from(expected.is_some()),
                        "{context}"
                    );
                }
            }
            db.compact_range::<&[u8]>(..).unwrap();
            for (snapshot, expected) in &snapshots {
                assert_eq!(snapshot.get("key").unwrap().as_deref(), expected.map(str::as_bytes), "{on:?}, compacted");
            }
        }
    }
}

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "test.backwards"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        right.cmp(left)
    }
}

/// Also the range from the empty key on, which is the last one there.
#[test]
fn a_range_is_one_in_the_order_of_the_store() {
    for on in MEDIA {
        for is_flushed in [false, true] {
            let home = Home::new(on);
            let db = home.on(home.options().comparator(Backwards)).open(home.store()).unwrap();
            for key in ["", "a", "b", "c", "d"] {
                db.put(key, "").unwrap();
            }
            if is_flushed {
                db.flush().unwrap();
            }
            db.delete_range("c".."a").unwrap();
            db.delete_range(""..).unwrap();
            assert_eq!(keys_of(&db), ["d", "a"]);
            db.flush().unwrap();
            assert_eq!(keys_of(&db), ["d", "a"]);
        }
    }
}

/// A MemTable deletes 1,024 ranges at most; a batch of more gets one to itself.
#[test]
fn many_ranges_are_deleted_by_few_memtables() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.on(home.options().memtable_bytes(1 << 20)).open(home.store()).unwrap();
        let mut model = Model::new();
        let mut put_all = || {
            for number in 0..4000 {
                db.put(key(number), "value").unwrap();
                model.insert(key(number).into_bytes(), b"value".to_vec());
            }
        };
        put_all();
        for number in (0..2600).step_by(2) {
            db.delete_range(key(number)..key(number + 1)).unwrap();
        }
        let mut batch = WriteBatch::new();
        for number in (2600..4000).step_by(1).filter(|number| number % 7 == 0) {
            batch.delete_range(key(number)..=key(number)).unwrap();
        }
        for _ in 0..1100 {
            batch.delete_range("x".."y").unwrap();
        }
        db.write(&batch).unwrap();
        model.retain(|key, _| {
            let number: usize = std::str::from_utf8(&key[1..]).unwrap().parse().unwrap();
            if number < 2600 { number % 2 == 1 } else { !number.is_multiple_of(7) }
        });
        assert_same(&contents(&db).unwrap(), &model, "in memory");
        db.flush().unwrap();
        assert_same(&contents(&db).unwrap(), &model, "flushed");
        let flushes = db.stats().since_open.flushes;
        assert!((2..12).contains(&flushes), "{flushes} flushes on {on:?}");
        assert_verified(&db, "flushed");
    }
}

/// Options of which a flush makes deletes of some hundred keys in many parts.
fn tiny(env: &MemoryEnv) -> Options {
    crate::common::options()
        .env(Arc::new(env.clone()))
        .memtable_bytes(8 << 10)
        .memory_budget_bytes(1 << 20)
        .pool_initial_bytes(1 << 20)
        .advanced(|advanced| advanced.checkpoint_entries(100))
}

fn on(env: &MemoryEnv, has_pool: bool) -> Options {
    let path = "/pools/pool".into();
    if has_pool { tiny(env).medium(Medium::Emulated { path }) } else { tiny(env) }
}

const KEYS: usize = 400;

/// A store whose keys are in table files, as a kill leaves it.
fn filled(has_pool: bool) -> (MemoryEnv, Model) {
    let env = MemoryEnv::new();
    env.create_directory("/pools".as_ref()).unwrap();
    env.sync_directory("/".as_ref()).unwrap();
    env.map_files_in("/pools");
    let db = on(&env, has_pool).open(STORE).unwrap();
    let mut model = Model::new();
    for number in 0..KEYS {
        db.put(key(number), "value").unwrap();
        model.insert(key(number).into_bytes(), b"value".to_vec());
    }
    db.flush().unwrap();
    db.close().unwrap();
    (env.kill(), model)
}

/// Some puts, a large range, and some more puts, of which a flush makes several parts.
fn delete_most(db: &Db) -> slmdb::Result<()> {
    db.put("k0005", "newer")?;
    db.put("a", "first")?;
    db.delete_range(key(3)..key(KEYS - 3))?;
    db.put("k0007", "after")?;
    Ok(())
}

fn without_most(mut model: Model) -> Model {
    let range = key(3).into_bytes()..key(KEYS - 3).into_bytes();
    model.retain(|found, _| !range.contains(found));
    model.insert(b"a".to_vec(), b"first".to_vec());
    model.insert(b"k0007".to_vec(), b"after".to_vec());
    model
}

#[test]
fn a_large_range_is_flushed_in_parts() {
    for has_pool in [false, true] {
        let (env, model) = filled(has_pool);
        let db = on(&env, has_pool).open(STORE).unwrap();
        let before = db.snapshot().unwrap();
        delete_most(&db).unwrap();
        let expected = without_most(model.clone());
        assert_same(&contents(&db).unwrap(), &expected, "in memory");
        db.flush().unwrap();
        let flushes = db.stats().since_open.flushes;
        assert!(flushes > 5, "{flushes} flushes");
        assert_same(&contents(&db).unwrap(), &expected, "flushed");
        let seen = before.range::<&[u8]>(..).unwrap().map(|entry| entry.unwrap().0);
        assert!(seen.eq(model.into_keys()), "the snapshot");
        drop(before);
        db.compact_range::<&[u8]>(..).unwrap();
        assert_same(&contents(&db).unwrap(), &expected, "compacted");
        assert_verified(&db, "compacted");
    }
}

/// Killed, or without power, before operations on files of the flush of a large range: every fifth one, of engines but the first every
/// eleventh, and each with a larger budget.
#[test]
fn a_range_is_deleted_wholly_or_not_at_all_whatever_its_flush_is_cut_at() {
    for has_pool in [false, true] {
        let (base, model) = filled(has_pool);
        let expected = without_most(model.clone());
        for operation in (0..).step_by(if budget() > 1 { 1 } else { 15 - share(10) as usize }) {
            let env = base.kill();
            env.fail_at(operation, Failure::Io, Repeat::ForGood);
            let is_acknowledged = Cell::new(false);
            let work = || {
                let db = on(&env, has_pool).open(STORE)?;
                delete_most(&db)?;
                is_acknowledged.set(true);
                db.flush()
            };
            let done = work();
            let is_through = env.failures_struck() == 0;
            if is_through {
                done.unwrap();
            }
            for (way, after) in [("killed", env.kill()), ("without power", env.crash())] {
                let context = format!("pool: {has_pool}, operation {operation}, {way}");
                let db = match tiny(&after).open(STORE) {
                    // What is emulated makes no claim after a power cut.
                    Err(error) if has_pool && way == "without power" => {
                        assert!(error.to_string().contains("slmdb repair"), "{context}: {error}");
                        continue;
                    }
                    opened => opened.unwrap_or_else(|error| panic!("{context}: {error}")),
                };
                let found = contents(&db).unwrap();
                let is_deleted = !found.contains_key(key(9).as_bytes());
                if is_deleted {
                    let mut found = found;
                    let must_have_all = way == "killed" && is_acknowledged.get();
                    if !must_have_all && !found.contains_key(&b"k0007"[..]) {
                        found.insert(b"k0007".to_vec(), b"after".to_vec());
                    }
                    assert_same(&found, &expected, &context);
                } else {
                    assert!(!(is_acknowledged.get() && way == "killed"), "{context}: what was acknowledged is lost");
                    let old = found.keys().filter(|key| key.starts_with(b"k")).count();
                    assert_eq!(old, KEYS, "{context}: a part of the range is deleted");
                }
                db.flush().unwrap();
                assert_eq!(contents(&db).unwrap().contains_key(key(9).as_bytes()), !is_deleted, "{context}, flushed");
                assert_verified(&db, &context);
                db.close().unwrap();
            }
            if is_through {
                break;
            }
        }
    }
}

/// Copies are made while parts of a range are flushed, and while the batch that it came with is only partly in table files.
#[test]
fn a_copy_has_a_range_wholly_or_not_at_all() {
    for has_pool in [false, true] {
        let (env, model) = filled(has_pool);
        let db = on(&env, has_pool).open(STORE).unwrap();
        let mut batch = WriteBatch::new();
        batch.put("a", "first").unwrap();
        batch.delete_range("k"..).unwrap();
        batch.put("z", "last").unwrap();
        let expected: Model = [("a", "first"), ("z", "last")].map(|(key, value)| (key.into(), value.into())).into();
        let mut copies = 0;
        std::thread::scope(|scope| {
            let deleting = scope.spawn(|| {
                db.write(&batch).unwrap();
                db.flush().unwrap();
            });
            while copies == 0 || !deleting.is_finished() {
                let copy = format!("/copy{copies}");
                db.checkpoint(&copy).unwrap();
                let found = contents(&tiny(&env).open(&copy).unwrap()).unwrap();
                let is_deleted = found.contains_key(&b"z"[..]);
                let context = format!("pool: {has_pool}, copy {copies}");
                assert_same(&found, if is_deleted { &expected } else { &model }, &context);
                copies += 1;
            }
        });
        db.checkpoint("/copy").unwrap();
        assert_same(&contents(&tiny(&env).open("/copy").unwrap()).unwrap(), &expected, "the last copy");
    }
}

/// What is left of a range when a store is closed, the next opening finds.
#[test]
fn a_store_is_closed_and_opened_in_the_middle_of_a_range() {
    for has_pool in [false, true] {
        let (env, model) = filled(has_pool);
        let expected = without_most(model);
        for opening in 0..6 {
            let db = on(&env, has_pool).open(STORE).unwrap();
            if opening == 0 {
                delete_most(&db).unwrap();
            }
            assert_same(&contents(&db).unwrap(), &expected, &format!("pool: {has_pool}, opening {opening}"));
            db.put("b", opening.to_string()).unwrap();
            db.delete("b").unwrap();
            assert_verified(&db, "opened");
            db.close().unwrap();
        }
    }
}

/// The log ends in the middle of what was written, so that a repair makes table files of its MemTables. Keys that a range has deleted
/// stay deleted, though the table files have them.
#[test]
fn a_repair_keeps_ranges_deleted() {
    let (env, model) = filled(false);
    let db = tiny(&env).open(STORE).unwrap();
    delete_most(&db).unwrap();
    db.sync().unwrap();
    // This record is damaged afterwards.
    db.put("z", "lost").unwrap();
    db.close().unwrap();
    let env = env.kill();
    let directory = env.list_directory(STORE.as_ref()).unwrap();
    let arenas = directory.iter().filter(|entry| entry.name.ends_with(".arena"));
    let newest = arenas.map(|entry| std::path::Path::new(STORE).join(&entry.name)).max().unwrap();
    let bytes = env.content(&newest).unwrap();
    let at = bytes.windows(4).position(|bytes| bytes == b"lost").unwrap();
    env.open_file(&newest, OpenMode::ReadWrite).unwrap().write_at(b"LOST", at as u64).unwrap();
    assert!(tiny(&env).open(STORE).is_err(), "the damage is not noticed");
    let report = tiny(&env).repair(STORE, &mut |_| ()).unwrap();
    assert!(report.memtable_entries_saved > 0, "{report:?}");
    let db = tiny(&env).open(STORE).unwrap();
    assert_same(&contents(&db).unwrap(), &without_most(model), "repaired");
    assert_verified(&db, "repaired");
}

/// A store that is opened for reading has the range in memory, and never flushes it.
#[test]
fn a_store_opened_for_reading_sees_what_was_deleted() {
    for on in MEDIA.into_iter().filter(|&on| flushes_to_files(on)) {
        let home = Home::new(on);
        let db = home.open();
        (0..100).for_each(|number| db.put(key(number), "value").unwrap());
        db.flush().unwrap();
        db.delete_range(key(10)..).unwrap();
        db.close().unwrap();
        let db = home.options().read_only(true).open(home.store()).unwrap();
        assert_eq!(keys_of(&db).len(), 10);
    }
}
