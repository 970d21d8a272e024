//! Writing entries into segments.

use std::sync::Arc;

use slmdb_env::Result;
use slmdb_pmem::{Claim, Extent, Medium, Pool};

use super::entry::Place;
use super::record::FinishedList;
use crate::EntryKind;

/// How segments are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentOptions {
    /// How long a segment is, in bytes, rounded up to whole units. An entry that is longer gets one of its own. Where the
    /// pool has no run of free units that is so long, segments are shorter.
    pub segment_bytes: u64,
    /// The owner of their extents.
    pub owner: u32,
    /// Whether they may take what the pool holds in reserve.
    pub claim: Claim,
}

/// Writes entries into new segments: gathers a segment in memory and copies it past the caches. One writer serves all lists of a
/// job, one after the other, so that neighbours share segments. It takes no space before the first entry.
///
/// Dropped before [`SegmentWriter::complete`] it gives its extents back.
pub struct SegmentWriter<M: Medium> {
    pool: Arc<Pool<M>>,
    options: SegmentOptions,
    made: Vec<Extent>,
}

impl<M: Medium> SegmentWriter<M> {
    /// A writer that has written nothing.
    pub fn new(pool: Arc<Pool<M>>, options: SegmentOptions) -> SegmentWriter<M> {
        SegmentWriter { pool, options, made: Vec::new() }
    }

    /// Adds an entry; where it lies is for [`ListWriter::add`](super::ListWriter::add). The value of a delete is empty.
    /// Nothing is durable yet, and the bytes may not be in the pool yet.
    ///
    /// [`Error::Invalid`](slmdb_env::Error::Invalid) for a key of more than 65,535 bytes, a value of more than the log allows,
    /// or a sequence number above [`MAXIMUM_SEQUENCE`](super::MAXIMUM_SEQUENCE). [`Error::Full`](slmdb_env::Error::Full) if the
    /// pool has no room.
    pub fn add(&mut self, key: &[u8], sequence: u64, kind: EntryKind, value: &[u8]) -> Result<Place> {
        let _ = (key, sequence, kind, value);
        todo!()
    }

    /// What all entries that were added take, in bytes.
    pub fn entry_bytes(&self) -> u64 {
        todo!()
    }

    /// The extents that it has made so far.
    pub fn made(&self) -> &[Extent] {
        &self.made
    }

    /// Completes the lists of a job: writes what is left of the last segment, then a fence, then the lists' magics, then
    /// another fence. On return these lists and all entries that were added are durable. Gives the extents of the segments.
    ///
    /// REQUIRES: the same thread wrote segments and lists, as a fence orders only what its own thread has flushed.
    ///
    /// After an error the segments are given back. The lists' extents are the caller's to free.
    pub fn complete(self, lists: &[FinishedList]) -> Result<Vec<Extent>> {
        let _ = lists;
        todo!()
    }

    /// Gives all its extents back.
    pub fn abandon(self) {
        todo!()
    }
}
