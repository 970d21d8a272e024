//! What an entry says about its key.

/// A put or a delete. The numbers are those in the formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// The key has this entry's value from here on.
    Put = 1,
    /// The key has no value from here on.
    Delete = 2,
}

impl EntryKind {
    /// The lowest bit of a length that carries the kind with it, in table files.
    #[inline]
    pub fn bit(self) -> u64 {
        (self == EntryKind::Delete) as u64
    }

    /// Undoes [`EntryKind::bit`]; looks at the lowest bit alone.
    #[inline]
    pub fn of_bit(bits: u64) -> EntryKind {
        if bits & 1 == 0 { EntryKind::Put } else { EntryKind::Delete }
    }
}
