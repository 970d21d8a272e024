//! What writers and background threads share: the MemTables from the first write to the flush, what is admitted to
//! them, and which threads wait for what.

use std::collections::VecDeque;
use std::sync::Arc;

use slmdb_env::Error;
use slmdb_pmem::AnyMedium;
use slmdb_structures::memtable::MemTable;

use crate::batch::Totals;
use crate::flush::deletes::{Deletes, Progress};
use crate::space::allowance::{Request, Taken};
use crate::space::reserved_file::ReservedFile;
use crate::space::space_errors::SpaceErrors;
use crate::{Options, WriteBatch};

/// What writers and background threads share, under the memtables lock.
pub struct MemTables {
    /// The MemTable that takes writes. `None` when the store is read-only, or was opened with no space for one.
    pub active: Option<Filling>,
    /// The sequence number of the next write.
    pub next_sequence: u64,
    /// The first sequence number that the active MemTable has or would get.
    pub active_from: u64,
    /// A MemTable made ahead, so that no writer waits for syncs of the directory and the MANIFEST.
    pub spare: Option<Filling>,
    /// What a MemTable is wanted for.
    pub wanted: Option<Wanted>,
    /// Whether there was no space for what is wanted, so far.
    pub is_short_of_space: bool,
    /// What the last MemTable took that became full.
    pub last_taken: Taken,
    /// The length of the longest key that the MemTables may have which are not flushed, in bytes.
    pub longest_key_bytes: u32,
    /// Immutable MemTables that the file thread has not taken yet, oldest first.
    pub queue: VecDeque<Immutable>,
    /// A part of the first in the queue is being flushed.
    pub is_part_under_way: bool,
    /// Number of Immutable MemTables that are not retired yet.
    pub immutables: usize,
    /// What a full disk or pool has refused. Writers that wait for that give up.
    pub space_errors: SpaceErrors,
    /// How often flushes and compactions have given space back. A change is a reason to look for space again.
    pub space_returned: u64,
    /// What a flush lacks now, if it waits.
    pub blocked_flush: Option<Error>,
    /// When the last flush ended, on the environment's clock.
    pub last_flush_end_ns: u64,
    /// The store is being closed: no thread waits any more.
    pub closing: bool,
}

impl MemTables {
    /// What tells how much the next MemTable will take: the active one, once it tells more than the last one.
    pub fn last_taken(&self) -> Taken {
        let active = self.active.as_ref().map(Filling::taken);
        active.filter(|taken| taken.arena_bytes >= self.last_taken.arena_bytes).unwrap_or(self.last_taken)
    }

    /// How far flushes have fallen behind; see [`crate::stall::pacing`].
    pub fn debt(&self, options: &Options) -> f64 {
        let waiting = self.immutables as f64 - 1.0 + self.active.as_ref().map_or(0.0, Filling::filled_part);
        waiting / options.immutable_memtables_max as f64
    }

    /// Asks for a MemTable. Of several waiting writers, the smallest request comes first.
    pub fn want(&mut self, request: Request, is_waited_for: bool) {
        let is_first = match &self.wanted {
            Some(wanted) if wanted.is_waited_for => is_waited_for && request.is_at_most(&wanted.request),
            Some(_) => is_waited_for,
            None => true,
        };
        if is_first {
            self.wanted = Some(Wanted { request, is_waited_for });
        }
    }
}

/// See [`MemTables::want`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// What it is for.
    pub request: Request,
    /// Whether a writer waits for it.
    pub is_waited_for: bool,
}

/// A MemTable deletes no more ranges than this, but for those of one batch.
const RANGE_DELETES_MAX: u64 = 1024;

/// A MemTable that takes writes, or will, and the space for its flush.
pub struct Filling {
    /// The MemTable itself.
    pub memtable: Arc<MemTable<AnyMedium>>,
    /// What has been admitted to it.
    pub totals: Totals,
    /// What may be admitted to it: space for the flush of so much is set aside.
    pub allowance: Totals,
    /// The part of `totals` since the last delete of a range, if there was one.
    since_range: Totals,
    /// How many ranges it deletes, those too that are not in the MemTable yet.
    range_deletes: u64,
    /// With more than this in it, the next MemTable is made.
    half: Totals,
    /// Disk space set aside for its table file.
    pub space: Option<Arc<ReservedFile>>,
    /// Whether more than what is in it may be admitted, or ever was. (Not to one that an opening has made, until the first write.)
    pub is_granted: bool,
    /// Whether it takes deletes alone, because its space comes from the reserve.
    pub is_for_deletes: bool,
}

impl Filling {
    /// A MemTable to which `totals` have been admitted, and which may take no more yet, with this disk space.
    pub fn new(memtable: MemTable<AnyMedium>, totals: Totals, space: Option<Arc<ReservedFile>>) -> Filling {
        Filling {
            range_deletes: memtable.range_deletes(),
            memtable: Arc::new(memtable),
            totals,
            allowance: totals,
            since_range: totals,
            half: totals,
            space,
            is_granted: false,
            is_for_deletes: false,
        }
    }

    /// Whether a batch may be admitted, if its arena has a place for it: its flush has space (INV-30).
    pub fn admits(&self, batch: &WriteBatch) -> bool {
        let has_room = match batch.range_deletes() {
            0 => self.allowance.covers(&self.totals.plus(batch.totals())),
            more => {
                let ranges = self.range_deletes;
                self.allowance.covers(&self.with(batch)) && (ranges == 0 || ranges + more <= RANGE_DELETES_MAX)
            }
        };
        has_room && (!self.is_for_deletes || batch.totals().are_deletes())
    }

    /// Admits a batch.
    pub fn admit(&mut self, batch: &WriteBatch) {
        self.totals = self.with(batch);
        self.range_deletes += batch.range_deletes();
        if batch.range_deletes() > 0 {
            self.since_range = *batch.since_range();
        } else if self.range_deletes > 0 {
            self.since_range = self.since_range.plus(batch.totals());
        }
    }

    /// The totals with those of a batch. If it deletes ranges, a snapshot may see each entry that came since the last such delete, so
    /// that the flush writes both the entry and its delete.
    fn with(&self, batch: &WriteBatch) -> Totals {
        let totals = self.totals.plus(batch.totals());
        if batch.range_deletes() == 0 {
            return totals;
        }
        let since_range = if self.range_deletes == 0 { &self.totals } else { &self.since_range };
        totals.plus(&since_range.as_deletes())
    }

    /// Whether it does for a request. REQUIRES: it is empty.
    pub fn does_for(&self, request: &Request) -> bool {
        self.memtable.capacity_bytes() >= request.arena_bytes
            && self.allowance.covers(&request.totals)
            && (!self.is_for_deletes || request.totals.are_deletes())
    }

    /// What it has taken.
    pub fn taken(&self) -> Taken {
        Taken { totals: self.totals, arena_bytes: self.memtable.used_bytes() }
    }

    /// Lets it take so much more than it has.
    pub fn allow(&mut self, more: &Totals) {
        self.allowance = self.totals.plus(more);
        self.half = self.totals.plus(&more.divided_by(2));
        self.is_granted = true;
    }

    /// Whether half of its arena, or of what it may take, is used up.
    #[inline]
    pub fn is_half_full(&self) -> bool {
        self.memtable.used_bytes() > self.memtable.capacity_bytes() / 2 || !self.half.covers(&self.totals)
    }

    /// The part of its arena, or of its entries, that is used up.
    pub fn filled_part(&self) -> f64 {
        let of_arena = self.memtable.used_bytes() as f64 / self.memtable.capacity_bytes() as f64;
        of_arena.max(self.totals.entries as f64 / self.allowance.entries.max(1) as f64)
    }
}

/// A MemTable that takes no more writes, or a [part](crate::flush::range_deletes) of one.
pub struct Immutable {
    /// The MemTable itself.
    pub memtable: Arc<MemTable<AnyMedium>>,
    /// How many ranges it deletes.
    pub range_deletes: u64,
    /// Its entries up to here are in table files.
    pub flushed_through: u64,
    /// The last sequence number handed out for it, or that its part is flushed through.
    pub last_sequence: u64,
    /// What has been admitted to it, and `deletes`.
    pub totals: Totals,
    /// Disk space set aside for its table file.
    pub space: Option<Arc<ReservedFile>>,
    /// The deletes that its ranges come to below it.
    pub deletes: Deletes,
    /// How far its ranges have come to that.
    pub progress: Progress,
}

impl Immutable {
    /// A MemTable that was filled up to `last_sequence`.
    pub fn new(full: Filling, last_sequence: u64) -> Immutable {
        let Filling { memtable, totals, space, range_deletes, .. } = full;
        Immutable { space, range_deletes, ..Immutable::recovered(memtable, totals, last_sequence) }
    }

    /// One that a recovery has found, without disk space.
    pub fn recovered(memtable: Arc<MemTable<AnyMedium>>, totals: Totals, last_sequence: u64) -> Immutable {
        Immutable {
            range_deletes: memtable.range_deletes(),
            memtable,
            flushed_through: 0,
            last_sequence,
            totals,
            space: None,
            deletes: Deletes::default(),
            progress: Progress::default(),
        }
    }

    /// Whether this is not all that is left of the MemTable, which stays when it is flushed.
    pub fn is_part(&self) -> bool {
        self.progress.is_part
    }

    /// The generation of its arena; 0 for a part, which has none of its own.
    pub fn generation(&self) -> u64 {
        if self.is_part() { 0 } else { self.memtable.generation() }
    }

    /// The arenas that nothing needs any more once it is flushed.
    pub fn arenas_removed(&self) -> Vec<u64> {
        if self.is_part() { Vec::new() } else { vec![self.memtable.generation()] }
    }

    /// The first sequence number in it.
    pub fn first_sequence(&self) -> u64 {
        let first =
            self.memtable.first_sequence().map_or(self.last_sequence, |first| first.max(self.flushed_through + 1));
        first.min(self.last_sequence)
    }
}

/// The list of MemTables that readers take.
pub struct MemTableView {
    /// Newest first.
    pub memtables: Vec<Arc<MemTable<AnyMedium>>>,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use slmdb_pmem::{Arena, Dram};
    use slmdb_structures::memtable::MemTableOptions;

    use super::*;

    fn filling() -> Filling {
        let arena = Arena::from_bytes(AnyMedium::Dram(Dram), Path::new("arena"), vec![0; 1 << 16]);
        let mut filling =
            Filling::new(MemTable::create(arena, 1, [1; 16], &MemTableOptions::default()), Totals::default(), None);
        filling.allow(&Totals {
            entries: 100,
            key_bytes: 1000,
            value_bytes: 1000,
            longest_key_bytes: 64,
            ..Totals::default()
        });
        filling
    }

    /// Its place is reserved, and its writer has not come to filling it. The flush looked up the keys of such a range while some of
    /// them were on their way into the index: they stayed.
    #[test]
    fn a_range_counts_before_its_place_is_filled() {
        let mut filling = filling();
        let mut batch = WriteBatch::new();
        batch.delete_range("a".."z").unwrap();
        assert!(filling.admits(&batch));
        filling.admit(&batch);
        assert_eq!(filling.memtable.range_deletes(), 0);
        assert_eq!(Immutable::new(filling, 2).range_deletes, 1);
    }

    /// A snapshot may see an entry and the range behind it, so the flush may write both.
    #[test]
    fn entries_before_a_range_take_space_twice() {
        let mut filling = filling();
        let mut puts = WriteBatch::new();
        (0..40).for_each(|number| puts.put(format!("key {number}"), "value").unwrap());
        filling.admit(&puts);
        let mut range = WriteBatch::new();
        range.delete_range::<&str>(..).unwrap();
        assert!(filling.admits(&range));
        filling.admit(&range);
        assert_eq!((filling.totals.entries, filling.totals.puts), (81, 40));
        filling.admit(&range);
        assert_eq!(filling.totals.entries, 82, "nothing came in between");
        puts.delete_range::<&str>(..).unwrap();
        assert_eq!(puts.totals().entries, 81);
        assert!(!filling.admits(&puts), "more than is set aside for");
    }
}
