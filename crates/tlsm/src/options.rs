//! [`TlsmOptions`]: what TLSM alone can be told.

use slmdb_engine::{Options, OwnOptions};
use slmdb_levels::LevelOptions;

/// What TLSM alone can be told.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TlsmOptions {
    /// Bytes of level 1. 0, the default: four MemTables.
    pub level_base_bytes: u64,
    /// So many times larger is each next level. 10 by default, as in the paper.
    pub level_growth: u64,
    /// So many runs of level 0 are merged into level 1. 4 by default, as in the paper.
    pub level_zero_runs: usize,
}

/// Level 1 has so many MemTables by default.
const BASE_MEMTABLES: u64 = 4;

impl Default for TlsmOptions {
    fn default() -> TlsmOptions {
        TlsmOptions { level_base_bytes: 0, level_growth: 10, level_zero_runs: 4 }
    }
}

impl OwnOptions for TlsmOptions {
    fn complaint(&self) -> Option<&'static str> {
        if self.level_growth < 2 {
            Some("level_growth must be at least 2")
        } else if self.level_zero_runs == 0 {
            Some("level_zero_runs must be at least 1")
        } else {
            None
        }
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
        ] {
            assert!(options.complaint().is_some_and(|said| said.contains(name)), "{options:?}");
        }
    }
}
