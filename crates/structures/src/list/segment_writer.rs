//! Writing entries into segments.
//!
//! This is the paper's persistent buffer (section IV-C, algorithm 1): entries are gathered in plain memory and copied at once.
//! A buffer of the paper belongs to one flush. Segments are smaller, so that one live entry keeps less alive.

use std::sync::Arc;

use slmdb_env::Result;
use slmdb_pmem::{Claim, Extent, ExtentKind, Medium, Pool, UNIT_BYTES};

use super::entry::{NewEntry, Place};
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
    uuid_crc: u32,
    made: Vec<Extent>,
    /// Where in `made` the segment is that is being filled.
    open: Option<usize>,
    /// What it has so far.
    buffer: Vec<u8>,
    entry_bytes: u64,
}

impl<M: Medium> SegmentWriter<M> {
    /// A writer that has written nothing.
    pub fn new(pool: Arc<Pool<M>>, options: SegmentOptions) -> SegmentWriter<M> {
        let uuid_crc = slmdb_checksum::crc32c(&pool.uuid());
        let segment_bytes = options.segment_bytes.max(1).next_multiple_of(UNIT_BYTES);
        let options = SegmentOptions { segment_bytes, ..options };
        SegmentWriter { pool, options, uuid_crc, made: Vec::new(), open: None, buffer: Vec::new(), entry_bytes: 0 }
    }

    /// Adds an entry; where it lies is for [`ListWriter::add`](super::ListWriter::add). The value of a delete is empty.
    /// Nothing is durable yet, and the bytes may not be in the pool yet.
    ///
    /// [`Error::Invalid`](slmdb_env::Error::Invalid) for a key of more than 65,535 bytes, a value of more than the log allows,
    /// or a sequence number above [`MAXIMUM_SEQUENCE`](super::MAXIMUM_SEQUENCE). [`Error::Full`](slmdb_env::Error::Full) if the
    /// pool has no room.
    pub fn add(&mut self, key: &[u8], sequence: u64, kind: EntryKind, value: &[u8]) -> Result<Place> {
        let entry = NewEntry { key, sequence, kind, value };
        entry.check()?;
        let bytes = entry.bytes();
        let place = if bytes > self.options.segment_bytes { self.add_alone(&entry)? } else { self.add_among(&entry)? };
        self.entry_bytes += bytes;
        Ok(place)
    }

    /// Writes an entry that is longer than a segment. The one that is being filled stays open.
    fn add_alone(&mut self, entry: &NewEntry<'_>) -> Result<Place> {
        let extent = self.make(entry.bytes(), entry.bytes())?;
        let mut front = Vec::new();
        let check = entry.encode_front(extent.offset, self.uuid_crc, &mut front);
        let value_offset = extent.offset + front.len() as u64;
        // SAFETY: the extent is new, and nobody knows of it.
        unsafe {
            self.pool.write_durably(extent.offset, &front)?;
            self.pool.write_durably(value_offset, entry.value)?;
        }
        Ok(Place { offset: extent.offset, segment: extent.offset, bytes: entry.bytes() as u32, check })
    }

    fn add_among(&mut self, entry: &NewEntry<'_>) -> Result<Place> {
        let bytes = entry.bytes();
        if self.segment().is_some_and(|segment| self.buffer.len() as u64 + bytes > segment.length_bytes) {
            self.close()?;
        }
        let segment = match self.segment() {
            Some(segment) => segment,
            None => {
                let segment = self.make(self.options.segment_bytes, bytes)?;
                self.open = Some(self.made.len() - 1);
                segment
            }
        };
        let offset = segment.offset + self.buffer.len() as u64;
        let end = self.buffer.len() + bytes as usize;
        let check = entry.encode_front(offset, self.uuid_crc, &mut self.buffer);
        self.buffer.extend_from_slice(entry.value);
        self.buffer.resize(end, 0);
        Ok(Place { offset, segment: segment.offset, bytes: bytes as u32, check })
    }

    /// The segment that is being filled.
    fn segment(&self) -> Option<Extent> {
        self.open.map(|open| self.made[open])
    }

    fn make(&mut self, wanted_bytes: u64, least_bytes: u64) -> Result<Extent> {
        let SegmentOptions { owner, claim, .. } = self.options;
        let extent = self.pool.allocate_part(ExtentKind::Segment, wanted_bytes, least_bytes, owner, claim)?;
        self.made.push(extent);
        Ok(extent)
    }

    /// Writes the segment that is being filled, and gives back the units that it does not need. The next entry begins another one.
    pub fn close(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let extent = &mut self.made[open];
        // SAFETY: the extent is this writer's, and nobody reads it before a list of it is complete.
        unsafe { self.pool.write_durably(extent.offset, &self.buffer)? };
        *extent = self.pool.shorten_extent(extent.offset, self.buffer.len() as u64)?;
        self.buffer.clear();
        Ok(())
    }

    /// What all entries that were added take, in bytes.
    pub fn entry_bytes(&self) -> u64 {
        self.entry_bytes
    }

    /// The extents that it has made so far.
    pub fn made(&self) -> &[Extent] {
        &self.made
    }

    /// Completes the lists of a job: writes what is left of the last segment, then a fence, then the lists' last words, then
    /// another fence. On return these lists and all entries that were added are durable. Gives the extents of the segments.
    ///
    /// REQUIRES: the same thread wrote segments and lists, as a fence orders only what its own thread has flushed.
    ///
    /// After an error the segments are given back. The lists' extents are the caller's to free.
    pub fn complete(mut self, lists: &[FinishedList]) -> Result<Vec<Extent>> {
        self.close()?;
        self.pool.fence();
        for list in lists {
            let offset = list.record.extent.offset;
            self.pool.store(offset, list.last_word)?;
            self.pool.flush(offset, 8);
        }
        if !lists.is_empty() {
            self.pool.fence();
        }
        Ok(std::mem::take(&mut self.made))
    }

    /// Gives all its extents back.
    pub fn abandon(self) {}
}

impl<M: Medium> Drop for SegmentWriter<M> {
    fn drop(&mut self) {
        for extent in self.made.drain(..) {
            // A caller that gives up has an error to return already, and the next opening frees what nobody names.
            let _ = self.pool.free_extent(extent.offset);
        }
    }
}

impl<M: Medium> std::fmt::Debug for SegmentWriter<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SegmentWriter").field("made", &self.made).finish_non_exhaustive()
    }
}
