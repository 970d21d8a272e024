//! What a flush needs at worst, as far as it is the same for any engine: the table file. Also what is reserved for
//! deletes.

use slmdb_structures::KeyLengths;
use slmdb_table::WorstCase;

use crate::Options;
use crate::batch::Totals;

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
    /// Whether it provides for these totals in this number of MemTables.
    pub fn covers(&self, totals: &Totals, memtables: u64) -> bool {
        self.memtables >= memtables && self.totals.covers_in_index(totals)
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

/// The deletes that must still find space after a write is admitted: none if it consists of deletes alone.
pub fn kept_back(options: &Options, deletes_alone: bool) -> Totals {
    if deletes_alone {
        return Totals::default();
    }
    let mut one = Totals::default();
    one.add(KEPT_DELETE_KEY_BYTES, None);
    one.times((options.memtable_bytes / BYTES_PER_KEPT_DELETE).max(KEPT_DELETES_MIN))
}

/// What is set aside in the pool at a time beyond the need: for entries like those there are.
pub fn step_in_pool(options: &Options, admitted: &Totals) -> Totals {
    let like = match admitted.entries {
        0 => {
            let mut one = Totals::default();
            one.add(KEPT_DELETE_KEY_BYTES, Some(0));
            one
        }
        entries => Totals {
            entries: 1,
            puts: 1,
            key_bytes: admitted.key_bytes.div_ceil(entries),
            long_keys: KeyLengths {
                longest_bytes: admitted.long_keys.longest_bytes,
                long_bytes: admitted.long_keys.long_bytes.div_ceil(entries),
            },
            ..Totals::default()
        },
    };
    let least = (options.memtable_bytes / BYTES_PER_STEP_ENTRY).max(STEP_ENTRIES_MIN);
    like.times(least.max(admitted.entries / STEP_ENTRIES_PART))
}

/// The most bytes that the table file of such entries takes.
pub fn table_bytes(options: &Options, totals: &Totals) -> u64 {
    if totals.entries == 0 {
        return 0;
    }
    let worst_case = WorstCase {
        entries: totals.entries,
        key_bytes: totals.key_bytes,
        longest_key_bytes: u64::from(totals.long_keys.longest_bytes),
        value_bytes: totals.value_bytes,
    };
    worst_case.file_bytes(&options.table())
}
