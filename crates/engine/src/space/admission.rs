//! Admission: a write is taken only when there is space to flush it.
//!
//! A writer only adds and compares ([`crate::write::memtables`]). What it compares with was set aside beforehand, in steps, by a
//! background thread of the engine.

use crate::batch::Totals;

/// Part of a MemTable's size by which more disk space is set aside at a time.
pub const STEP_PART: u64 = 8;

/// What a write that was not admitted waits for; by default nobody does.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// What is in the write.
    pub totals: Totals,
    /// Whether these are deletes alone.
    pub deletes_alone: bool,
}

impl Wanted {
    /// Space for this write.
    pub fn new(totals: &Totals, deletes_alone: bool) -> Wanted {
        Wanted { totals: *totals, deletes_alone }
    }

    /// Whether somebody waits.
    pub fn is_waited_for(&self) -> bool {
        self.totals.entries > 0
    }

    /// Whether there is space for it where there is space for the other.
    pub fn is_at_most(&self, other: &Wanted) -> bool {
        let (mine, others) = (&self.totals, &other.totals);
        (self.deletes_alone || !other.deletes_alone)
            && others.covers_in_index(mine)
            && others.key_bytes >= mine.key_bytes
            && others.value_bytes >= mine.value_bytes
    }
}

/// MemTables that a write and what is kept back beside it are in, when so many wait for their flush: the active one, and
/// the next.
pub fn memtables(immutables: usize, deletes_alone: bool) -> u64 {
    immutables as u64 + if deletes_alone { 1 } else { 2 }
}

/// Whether there is space for a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Yes.
    Granted,
    /// Yes, but more should be set aside soon.
    Scarce,
    /// No.
    Refused,
}
