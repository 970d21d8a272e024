//! What is known of a list without reading its nodes.

use std::sync::Arc;

use slmdb_pmem::Extent;

/// What a list has of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentShare {
    /// Where the segment's extent begins in the pool, in bytes.
    pub segment: u64,
    /// What the list's entries take in it, in bytes.
    pub live_bytes: u64,
    /// How many entries of the list lie in it.
    pub entries: u32,
}

/// What is known of a list without reading its nodes. It has one entry at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRecord {
    /// Its number.
    pub number: u32,
    /// Where it lies. (The entries lie elsewhere, in segments.)
    pub extent: Extent,
    /// All entries, deletes included.
    pub entries: u64,
    /// The deletes among them.
    pub deletes: u64,
    /// The lowest sequence number.
    pub lowest_sequence: u64,
    /// The highest sequence number.
    pub highest_sequence: u64,
    /// What the entries take in their segments, in bytes.
    pub data_bytes: u64,
    /// When it was made, in nanoseconds since 1970 UTC.
    pub created_unix_ns: u64,
    /// The smallest key, in the list's order.
    pub smallest_key: Arc<[u8]>,
    /// The largest key.
    pub largest_key: Arc<[u8]>,
    /// The segments in which the entries lie, by their offsets.
    pub segments: Arc<[SegmentShare]>,
}

/// A list that is written, but neither durable nor complete: that it is after
/// [`SegmentWriter::complete`](super::SegmentWriter::complete). To give it up, free its extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedList {
    pub(super) record: ListRecord,
}

impl FinishedList {
    /// What is known of it.
    pub fn record(&self) -> &ListRecord {
        &self.record
    }

    /// The same.
    pub fn into_record(self) -> ListRecord {
        self.record
    }
}
