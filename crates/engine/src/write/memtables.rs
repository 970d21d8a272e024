//! What writers and background threads share: the MemTables from the first write to the flush, what is admitted to
//! them, and which threads wait for what.

use std::collections::VecDeque;
use std::sync::Arc;

use slmdb_env::Error;
use slmdb_pmem::Medium;
use slmdb_structures::memtable::MemTable;
use slmdb_sync::scheduled::Instant;

use crate::batch::Totals;
use crate::space::admission::{Grant, Margins, table_bytes};
use crate::space::reserved_file::ReservedFile;
use crate::space::space_errors::SpaceErrors;
use crate::{Options, WriteBatch};

/// A MemTable or a compaction's output of usual size has at most one entry per this many bytes, but at least this many.
const BYTES_PER_ENTRY_MIN: u64 = 256;
const ENTRIES_IN_ANY_CASE: u64 = 1024;
/// With less than this power of two more than there is, each write computes what its table file takes.
const HALVINGS_MAX: u32 = 16;

/// The most entries of a MemTable, or of a compaction's output, of this size in bytes. An opening after a kill rebuilds
/// the lists of all MemTables and carries on the jobs that were under way, at about a microsecond per entry. With tiny
/// entries and no bound that would be seconds.
pub fn entries_max(usual_bytes: u64) -> u64 {
    (usual_bytes / BYTES_PER_ENTRY_MIN).max(ENTRIES_IN_ANY_CASE)
}

/// What writers and background threads share, under the memtables lock.
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
    /// What must be left when a write is admitted.
    pub margins: Margins,
    /// Set while more space is to be set aside: for this write, or, without entries, for no writer that waits.
    pub space_wanted: Option<Totals>,
    /// Immutable MemTables that the file thread has not taken yet, oldest first.
    pub queue: VecDeque<Immutable<M>>,
    /// Number of Immutable MemTables that are not retired yet.
    pub immutables: usize,
    /// What a full disk or pool has refused. Writers that wait for that give up.
    pub space_errors: SpaceErrors,
    /// How often flushes and compactions have given space back. A change is a reason to look for space again.
    pub space_returned: u64,
    /// What a flush waits for now, if it does.
    pub blocked_flush: Option<BlockedFlush>,
    /// When the last flush ended, on the environment's clock.
    pub last_flush_end_ns: u64,
    /// The store is being closed: no thread waits any more.
    pub closing: bool,
}

impl<M: Medium> MemTables<M> {
    /// What is granted once the pool has this in addition. Until then no more is granted than that, because it is perhaps
    /// less than before, and writers are at work meanwhile.
    pub fn begin_grant(&mut self, more: Grant) -> Grant {
        let totals = self.admitted.plus(&more.totals);
        let grant = Grant { totals, memtables: self.immutables as u64 + more.memtables };
        self.granted_in_pool = self.granted_in_pool.at_most(&grant);
        grant
    }

    /// Takes off a MemTable that was flushed. Returns what is still granted.
    pub fn release(&mut self, flushed: &Totals) -> Grant {
        self.admitted = self.admitted.minus(flushed);
        self.immutables -= 1;
        self.space_returned += 1;
        self.granted_in_pool = self.granted_in_pool.minus(flushed);
        self.granted_in_pool
    }

    /// How far flushes have fallen behind; see [`crate::stall::pacing`].
    pub fn debt(&self, options: &Options) -> f64 {
        let part = |active: &Filling<M>| active.memtable.used_bytes() as f64 / active.memtable.capacity_bytes() as f64;
        let waiting = self.immutables as f64 - 1.0 + self.active.as_ref().map_or(0.0, part);
        waiting / options.immutable_memtables_max as f64
    }

    /// Whether a write may be admitted to the active MemTable (INV-30).
    pub fn admission(&mut self, options: &Options, batch: &WriteBatch) -> Admission {
        let active = self.active.as_mut().filter(|active| active.has_place_for(batch, options.memtable_bytes));
        let Some(active) = active else { return Admission::NoPlace };
        // The write, and the deletes that must still find space after it, in the MemTables there will be.
        let totals = batch.totals();
        let is_put = !totals.are_deletes();
        let more = if is_put { totals.plus(&self.margins.for_deletes) } else { *totals };
        let memtables = self.immutables as u64 + if is_put { 2 } else { 1 };
        let (all, granted) = (self.admitted.plus(&more), &self.granted_in_pool);
        if granted.memtables < memtables || !granted.totals.covers_in_index(&all) {
            return Admission::NoSpace;
        }
        match active.file_admission(&active.totals.plus(&more), options, self.margins.file_bytes) {
            Admission::Granted if granted.totals.entries - all.entries < self.margins.entries => Admission::Scarce,
            on_disk => on_disk,
        }
    }
}

/// Whether a write may be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// There is a place for it, and space for its flush.
    Granted,
    /// The same, but more space should be set aside soon.
    Scarce,
    /// There is no space for its flush.
    NoSpace,
    /// The active MemTable has no place for it.
    NoPlace,
}

/// A flush that waits for space.
#[derive(Debug, Clone)]
pub struct BlockedFlush {
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
    /// Entries for whose table file that space certainly does, with a step to spare. Most writes are compared with
    /// this, so that they need not compute what their table file takes. It stays right while the space only grows.
    covered: Totals,
}

impl<M: Medium> Filling<M> {
    /// A MemTable to which `totals` have been admitted, with this disk space for its table file.
    pub fn new(memtable: MemTable<M>, totals: Totals, space: Option<Arc<ReservedFile>>) -> Filling<M> {
        Filling { memtable: Arc::new(memtable), totals, space, covered: Totals::default() }
    }

    /// Whether its arena has a place for a batch, and it takes as many entries; see [`entries_max`]. A batch with more
    /// of them gets a MemTable to itself.
    fn has_place_for(&self, batch: &WriteBatch, usual_bytes: u64) -> bool {
        let (memtable, payload) = (&self.memtable, batch.payload());
        let record_bytes = memtable.links().space_for(payload.len_bytes(), payload.count());
        let entries = self.totals.entries + batch.totals().entries;
        memtable.capacity_bytes().saturating_sub(memtable.used_bytes()) >= record_bytes
            && (self.totals.entries == 0 || entries <= entries_max(usual_bytes))
    }

    /// Whether a table file of these entries has its space. With less than `margin_bytes` left, space is scarce.
    fn file_admission(&mut self, needed: &Totals, options: &Options, margin_bytes: u64) -> Admission {
        let left_bytes = |totals: &Totals| self.space_bytes().checked_sub(table_bytes(options, totals));
        let has_margin = |totals: &Totals| left_bytes(totals).is_some_and(|left_bytes| left_bytes >= margin_bytes);
        if self.covered.covers(needed) {
            debug_assert!(has_margin(needed), "INV-30: {needed:?} of {:?}", self.covered);
            return Admission::Granted;
        }
        if !has_margin(needed) {
            return if left_bytes(needed).is_some() { Admission::Scarce } else { Admission::NoSpace };
        }
        // As much more of the same as there is space for.
        let more = |halvings: u32| needed.plus(&needed.divided_by(1 << halvings));
        self.covered = (0..HALVINGS_MAX).map(more).find(has_margin).unwrap_or(*needed);
        Admission::Granted
    }

    /// Lets writes count on no more disk space than what is admitted takes, with what must be left beside it and a step.
    /// Returns the space if it is longer than that: the caller cuts it.
    pub fn promise_no_more(&mut self, options: &Options, margins: &Margins) -> Option<Arc<ReservedFile>> {
        let step_bytes = 2 * margins.file_bytes;
        let kept_bytes = table_bytes(options, &self.totals.plus(&margins.for_deletes)).saturating_add(step_bytes);
        let space = self.space.clone().filter(|space| space.length_bytes() > kept_bytes)?;
        self.covered = Totals::default();
        space.promise_at_most(kept_bytes);
        Some(space)
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
        let Filling { memtable, totals, space, .. } = full;
        Immutable { memtable, last_sequence, totals, space }
    }
}

/// The list of MemTables that readers take.
pub struct MemTableView<M: Medium> {
    /// Newest first.
    pub memtables: Vec<Arc<MemTable<M>>>,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use slmdb_env::Env;
    use slmdb_env::memory::MemoryEnv;
    use slmdb_pmem::{Arena, Dram};
    use slmdb_structures::memtable::MemTableOptions;

    use super::*;

    /// What is kept of earlier answers changes none, whatever the mix of writes and however the space grows.
    #[test]
    fn covered_entries_are_exactly_what_has_its_space() {
        let (options, env) = (Options::default(), MemoryEnv::new());
        env.create_directory(Path::new("/db")).unwrap();
        let (margin_bytes, mut random) = (64 << 10, 17_u64);
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let (mut granted, mut scarce, mut refused) = (0, 0, 0);
        for generation in 0..20 {
            let arena = Arena::from_bytes(Dram, Path::new("/db/arena"), vec![0; 4096]);
            let memtable = MemTable::create(arena, generation, [0; 16], &MemTableOptions::default());
            let space = Arc::new(ReservedFile::new(&env, Path::new("/db"), generation).unwrap());
            let mut active = Filling::new(memtable, Totals::default(), Some(space.clone()));
            let largest = [10, 1000, 100_000][generation as usize % 3];
            for _ in 0..3000 {
                let mut needed = active.totals;
                let is_delete = draw(4) == 0;
                let longest = if draw(100) == 0 { 3000 } else { 30 };
                needed.add(draw(longest) as usize, (!is_delete).then(|| draw(largest) as usize));
                let left_bytes = space.length_bytes().checked_sub(table_bytes(&options, &needed));
                let expected = match left_bytes {
                    None => Admission::NoSpace,
                    Some(left_bytes) if left_bytes < margin_bytes => Admission::Scarce,
                    Some(_) => Admission::Granted,
                };
                assert_eq!(active.file_admission(&needed, &options, margin_bytes), expected, "{needed:?}");
                match expected {
                    Admission::Granted => granted += 1,
                    Admission::Scarce => scarce += 1,
                    _ => refused += 1,
                }
                if expected != Admission::NoSpace {
                    active.totals = needed;
                }
                if expected != Admission::Granted && draw(8) == 0 {
                    space.raise(space.length_bytes() + draw(8 * margin_bytes)).unwrap();
                }
            }
        }
        assert!(granted > 1000 && scarce > 100 && refused > 100, "{granted}, {scarce}, {refused}");
    }
}
