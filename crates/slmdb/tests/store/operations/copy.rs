//! Copies of a store in use: what was acknowledged before is in them, both go their own ways, and a copy that was cut
//! short is no store.

use slmdb_testkit::{Failure, MemoryEnv, Repeat};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{
    Home, MEDIA, Model, On, Random, assert_same, assert_verified, contents, eager_compaction, engine, no_compaction,
    wait_until,
};
use slmdb::{Db, EngineName, ErrorKind};
use slmdb_env::{Env, OpenMode, OsEnv};
use slmdb_manifest::{Manifest, StoreState};

fn names(env: &dyn Env, directory: &Path) -> BTreeSet<String> {
    env.list_directory(directory).unwrap().into_iter().map(|entry| entry.name).collect()
}

fn bytes(env: &dyn Env, path: &Path) -> Vec<u8> {
    let file = env.open_file(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.length_bytes().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Before anybody has opened it: the copy has the files that its MANIFEST names, all of them and no others, and each is in it byte for
/// byte. (An opening would do without a checkpoint.) Says how many index checkpoints there are.
#[track_caller]
fn assert_has_what_its_manifest_names(env: &dyn Env, store: &Path, copy: &Path) -> usize {
    let state = Manifest::read(env, copy).unwrap().state;
    let tables = state.files.keys().map(|number| format!("{number:010}.sst"));
    let checkpoints = own_files(&state);
    let shared: BTreeSet<String> = tables.chain(checkpoints.iter().cloned()).collect();
    let own = ["LOCK", "MANIFEST"].map(String::from);
    assert_eq!(names(env, copy), shared.iter().cloned().chain(own).collect(), "{}", copy.display());
    for name in shared {
        assert!(bytes(env, &copy.join(&name)) == bytes(env, &store.join(&name)), "{name} is another file");
    }
    checkpoints.iter().filter(|name| name.ends_with(".checkpoint")).count()
}

/// The names of the index checkpoints that a MANIFEST names, oldest first.
fn own_files(state: &StoreState) -> Vec<String> {
    let files = slmdb::engines::of_name(engine()).and_then(|kind| (kind.own_files)(state)).unwrap();
    files.into_iter().map(|(name, _)| name).collect()
}

/// Twice overwrites 400 keys and deletes one, each time in one flush, and waits for the index checkpoint that this makes due.
/// No other is. (Where nothing was deleted there would be one.)
fn fill_until_two_checkpoints(db: &Db, newest_checkpoint: impl Fn() -> Option<String>, model: &mut Model) {
    let mut random = Random(17);
    for _ in 0..2 {
        let before = newest_checkpoint();
        for number in 0..400 {
            let (key, value) = (format!("key{number:03}").into_bytes(), random.bytes(100));
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        db.delete("no key").unwrap();
        db.flush().unwrap();
        if engine() == EngineName::Slm {
            wait_until("an index checkpoint", || newest_checkpoint() > before);
        }
    }
}

/// How many of them there are then. Only SLM-DB has any.
fn checkpoints() -> usize {
    if engine() == EngineName::Slm { 2 } else { 0 }
}

/// The newest index checkpoint that the MANIFEST names.
fn newest_checkpoint(env: &dyn Env, store: &Path) -> Option<String> {
    // (It may be written anew at this moment.)
    let state = Manifest::read(env, store).map(|reading| reading.state);
    own_files(&state.ok()?).pop()
}

/// A copy has the files that its manifest names before it is opened.
#[test]
fn a_copy_has_the_files_that_its_manifest_names() {
    for on in crate::common::media_with_files() {
        let (home, env) = (Home::new(on), OsEnv::new());
        let options = home
            .options()
            .memtable_bytes(256 << 10)
            .advanced(|advanced| advanced.checkpoint_entries(400))
            .compaction(no_compaction());
        let (store, mut model) = (home.store(), Model::new());
        let db = options.open(&store).unwrap();
        fill_until_two_checkpoints(&db, || newest_checkpoint(&env, &store), &mut model);
        let copy = store.with_file_name("copy");
        db.checkpoint(&copy).unwrap();
        assert_eq!(assert_has_what_its_manifest_names(&env, &store, &copy), checkpoints(), "{on:?}");
        assert_same(&contents(&crate::common::options().open(&copy).unwrap()).unwrap(), &model, "the copy");
    }
}

/// Where a file gets no second name (between file systems, say) it is copied.
#[test]
fn where_files_cannot_be_shared_a_copy_has_their_bytes() {
    let env = MemoryEnv::new();
    env.set_shares_names(false);
    let (store, copy) = (Path::new("/db"), Path::new("/copy"));
    let options = |env: &MemoryEnv| crate::common::options().env(Arc::new(env.clone())).compaction(no_compaction());
    let db = options(&env).advanced(|advanced| advanced.checkpoint_entries(400)).open(store).unwrap();
    let mut model = Model::new();
    // More than is copied at a time.
    let large = Random(5).bytes((5 << 20) / 2);
    db.put("large", &large).unwrap();
    model.insert(b"large".to_vec(), large);
    fill_until_two_checkpoints(&db, || newest_checkpoint(&env, store), &mut model);
    db.checkpoint(copy).unwrap();
    assert!(db.table_files().iter().any(|file| file.bytes > 2 << 20), "one was copied in pieces");
    for env in [env.kill(), env.crash()] {
        assert_eq!(assert_has_what_its_manifest_names(&env, store, copy), checkpoints());
        let opened = options(&env).open(copy).unwrap();
        assert_same(&contents(&opened).unwrap(), &model, "the copy");
        assert_verified(&opened, "the copy");
    }
    // They share nothing: what becomes of the one is nothing to the other.
    db.put("key000", "of the store").unwrap();
    db.compact_range::<&[u8]>(..).unwrap();
    db.close().unwrap();
    let opened = options(&env).open(copy).unwrap();
    assert_same(&contents(&opened).unwrap(), &model, "the copy");
}

/// Its inputs are retired, and stay in the directory until the copy has them.
#[test]
fn a_compaction_that_ends_during_a_copy_takes_no_file_from_it() {
    for on in crate::common::media_with_files() {
        let env = MemoryEnv::new();
        let options = |env: &MemoryEnv| crate::common::options().env(Arc::new(env.clone())).compaction(no_compaction());
        let (store, copy) = (Path::new("/db"), Path::new("/copy"));
        let pool = (on == On::Emulated).then(|| "/pool".into());
        let of_store = options(&env).medium(on.medium(pool)).pool_initial_bytes(1 << 20).memtable_bytes(16 << 10);
        let db = of_store.open(store).unwrap();
        let mut model = Model::new();
        for round in 0..3_u8 {
            for number in (0..100_u8).step_by(1 + usize::from(round)) {
                db.put([number], [round; 50]).unwrap();
                model.insert(vec![number], vec![round; 50]);
            }
            db.flush().unwrap();
        }
        let tables = |db: &Db| -> BTreeSet<String> {
            db.table_files().iter().map(|file| format!("{:010}.sst", file.number)).collect()
        };
        let inputs = tables(&db);
        assert_eq!(inputs.len(), 3);
        let (compacting, is_first) = (db.clone(), AtomicBool::new(true));
        env.call_before("link /db/", move || {
            if is_first.swap(false, Ordering::Relaxed) {
                compacting.compact_range::<&[u8]>(..).unwrap();
            }
        });
        db.checkpoint(copy).unwrap();
        env.clear_calls();
        assert!(tables(&db).is_disjoint(&inputs), "{on:?}: they were compacted before the first link");
        let copied: BTreeSet<_> = names(&env, copy).into_iter().filter(|name| name.ends_with(".sst")).collect();
        assert_eq!(copied, inputs, "{on:?}");
        // Nobody holds them any more.
        let left: BTreeSet<_> = names(&env, store).into_iter().filter(|name| name.ends_with(".sst")).collect();
        assert_eq!(left, tables(&db), "{on:?}");
        let opened = options(&env).open(copy).unwrap();
        assert_same(&contents(&opened).unwrap(), &model, "the copy");
        assert_verified(&opened, "the copy");
        assert_same(&contents(&db).unwrap(), &model, "the store");
        assert_verified(&db, "the store");
    }
}

/// A copy holds what was acknowledged while writes and compactions go on.
#[test]
fn a_copy_holds_what_was_acknowledged_while_writes_go_on() {
    for on in MEDIA {
        let home = Home::new(on);
        let options = home
            .options()
            .memtable_bytes(16 << 10)
            .advanced(|advanced| advanced.checkpoint_entries(200))
            .compaction(eager_compaction());
        let db = options.open(home.store()).unwrap();
        let mut model = Model::new();
        let mut random = Random(3);
        let done = AtomicBool::new(false);
        for round in 0..4 {
            for _ in 0..1500 {
                let key = format!("key{:04}", random.below(500)).into_bytes();
                if random.one_in(4) {
                    db.delete(&key).unwrap();
                    model.remove(&key);
                } else {
                    let value = random.bytes(80);
                    db.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
            let copy = home.store().with_file_name(format!("copy{round}"));
            done.store(false, Ordering::Release);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for number in 0.. {
                        db.put(format!("other{:03}", number % 300), number.to_string()).unwrap();
                        if done.load(Ordering::Acquire) {
                            break;
                        }
                    }
                });
                db.checkpoint(&copy).unwrap();
                done.store(true, Ordering::Release);
            });
            let opened = crate::common::options().memtable_bytes(16 << 10).open(&copy).unwrap();
            let mut found = contents(&opened).unwrap();
            found.retain(|key, _| !key.starts_with(b"other"));
            assert_same(&found, &model, "the copy");
            assert_verified(&opened, "the copy");
            // They go their own ways.
            opened.delete("key0000").unwrap();
            opened.put("key0001", "of the copy").unwrap();
            opened.compact_range::<&[u8]>(..).unwrap();
            assert_verified(&opened, "the copy, compacted");
            opened.close().unwrap();
            let mut found = contents(&db).unwrap();
            found.retain(|key, _| !key.starts_with(b"other"));
            assert_same(&found, &model, "the store");
            let error = db.checkpoint(&copy).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        assert_verified(&db, "the store");
        db.close().unwrap();
        let db = home.on(crate::common::options()).open(home.store()).unwrap();
        assert_verified(&db, "the store, opened again");
    }
}

#[test]
fn a_copy_that_was_cut_short_is_no_store_and_harms_none() {
    for shares_names in [true, false] {
        cut_short_everywhere(shares_names);
    }
}

/// Copies a store, whose files get second names or are copied, and cuts that short at every operation.
fn cut_short_everywhere(shares_names: bool) {
    let options = |env: &MemoryEnv| {
        crate::common::options()
            .env(Arc::new(env.clone()))
            .sync(true)
            .memtable_bytes(4 << 10)
            .pool_initial_bytes(1 << 20)
    };
    let fill = |db: &Db| {
        for number in 0..100 {
            db.put(format!("key{number:03}"), [1; 100]).unwrap();
        }
        db.flush().unwrap();
    };
    let mut cut_short = 0;
    for k in 0.. {
        let env = MemoryEnv::new();
        env.set_shares_names(shares_names);
        let db = options(&env).open("/db").unwrap();
        fill(&db);
        env.fail_at(env.operation_count() + k, Failure::Io, Repeat::ForGood);
        let copied = db.checkpoint("/copy");
        let struck = env.failures_struck() > 0;
        env.clear_failures();
        let env = env.crash();
        drop(db);
        let db = options(&env).open("/db").unwrap();
        assert_eq!(contents(&db).unwrap().len(), 100);
        let copy = options(&env).create_if_missing(false).open("/copy");
        if copied.is_ok() {
            assert_eq!(contents(&copy.unwrap()).unwrap().len(), 100, "a copy that was made outlives a power cut");
        } else {
            cut_short += 1;
            // Whole, if it failed at the very end; else no store.
            assert!(copy.map_or(true, |copy| contents(&copy).unwrap().len() == 100));
        }
        if !struck {
            break;
        }
    }
    // With every file that is copied, not linked, there are more.
    assert!(cut_short > if shares_names { 5 } else { 10 }, "{cut_short}");
}
