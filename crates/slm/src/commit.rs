//! Commits: the records of the MANIFEST, one at a time, and the disk space that they need.
//!
//! What was accepted is flushed whatever happens, and a flush ends with a record. So the MANIFEST has [space of its
//! own](Manifest::reserve) for the records to come before a put is admitted. Flushes stop soon on a full disk, since nothing is
//! admitted any more; compactions could go on for ever, and use up with their records what flushes will need. So a compaction begins
//! only with space for its own record, too ([`Store::provide_for_compaction`]), and looks again before it moves keys to an output:
//! what is not moved yet can be given up, and a record that finds no space would hold up every flush behind it.
//!
//! On a full disk the MANIFEST is written anew sooner, in the space that the [reserve](slmdb_engine::space::reserve) has for that.

use std::sync::atomic::Ordering;

use slmdb_engine::space::reserve::Purpose;
use slmdb_env::{Error, Result};
use slmdb_manifest::{Edit, Manifest, StoreState};
use slmdb_pmem::Medium;
use slmdb_sync::scheduled::atomic::{AtomicBool, AtomicU64};

use crate::compaction::plan::In;
use crate::store::{Catalog, Store};

/// The MANIFEST has space for so many bytes of records at least, beside what long keys take in them.
const RECORDS_BYTES_MIN: u64 = 16 << 10;
/// More is set aside at a time, so that this is not done for every record.
const AHEAD_BYTES: u64 = 8 << 10;
/// What a compaction that gives space back leaves of it to others at least.
const OTHERS_BYTES: u64 = 8 << 10;
/// What a record has of each input of a compaction, at most, in bytes.
const RECORD_BYTES_PER_INPUT: u64 = 32;
/// More than the space that any record may take.
const ANY_RECORD_BYTES: u64 = 1 << 32;

/// What is known of the MANIFEST without its lock.
#[derive(Debug, Default)]
pub(crate) struct ManifestSpace {
    /// How many bytes of records it has space for.
    reserved_bytes: AtomicU64,
    /// It could not have as much as it should without the reserve, and the disk has not been found with space since.
    disk_is_full: AtomicBool,
}

impl<M: Medium + Clone> Store<M> {
    /// Appends to the MANIFEST. Nothing has happened of what may be tried again; any other failure stops all writing.
    pub(crate) fn commit(&self, make: impl FnOnce(&StoreState) -> Edit) -> Result<()> {
        let records_bytes = self.records_to_come_bytes();
        let mut catalog = self.catalog.lock();
        let Catalog::Manifest(manifest) = &mut *catalog else {
            return Err(Error::ReadOnly { cause: "it was opened for reading alone".into() });
        };
        let mut edit = make(manifest.state());
        let before = manifest.length_bytes();
        edit.lifetime = Some(self.lifetime());
        self.candidates.before_commit(manifest.state(), &mut edit, self.checkpoints.deletes_droppable_through());
        let mut appended = manifest.settle(&*self.env).and_then(|()| {
            self.reserve.give_while_full(ANY_RECORD_BYTES, Purpose::Manifest, || manifest.append(&edit))
        });
        self.candidates.after_commit(&edit, appended.is_ok());
        self.counted.file_bytes_written.fetch_add(manifest.length_bytes().saturating_sub(before), Ordering::Relaxed);
        if appended.is_ok() {
            appended = self.renew_if_long(manifest, records_bytes);
        }
        self.note_manifest(manifest);
        self.tables.set_table_bytes(manifest.state().files.values().map(|file| file.length_bytes).sum());
        let may_be_tried_again =
            appended.as_ref().is_err_and(Error::may_be_tried_again) && manifest.check_writable().is_ok();
        drop(catalog);
        if let (Err(error), false) = (&appended, may_be_tried_again) {
            self.fail(error.clone());
        }
        appended
    }

    /// Puts a shorter MANIFEST in the place of one that has grown long, with space for so many bytes of records if that can be. On
    /// a full disk it is long sooner, and the new one may take what is in the reserve for it; what the long one took fills that again.
    fn renew_if_long(&self, manifest: &mut Manifest, records_bytes: u64) -> Result<()> {
        let is_full = self.manifest_space.disk_is_full.load(Ordering::Relaxed);
        if !manifest.is_long(is_full) {
            return Ok(());
        }
        if is_full {
            // (Whoever commits has done so: he must not be told that nothing has happened.)
            self.reserve.give(manifest.length_bytes(), Purpose::Manifest).or_else(or_later)?;
        }
        if !manifest.renew_if_long(&*self.env, is_full)? {
            return Ok(());
        }
        self.counted.file_bytes_written.fetch_add(manifest.length_bytes(), Ordering::Relaxed);
        manifest.reserve(records_bytes).map(|()| 0).or_else(or_later)?;
        self.reserve.fill().map(|()| 0).or_else(or_later).map(drop)
    }

    fn note_manifest(&self, manifest: &Manifest) {
        self.manifest_space.reserved_bytes.store(manifest.reserved_bytes(), Ordering::Relaxed);
        self.reserve.set_manifest_bytes(manifest.length_bytes() + RECORDS_BYTES_MIN);
    }

    /// Sees to it that the MANIFEST has space for so many bytes of records. What is free comes first, then what a new and shorter
    /// one saves, then what is in the reserve but for an output. [`Error::Full`]: there is not as much.
    fn provide_records(&self, bytes: u64) -> Result<()> {
        if self.manifest_space.reserved_bytes.load(Ordering::Relaxed) >= bytes {
            return Ok(());
        }
        let mut catalog = self.catalog.lock();
        let Catalog::Manifest(manifest) = &mut *catalog else { return Ok(()) };
        let mut provided = manifest.reserve(bytes + AHEAD_BYTES);
        if matches!(provided, Err(Error::Full { .. })) {
            provided = manifest.reserve(bytes);
        }
        if matches!(provided, Err(Error::Full { .. })) {
            self.manifest_space.disk_is_full.store(true, Ordering::Relaxed);
            self.renew_if_long(manifest, bytes)?;
            provided = self.reserve.give_while_full(bytes, Purpose::Records, || manifest.reserve(bytes));
        }
        self.note_manifest(manifest);
        provided
    }

    /// Sees to it that the MANIFEST has space for the records of the flushes to come.
    pub(crate) fn provide_for_flushes(&self) -> Result<()> {
        self.provide_records(self.records_to_come_bytes())
    }

    /// The same, and that the reserve is full. [`Error::Full`]: as far as that can be.
    pub(crate) fn fill_reserve(&self) -> Result<()> {
        let provided = self.provide_for_flushes();
        if provided.as_ref().is_err_and(|error| !error.may_be_tried_again()) {
            return provided;
        }
        let filled = provided.and(self.reserve.fill());
        if filled.is_ok() {
            self.manifest_space.disk_is_full.store(false, Ordering::Relaxed);
        }
        filled
    }

    /// Sees to it that the MANIFEST has space for the records of a compaction of so many files, and for those of the flushes to come;
    /// or, if the compaction gives space back, for some of them. [`Error::Full`]: it must not begin.
    pub(crate) fn provide_for_compaction(&self, inputs: usize, space: In) -> Result<()> {
        let record_bytes = self.longest_keys_bytes() + inputs as u64 * RECORD_BYTES_PER_INPUT;
        match self.provide_records(record_bytes + self.records_to_come_bytes()) {
            Err(Error::Full { .. }) if space == In::Reserve => self.provide_records(record_bytes + OTHERS_BYTES),
            provided => provided,
        }
    }

    /// What the keys in a record of the MANIFEST take, if they are the longest.
    fn longest_keys_bytes(&self) -> u64 {
        let indexed_bytes = self.pool_reserve.indexed_keys.lock().longest_bytes;
        2 * u64::from(indexed_bytes.max(self.writes.traffic.lock().admitted.long_keys.longest_bytes))
    }

    /// What the records take of the MemTables that wait for their flush, or will, and of the next; twice, since each may make
    /// the state longer, too.
    fn records_to_come_bytes(&self) -> u64 {
        let flushes = {
            let traffic = self.writes.traffic.lock();
            let has_entries = traffic.active.as_ref().is_some_and(|active| active.totals.entries > 0);
            traffic.immutables as u64 + u64::from(has_entries) + 1
        };
        RECORDS_BYTES_MIN + 2 * flushes * self.longest_keys_bytes()
    }
}

/// What may be tried again is nothing to whoever commits now.
fn or_later(error: Error) -> Result<u64> {
    if error.may_be_tried_again() { Ok(0) } else { Err(error) }
}
