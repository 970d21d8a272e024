//! Admission: a write is taken only when there is space to flush it (INV-30). This is what a flush needs at worst, as
//! far as it is the same for any engine, and what must be left for others.
//!
//! A writer only adds and compares ([`crate::write::memtables::MemTables::admission`]). A background thread sets the
//! space that it compares with aside beforehand, in steps ([`super::controller`]).

use slmdb_table::WorstCase;

use crate::Options;
use crate::batch::Totals;

/// Disk space is set aside in steps of a MemTable's size divided by this.
pub const STEP_PART: u64 = 8;
/// Steps in the pool are for this many entries: one per this many bytes of a MemTable,
const BYTES_PER_STEP_ENTRY: u64 = 2 << 10;
/// but at least this many, and at least this part of the entries there are.
const STEP_ENTRIES_MIN: u64 = 64;
const STEP_ENTRIES_PART: u64 = 4;
/// Space for one delete is reserved per this many bytes of a MemTable,
const BYTES_PER_KEPT_DELETE: u64 = 4096;
/// and for at least this many deletes.
const KEPT_DELETES_MIN: u64 = 16;
/// Assumed length of those deletes' keys, in bytes.
pub const KEPT_DELETE_KEY_BYTES: usize = 32;

/// What may be admitted to all MemTables together, as far as the pool is concerned: flushing it has been provided for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Grant {
    /// What is in the MemTables.
    pub totals: Totals,
    /// Number of MemTables. Each begins a key segment of its own.
    pub memtables: u64,
}

impl Grant {
    /// For a write and what must be left beside it, in MemTables that are not Immutable: the active one and, unless
    /// these are deletes alone, the next.
    pub fn for_write(options: &Options, totals: &Totals) -> Grant {
        if totals.are_deletes() {
            return Grant { totals: *totals, memtables: 1 };
        }
        Grant { totals: totals.plus(&kept_for_deletes(options)), memtables: 2 }
    }

    /// The smaller of both, part by part.
    pub fn at_most(&self, other: &Grant) -> Grant {
        Grant { totals: self.totals.at_most(&other.totals), memtables: self.memtables.min(other.memtables) }
    }

    /// The rest after one MemTable has been flushed (INV-31).
    pub fn minus(&self, flushed: &Totals) -> Grant {
        Grant { totals: self.totals.minus(flushed), memtables: self.memtables.saturating_sub(1) }
    }
}

/// What must be left of what is set aside when a write is admitted, computed once for all writes.
#[derive(Debug, Clone, Copy)]
pub struct Margins {
    /// Deletes that must still find space after a put.
    pub for_deletes: Totals,
    /// With fewer entries left in the pool, or fewer bytes left on the disk, more is set aside.
    pub entries: u64,
    /// See `entries`.
    pub file_bytes: u64,
}

impl Margins {
    /// Those of a store with these options.
    pub fn new(options: &Options) -> Margins {
        Margins {
            for_deletes: kept_for_deletes(options),
            entries: step_in_pool(options, &Totals::default()).entries / 2,
            file_bytes: options.memtable_bytes / STEP_PART / 2,
        }
    }
}

/// The deletes that must still find space after a put is admitted.
pub fn kept_for_deletes(options: &Options) -> Totals {
    let mut one = Totals::default();
    one.add(KEPT_DELETE_KEY_BYTES, None);
    one.times((options.memtable_bytes / BYTES_PER_KEPT_DELETE).max(KEPT_DELETES_MIN))
}

/// What is set aside in the pool at a time beyond the need: for entries like those there are.
pub fn step_in_pool(options: &Options, admitted: &Totals) -> Totals {
    let mut like = admitted.divided_by(admitted.entries.max(1));
    if admitted.entries == 0 {
        like.add(KEPT_DELETE_KEY_BYTES, Some(0));
    }
    let least = (options.memtable_bytes / BYTES_PER_STEP_ENTRY).max(STEP_ENTRIES_MIN);
    like.times(least.max(admitted.entries / STEP_ENTRIES_PART))
}

/// The most bytes that the table file of such entries takes. No sum can grow without it, or it grows, too.
pub fn table_bytes(options: &Options, totals: &Totals) -> u64 {
    if totals.entries == 0 {
        return 0;
    }
    let worst_case = WorstCase {
        entries: totals.entries,
        key_bytes: totals.key_bytes,
        longest_key_bytes: u64::from(totals.longest_key_bytes),
        value_bytes: totals.value_bytes,
    };
    worst_case.file_bytes(&options.table())
}
