//! [`Catalog`]: the MANIFEST of an open store. Its records are committed one at a time, in disk space that was provided
//! beforehand.
//!
//! What was accepted must be flushed whatever happens, and a flush ends with a record. So the MANIFEST has [space of
//! its own](Manifest::reserve) for the records to come before a put is admitted.
//!
//! On a full disk flushes soon stop, since nothing is admitted any more. Compactions could go on, and use up with
//! their records the space that flushes will need. So a compaction begins only with space for its own record, too
//! ([`Catalog::provide_for_compaction`]). It asks again before it moves keys to an output: until then it can be given
//! up, and a record without space would hold up every flush behind it.
//!
//! On a full disk the MANIFEST is also renewed sooner, in the space that the [reserve](crate::space::reserve) keeps for
//! that.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_env::{Error, Result};
use slmdb_manifest::{Counters, Edit, Excess, Manifest, StoreState};
use slmdb_sync::scheduled::atomic::{AtomicBool, AtomicU64};
use slmdb_sync::scheduled::{Mutex, MutexGuard};

use super::file_numbers::FileNumbers;
use super::table_cache::Tables;
use crate::context::StoreContext;
use crate::lock_order;
use crate::space::reserve::{OutputSpace, Purpose, Reserve};

/// The MANIFEST has space for at least this many bytes of records, beside the long keys in them.
const RECORDS_BYTES_MIN: u64 = 16 << 10;
/// Space for this much more is provided at a time, so that not every record needs a system call.
const AHEAD_BYTES: u64 = 8 << 10;
/// The space for records that a compaction which gives space back must leave to others.
const OTHERS_BYTES: u64 = 8 << 10;
/// The most bytes that a record has for each input of a compaction.
const RECORD_BYTES_PER_INPUT: u64 = 32;
/// The most bytes that a record has for each output, beside its keys.
const RECORD_BYTES_PER_OUTPUT: u64 = 256;
/// More bytes than any record takes.
const ANY_RECORD_BYTES: u64 = 1 << 32;

/// What the store consists of. For a read-only store that is the state in memory, with what was recovered.
pub enum CatalogState {
    /// The MANIFEST of a store that takes writes.
    Manifest(Manifest),
    /// The state of a read-only store.
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

/// What an engine adds to the records of the MANIFEST.
pub trait CommitHooks: Send + Sync {
    /// How many flushes are to come, the next MemTable's included, and the length of the longest key in bytes.
    fn flushes_to_come(&self) -> (u64, u64);
    /// The counters to record.
    fn lifetime(&self) -> Counters;
    /// Called before a record is written. The engine may add to it.
    fn before_commit(&self, state: &StoreState, edit: &mut Edit);
    /// Called after the attempt to write a record. `is_committed`: whether the MANIFEST has it.
    fn after_commit(&self, edit: &Edit, is_committed: bool);
}

/// The MANIFEST of an open store.
pub struct Catalog {
    context: Arc<StoreContext>,
    state: Mutex<CatalogState>,
    /// The numbers of table files.
    pub numbers: FileNumbers,
    /// The disk space that leads out of a full disk.
    pub reserve: Arc<Reserve>,
    tables: Arc<Tables>,
    hooks: Box<dyn CommitHooks>,
    /// Bytes of all table files. Changed under the catalog lock.
    table_bytes: AtomicU64,
    /// How many bytes of records the MANIFEST has space for. Read without the lock.
    reserved_bytes: AtomicU64,
    /// Whether records have needed the reserve's space, or the reserve could not be filled, since it was last full.
    disk_is_full: AtomicBool,
}

impl Catalog {
    /// The catalog of a store that has just been recovered.
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
            table_bytes: AtomicU64::new(sum_of_lengths(state.state())),
            state: Mutex::ranked(lock_order::CATALOG, state),
            reserve,
            tables,
            hooks: Box::new(hooks),
            reserved_bytes: AtomicU64::new(0),
            disk_is_full: AtomicBool::new(false),
        }
    }

    /// What is committed. A commit holds the lock while the disk writes.
    /// LOCKS: catalog
    pub fn lock(&self) -> MutexGuard<'_, CatalogState> {
        self.state.lock()
    }

    /// The same, unless another thread holds the lock.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, CatalogState>> {
        self.state.try_lock()
    }

    /// Whether a compaction has taken a file out of the store. Its entries are then in other files.
    /// LOCKS: file numbers; catalog
    pub fn is_gone(&self, number: u32) -> bool {
        !self.numbers.is_under_way(number) && !self.lock().state().files.contains_key(&number)
    }

    /// Appends a record to the MANIFEST. After an error that [may be tried again](Error::may_be_tried_again) nothing
    /// has happened. Any other error stops all writing (INV-27).
    /// LOCKS: those of [`CommitHooks`]; catalog, reserve, reserved file
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
        let table_bytes = self.table_bytes_after(&edit, manifest.state());
        // INV-29: the name of a new MANIFEST becomes durable first.
        let mut appended = manifest.settle(&*self.context.env).and_then(|()| {
            self.reserve.give_while_full(ANY_RECORD_BYTES, Purpose::Manifest, || manifest.append(&edit))
        });
        self.hooks.after_commit(&edit, appended.is_ok());
        self.count_written(manifest.length_bytes().saturating_sub(before));
        if appended.is_ok() {
            // (Not later: another thread may compact a file away at once, and who finds it gone must not take it for one that is being
            // made.)
            let added = edit.files_added.iter().chain(&edit.lists_added);
            added.for_each(|(number, _)| self.numbers.end(*number));
            self.table_bytes.store(table_bytes, Ordering::Relaxed);
            debug_assert_eq!(table_bytes, sum_of_lengths(manifest.state()), "{edit:?}");
            appended = self.renew_if_long(manifest, records_bytes, self.excess());
        }
        self.note_manifest(manifest);
        let may_be_tried_again =
            appended.as_ref().is_err_and(Error::may_be_tried_again) && manifest.check_writable().is_ok();
        drop(catalog);
        // Without the lock, because this may ask for the free memory, and close files.
        self.tables.set_table_bytes(self.table_bytes());
        if let (Err(error), false) = (&appended, may_be_tried_again) {
            self.context.fail(error.clone());
        }
        appended
    }

    /// Whether the reserve could not be filled, or a record needed it, since it was last full.
    pub fn disk_is_full(&self) -> bool {
        self.disk_is_full.load(Ordering::Relaxed)
    }

    /// Bytes of all table files.
    pub fn table_bytes(&self) -> u64 {
        self.table_bytes.load(Ordering::Relaxed)
    }

    /// What [`Catalog::table_bytes`] will be after this edit.
    /// LOCKS: catalog (held)
    fn table_bytes_after(&self, edit: &Edit, state: &StoreState) -> u64 {
        let added = || edit.files_added.iter().map(|(number, file)| (*number, file.length_bytes));
        let length_bytes = |number: &u32| match state.files.get(number) {
            Some(file) => file.length_bytes,
            // The same edit may add and remove it.
            None => added().find(|(added, _)| added == number).map_or(0, |(_, bytes)| bytes),
        };
        let added_bytes: u64 = added().map(|(_, bytes)| bytes).sum();
        let removed_bytes: u64 = edit.files_removed.iter().map(length_bytes).sum();
        (self.table_bytes() + added_bytes).saturating_sub(removed_bytes)
    }

    /// Puts a shorter MANIFEST in the place of one that has grown long, and provides space in it for `records_bytes` of
    /// records if there is as much. On a full disk a shorter one counts as long already, and the new one may take the
    /// reserve's space. The space of the long one then fills the reserve again.
    /// LOCKS: catalog (held); reserve, reserved file
    fn renew_if_long(&self, manifest: &mut Manifest, records_bytes: u64, excess: Excess) -> Result<()> {
        if !manifest.is_long(excess) {
            return Ok(());
        }
        if excess != Excess::Usual {
            // The record is written, so the caller must not get an error that says nothing has happened.
            self.reserve.give(manifest.length_bytes(), Purpose::Manifest).or_else(or_later)?;
        }
        if !manifest.renew_if_long(&*self.context.env, excess)? {
            return Ok(());
        }
        self.count_written(manifest.length_bytes());
        manifest.reserve(records_bytes).map(|()| 0).or_else(or_later)?;
        self.reserve.fill().map(|()| 0).or_else(or_later).map(drop)
    }

    /// What is too long for a MANIFEST now.
    fn excess(&self) -> Excess {
        if self.disk_is_full.load(Ordering::Relaxed) { Excess::OnFullDisk } else { Excess::Usual }
    }

    fn count_written(&self, bytes: u64) {
        self.context.counted.file_bytes_written.fetch_add(bytes, Ordering::Relaxed);
    }

    fn note_manifest(&self, manifest: &Manifest) {
        self.reserved_bytes.store(manifest.reserved_bytes(), Ordering::Relaxed);
        self.reserve.set_manifest_bytes(manifest.length_bytes() + manifest.reserved_bytes().max(RECORDS_BYTES_MIN));
    }

    /// Makes sure that the MANIFEST has space for `bytes` of records. It takes free space first, then what a new and
    /// shorter MANIFEST saves, then the reserve's space beyond that of a compaction's output. [`Error::Full`]: there is
    /// not as much.
    /// LOCKS: catalog, reserve, reserved file
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
            self.renew_if_long(manifest, bytes, Excess::OnFullDisk)?;
            provided = self.reserve.give_while_full(bytes, Purpose::Others, || manifest.reserve(bytes));
        }
        self.note_manifest(manifest);
        provided
    }

    /// Makes sure that the MANIFEST has space for the records of the flushes to come.
    /// LOCKS: those of [`CommitHooks`]; catalog, reserve, reserved file
    pub fn provide_for_flushes(&self) -> Result<()> {
        self.provide_records(self.records_to_come_bytes())
    }

    /// The same, and fills the reserve. After [`Error::Full`] both have what there was.
    /// LOCKS: those of [`CommitHooks`]; catalog, reserve, reserved file
    pub fn fill_reserve(&self) -> Result<()> {
        self.while_whole(0, || Ok(()))
    }

    /// Does that, and then runs this, which takes `more_bytes`, while the reserve stays [whole](Reserve::while_whole). On a full
    /// disk, rewrites a long MANIFEST in a shorter form and tries once more.
    /// LOCKS: those of [`CommitHooks`]; catalog, reserve, reserved file
    pub fn while_whole(&self, more_bytes: u64, run: impl Fn() -> Result<()>) -> Result<()> {
        let attempt = || {
            let provided = self.provide_for_flushes();
            if provided.as_ref().is_err_and(|error| !error.may_be_tried_again()) {
                return provided;
            }
            // The reserve gets what there is, even if the MANIFEST lacks something.
            match provided {
                Ok(()) => self.reserve.while_whole(more_bytes, &run),
                lacking => self.reserve.fill().and(lacking),
            }
        };
        let mut done = attempt();
        if matches!(done, Err(Error::Full { .. })) && self.renew_on_a_full_disk(Excess::OnFullDisk)? {
            done = attempt();
        }
        if done.is_ok() {
            self.disk_is_full.store(false, Ordering::Relaxed);
        }
        done
    }

    /// On a full disk, puts a shorter MANIFEST in the place of one with such an excess. Returns whether it has. (A long one
    /// takes its length twice: the reserve keeps as much back for a new one. And while it has space of its own for the
    /// records to come, no record finds out that the disk is full.)
    /// LOCKS: those of [`CommitHooks`]; catalog, reserve, reserved file
    pub fn renew_on_a_full_disk(&self, excess: Excess) -> Result<bool> {
        // Then a compaction has the space that is missing, and brings it back.
        if self.reserve.is_taken() {
            return Ok(false);
        }
        let records_bytes = self.records_to_come_bytes();
        let mut catalog = self.lock();
        let CatalogState::Manifest(manifest) = &mut *catalog else { return Ok(false) };
        self.disk_is_full.store(true, Ordering::Relaxed);
        let before_bytes = manifest.length_bytes();
        let renewed = self.renew_if_long(manifest, records_bytes, excess);
        self.note_manifest(manifest);
        renewed.map(|()| manifest.length_bytes() < before_bytes)
    }

    /// Makes sure that the MANIFEST has space for the record of a compaction of `inputs` files, and for those of the
    /// flushes to come. A compaction that gives space back may leave space for only some of them. [`Error::Full`]: the
    /// compaction must not begin (INV-34).
    /// LOCKS: those of [`CommitHooks`]; catalog, reserve, reserved file
    pub fn provide_for_compaction(&self, inputs: usize, space: OutputSpace) -> Result<()> {
        let record_bytes = 2 * self.hooks.flushes_to_come().1 + inputs as u64 * RECORD_BYTES_PER_INPUT;
        match self.provide_records(record_bytes + self.records_to_come_bytes()) {
            Err(Error::Full { .. }) if space == OutputSpace::Reserve => {
                self.provide_records(record_bytes + OTHERS_BYTES)
            }
            provided => provided,
        }
    }

    /// The same for a compaction whose outputs are written: `key_bytes` are those of their smallest and largest keys.
    /// [`Error::Full`]: the outputs must be given up (INV-34).
    /// LOCKS: those of [`CommitHooks`]; catalog, reserve, reserved file
    pub fn provide_for_outputs(&self, inputs: usize, outputs: usize, key_bytes: u64) -> Result<()> {
        let fixed_bytes = outputs as u64 * RECORD_BYTES_PER_OUTPUT + inputs as u64 * RECORD_BYTES_PER_INPUT;
        self.provide_records(2 * (key_bytes + fixed_bytes) + self.records_to_come_bytes())
    }

    /// The most bytes that the records of the flushes to come take. Each has the file's smallest and largest key. All
    /// counts twice, because each record may make the state longer, too.
    fn records_to_come_bytes(&self) -> u64 {
        let (flushes, longest_key_bytes) = self.hooks.flushes_to_come();
        RECORDS_BYTES_MIN + 2 * flushes * 2 * longest_key_bytes
    }
}

/// Passes over an error that may be tried again: a later commit does that.
fn or_later(error: Error) -> Result<u64> {
    if error.may_be_tried_again() { Ok(0) } else { Err(error) }
}

fn sum_of_lengths(state: &StoreState) -> u64 {
    state.files.values().map(|file| file.length_bytes).sum()
}
