//! [`WriteAmplification`] and space amplification: bytes written, and bytes kept, per byte of the user's.
//!
//! Ratios, computed from the counters, so that they can't contradict them.

use slmdb_manifest::Counters;

use crate::Stats;

/// Bytes written per byte of keys and values that users put, by tier. 0 when nothing was put.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct WriteAmplification {
    /// To files: table files, MANIFEST, and on `Dram` the MemTables' arenas.
    pub files: f64,
    /// To the fast tier, in its own write units: MemTables, index, key segments. 0 on `Dram`, where nothing is
    /// written back.
    pub fast_tier: f64,
    /// The part of [`WriteAmplification::files`] that compactions wrote.
    pub compactions: f64,
}

impl WriteAmplification {
    /// The ratios of these counters.
    pub fn of(counters: &Counters) -> WriteAmplification {
        let per_byte_put = |bytes| ratio(bytes, counters.user_bytes_put);
        WriteAmplification {
            files: per_byte_put(counters.file_bytes_written),
            fast_tier: per_byte_put(counters.media_bytes),
            compactions: per_byte_put(counters.compaction_bytes_written),
        }
    }
}

impl Stats {
    /// Bytes of table files and of runs in the pool per live byte in them. 0 when none is live. Of the pool's segments only what
    /// runs have of them counts.
    pub fn space_amplification(&self) -> f64 {
        let in_pool_bytes: u64 = self.levels.iter().map(|level| level.bytes_in_pool).sum();
        ratio(self.table_bytes + in_pool_bytes, self.live_bytes)
    }

    /// Write amplification since this opening.
    pub fn write_amplification_since_open(&self) -> WriteAmplification {
        WriteAmplification::of(&self.since_open)
    }

    /// Write amplification since the store was made.
    pub fn write_amplification_lifetime(&self) -> WriteAmplification {
        WriteAmplification::of(&self.lifetime)
    }
}

fn ratio(bytes: u64, of_bytes: u64) -> f64 {
    if of_bytes == 0 { 0.0 } else { bytes as f64 / of_bytes as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LevelStats;

    #[test]
    fn bytes_written_are_divided_by_bytes_put() {
        let counters = Counters {
            user_bytes_put: 1000,
            file_bytes_written: 1500,
            media_bytes: 3000,
            compaction_bytes_written: 250,
            ..Counters::default()
        };
        let stats = Stats { table_bytes: 300, live_bytes: 200, since_open: counters, ..Stats::default() };
        let expected = WriteAmplification { files: 1.5, fast_tier: 3.0, compactions: 0.25 };
        assert_eq!(stats.write_amplification_since_open(), expected);
        assert_eq!(stats.write_amplification_lifetime(), WriteAmplification::default());
        assert_eq!(stats.space_amplification(), 1.5);
        assert_eq!(Stats::default().space_amplification(), 0.0);
        let levels = vec![LevelStats { runs: 2, bytes: 400, bytes_in_pool: 100 }];
        assert_eq!(Stats { levels, ..stats }.space_amplification(), 2.0);
    }
}
