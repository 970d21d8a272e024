//! What an entry says about its key.

/// A put or a delete. The numbers are those in the formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// The key has this value from here on.
    Put = 1,
    /// The key has no value from here on.
    Delete = 2,
}
