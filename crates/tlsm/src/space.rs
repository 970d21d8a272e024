//! What flushes and compactions take of the pool.

use slmdb_engine::Options;
use slmdb_engine::batch::Totals;
use slmdb_engine::space::allowance::Grant;
use slmdb_engine::space::smallest_pool;
use slmdb_env::Result;
use slmdb_manifest::MediumKind;
use slmdb_pmem::{AnyMedium, ExtentKind, Pool, PoolOptions, UNIT_BYTES};
use slmdb_structures::list::{entry_bytes, list_bytes};

use crate::options::{TlsmOptions, list_run_bytes};

/// Segments take at most this much more than their entries, as a part of these: each ends where the next entry does not fit, and at
/// the end of a unit.
const SEGMENTS_MORE_PART: u64 = 2;
/// A list has at most so many bytes for the entries that it names, at 18 bytes and 128 at least.
const LIST_PART: u64 = 4;

/// What is set aside lies in pieces that are no longer than this, or than a segment. So where the pool is in pieces a flush writes
/// several shorter lists in the place of one. (An entry that is longer than a piece may find no room there. It waits for space, or
/// goes to a table file.)
pub(crate) const PIECE_BYTES: u64 = 512 << 10;

/// What the segments of so many MemTables take at most.
fn segments_bytes_max(totals: &Totals, memtables: u64) -> u64 {
    // Each entry's front, rounded up.
    let fronts_bytes = totals.entries * (entry_bytes(0, 0) + 7);
    let entries_bytes = fronts_bytes + totals.key_bytes + totals.value_bytes;
    entries_bytes + entries_bytes / SEGMENTS_MORE_PART + memtables * UNIT_BYTES
}

/// What one list of all of it would take at most.
fn whole_list_bytes_max(totals: &Totals, memtables: u64, own: &TlsmOptions) -> u64 {
    let key_bytes = 2 * u64::from(totals.longest_key_bytes);
    let segments = segments_bytes_max(totals, memtables) / UNIT_BYTES + 1;
    list_bytes(totals.entries, own.list_filter_bits, key_bytes, segments)
}

/// What their lists take at most, each in as many pieces as need be.
fn lists_bytes_max(totals: &Totals, memtables: u64, own: &TlsmOptions) -> u64 {
    let whole_bytes = whole_list_bytes_max(totals, memtables, own);
    let pieces = memtables + 2 * whole_bytes / PIECE_BYTES;
    // Each piece has a header, with its bounds, and ends with a unit.
    let key_bytes = 2 * u64::from(totals.longest_key_bytes);
    whole_bytes + pieces * (list_bytes(1, own.list_filter_bits, key_bytes, 1) + UNIT_BYTES)
}

/// What the pool keeps back so that one compaction can give space back: for an output of this length, and its list.
pub(crate) fn kept_for_a_job_bytes(own: &TlsmOptions, run_bytes: u64) -> u64 {
    if run_bytes == 0 { 0 } else { with_lists_bytes(own, run_bytes) }
}

/// What copies of so many bytes of entries take in segments, with lists of them.
pub(crate) fn with_lists_bytes(own: &TlsmOptions, entries_bytes: u64) -> u64 {
    (entries_bytes + entries_bytes / LIST_PART + own.segment_bytes).next_multiple_of(UNIT_BYTES)
}

/// Sets aside in the pool what flushing a grant takes, and `kept_back_bytes` for a compaction. `Error::Full` if it is not there.
pub(crate) fn reserve(pool: &Pool<AnyMedium>, own: &TlsmOptions, grant: &Grant, kept_back_bytes: u64) -> Result<()> {
    let Grant { totals, memtables } = grant;
    let lists_bytes = lists_bytes_max(totals, *memtables, own);
    // A segment is as short as its entries allow.
    let longest_bytes = whole_list_bytes_max(totals, *memtables, own).max(totals.value_bytes.min(own.segment_bytes));
    let piece_bytes = longest_bytes.clamp(1, PIECE_BYTES).next_multiple_of(UNIT_BYTES);
    let bytes = lists_bytes + segments_bytes_max(totals, *memtables) + kept_back_bytes;
    let bytes = bytes.next_multiple_of(piece_bytes);
    // First lowered to the part that is free, so that raising it finds out what is missing.
    pool.set_reserve(pool.reserve_free_bytes().min(bytes), piece_bytes)?;
    pool.set_reserve(bytes, piece_bytes)
}

/// [`Error::Invalid`](slmdb_env::Error::Invalid) if a pool with these options, and no larger than `device_bytes`, refuses every write.
pub(crate) fn check_pool(options: &Options, kind: MediumKind, device_bytes: Option<u64>) -> Result<()> {
    if kind == MediumKind::Dram {
        return Ok(());
    }
    let own: TlsmOptions = options.own();
    smallest_pool::check_pool(options, device_bytes, |pool: &PoolOptions| {
        let pool = Pool::anonymous(AnyMedium::dram(), pool)?;
        pool.allocate_extent(ExtentKind::Arena, options.memtable_bytes, 1)?;
        // The list of an earlier flush. As much is then kept back for two compactions.
        let run_bytes = list_run_bytes(options).min(options.memtable_bytes);
        reserve(&pool, &own, &Grant::least(options), 2 * kept_for_a_job_bytes(&own, run_bytes))
    })
}
