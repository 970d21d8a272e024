//! [`Catalog`]: the MANIFEST of an open store. Its records are committed one at a time, in disk space that they have beforehand.
//!
//! What was accepted is flushed whatever happens, and a flush ends with a record. So the MANIFEST has [space of its
//! own](Manifest::reserve) for the records to come before a put is admitted. Flushes stop soon on a full disk, since nothing is
//! admitted any more; compactions could go on for ever, and use up with their records what flushes will need. So a compaction begins
//! only with space for its own record, too ([`Catalog::provide_for_compaction`]), and looks again before it moves keys to an output:
//! what is not moved yet can be given up, and a record that finds no space would hold up every flush behind it.
//!
//! On a full disk the MANIFEST is written anew sooner, in the space that the [reserve](crate::space::reserve) has for that.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_env::{Error, Result};
use slmdb_manifest::{Counters, Edit, Manifest, StoreState};
use slmdb_sync::scheduled::atomic::{AtomicBool, AtomicU64};
use slmdb_sync::scheduled::{Mutex, MutexGuard};

use super::file_numbers::FileNumbers;
use super::table_cache::Tables;
use crate::context::StoreContext;
use crate::lock_order;
use crate::space::reserve::{OutputSpace, Purpose, Reserve};

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

/// What the store consists of: the MANIFEST, or, opened read-only, its state with what was recovered in memory.
pub enum CatalogState {
    /// Of a store that takes writes.
    Manifest(Manifest),
    /// Of one that does not.
    ReadOnly(StoreState),
}

impl CatalogState {
    /// The state itself.
    pub fn state(&self) -> &StoreState {
        match self {
            CatalogState::Manifest(manifest) => manifest.state(),
            CatalogState::ReadOnly(state) => state,
        }
    }
}

/// What an engine has to do with each record of the MANIFEST.
pub trait CommitHooks: Send + Sync {
    /// How many flushes are to come, the next MemTable's included, and the longest key there is, in bytes.
    fn flushes_to_come(&self) -> (u64, u64);
    /// The counters to be recorded.
    fn lifetime(&self) -> Counters;
    /// A record is about to be written: the engine may add to it.
    fn before_commit(&self, state: &StoreState, edit: &mut Edit);
    /// The record is in the MANIFEST, or not.
    fn after_commit(&self, edit: &Edit, is_committed: bool);
}

/// See the module.
pub struct Catalog {
    context: Arc<StoreContext>,
    state: Mutex<CatalogState>,
    /// The numbers of table files.
    pub numbers: FileNumbers,
    /// The disk space that leads out of a full disk.
    pub reserve: Arc<Reserve>,
    tables: Arc<Tables>,
    hooks: Box<dyn CommitHooks>,
    /// How many bytes of records the MANIFEST has space for; known without its lock.
    reserved_bytes: AtomicU64,
    /// It could not have as much as it should without the reserve, and the disk has not been found with space since.
    disk_is_full: AtomicBool,
}

impl Catalog {
    /// That of a store that has just been recovered.
    pub fn new(
        context: Arc<StoreContext>,
        state: CatalogState,
        reserve: Arc<Reserve>,
        tables: Arc<Tables>,
        hooks: impl CommitHooks + 'static,
    ) -> Catalog {
        Catalog {
            context,
            numbers: FileNumbers::new(state.state().next_file_number),
            state: Mutex::ranked(lock_order::CATALOG, state),
            reserve,
            tables,
            hooks: Box::new(hooks),
            reserved_bytes: AtomicU64::new(0),
            disk_is_full: AtomicBool::new(false),
        }
    }

    /// What is committed. Held by whoever commits, while the disk writes.
    pub fn lock(&self) -> MutexGuard<'_, CatalogState> {
        self.state.lock()
    }

    /// The same, unless somebody holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, CatalogState>> {
        self.state.try_lock()
    }

    /// Whether a file has been taken out of the store: what was in it is elsewhere now.
    pub fn is_gone(&self, number: u32) -> bool {
        !self.numbers.is_under_way(number) && !self.lock().state().files.contains_key(&number)
    }

    /// Appends to the MANIFEST. Nothing has happened of what may be tried again; any other failure stops all writing.
    pub fn commit(&self, make: impl FnOnce(&StoreState) -> Edit) -> Result<()> {
        let records_bytes = self.records_to_come_bytes();
        let mut catalog = self.lock();
        let CatalogState::Manifest(manifest) = &mut *catalog else {
            return Err(Error::ReadOnly { cause: "it was opened for reading alone".into() });
        };
        let mut edit = make(manifest.state());
        let before = manifest.length_bytes();
        edit.lifetime = Some(self.hooks.lifetime());
        self.hooks.before_commit(manifest.state(), &mut edit);
        let mut appended = manifest.settle(&*self.context.env).and_then(|()| {
            self.reserve.give_while_full(ANY_RECORD_BYTES, Purpose::Manifest, || manifest.append(&edit))
        });
        self.hooks.after_commit(&edit, appended.is_ok());
        self.count_written(manifest.length_bytes().saturating_sub(before));
        if appended.is_ok() {
            appended = self.renew_if_long(manifest, records_bytes);
        }
        self.note_manifest(manifest);
        let table_bytes = manifest.state().files.values().map(|file| file.length_bytes).sum();
        let may_be_tried_again =
            appended.as_ref().is_err_and(Error::may_be_tried_again) && manifest.check_writable().is_ok();
        drop(catalog);
        // Without the lock: it may look at how much memory there is, and close files.
        self.tables.set_table_bytes(table_bytes);
        if let (Err(error), false) = (&appended, may_be_tried_again) {
            self.context.fail(error.clone());
        }
        appended
    }

    /// Puts a shorter MANIFEST in the place of one that has grown long, with space for so many bytes of records if that can be. On
    /// a full disk it is long sooner, and the new one may take what is in the reserve for it; what the long one took fills that again.
    fn renew_if_long(&self, manifest: &mut Manifest, records_bytes: u64) -> Result<()> {
        let is_full = self.disk_is_full.load(Ordering::Relaxed);
        if !manifest.is_long(is_full) {
            return Ok(());
        }
        if is_full {
            // The record is written: the caller must not hear that nothing has happened.
            self.reserve.give(manifest.length_bytes(), Purpose::Manifest).or_else(or_later)?;
        }
        if !manifest.renew_if_long(&*self.context.env, is_full)? {
            return Ok(());
        }
        self.count_written(manifest.length_bytes());
        manifest.reserve(records_bytes).map(|()| 0).or_else(or_later)?;
        self.reserve.fill().map(|()| 0).or_else(or_later).map(drop)
    }

    fn count_written(&self, bytes: u64) {
        self.context.counted.file_bytes_written.fetch_add(bytes, Ordering::Relaxed);
    }

    fn note_manifest(&self, manifest: &Manifest) {
        self.reserved_bytes.store(manifest.reserved_bytes(), Ordering::Relaxed);
        self.reserve.set_manifest_bytes(manifest.length_bytes() + RECORDS_BYTES_MIN);
    }

    /// Sees to it that the MANIFEST has space for so many bytes of records. What is free comes first, then what a new and shorter
    /// one saves, then what is in the reserve but for an output. [`Error::Full`]: there is not as much.
    fn provide_records(&self, bytes: u64) -> Result<()> {
        if self.reserved_bytes.load(Ordering::Relaxed) >= bytes {
            return Ok(());
        }
        let mut catalog = self.lock();
        let CatalogState::Manifest(manifest) = &mut *catalog else { return Ok(()) };
        let mut provided = manifest.reserve(bytes + AHEAD_BYTES);
        if matches!(provided, Err(Error::Full { .. })) {
            provided = manifest.reserve(bytes);
        }
        if matches!(provided, Err(Error::Full { .. })) {
            self.disk_is_full.store(true, Ordering::Relaxed);
            self.renew_if_long(manifest, bytes)?;
            provided = self.reserve.give_while_full(bytes, Purpose::Records, || manifest.reserve(bytes));
        }
        self.note_manifest(manifest);
        provided
    }

    /// Sees to it that the MANIFEST has space for the records of the flushes to come.
    pub fn provide_for_flushes(&self) -> Result<()> {
        self.provide_records(self.records_to_come_bytes())
    }

    /// The same, and that the reserve is full. [`Error::Full`]: as far as that can be.
    pub fn fill_reserve(&self) -> Result<()> {
        let provided = self.provide_for_flushes();
        if provided.as_ref().is_err_and(|error| !error.may_be_tried_again()) {
            return provided;
        }
        let filled = provided.and(self.reserve.fill());
        if filled.is_ok() {
            self.disk_is_full.store(false, Ordering::Relaxed);
        }
        filled
    }

    /// Sees to it that the MANIFEST has space for the records of a compaction of so many files, and for those of the flushes to come;
    /// or, if the compaction gives space back, for some of them. [`Error::Full`]: it must not begin.
    pub fn provide_for_compaction(&self, inputs: usize, space: OutputSpace) -> Result<()> {
        let record_bytes = 2 * self.hooks.flushes_to_come().1 + inputs as u64 * RECORD_BYTES_PER_INPUT;
        match self.provide_records(record_bytes + self.records_to_come_bytes()) {
            Err(Error::Full { .. }) if space == OutputSpace::Reserve => {
                self.provide_records(record_bytes + OTHERS_BYTES)
            }
            provided => provided,
        }
    }

    /// What the records take of the MemTables that wait for their flush, or will, and of the next: each its smallest and its largest
    /// key, and all twice, since each record may make the state longer, too.
    fn records_to_come_bytes(&self) -> u64 {
        let (flushes, longest_key_bytes) = self.hooks.flushes_to_come();
        RECORDS_BYTES_MIN + 2 * flushes * 2 * longest_key_bytes
    }
}

/// What may be tried again is nothing to whoever commits now.
fn or_later(error: Error) -> Result<u64> {
    if error.may_be_tried_again() { Ok(0) } else { Err(error) }
}
