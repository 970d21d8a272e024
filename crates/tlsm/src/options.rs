//! [`TlsmOptions`]: what TLSM alone can be told.

use slmdb_engine::{Options, OwnOptions};
use slmdb_levels::{LEVEL_LAST, LevelOptions};
use slmdb_pmem::UNIT_BYTES;

/// Which runs lie in the pool (paper, IV-D). It belongs to an opening: a store may be opened with another one at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tiering {
    /// All of them. When the pool is full, puts are refused.
    None,
    /// Those of the levels up to this one.
    Leveled {
        /// The deepest level whose runs lie in the pool, 0 to 6.
        last_in_pool: u8,
    },
    /// Those of the upper levels, as far down as [`TlsmOptions::fast_tier_bytes`] reaches; of the level at which it ends, some. When
    /// they take more, runs of the deepest level are written to files.
    #[default]
    Upper,
    /// The paper's: those that were made last. When they take more than [`TlsmOptions::fast_tier_bytes`], the oldest ones are written
    /// to files. Whatever a compaction makes comes to the pool, so it also brings back what had left.
    Lru,
}

impl Tiering {
    /// Whether it keeps to [`TlsmOptions::fast_tier_bytes`].
    pub(crate) fn is_bounded(self) -> bool {
        matches!(self, Tiering::Upper | Tiering::Lru)
    }
}

/// What TLSM alone can be told.
#[derive(Debug, Clone, PartialEq)]
pub struct TlsmOptions {
    /// Which runs lie in the pool.
    pub tiering: Tiering,
    /// With [`Tiering::Upper`] and [`Tiering::Lru`]: what lists and their entries may take of the pool, in bytes. 1 GiB by default.
    /// MemTables are not counted.
    pub fast_tier_bytes: u64,
    /// About what a list and its entries take, in bytes. 0, the default: half of a table file.
    pub run_bytes: u64,
    /// The entries of lists lie in segments of so many bytes. 256 KiB by default.
    pub segment_bytes: u64,
    /// A compaction copies the entries of a segment of which less than this part is needed. 0.5 by default; 0: none is ever copied,
    /// as in the paper.
    pub segment_live_min: f64,
    /// Bits for each key in the filter of a list. 10 by default; 0: no filter, as in the paper.
    pub list_filter_bits: u32,
    /// Whether compactions point at entries where they lie (paper, IV-B). By default. Else they copy them, for comparison.
    pub points_at_entries: bool,
    /// Whether each node of a list is made durable by itself, four times, as in the paper; for comparison. Not by default.
    pub persists_each_node: bool,
    /// Bytes of level 1. 0, the default: four MemTables.
    pub level_base_bytes: u64,
    /// So many times larger is each next level. 10 by default, as in the paper.
    pub level_growth: u64,
    /// So many runs of level 0 are merged into level 1. 4 by default, as in the paper.
    pub level_zero_runs: usize,
}

/// Level 1 has so many MemTables by default.
const BASE_MEMTABLES: u64 = 4;
/// A list has this part of a table file by default.
const PART_OF_TABLE_FILE: u64 = 2;
/// The bounds of the length of a segment.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// More bits would only make a filter larger.
const FILTER_BITS_MAX: u32 = 64;

impl Default for TlsmOptions {
    fn default() -> TlsmOptions {
        TlsmOptions {
            tiering: Tiering::default(),
            fast_tier_bytes: 1 << 30,
            run_bytes: 0,
            segment_bytes: 256 << 10,
            segment_live_min: 0.5,
            list_filter_bits: 10,
            points_at_entries: true,
            persists_each_node: false,
            level_base_bytes: 0,
            level_growth: 10,
            level_zero_runs: 4,
        }
    }
}

impl OwnOptions for TlsmOptions {
    fn complaint(&self) -> Option<&'static str> {
        if self.level_growth < 2 {
            Some("level_growth must be at least 2")
        } else if self.level_zero_runs == 0 {
            Some("level_zero_runs must be at least 1")
        } else if matches!(self.tiering, Tiering::Leveled { last_in_pool } if last_in_pool > LEVEL_LAST) {
            Some("last_in_pool must be at most 6")
        } else if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes) {
            Some("segment_bytes must be from 64 KiB to 64 MiB")
        } else if !(0.0..=1.0).contains(&self.segment_live_min) {
            Some("segment_live_min must be from 0 to 1")
        } else if self.list_filter_bits > FILTER_BITS_MAX {
            Some("list_filter_bits must be at most 64")
        } else if self.tiering.is_bounded() && self.fast_tier_bytes < FAST_TIER_SEGMENTS_MIN * self.segment_bytes {
            Some("fast_tier_bytes must be at least four segments")
        } else {
            None
        }
    }
}

/// What a bounded tiering needs at least.
const FAST_TIER_SEGMENTS_MIN: u64 = 4;

/// A list takes a unit of the pool at least. So with its entries it should have several.
pub(crate) const LIST_RUN_BYTES_LEAST: u64 = 4 * UNIT_BYTES;

/// What a list and its entries should take, in bytes.
pub(crate) fn list_run_bytes(options: &Options) -> u64 {
    match options.own::<TlsmOptions>().run_bytes {
        0 => (options.compaction.table_file_bytes / PART_OF_TABLE_FILE).max(LIST_RUN_BYTES_LEAST),
        bytes => bytes,
    }
}

/// The options of a store's levels.
pub(crate) fn level_options(options: &Options) -> LevelOptions {
    let own: TlsmOptions = options.own();
    let base_bytes = match own.level_base_bytes {
        0 => options.memtable_bytes.saturating_mul(BASE_MEMTABLES),
        bytes => bytes,
    };
    LevelOptions {
        growth: own.level_growth,
        level_0_runs: own.level_zero_runs,
        // (No output is longer than its kind may be.)
        run_bytes: options.compaction.table_file_bytes.max(list_run_bytes(options)),
        ..LevelOptions::with_run_bytes(base_bytes, options.compaction.table_file_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_store_can_have_is_refused_by_its_name() {
        let usual = TlsmOptions::default;
        assert_eq!(usual().complaint(), None);
        for (options, name) in [
            (TlsmOptions { level_growth: 1, ..usual() }, "level_growth"),
            (TlsmOptions { level_zero_runs: 0, ..usual() }, "level_zero_runs"),
            (TlsmOptions { tiering: Tiering::Leveled { last_in_pool: 7 }, ..usual() }, "last_in_pool"),
            (TlsmOptions { segment_bytes: 1, ..usual() }, "segment_bytes"),
            (TlsmOptions { segment_live_min: 1.5, ..usual() }, "segment_live_min"),
            (TlsmOptions { segment_live_min: f64::NAN, ..usual() }, "segment_live_min"),
            (TlsmOptions { list_filter_bits: 65, ..usual() }, "list_filter_bits"),
            (TlsmOptions { fast_tier_bytes: 1, ..usual() }, "fast_tier_bytes"),
        ] {
            assert!(options.complaint().is_some_and(|said| said.contains(name)), "{options:?}");
        }
    }
}
