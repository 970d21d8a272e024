//! Writing entries into segments.
//!
//! This is the paper's persistent buffer (section IV-C, algorithm 1): entries are gathered in plain memory and copied at once.
//! A buffer of the paper belongs to one flush. Segments are smaller, so that one live entry keeps less alive.

use std::sync::Arc;

use slmdb_env::Result;
use slmdb_pmem::{Claim, Extent, ExtentKind, Medium, Pool, UNIT_BYTES};

use super::entry::{NewEntry, Place};
use super::layout::LINE_BYTES;
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

/// A segment that has room behind its last entry. It stays as long as it was made, so that more jobs can write into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenSegment {
    /// Its extent.
    pub extent: Extent,
    /// How much of it is taken, in bytes from its beginning.
    pub filled_bytes: u64,
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
    /// The segment that is being filled, and how much of it others have filled.
    open: Option<OpenSegment>,
    /// What it has got here so far.
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

    /// A writer that begins where an earlier one [has ended](SegmentWriter::complete_open). Dropped, it leaves that segment to the caller.
    /// REQUIRES: nobody else writes into it.
    pub fn resume(pool: Arc<Pool<M>>, options: SegmentOptions, open: OpenSegment) -> SegmentWriter<M> {
        // A line of its own, so that it writes no byte of others.
        let filled_bytes = open.filled_bytes.next_multiple_of(LINE_BYTES);
        let mut writer = SegmentWriter::new(pool, options);
        writer.open = Some(OpenSegment { filled_bytes, ..open });
        writer
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
        let has_room =
            |open: &OpenSegment| open.filled_bytes + self.buffer.len() as u64 + bytes <= open.extent.length_bytes;
        if !self.open.as_ref().is_none_or(has_room) {
            self.close()?;
        }
        let open = match self.open {
            Some(open) => open,
            None => {
                let extent = self.make(self.options.segment_bytes, bytes)?;
                *self.open.insert(OpenSegment { extent, filled_bytes: 0 })
            }
        };
        let (segment, offset) = (open.extent.offset, open.extent.offset + open.filled_bytes + self.buffer.len() as u64);
        let end = self.buffer.len() + bytes as usize;
        let check = entry.encode_front(offset, self.uuid_crc, &mut self.buffer);
        self.buffer.extend_from_slice(entry.value);
        self.buffer.resize(end, 0);
        Ok(Place { offset, segment, bytes: bytes as u32, check })
    }

    fn make(&mut self, wanted_bytes: u64, least_bytes: u64) -> Result<Extent> {
        let SegmentOptions { owner, claim, .. } = self.options;
        let extent = self.pool.allocate_part(ExtentKind::Segment, wanted_bytes, least_bytes, owner, claim)?;
        self.made.push(extent);
        Ok(extent)
    }

    /// Writes the segment that is being filled, and gives back the units that it does not need, unless it was resumed. The next entry
    /// begins another one.
    pub fn close(&mut self) -> Result<()> {
        let Some(OpenSegment { extent, filled_bytes }) = self.write()? else { return Ok(()) };
        self.open = None;
        if let Some(made) = self.made.iter_mut().find(|made| made.offset == extent.offset) {
            *made = self.pool.shorten_extent(extent.offset, filled_bytes)?;
        }
        Ok(())
    }

    /// Writes what the segment that is being filled has got. Gives that segment.
    fn write(&mut self) -> Result<Option<OpenSegment>> {
        let Some(open) = &mut self.open else { return Ok(None) };
        // SAFETY: this part of the extent is this writer's, and nobody reads it before a list of it is complete.
        unsafe { self.pool.write_durably(open.extent.offset + open.filled_bytes, &self.buffer)? };
        open.filled_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(Some(*open))
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
        self.end(lists)
    }

    /// The same, but that the last segment stays as it is, for a writer that [resumes](SegmentWriter::resume). `None`: no entry was
    /// added.
    pub fn complete_open(mut self, lists: &[FinishedList]) -> Result<Option<OpenSegment>> {
        let open = self.write()?;
        self.end(lists).map(|_| open)
    }

    fn end(mut self, lists: &[FinishedList]) -> Result<Vec<Extent>> {
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
