//! Entries: a key, what is so from a sequence number on, and the value. Written once into a segment and never changed.

/// The largest sequence number that an entry has room for.
pub const MAXIMUM_SEQUENCE: u64 = (1 << 56) - 1;

/// Where an entry lies, as a list has to know. It comes from [`SegmentWriter::add`](super::SegmentWriter::add), or from
/// [`ListCursor::place`](super::ListCursor::place) of a list that has the entry already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub(super) offset: u64,
    pub(super) segment: u64,
    pub(super) bytes: u32,
    pub(super) check: u32,
}

impl Place {
    /// Where in the pool, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Where the extent of its segment begins in the pool, in bytes.
    pub fn segment(&self) -> u64 {
        self.segment
    }

    /// What it takes there, in bytes, rounded up to a multiple of 8.
    pub fn bytes(&self) -> u64 {
        u64::from(self.bytes)
    }
}

/// What an entry takes in a segment, in bytes.
pub fn entry_bytes(key_bytes: u64, value_bytes: u64) -> u64 {
    let _ = (key_bytes, value_bytes);
    todo!()
}
