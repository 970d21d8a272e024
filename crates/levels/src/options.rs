//! [`LevelOptions`]: how large levels may become, and how much a compaction takes at a time.

use slmdb_env::{Error, Result};

use crate::depth::LEVEL_LAST;

/// How large levels may become, and how much a compaction takes at a time. The defaults are RocksDB's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelOptions {
    /// What level 1 may hold, in bytes, before something of it is moved down. Default: 256 MiB.
    pub base_bytes: u64,
    /// How many times as much as the level above each further level may hold. Default: 10.
    pub growth: u64,
    /// About how long an output becomes, in bytes. Default: 64 MiB.
    pub run_bytes: u64,
    /// So many runs of level 0 are merged into level 1. Default: 4.
    pub level_0_runs: usize,
    /// An output ends before it overlaps more than this many bytes two levels further down. So what it will cost to
    /// move it down stays bounded. Default: 10 × `run_bytes`.
    pub grandparent_bytes_max: u64,
    /// A compaction takes no further inputs once it has so many bytes. What must go together goes, however much that
    /// is. Default: 25 × `run_bytes`.
    pub input_bytes_max: u64,
}

impl Default for LevelOptions {
    fn default() -> LevelOptions {
        LevelOptions::with_run_bytes(256 << 20, 64 << 20)
    }
}

impl LevelOptions {
    /// The defaults for other sizes of level 1 and of outputs.
    pub fn with_run_bytes(base_bytes: u64, run_bytes: u64) -> LevelOptions {
        LevelOptions {
            base_bytes,
            growth: 10,
            run_bytes,
            level_0_runs: 4,
            grandparent_bytes_max: run_bytes.saturating_mul(10),
            input_bytes_max: run_bytes.saturating_mul(25),
        }
    }

    /// [`Error::Invalid`] if levels could not work so.
    pub fn check(&self) -> Result<()> {
        let invalid = |what: &str| Err(Error::Invalid { what: what.to_string() });
        match self {
            _ if self.base_bytes == 0 => invalid("level 1 may hold 0 bytes"),
            _ if self.growth < 2 => invalid("a level may hold no more than the one above"),
            _ if self.run_bytes == 0 => invalid("runs of levels with 0 bytes"),
            _ if self.level_0_runs == 0 => invalid("0 runs of level 0 are merged"),
            _ => Ok(()),
        }
    }

    /// What a level may hold, in bytes. Level 0 is not bounded by its bytes, and the deepest level is not bounded.
    pub fn target_bytes(&self, level: u8) -> u64 {
        match level {
            0 => u64::MAX,
            LEVEL_LAST.. => u64::MAX,
            _ => self.base_bytes.saturating_mul(self.growth.saturating_pow(u32::from(level) - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_holds_so_many_times_as_much() {
        let options = LevelOptions { growth: 3, ..LevelOptions::with_run_bytes(100, 7) };
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 6].map(|level| options.target_bytes(level)),
            [u64::MAX, 100, 300, 900, 2700, 8100, u64::MAX]
        );
        assert_eq!((options.grandparent_bytes_max, options.input_bytes_max), (70, 175));
        assert!(options.check().is_ok() && LevelOptions::default().check().is_ok());
    }

    #[test]
    fn what_could_not_work_is_refused() {
        let default = LevelOptions::default;
        for faulty in [
            LevelOptions { base_bytes: 0, ..default() },
            LevelOptions { growth: 1, ..default() },
            LevelOptions { run_bytes: 0, ..default() },
            LevelOptions { level_0_runs: 0, ..default() },
        ] {
            assert!(matches!(faulty.check(), Err(Error::Invalid { .. })), "{faulty:?}");
        }
    }
}
