//! Writing a key segment record by record, when it is not known beforehand what will be in it.
//!
//! [`write_segment`](super::write_segment) writes the segment of a table file that has just been made. When an index is
//! rebuilt, a segment gets only those records that the tree will point to, which come in key order over all files; several
//! threads may write one file's records, each for its part of the key space, with a writer of its own.

use slmdb_env::{Error, Result};
use slmdb_pmem::{Claim, ExtentKind, Medium, Pool};

use super::key_record::{MAXIMUM_KEY_BYTES, SEGMENT_HEADER_BYTES, SegmentEntry, key_record_bytes};
use super::part::PartWriter;
use super::segment::Segment;

/// Records are gathered to about this many bytes before they are copied to the pool: many segments are written at once.
const COPY_BYTES: usize = 8 * 1024;
/// For such a part of what was expected there is room more in a part that was not.
const MORE_PART: u64 = 16;

/// Writes records of one table file, see [`SegmentWriter::finish`]. Dropped unfinished, it gives its extents back.
pub struct SegmentWriter<'p, M: Medium> {
    pool: &'p Pool<M>,
    file: u32,
    expected_bytes: u64,
    parts: Vec<PartWriter<'p, M>>,
}

impl<'p, M: Medium> SegmentWriter<'p, M> {
    /// For the records of a table file that this writer gets, about so many bytes of them. Takes no space before the first.
    pub fn new(pool: &'p Pool<M>, file: u32, expected_bytes: u64) -> SegmentWriter<'p, M> {
        SegmentWriter { pool, file, expected_bytes, parts: Vec::new() }
    }

    /// Adds a record; keys ascend. Gives where it is: there once [`SegmentWriter::finish`] has returned.
    pub fn add(&mut self, entry: &SegmentEntry<'_>) -> Result<u64> {
        if entry.key.len() > MAXIMUM_KEY_BYTES || entry.sequence >> 56 != 0 {
            return Err(Error::invalid("a key or a sequence number is too large for a key record"));
        }
        let bytes = key_record_bytes(entry);
        if self.parts.last().is_none_or(|part| part.room_bytes() < bytes) {
            self.begin_part(bytes)?;
        }
        match self.parts.last_mut() {
            Some(part) => part.add(entry),
            None => Err(Error::invalid("a segment without a part")),
        }
    }

    fn begin_part(&mut self, least_bytes: u64) -> Result<()> {
        let wanted_bytes = match self.parts.last_mut() {
            None => self.expected_bytes,
            Some(full) => {
                full.rest()?;
                self.expected_bytes / MORE_PART
            }
        };
        let least = SEGMENT_HEADER_BYTES + least_bytes;
        let wanted = (SEGMENT_HEADER_BYTES + wanted_bytes).max(least);
        let extent = self.pool.allocate_part(ExtentKind::KeySegment, wanted, least, self.file, Claim::Privileged)?;
        self.parts.push(PartWriter::new(self.pool, extent, COPY_BYTES));
        Ok(())
    }

    /// Makes one segment of what these writers have, all of them of one table file: in the order of the writers, and there
    /// may be nothing in any. Durable on return.
    pub fn finish(mut writers: Vec<SegmentWriter<'p, M>>) -> Result<Segment> {
        let Some(first) = writers.first_mut() else { return Err(Error::invalid("a segment without a writer")) };
        let (pool, file) = (first.pool, first.file);
        if first.parts.is_empty() {
            first.begin_part(0)?;
        }
        if writers.iter().any(|writer| writer.file != file) {
            return Err(Error::invalid("the writers of a segment are of different table files"));
        }
        let parts: Vec<_> = writers.iter_mut().flat_map(|writer| std::mem::take(&mut writer.parts)).collect();
        let (mut segment, count) = (Segment::empty(file), parts.len());
        for (number, part) in parts.into_iter().enumerate() {
            let (part, keys) = part.end(number as u32, number + 1 == count)?;
            segment.add_part(part, keys);
        }
        pool.fence();
        Ok(segment)
    }
}

impl<M: Medium> Drop for SegmentWriter<'_, M> {
    fn drop(&mut self) {
        for part in self.parts.drain(..) {
            // A caller that gives up has an error to return already.
            let _ = self.pool.free_extent(part.extent_offset());
        }
    }
}

impl<M: Medium> std::fmt::Debug for SegmentWriter<'_, M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SegmentWriter").field("file", &self.file).finish_non_exhaustive()
    }
}
