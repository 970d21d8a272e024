//! What is so when `compact_range` returns: nothing obsolete is left, neither in the store nor in its directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Home, MEDIA, On, assert_verified, eager_compaction, no_compaction, wait_until};
use crate::space::machine::{STORE, tables};
use slmdb::{CompactionOptions, Db, Event, Result};
use slmdb_env::{DaxDevice, DirectoryEntry, Env, File, FileIdentity, Lock, LockMode, OpenMode};
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

/// A disk that takes its time to remove a file, and to make an index checkpoint.
#[derive(Debug)]
struct Slow(MemoryEnv);

const SLOW: Duration = Duration::from_millis(50);

impl Env for Slow {
    fn remove_file(&self, path: &Path) -> Result<()> {
        std::thread::sleep(SLOW);
        self.0.remove_file(path)
    }

    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        if path.extension().is_some_and(|extension| extension == "checkpoint") {
            std::thread::sleep(SLOW);
        }
        self.0.open_file(path, mode)
    }

    fn hold_directory(&self, _: &Path) -> Result<Arc<dyn Env>> {
        Ok(Arc::new(Slow(self.0.clone())))
    }

    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        self.0.identity(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.0.rename(from, to)
    }

    fn link_file(&self, from: &Path, to: &Path) -> Result<bool> {
        self.0.link_file(from, to)
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        self.0.create_directory(path)
    }

    fn remove_directory(&self, path: &Path) -> Result<bool> {
        self.0.remove_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        self.0.sync_directory(path)
    }

    fn list_directory(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        self.0.list_directory(path)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.0.exists(path)
    }

    fn dax_device(&self, path: &Path) -> Result<Option<DaxDevice>> {
        self.0.dax_device(path)
    }

    fn is_directory(&self, path: &Path) -> Result<Option<bool>> {
        self.0.is_directory(path)
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.0.absolute(path)
    }

    fn resolved(&self, path: &Path) -> Result<PathBuf> {
        self.0.resolved(path)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn Lock>> {
        self.0.lock(path, mode)
    }

    fn available_bytes(&self, path: &Path) -> Result<u64> {
        self.0.available_bytes(path)
    }

    fn memory_to_give_bytes(&self) -> Option<u64> {
        self.0.memory_to_give_bytes()
    }

    fn unix_time_ns(&self) -> u64 {
        self.0.unix_time_ns()
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns()
    }

    fn boot_id(&self) -> [u8; 16] {
        self.0.boot_id()
    }

    fn random_bytes(&self, bytes: &mut [u8]) {
        self.0.random_bytes(bytes);
    }
}

fn named(db: &Db) -> Vec<String> {
    db.table_files().iter().map(|file| format!("{:010}.sst", file.number)).collect()
}

/// (Those of a compaction whose record was in the MANIFEST already were still being removed.)
#[test]
fn files_that_another_compaction_was_removing_have_gone() {
    let env = MemoryEnv::new();
    let compaction = CompactionOptions { threads: 2, ..eager_compaction() };
    let options = crate::common::options().env(Arc::new(Slow(env.clone()))).sync(true).compaction(compaction);
    let db = options.open(STORE).unwrap();
    for _ in 0..2 {
        (0..100).for_each(|key: u32| db.put(key.to_be_bytes(), [7; 100]).unwrap());
        db.flush().unwrap();
    }
    // The first file is all garbage.
    wait_until("it is taken out of the store", || db.table_files().iter().all(|file| file.highest_sequence > 100));
    db.compact_range::<&[u8]>(..).unwrap();
    assert_eq!(tables(&env), named(&db));
    db.close().unwrap();
}

/// (No test noticed when it was forgotten: then it stays until the next opening.)
#[test]
fn a_file_that_could_not_be_removed_goes_later() {
    let env = MemoryEnv::new();
    let db = crate::common::options().env(Arc::new(env.clone())).compaction(no_compaction()).open(STORE).unwrap();
    let put_all = || {
        (0..100).for_each(|key: u32| db.put(key.to_be_bytes(), [7; 100]).unwrap());
        db.flush().unwrap();
    };
    put_all();
    let first = tables(&env).remove(0);
    put_all();
    env.fail_next(&format!("remove {STORE}/{first}"), Failure::Io, Repeat::Once);
    db.compact_range::<&[u8]>(..).unwrap();
    wait_until("it could not be removed", || env.failures_struck() == 1);
    assert!(!named(&db).contains(&first));
    // What is compacted next is removed, and that file with it.
    put_all();
    db.compact_range::<&[u8]>(..).unwrap();
    wait_until("it is gone", || tables(&env) == named(&db));
    db.close().unwrap();
}

fn number(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn put_and_delete(db: &Db, from: u32, to: u32) {
    for from in (from..to).step_by(500) {
        (from..to.min(from + 500)).for_each(|key| db.put(number(key), [7; 100]).unwrap());
        db.flush().unwrap();
        (from..to.min(from + 500)).for_each(|key| db.delete(number(key)).unwrap());
        db.flush().unwrap();
    }
}

/// (SLM-DB kept files of deletes until two index checkpoints had covered them.)
#[test]
fn a_store_emptied_and_compacted_holds_no_deletes() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.options().compaction(no_compaction()).open(home.store()).unwrap();
        for round in 0..3 {
            put_and_delete(&db, round * 2000, round * 2000 + 2000);
            db.compact_range::<&[u8]>(..).unwrap();
            assert_eq!(named(&db), [""; 0], "{on:?}, round {round}");
        }
        // A copy is rebuilt from its files, on `Dram`.
        let copy = Home::new(On::Dram);
        db.checkpoint(copy.store()).unwrap();
        db.close().unwrap();
        for home in [&home, &copy] {
            let db = home.open();
            assert!(db.range::<&[u8]>(..).unwrap().next().is_none(), "{on:?}");
            assert_verified(&db, "emptied and compacted");
        }
    }
}

#[test]
fn a_part_emptied_and_compacted_holds_no_deletes() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.options().compaction(no_compaction()).open(home.store()).unwrap();
        (0..1000).for_each(|key| db.put(number(key), [7; 100]).unwrap());
        db.flush().unwrap();
        put_and_delete(&db, 1000, 3000);
        db.delete(number(500)).unwrap();
        db.compact_range(number(1000)..).unwrap();
        let deletes: u64 = db
            .table_files()
            .iter()
            .filter(|file| file.largest_key >= number(1000).to_vec())
            .map(|file| file.deletes)
            .sum();
        assert_eq!(deletes, 0, "{on:?}");
        db.close().unwrap();
        let db = home.open();
        assert_eq!(db.range::<&[u8]>(..).unwrap().count(), 999, "{on:?}");
        assert_verified(&db, "a part emptied and compacted");
    }
}

/// Only SLM-DB has checkpoints of an index.
mod slm {
    use super::*;

    /// (It was taken when `compact_range` had returned, and left files in which nothing was needed.)
    #[test]
    fn deletes_that_a_checkpoint_under_way_covers_have_gone() {
        let env = MemoryEnv::new();
        let checkpoints = Arc::new(AtomicU64::new(0));
        let counted = checkpoints.clone();
        let options = crate::common::options().env(Arc::new(Slow(env.clone()))).sync(true).compaction(no_compaction());
        let options =
            options.advanced(|advanced| advanced.checkpoint_entries(50)).event_listener(move |event: &Event| {
                let is_one = matches!(event, Event::IndexCheckpointTaken { .. });
                counted.fetch_add(u64::from(is_one), Ordering::Relaxed);
            });
        let db = options.open(STORE).unwrap();
        let one_more = |number| {
            db.flush().unwrap();
            wait_until("a checkpoint is taken", || checkpoints.load(Ordering::Relaxed) == number);
        };
        (0..100).for_each(|key: u32| db.put(key.to_be_bytes(), [7; 100]).unwrap());
        one_more(1);
        (0..100).for_each(|key: u32| db.delete(key.to_be_bytes()).unwrap());
        one_more(2);
        // After this flush the third is taken. Then two of them cover the deletes.
        (100..200).for_each(|key: u32| db.put(key.to_be_bytes(), [7; 100]).unwrap());
        db.compact_range::<&[u8]>(..).unwrap();
        let deletes: u64 = db.table_files().iter().map(|file| file.deletes).sum();
        assert_eq!(deletes, 0, "they became garbage when it had returned");
        assert_eq!(tables(&env), named(&db));
        db.close().unwrap();
    }
}
