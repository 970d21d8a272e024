//! Admission: a write is taken only when there is space to flush it (INV-30).
//!
//! A writer only adds and compares ([`crate::write::memtables`]). A background thread sets the space that it compares
//! with aside beforehand, in steps.

use crate::batch::Totals;

/// Disk space is set aside in steps of a MemTable's size divided by this.
pub const STEP_PART: u64 = 8;

/// What a refused write waits for. The default: no writer waits.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// What is in the write.
    pub totals: Totals,
    /// Whether it consists of deletes alone.
    pub deletes_alone: bool,
}

impl Wanted {
    /// Space for this write.
    pub fn new(totals: &Totals, deletes_alone: bool) -> Wanted {
        Wanted { totals: *totals, deletes_alone }
    }

    /// Whether a writer waits.
    pub fn is_waited_for(&self) -> bool {
        self.totals.entries > 0
    }

    /// Whether space for `other` would do for this write.
    pub fn is_at_most(&self, other: &Wanted) -> bool {
        let (mine, others) = (&self.totals, &other.totals);
        (self.deletes_alone || !other.deletes_alone)
            && others.covers_in_index(mine)
            && others.key_bytes >= mine.key_bytes
            && others.value_bytes >= mine.value_bytes
    }
}

/// Number of MemTables that hold the flushes to come, a write and what is reserved beside it: those that wait for their
/// flush, the active one and, unless these are deletes alone, the next.
pub fn memtables(immutables: usize, deletes_alone: bool) -> u64 {
    immutables as u64 + if deletes_alone { 1 } else { 2 }
}

/// Whether there is space for a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// There is.
    Granted,
    /// There is, but more should be set aside soon.
    Scarce,
    /// There is not.
    Refused,
}
