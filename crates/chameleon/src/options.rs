//! [`ChameleonOptions`]: what ChameleonDB alone looks at.

use slmdb_engine::OwnOptions;
use slmdb_structures::hash::SHARDS_MAX;

/// Options of the engine ChameleonDB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChameleonOptions {
    /// How many shards the index has: a power of two, up to 16,384. 256 by default.
    pub shards: u32,
}

impl Default for ChameleonOptions {
    fn default() -> ChameleonOptions {
        ChameleonOptions { shards: 256 }
    }
}

impl OwnOptions for ChameleonOptions {
    fn complaint(&self) -> Option<&'static str> {
        let may_be = self.shards.is_power_of_two() && self.shards <= SHARDS_MAX;
        (!may_be).then_some("shards must be a power of two up to 16384")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_store_can_have_is_refused_by_its_name() {
        for shards in [1, 256, SHARDS_MAX] {
            assert_eq!(ChameleonOptions { shards }.complaint(), None);
        }
        for shards in [0, 3, SHARDS_MAX + 1, 2 * SHARDS_MAX] {
            assert!(ChameleonOptions { shards }.complaint().is_some_and(|said| said.contains("shards")), "{shards}");
        }
    }
}
