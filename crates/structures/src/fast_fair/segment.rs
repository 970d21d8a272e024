//! The key segment: all key records of one table file.
//!
//! A segment is written before the tree points into it, in key order like the file, and freed whole when the file is
//! retired and no reader can be left (INV-19). So the many small records need no allocator, and nothing is lost to
//! fragments.
//!
//! It lies in one extent of kind `KeySegment`, whose owner is the number of the table file, where the pool has a free run
//! that is long enough. Else it has several *parts*, as few as can be, in the longest runs there are; no record spans two.
//! So a segment needs free units and does not care where they are, which is what the pool's reserve promises it.
//!
//! ```text
//!  0  u64  magic "slmdbKEY"
//!  8  u32  number of the table file
//! 12  u32  number of the part, from 0
//! 16  u64  number of records in this part
//! 24  u64  their length in bytes
//! 32  u32  1 for the last part, 0 for the others
//! 36  u32  length of the longest key of this part
//! 40  u64  length of all its keys that are longer than 32 bytes (see [`space_bounds`](super::space_bounds))
//! 48  u32  crc32c of the records, with the words for the replaced file taken as 0
//! 52  u32  crc32c of bytes 0..52
//! 56  u64  0
//! 64  ...  the records (see [`key_record`](super::key_record)), each at a multiple of 8
//! ```
//!
//! Deletes have records too. The tree does not point to them, but they carry the number of the file whose entry the
//! delete took out of the tree, and recovery walks all records of a segment to find out how far its job has come.
//! [`Segment::open`] verifies every constant byte before that, and that no part is missing; headers are written after
//! their records, though nothing but the checksums is relied on.

use slmdb_env::{Error, Result};
use slmdb_pmem::{Claim, Extent, ExtentKind, Medium, Pool};
use slmdb_sync::epoch::Guard;

use super::key_record::{KeyRecord, MAXIMUM_KEY_BYTES, SEGMENT_HEADER_BYTES, SegmentEntry, damaged, key_record_bytes};
use super::part::{Header, Part, PartWriter};
use crate::KeyLengths;

/// Records are gathered to about this many bytes before they are copied to the pool.
const COPY_BYTES: usize = 64 * 1024;

/// A segment that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    file: u32,
    parts: Vec<Part>,
    keys: KeyLengths,
}

/// Writes the segment of a table file; all of it is durable on return. The entries are walked twice, once to find out how
/// much space they take. It claims the pool's reserve, as flushes may. [`Error::Full`] if the pool has no room; then
/// nothing is left behind.
pub fn write_segment<'k, M: Medium>(
    pool: &Pool<M>,
    file: u32,
    entries: impl Iterator<Item = SegmentEntry<'k>> + Clone,
) -> Result<Segment> {
    write_segment_claiming(pool, file, entries, Claim::Privileged)
}

/// As [`write_segment`], for callers that must leave the pool's reserve to flushes, or may not.
pub fn write_segment_claiming<'k, M: Medium>(
    pool: &Pool<M>,
    file: u32,
    entries: impl Iterator<Item = SegmentEntry<'k>> + Clone,
    claim: Claim,
) -> Result<Segment> {
    let mut rest_bytes = 0;
    for entry in entries.clone() {
        if entry.key.len() > MAXIMUM_KEY_BYTES || entry.sequence >> 56 != 0 {
            return Err(Error::invalid("a key or a sequence number is too large for a key record"));
        }
        rest_bytes += key_record_bytes(&entry);
    }
    let mut segment = Segment::empty(file);
    let written = segment.write(pool, entries, rest_bytes, claim);
    // The first error tells more than one of giving the extents back.
    written.inspect_err(|_| drop(segment.free(pool))).map(|()| segment)
}

impl Segment {
    /// Verifies the segment that lies in these extents, which are all of its file: headers, that no part is missing or there
    /// twice, checksums of all records, and that they are laid out as they should be. Withstands any bytes.
    /// [`Error::Corruption`] also for a segment whose writing a crash cut short.
    pub fn open<M: Medium>(pool: &Pool<M>, extents: &[Extent]) -> Result<Segment> {
        let mut parts =
            extents.iter().map(|extent| Ok((Header::read(pool, extent)?, extent))).collect::<Result<Vec<_>>>()?;
        parts.sort_by_key(|(header, _)| header.number);
        let Some((last, _)) = parts.last() else {
            return Err(damaged(pool, 0, "a key segment is missing"));
        };
        let mut segment = Segment::empty(last.file);
        for (number, (header, extent)) in parts.iter().enumerate() {
            if header.file != segment.file || header.last != (number + 1 == parts.len()) {
                return Err(damaged(pool, extent.offset, "the last part of a key segment is missing, or not its own"));
            }
            if header.number as usize != number {
                return Err(damaged(pool, extent.offset, "a part of a key segment is missing, or there twice"));
            }
            header.check_records(pool, extent)?;
            let Header { count, length_bytes, keys, .. } = *header;
            segment.add_part(Part { offset: extent.offset, count, length_bytes }, keys);
        }
        Ok(segment)
    }

    /// Finds the segment of a table file among the pool's extents and verifies it as [`Segment::open`] does.
    pub fn of_file<M: Medium>(pool: &Pool<M>, file: u32) -> Result<Segment> {
        let is_part = |extent: &Extent| extent.kind == ExtentKind::KeySegment && extent.owner == file;
        let extents: Vec<Extent> = pool.extents().into_iter().filter(is_part).collect();
        if extents.is_empty() {
            return Err(damaged(pool, 0, &format!("the key segment of table file {file} is missing")));
        }
        Segment::open(pool, &extents)
    }

    /// All records in key order. Whatever the bytes are, it ends: after an error, or at the segment's end.
    pub fn records<'g, M: Medium>(&self, pool: &'g Pool<M>, _guard: &'g Guard) -> Records<'g, M> {
        Records { pool, parts: self.parts.clone().into_iter(), extent: None, offset: 0, end: 0 }
    }

    fn write<'k, M: Medium>(
        &mut self,
        pool: &Pool<M>,
        entries: impl Iterator<Item = SegmentEntry<'k>>,
        mut rest_bytes: u64,
        claim: Claim,
    ) -> Result<()> {
        let mut writer = self.next_part(pool, rest_bytes, 0, claim)?;
        for entry in entries {
            let length = key_record_bytes(&entry);
            if writer.room_bytes() < length {
                self.end_part(writer, false)?;
                writer = self.next_part(pool, rest_bytes, length, claim)?;
            }
            writer.add(&entry)?;
            let changed = || Error::invalid("the entries of a segment changed while it was written");
            rest_bytes = rest_bytes.checked_sub(length).ok_or_else(changed)?;
        }
        self.end_part(writer, true)?;
        pool.fence();
        Ok(())
    }

    /// Begins a part: for all that is left if there is such a run, for one record at least. It is the segment's from now
    /// on.
    fn next_part<'p, M: Medium>(
        &mut self,
        pool: &'p Pool<M>,
        rest_bytes: u64,
        least_bytes: u64,
        claim: Claim,
    ) -> Result<PartWriter<'p, M>> {
        let [wanted, least] = [rest_bytes, least_bytes].map(|bytes| SEGMENT_HEADER_BYTES + bytes);
        let extent = pool.allocate_part(ExtentKind::KeySegment, wanted, least, self.file, claim)?;
        self.parts.push(Part { offset: extent.offset, count: 0, length_bytes: 0 });
        Ok(PartWriter::new(pool, extent, COPY_BYTES))
    }

    fn end_part<M: Medium>(&mut self, writer: PartWriter<'_, M>, last: bool) -> Result<()> {
        let number = (self.parts.len() - 1) as u32;
        let (part, keys) = writer.end(number, last)?;
        self.parts[number as usize] = part;
        self.keys.add_all(keys);
        Ok(())
    }

    /// The beginning of one.
    pub(super) fn empty(file: u32) -> Segment {
        Segment { file, parts: Vec::new(), keys: KeyLengths::default() }
    }

    /// Its next part, whose keys are so long.
    pub(super) fn add_part(&mut self, part: Part, keys: KeyLengths) {
        self.parts.push(part);
        self.keys.add_all(keys);
    }

    /// The number of the table file.
    pub fn file(&self) -> u32 {
        self.file
    }

    /// How many records it has.
    pub fn count(&self) -> u64 {
        self.parts.iter().map(|part| part.count).sum()
    }

    /// How many bytes the records take.
    pub fn length_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.length_bytes).sum()
    }

    /// Its parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// How long its keys are.
    pub fn key_lengths(&self) -> KeyLengths {
        self.keys
    }

    /// Gives all parts back to the pool. The caller sees to it that no reader can be there.
    pub fn free<M: Medium>(&self, pool: &Pool<M>) -> Result<()> {
        self.parts.iter().try_for_each(|part| pool.free_extent(part.offset))
    }
}

/// Iterator over the records of a segment, see [`Segment::records`].
#[derive(Debug)]
pub struct Records<'g, M: Medium> {
    pool: &'g Pool<M>,
    parts: std::vec::IntoIter<Part>,
    /// Of the current part.
    extent: Option<Extent>,
    offset: u64,
    end: u64,
}

impl<'g, M: Medium> Iterator for Records<'g, M> {
    type Item = Result<KeyRecord<'g>>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.offset >= self.end {
            let part = self.parts.next()?;
            self.extent = self.pool.extent_at(part.offset);
            self.offset = part.offset + SEGMENT_HEADER_BYTES;
            self.end = self.offset.saturating_add(part.length_bytes);
        }
        let record = match &self.extent {
            Some(extent) if extent.kind == ExtentKind::KeySegment => KeyRecord::within(self.pool, extent, self.offset),
            _ => Err(damaged(self.pool, self.offset, "there is no key segment here")),
        };
        match &record {
            Ok(record) => self.offset += record.length_bytes(),
            Err(_) => (self.offset, self.parts) = (self.end, Vec::new().into_iter()),
        }
        Some(record)
    }
}
