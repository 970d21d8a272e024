//! What writers and background threads share: the MemTables from the first write to the flush, what is admitted to
//! them, and which threads wait for what.

use std::collections::VecDeque;
use std::sync::Arc;

use slmdb_env::Error;
use slmdb_pmem::Medium;
use slmdb_structures::memtable::MemTable;
use slmdb_sync::scheduled::Instant;

use crate::Options;
use crate::batch::Totals;
use crate::space::admission::{Admission, STEP_PART, Wanted, memtables};
use crate::space::flush_cost::{Grant, kept_back, step_in_pool, table_bytes};
use crate::space::reserved_file::ReservedFile;
use crate::space::space_errors::SpaceErrors;

/// A MemTable or a compaction's output of usual size has at most one entry per this many bytes, but at least this many.
const BYTES_PER_ENTRY_MIN: u64 = 256;
const ENTRIES_IN_ANY_CASE: u64 = 1024;

/// The most entries of a MemTable, or of a compaction's output, of this size in bytes. An opening after a kill rebuilds
/// the lists of all MemTables and carries on the jobs that were under way, at about a microsecond per entry. With tiny
/// entries and no bound that would be seconds.
pub fn entries_max(usual_bytes: u64) -> u64 {
    (usual_bytes / BYTES_PER_ENTRY_MIN).max(ENTRIES_IN_ANY_CASE)
}

/// What writers and background threads share, under the traffic lock.
pub struct MemTables<M: Medium> {
    /// The MemTable that takes writes. `None` when the store is read-only, or was opened with no space for one.
    pub active: Option<Filling<M>>,
    /// The sequence number of the next write.
    pub next_sequence: u64,
    /// The first sequence number that the active MemTable has or would get.
    pub active_from: u64,
    /// A MemTable made ahead, so that no writer waits for syncs of the directory and the MANIFEST.
    pub spare: Option<Filling<M>>,
    /// Capacity that the next spare must have. 0: none is wanted.
    pub spare_wanted_bytes: u64,
    /// Whether a writer waits for the spare.
    pub spare_waited_for: bool,
    /// What was admitted to all MemTables and is not flushed yet.
    pub admitted: Totals,
    /// What may be admitted to all MemTables, as far as the pool is concerned.
    pub granted_in_pool: Grant,
    /// Set while more space is to be set aside.
    pub space_wanted: Option<Wanted>,
    /// Immutable MemTables that the file thread has not taken yet, oldest first.
    pub queue: VecDeque<Immutable<M>>,
    /// Number of Immutable MemTables that are not retired yet.
    pub immutables: usize,
    /// What a full disk or pool has refused. Writers that wait for that give up.
    pub setbacks: SpaceErrors,
    /// How often flushes and compactions have given space back. A change is a reason to look for space again.
    pub space_returned: u64,
    /// What a flush waits for now, if it does.
    pub flush_setback: Option<FlushSetback>,
    /// When the last flush ended, on the environment's clock.
    pub last_flush_end_ns: u64,
    /// The store is being closed: no thread waits any more.
    pub closing: bool,
}

impl<M: Medium> MemTables<M> {
    /// How far flushes have fallen behind; see [`crate::stall::pacing`].
    pub fn debt(&self, options: &Options) -> f64 {
        let part = |active: &Filling<M>| active.memtable.used_bytes() as f64 / active.memtable.capacity_bytes() as f64;
        let waiting = self.immutables as f64 - 1.0 + self.active.as_ref().map_or(0.0, part);
        waiting / options.immutable_memtables_max as f64
    }
}

/// A flush that waits for space.
#[derive(Debug, Clone)]
pub struct FlushSetback {
    /// What is full.
    pub cause: Error,
    /// When it first found that.
    pub since: Instant,
}

/// A MemTable that takes writes, or will, and the space for its flush.
pub struct Filling<M: Medium> {
    /// The MemTable itself.
    pub memtable: Arc<MemTable<M>>,
    /// What has been admitted to it.
    pub totals: Totals,
    /// Disk space set aside for its table file.
    pub space: Option<Arc<ReservedFile>>,
}

impl<M: Medium> Filling<M> {
    /// Bytes left in its arena.
    pub fn room_bytes(&self) -> u64 {
        self.memtable.capacity_bytes().saturating_sub(self.memtable.used_bytes())
    }

    /// Whether it takes `more` entries, its arena aside; see [`entries_max`]. A larger batch gets a MemTable to itself.
    pub fn takes_entries(&self, more: u64, usual_bytes: u64) -> bool {
        self.totals.entries == 0 || self.totals.entries + more <= entries_max(usual_bytes)
    }

    /// Disk space set aside for its table file, in bytes.
    pub fn space_bytes(&self) -> u64 {
        self.space.as_ref().map_or(0, |space| space.length_bytes())
    }
}

/// A MemTable that takes no more writes.
pub struct Immutable<M: Medium> {
    /// The MemTable itself.
    pub memtable: Arc<MemTable<M>>,
    /// The last sequence number handed out for it.
    pub last_sequence: u64,
    /// What has been admitted to it.
    pub totals: Totals,
    /// Disk space set aside for its table file.
    pub space: Option<Arc<ReservedFile>>,
}

impl<M: Medium> Immutable<M> {
    /// A MemTable that was filled up to `last_sequence`.
    pub fn new(full: Filling<M>, last_sequence: u64) -> Immutable<M> {
        let Filling { memtable, totals, space } = full;
        Immutable { memtable, last_sequence, totals, space }
    }
}

/// The list of MemTables that readers take.
pub struct MemTableView<M: Medium> {
    /// Newest first.
    pub memtables: Vec<Arc<MemTable<M>>>,
}

/// Whether a write may be admitted to the active MemTable.
pub fn admission<M: Medium>(
    options: &Options,
    traffic: &MemTables<M>,
    active: &Filling<M>,
    totals: &Totals,
    deletes_alone: bool,
) -> Admission {
    let more = totals.plus(&kept_back(options, deletes_alone));
    let (all, granted) = (traffic.admitted.plus(&more), &traffic.granted_in_pool);
    let on_disk = table_bytes(options, &active.totals.plus(&more));
    let set_aside = active.space_bytes();
    if !granted.covers(&all, memtables(traffic.immutables, deletes_alone)) || on_disk > set_aside {
        return Admission::Refused;
    }
    let left = granted.totals.entries - all.entries;
    let step = options.memtable_bytes / STEP_PART;
    if left < step_in_pool(options, &Totals::default()).entries / 2 || on_disk + step / 2 > set_aside {
        return Admission::Scarce;
    }
    Admission::Granted
}
