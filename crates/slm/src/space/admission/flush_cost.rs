//! What flushing so much needs at worst: of the disk for the table file, of the pool for key records and nodes. And what is kept back
//! for deletes beside it.

use slmdb_env::Result;
use slmdb_pmem::{Medium, Pool};
use slmdb_structures::fast_fair::{KeyLengths, Tree, segment_bytes_max};
use slmdb_table::WorstCase;

use crate::flush::file_creation::table_options;
use slmdb_engine::Options;
use slmdb_engine::batch::Totals;

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
pub(crate) const KEPT_DELETE_KEY_BYTES: usize = 32;

/// What may be admitted, all MemTables together, as far as the pool is concerned: flushing it has been provided for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Grant {
    pub(crate) totals: Totals,
    /// In so many MemTables. (Each begins a key segment of its own.)
    pub(crate) memtables: u64,
}

impl Grant {
    pub(crate) fn covers(&self, totals: &Totals, memtables: u64) -> bool {
        self.memtables >= memtables && self.totals.covers_in_index(totals)
    }

    pub(crate) fn at_most(&self, other: &Grant) -> Grant {
        Grant { totals: self.totals.at_most(&other.totals), memtables: self.memtables.min(other.memtables) }
    }

    pub(crate) fn minus(&self, flushed: &Totals) -> Grant {
        Grant { totals: self.totals.minus(flushed), memtables: self.memtables.saturating_sub(1) }
    }
}

/// The deletes for which there must be space once a write is admitted: none but itself, if it consists of deletes.
pub(crate) fn kept_back(options: &Options, deletes_alone: bool) -> Totals {
    if deletes_alone {
        return Totals::default();
    }
    let mut one = Totals::default();
    one.add(KEPT_DELETE_KEY_BYTES, None);
    one.times((options.memtable_bytes / BYTES_PER_KEPT_DELETE).max(KEPT_DELETES_MIN))
}

/// What is set aside in the pool at a time, beyond what is needed: for entries like those there are.
pub(crate) fn step_in_pool(options: &Options, admitted: &Totals) -> Totals {
    let like = match admitted.entries {
        0 => {
            let mut one = Totals::default();
            one.add(KEPT_DELETE_KEY_BYTES, Some(0));
            one
        }
        entries => Totals {
            entries: 1,
            puts: 1,
            key_record_bytes: admitted.key_record_bytes.div_ceil(entries),
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
pub(crate) fn table_bytes(options: &Options, totals: &Totals) -> u64 {
    if totals.entries == 0 {
        return 0;
    }
    let worst_case = WorstCase {
        entries: totals.entries,
        key_bytes: totals.key_bytes,
        longest_key_bytes: u64::from(totals.long_keys.longest_bytes),
        value_bytes: totals.value_bytes,
    };
    worst_case.file_bytes(&table_options(options))
}

/// What flushing so much takes of the pool at most, in bytes, and the pieces it takes it in. `indexed`: the keys that are in
/// the index.
fn pool_bytes<M: Medium>(tree: &Tree<M>, grant: &Grant, indexed: KeyLengths) -> Result<(u64, u64)> {
    let Grant { totals, memtables } = grant;
    let mut keys = totals.long_keys;
    keys.add_all(indexed);
    let piece_bytes = tree.piece_bytes(keys);
    let segments = segment_bytes_max(totals.key_record_bytes, totals.long_keys.longest_bytes, piece_bytes)
        + memtables * piece_bytes;
    Ok((segments + tree.node_bytes_max(totals.entries, keys)?, piece_bytes))
}

/// Sets aside in the pool what flushing so much takes, and keeps back so much for a compaction.
pub(crate) fn reserve<M: Medium>(
    pool: &Pool<M>,
    tree: &Tree<M>,
    grant: &Grant,
    indexed: KeyLengths,
    kept_back_bytes: u64,
) -> Result<()> {
    let (bytes, piece_bytes) = pool_bytes(tree, grant, indexed)?;
    let bytes = bytes + kept_back_bytes.next_multiple_of(piece_bytes);
    // Lowered first to what of it is free, so that raising it finds out what is not.
    pool.set_reserve(pool.reserve_free_bytes().min(bytes), piece_bytes)?;
    pool.set_reserve(bytes, piece_bytes)
}
