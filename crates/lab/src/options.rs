//! [`LabOptions`]: what LAB-DB alone looks at.

use slmdb_engine::OwnOptions;

/// Options of the engine LAB-DB.
#[derive(Debug, Clone, PartialEq)]
pub struct LabOptions {
    /// Bytes that the two trees of level 0 may take in the fast tier: leaves and records. 256 MiB by default, as in the
    /// paper (section 4.1). On `Dram` no more than a quarter of the memory budget.
    pub level_zero_bytes: u64,
    /// The part of that from which on level 0 is compacted. 0.75 by default, as in the paper (section 3.2).
    pub level_zero_compaction_at: f64,
    /// The part of an immutable tree's keys that leaves it from the left end, by leaf scan. The rest leaves by file scan,
    /// the keys of the oldest run files first, so that these go sooner. What level 1 has there is written anew more often
    /// for that. 1.0 by default: no file scans, unless there is no space. The paper has 0.8 (section 3.3).
    pub leaf_scan_part: f64,
    /// Bytes of level 1. 256 MiB by default, as RocksDB's.
    pub level_base_bytes: u64,
    /// So many times larger is each next level. 10 by default.
    pub level_growth: u64,
}

impl Default for LabOptions {
    fn default() -> LabOptions {
        LabOptions {
            level_zero_bytes: 256 << 20,
            level_zero_compaction_at: 0.75,
            leaf_scan_part: 1.0,
            level_base_bytes: 256 << 20,
            level_growth: 10,
        }
    }
}

impl OwnOptions for LabOptions {
    fn complaint(&self) -> Option<&'static str> {
        if self.level_zero_bytes < 4096 {
            Some("level_zero_bytes must be at least 4096")
        } else if !(self.level_zero_compaction_at > 0.0 && self.level_zero_compaction_at <= 1.0) {
            Some("level_zero_compaction_at must be above 0 and up to 1")
        } else if !(0.0..=1.0).contains(&self.leaf_scan_part) {
            Some("leaf_scan_part must be from 0 to 1")
        } else if self.level_base_bytes == 0 || self.level_growth < 2 {
            Some("level_base_bytes must be at least 1, and level_growth at least 2")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_store_can_have_is_refused_by_its_name() {
        let usual = LabOptions::default;
        assert_eq!(usual().complaint(), None);
        for (options, name) in [
            (LabOptions { level_zero_bytes: 4095, ..usual() }, "level_zero_bytes"),
            (LabOptions { level_zero_compaction_at: 0.0, ..usual() }, "level_zero_compaction_at"),
            (LabOptions { level_zero_compaction_at: f64::NAN, ..usual() }, "level_zero_compaction_at"),
            (LabOptions { leaf_scan_part: 1.01, ..usual() }, "leaf_scan_part"),
            (LabOptions { leaf_scan_part: f64::NAN, ..usual() }, "leaf_scan_part"),
            (LabOptions { level_base_bytes: 0, ..usual() }, "level_base_bytes"),
            (LabOptions { level_growth: 1, ..usual() }, "level_growth"),
        ] {
            assert!(options.complaint().is_some_and(|said| said.contains(name)), "{options:?}");
        }
        for leaf_scan_part in [0.0, 0.8, 1.0] {
            assert_eq!(LabOptions { leaf_scan_part, ..usual() }.complaint(), None);
        }
    }
}
