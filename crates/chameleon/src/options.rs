//! [`ChameleonOptions`]: what ChameleonDB alone looks at.

use slmdb_engine::OwnOptions;
use slmdb_structures::hash::SHARDS_MAX;

/// Options of the engine ChameleonDB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChameleonOptions {
    /// How many shards the index has: a power of two, up to 16,384. It is fixed when the store is made. `None`: one for each
    /// 32 KiB of the MemTables that the store is made with, 256 at most. A store with another number is [refused](slmdb_env::Error::Invalid).
    pub shards: Option<u32>,
    /// The most memory that the Auxiliary Bypass Index (section 2.2 of the paper) takes, in bytes, while no compaction lags behind;
    /// it is rounded down to what is a power of two for each shard. `None`: a quarter of the store's memory budget. With `u64::MAX`
    /// all of the index is in memory, and each opening reads all keys: the paper's Dram-Hash.
    pub bypass_bytes: Option<u64>,
    /// How MemTables are flushed into the index. [`UpperLevels::Flat`] by default.
    pub upper_levels: UpperLevels,
    /// Where the last level is [large](ChameleonOptions::dumped_above), so many Auxiliary Bypass Indexes are dumped before they are
    /// merged with it. That saves writes, and costs gets a look at each, which is more than it saves: none by
    /// default (`docs/internals/chameleon.md` has the figures).
    pub dumped_tables_max: u32,
    /// The last level is large where it has more than so many times the keys of a full Auxiliary Bypass Index. 8 by default.
    pub dumped_above: u64,
    /// A compaction of the last level writes about so many bytes at a time. 16 MiB by default.
    pub job_bytes: u64,
}

/// What openings make the Auxiliary Bypass Index of again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpperLevels {
    /// A hash table of each flush.
    #[default]
    Flat,
    /// The keys of the table files of flushes: the paper's Write-Intensive Mode (section 2.3). Less is written, and an opening takes
    /// longer.
    None,
}

impl ChameleonOptions {
    /// Whether the index has tables of the last level.
    pub(crate) fn is_bypass_bounded(&self) -> bool {
        self.bypass_bytes != Some(u64::MAX)
    }
}

impl Default for ChameleonOptions {
    fn default() -> ChameleonOptions {
        ChameleonOptions {
            shards: None,
            bypass_bytes: None,
            upper_levels: UpperLevels::Flat,
            dumped_tables_max: 0,
            dumped_above: 8,
            job_bytes: 16 << 20,
        }
    }
}

impl OwnOptions for ChameleonOptions {
    fn complaint(&self) -> Option<&'static str> {
        let may_be = self.shards.is_none_or(|shards| shards.is_power_of_two() && shards <= SHARDS_MAX);
        if !may_be {
            return Some("shards must be a power of two up to 16384");
        }
        (self.job_bytes == 0).then_some("job_bytes must be above 0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_store_can_have_is_refused_by_its_name() {
        let with = |shards| ChameleonOptions { shards: Some(shards), ..ChameleonOptions::default() };
        assert_eq!(ChameleonOptions::default().complaint(), None);
        for shards in [1, 256, SHARDS_MAX] {
            assert_eq!(with(shards).complaint(), None);
        }
        for shards in [0, 3, SHARDS_MAX + 1, 2 * SHARDS_MAX] {
            assert!(with(shards).complaint().is_some_and(|said| said.contains("shards")), "{shards}");
        }
    }
}
