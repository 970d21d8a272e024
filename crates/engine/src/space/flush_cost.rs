//! What a flush needs at worst, as far as it is the same for any engine: the table file. And what is kept back for deletes.

use slmdb_structures::KeyLengths;
use slmdb_table::WorstCase;

use crate::Options;
use crate::batch::Totals;

/// Space in the pool is set aside at a time for this many entries: one for so many bytes of a MemTable,
const BYTES_PER_STEP_ENTRY: u64 = 2 << 10;
/// but at least so many, and that part of what there is already.
const STEP_ENTRIES_MIN: u64 = 64;
const STEP_ENTRIES_PART: u64 = 4;
/// For so many bytes of a MemTable space for one delete is kept back.
const BYTES_PER_KEPT_DELETE: u64 = 4096;
/// Space for so many deletes is kept back at least.
const KEPT_DELETES_MIN: u64 = 16;
/// How long the keys of those deletes are reckoned to be, in bytes.
pub const KEPT_DELETE_KEY_BYTES: usize = 32;

/// What may be admitted, all MemTables together, as far as the pool is concerned: flushing it has been provided for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Grant {
    /// What is in the MemTables.
    pub totals: Totals,
    /// In so many MemTables. (Each begins a key segment of its own.)
    pub memtables: u64,
}

impl Grant {
    /// Whether it provides for so much in so many MemTables.
    pub fn covers(&self, totals: &Totals, memtables: u64) -> bool {
        self.memtables >= memtables && self.totals.covers_in_index(totals)
    }

    /// The smaller of both, in each of its parts.
    pub fn at_most(&self, other: &Grant) -> Grant {
        Grant { totals: self.totals.at_most(&other.totals), memtables: self.memtables.min(other.memtables) }
    }

    /// What is left when one MemTable has been flushed.
    pub fn minus(&self, flushed: &Totals) -> Grant {
        Grant { totals: self.totals.minus(flushed), memtables: self.memtables.saturating_sub(1) }
    }
}

/// The deletes for which there must be space once a write is admitted: none but itself, if it consists of deletes.
pub fn kept_back(options: &Options, deletes_alone: bool) -> Totals {
    if deletes_alone {
        return Totals::default();
    }
    let mut one = Totals::default();
    one.add(KEPT_DELETE_KEY_BYTES, None);
    one.times((options.memtable_bytes / BYTES_PER_KEPT_DELETE).max(KEPT_DELETES_MIN))
}

/// What is set aside in the pool at a time, beyond what is needed: for entries like those there are.
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

/// What the table file of such entries takes at most, in bytes.
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
