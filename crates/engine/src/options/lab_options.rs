//! [`LabOptions`]: what LAB-DB alone looks at.

/// Options of the engine LAB-DB.
#[derive(Debug, Clone, PartialEq)]
pub struct LabOptions {
    /// Bytes that the two trees of level 0 may take in the fast tier: leaves and records. 256 MiB by default, as in the
    /// paper (section 4.1).
    pub level_zero_bytes: u64,
    /// The part of that from which on level 0 is compacted. 0.75 by default, as in the paper (section 3.2).
    pub level_zero_compaction_at: f64,
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
            level_base_bytes: 256 << 20,
            level_growth: 10,
        }
    }
}

impl LabOptions {
    /// What is wrong with them, if anything.
    pub(super) fn complaint(&self) -> Option<&'static str> {
        if self.level_zero_bytes < 4096 {
            Some("level_zero_bytes must be at least 4096")
        } else if !(self.level_zero_compaction_at > 0.0 && self.level_zero_compaction_at <= 1.0) {
            Some("level_zero_compaction_at must be above 0 and up to 1")
        } else if self.level_base_bytes == 0 || self.level_growth < 2 {
            Some("level_base_bytes must be at least 1, and level_growth at least 2")
        } else {
            None
        }
    }
}
