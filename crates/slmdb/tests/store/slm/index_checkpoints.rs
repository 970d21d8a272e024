//! Index checkpoints, and the index made from files alone: whatever was flushed, deleted and closed or killed when, and
//! whichever checkpoint is damaged or missing, the store holds what it held, or says that it can't be opened.

use slmdb_testkit::{Failure, MemoryEnv, Repeat};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{Home, Model, On, Random, assert_same, assert_verified, contents, no_compaction, wait_until};
use slmdb::{Db, Error, ErrorKind, Loss, Options, WriteBatch};
use slmdb_env::OsEnv;
use slmdb_manifest::Manifest;
use slmdb_slm::manifest_section::Section;

/// A checkpoint after every few flushes.
fn options(home: &Home) -> Options {
    home.options().memtable_bytes(16 << 10).advanced(|advanced| advanced.checkpoint_entries(64))
}

fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

/// Random puts and deletes of few keys, so that most versions are dead.
pub(super) fn write(db: &Db, model: &mut Model, random: &mut Random, count: usize) {
    for number in 0..count {
        let key = format!("key {:04}", random.below(700)).into_bytes();
        if random.below(3) == 0 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = vec![number as u8; random.below(60) as usize];
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        if random.below(400) == 0 {
            db.flush().unwrap();
        }
    }
}

fn check(db: &Db, model: &Model) {
    assert_same(&contents(db).unwrap(), model, "contents");
    assert_verified(db, "contents");
}

/// The second one is for deletes that are dropped.
#[test]
fn a_store_without_deletes_keeps_one_checkpoint_and_can_do_without_it() {
    let home = Home::new(On::Dram);
    let mut model = Model::new();
    let fill = |model: &mut Model, deletes: bool| {
        let db = options(&home).open(home.store()).unwrap();
        check(&db, model);
        for round in 0..4_u64 {
            for number in 0..200_u64 {
                let (key, value) = (format!("key {number:04}").into_bytes(), vec![round as u8; 50]);
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            if deletes {
                db.delete("key 0007").unwrap();
                model.remove(&b"key 0007"[..]);
            }
            db.flush().unwrap();
        }
        db.close().unwrap();
    };
    for _ in 0..3 {
        fill(&mut model, false);
        assert_eq!(files(&home.store(), "checkpoint").len(), 1);
    }
    let checkpoint = files(&home.store(), "checkpoint").remove(0);
    std::fs::write(&checkpoint, b"damage").unwrap();
    check(&options(&home).open(home.store()).unwrap(), &model);
    for expected in [1, 2, 2] {
        fill(&mut model, expected == 2);
        if expected == 2 {
            fill(&mut model, true);
        }
        assert_eq!(files(&home.store(), "checkpoint").len(), expected);
    }
    fill(&mut model, false);
    assert_eq!(files(&home.store(), "checkpoint").len(), 2, "deletes may have been dropped");
}

#[test]
fn the_index_is_rebuilt_from_checkpoints_and_what_came_later() {
    for on in crate::common::MEDIA {
        let home = Home::new(on);
        let (mut model, mut random) = (Model::new(), Random(7));
        let mut seen = 0;
        for round in 0..12 {
            let db = options(&home).open(home.store()).unwrap();
            check(&db, &model);
            write(&db, &mut model, &mut random, 1500);
            if round % 3 == 0 {
                db.flush().unwrap();
            }
            db.close().unwrap();
            let checkpoints = files(&home.store(), "checkpoint").len();
            assert!(checkpoints <= 2);
            seen = seen.max(checkpoints);
        }
        assert_eq!(seen, 2, "{on:?}");
    }
}

/// What is damaged or missing of the checkpoints is done without.
#[test]
fn what_is_damaged_or_missing_of_checkpoints_is_done_without() {
    let home = Home::new(On::Dram);
    let (mut model, mut random) = (Model::new(), Random(8));
    // With compactions, which drop deletes, not every damage could be done without.
    for _ in 0..4 {
        let db = options(&home).compaction(no_compaction()).open(home.store()).unwrap();
        write(&db, &mut model, &mut random, 1500);
        db.close().unwrap();
    }
    let names: Vec<_> =
        files(&home.store(), "checkpoint").iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names.len(), 2);
    // Which of the two is damaged, by bits; and where.
    for which in 0..4 {
        for place in 0..20 {
            let copy = home.copy();
            for (number, name) in names.iter().enumerate().filter(|(number, _)| which >> number & 1 == 1) {
                let path = copy.store().join(name);
                let mut bytes = std::fs::read(&path).unwrap();
                let at = (bytes.len() - 1) * (place + number) / 20;
                if place == 19 {
                    std::fs::remove_file(path).unwrap();
                } else {
                    bytes[at] ^= 1 << (place % 8);
                    std::fs::write(path, bytes).unwrap();
                }
            }
            let read_only = Options::default().read_only(true).open(copy.store()).unwrap();
            assert_same(&contents(&read_only).unwrap(), &model, "read-only");
            drop(read_only);
            let db = Options::default().open(copy.store()).unwrap();
            if which == 1 {
                // Nobody needed the older one; `verify` reads it all the same.
                assert_same(&contents(&db).unwrap(), &model, "contents");
                let findings = db.verify(&mut |_| ()).unwrap().findings;
                assert!(findings.iter().all(|finding| finding.to_string().contains("checkpoint")), "{findings:?}");
                assert!(!findings.is_empty());
            } else {
                check(&db, &model);
                let left = files(&copy.store(), "checkpoint").len();
                assert_eq!(left, [2, 0, 1, 0][which], "the damaged ones are gone");
            }
            db.close().unwrap();
        }
    }
}

/// Found by fuzzing: the close that took the next one failed, because the oldest could not be removed.
#[test]
fn a_checkpoint_that_is_gone_is_dropped_like_one_that_is_there() {
    let home = Home::new(On::Dram);
    let (mut model, mut random) = (Model::new(), Random(9));
    let options = || options(&home).compaction(no_compaction());
    options().open(home.store()).unwrap().close().unwrap();
    while files(&home.store(), "checkpoint").len() < 2 {
        let db = options().open(home.store()).unwrap();
        write(&db, &mut model, &mut random, 300);
        db.close().unwrap();
    }
    std::fs::remove_file(&files(&home.store(), "checkpoint")[0]).unwrap();
    let newest = files(&home.store(), "checkpoint").pop();
    while files(&home.store(), "checkpoint").pop() == newest {
        let db = options().open(home.store()).unwrap();
        write(&db, &mut model, &mut random, 300);
        db.close().unwrap();
    }
    let db = options().open(home.store()).unwrap();
    check(&db, &model);
    db.close().unwrap();
}

/// Writers are not stopped by a checkpoint and all of it agrees afterwards.
#[test]
fn writers_are_not_stopped_by_a_checkpoint() {
    let home = Home::new(On::Dram);
    let db = options(&home).advanced(|advanced| advanced.checkpoint_entries(1)).open(home.store()).unwrap();
    let budget = crate::common::budget();
    std::thread::scope(|scope| {
        for writer in 0..3_u64 {
            let db = db.clone();
            scope.spawn(move || {
                let mut random = Random(writer);
                for round in 0..150 * budget {
                    let mut batch = WriteBatch::new();
                    for _ in 0..30 {
                        let key = [writer as u8, random.below(250) as u8];
                        if random.below(2) == 0 {
                            batch.delete(key).unwrap()
                        } else {
                            batch.put(key, round.to_be_bytes()).unwrap()
                        };
                    }
                    db.write(&batch).unwrap();
                }
            });
        }
    });
    let before = contents(&db).unwrap();
    check(&db, &before);
    db.close().unwrap();
    let db = options(&home).open(home.store()).unwrap();
    check(&db, &before);
}

#[test]
fn a_live_count_that_is_not_true_is_told() {
    let home = Home::new(On::Dram);
    let db = options(&home).open(home.store()).unwrap();
    write(&db, &mut Model::new(), &mut Random(9), 800);
    db.flush().unwrap();
    db.close().unwrap();
    let env = OsEnv::new();
    let mut state = Manifest::read(&env, &home.store()).unwrap().state;
    let file = state.files.values_mut().find(|file| file.live_keys > 0).unwrap();
    file.live_keys -= 1;
    Manifest::rewrite(&env, &home.store(), &state).unwrap();
    let error = options(&home).open(home.store()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("live"), "{error}");
}

/// A flush that has swung the index and finds no space for its MANIFEST record is given up by a close. A checkpoint that was
/// taken at that close lacked what the flush had deleted, and the MANIFEST counted it: the store could not be opened.
#[test]
fn a_close_that_gives_up_a_flush_leaves_no_checkpoint_of_it() {
    let env = MemoryEnv::new();
    // So many that one is due at the close, and none before.
    let options = crate::common::options()
        .env(Arc::new(env.clone()))
        .advanced(|advanced| advanced.checkpoint_entries(800))
        .compaction(no_compaction());
    let db = options.open("/db").unwrap();
    let key = |number: u32| format!("key{number:03}");
    (0..100).for_each(|number| db.put(key(number), "value").unwrap());
    db.flush().unwrap();
    (0..50).for_each(|number| db.delete(key(number)).unwrap());
    env.fail_next("allocate /db/MANIFEST", Failure::Full, Repeat::ForGood);
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Full);
    // Until it waits so long between two attempts that it sleeps when the store is closed.
    let struck = env.failures_struck();
    wait_until("many attempts", || env.failures_struck() >= struck + 12);
    env.clear_failures();
    db.close().unwrap();
    let db = options.open("/db").unwrap();
    assert!((0..100).all(|number| db.contains_key(key(number)).unwrap() == (number >= 50)));
    assert_verified(&db, "opened again");
}

/// A closed store whose newest deletes are in two index checkpoints, and no table file has them any more: compactions have dropped them.
/// Of what they deleted table files have older versions, unless `older_are_gone`. Returns what it holds, and the number of the last
/// such delete.
fn with_dropped_deletes(home: &Home, older_are_gone: bool) -> (Model, u64) {
    let db = options(home)
        .advanced(|advanced| advanced.checkpoint_entries(1))
        .compaction(no_compaction())
        .open(home.store())
        .unwrap();
    let mut model = Model::new();
    let mut put = |key: String| {
        db.put(&key, "value").unwrap();
        model.insert(key.into_bytes(), b"value".to_vec());
    };
    ["a", "b deleted", "c deleted"].into_iter().for_each(|key| put(key.into()));
    db.flush().unwrap();
    ["b deleted", "c deleted"].into_iter().for_each(|key| db.delete(key).unwrap());
    let last_delete = db.stats().last_sequence_number;
    put("z".into());
    db.flush().unwrap();
    for round in 0..2 {
        (0..20).for_each(|number| put(format!("d {number}, round {round}")));
        db.flush().unwrap();
        let last = db.stats().last_sequence_number;
        wait_until("an index checkpoint of all there is", || {
            // (It may be written anew at this moment.)
            let state = Manifest::read(&OsEnv::new(), &home.store()).map(|reading| reading.state);
            state.is_ok_and(|state| {
                Section::of(&state).unwrap().checkpoints.last().is_some_and(|newest| newest.through == last)
            })
        });
    }
    // What overlaps the range is compacted, with the deletes; not what they deleted.
    if older_are_gone { db.compact_range::<&str>(..) } else { db.compact_range("y"..) }.unwrap();
    assert_eq!(db.table_files().iter().map(|file| file.deletes).sum::<u64>(), 0);
    db.close().unwrap();
    let state = Manifest::read(&OsEnv::new(), &home.store()).unwrap().state;
    let section = Section::of(&state).unwrap();
    assert_eq!((section.deletes_dropped_through, section.checkpoints.len()), (last_delete, 2));
    assert!(section.checkpoints[0].through > last_delete);
    model.retain(|key, _| !key.ends_with(b"deleted"));
    (model, last_delete)
}

/// Whether or not anything would come back: nobody can know.
#[test]
fn without_a_checkpoint_of_dropped_deletes_a_store_is_refused() {
    for (on, older_are_gone) in crate::common::MEDIA.into_iter().flat_map(|on| [(on, false), (on, true)]) {
        let home = Home::new(on);
        let context = format!("{on:?}, the older versions are gone: {older_are_gone}");
        let (model, last_delete) = with_dropped_deletes(&home, older_are_gone);
        let checkpoints = files(&home.store(), "checkpoint");
        assert_eq!(checkpoints.len(), 2, "{context}");

        let with_one = home.copy();
        std::fs::remove_file(with_one.store().join(checkpoints[1].file_name().unwrap())).unwrap();
        assert_same(&contents(&options(&with_one).open(with_one.store()).unwrap()).unwrap(), &model, &context);

        for are_removed in [false, true] {
            let home = home.copy();
            for path in files(&home.store(), "checkpoint") {
                if are_removed {
                    std::fs::remove_file(path).unwrap();
                } else {
                    let mut bytes = std::fs::read(&path).unwrap();
                    bytes[0] ^= 1;
                    std::fs::write(&path, bytes).unwrap();
                }
            }
            // With a pool the index is there.
            if on == On::Dram {
                for read_only in [true, false] {
                    let error = options(&home).read_only(read_only).open(home.store()).unwrap_err();
                    let Error::Corruption { file, .. } = &error else { panic!("{context}: {error}") };
                    assert_eq!(file.file_name(), checkpoints[1].file_name(), "{context}: {error}");
                }
            } else {
                // (Opened for writing it might be compacted, and what came back would be gone.)
                let db = options(&home).read_only(true).open(home.store()).unwrap();
                assert_same(&contents(&db).unwrap(), &model, &context);
            }
            let report = options(&home).repair(home.store(), &mut |_| ()).unwrap();
            assert_eq!(report.losses, [Loss::Deletes { through_sequence: last_delete }], "{context}");
            let db = options(&home).open(home.store()).unwrap();
            let mut found = contents(&db).unwrap();
            let come_back = found.len() - model.len();
            assert_eq!(come_back, if older_are_gone { 0 } else { 2 }, "{context}");
            found.retain(|key, _| !key.ends_with(b"deleted"));
            assert_same(&found, &model, &context);
            assert_verified(&db, &context);
            db.close().unwrap();
            // It has said so; what there is now is what there is.
            let report = options(&home).repair(home.store(), &mut |_| ()).unwrap();
            assert!(report.losses.is_empty(), "{context}: {report:#?}");
        }
    }
}
