//! [`PartWriter`]: where a table file's parts are put together and written out.
//!
//! Parts are built at the end of one buffer, sealed there and written in large pieces, so that a value is copied once on
//! its way from the MemTable to the system. The buffer grows to what one part takes and shrinks again after a large one.

use std::sync::Arc;

use slmdb_env::{Error, File, Result};

use crate::compression::Compression;
use crate::entry::{NewEntry, Place};
use crate::part::{self, Identity, PartKind};
use crate::single;
use crate::write_back::WriteBack;

/// How much is collected before it is written: long enough to make the call's cost vanish, short enough to stay in the
/// processor's cache until then.
const WRITE_BYTES: usize = 256 << 10;
/// A buffer larger than this is given back after use.
pub(crate) const KEPT_BYTES: usize = 4 * WRITE_BYTES;

#[derive(Debug)]
pub(crate) struct PartWriter {
    file: Arc<dyn File>,
    identity: Identity,
    compression: Compression,
    /// Sealed parts not yet written, then the part being built.
    buffer: Vec<u8>,
    /// Where the part being built starts in the buffer.
    part_start: usize,
    /// How much of the file is written.
    written_bytes: u64,
    write_back: WriteBack,
    scratch: Vec<u8>,
}

impl PartWriter {
    pub(crate) fn new(file: Arc<dyn File>, identity: Identity, compression: Compression) -> PartWriter {
        PartWriter {
            file,
            identity,
            compression,
            buffer: Vec::with_capacity(WRITE_BYTES + WRITE_BYTES / 4),
            part_start: 0,
            written_bytes: 0,
            write_back: WriteBack::default(),
            scratch: Vec::new(),
        }
    }

    /// Where in the file the part being built starts.
    pub(crate) fn offset(&self) -> u64 {
        self.written_bytes + self.part_start as u64
    }

    /// Where in the buffer the part being built starts.
    pub(crate) fn part_start(&self) -> usize {
        self.part_start
    }

    /// Length of the part being built, in bytes.
    pub(crate) fn part_bytes(&self) -> usize {
        self.buffer.len() - self.part_start
    }

    /// The buffer, to append to the part being built. What is in it already must stay.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Ends the part being built and begins the next. The caller sees to it that the file stays below 4 GiB.
    pub(crate) fn seal(&mut self, kind: PartKind) -> Result<Place> {
        let offset = self.part_offset()?;
        let (start, compression) = (self.part_start, self.compression);
        part::seal(&mut self.buffer, start, self.identity, kind, offset, compression, &mut self.scratch);
        self.end_part(offset)
    }

    /// As [`seal`](PartWriter::seal), without compression.
    pub(crate) fn seal_as_it_is(&mut self, kind: PartKind) -> Result<Place> {
        let offset = self.part_offset()?;
        let (start, compression) = (self.part_start, Compression::None);
        part::seal(&mut self.buffer, start, self.identity, kind, offset, compression, &mut self.scratch);
        self.end_part(offset)
    }

    /// Ends the block being built and begins the next part, if compression makes the block smaller. Else what was built is moved to
    /// `content`: `None`.
    pub(crate) fn seal_if_smaller(&mut self, content: &mut Vec<u8>) -> Result<Option<Place>> {
        let offset = self.part_offset()?;
        let (start, compression) = (self.part_start, self.compression);
        let Some(stored) = part::compress(&mut self.buffer, start, compression, &mut self.scratch) else {
            content.clear();
            content.extend(self.buffer.drain(start..));
            return Ok(None);
        };
        part::end(&mut self.buffer, start, self.identity, PartKind::Block, offset, stored);
        self.end_part(offset).map(Some)
    }

    /// Writes an entry by itself.
    pub(crate) fn add_single(&mut self, entry: &NewEntry<'_>) -> Result<Place> {
        let offset = self.part_offset()?;
        single::append(&mut self.buffer, self.identity, offset, entry);
        self.end_part(offset)
    }

    /// Where in the file the part being built starts, as a place has it.
    fn part_offset(&self) -> Result<u32> {
        u32::try_from(self.offset()).map_err(|_| self.too_long())
    }

    /// The part being built is whole: the next begins.
    fn end_part(&mut self, offset: u32) -> Result<Place> {
        let length = u32::try_from(self.part_bytes()).map_err(|_| self.too_long())?;
        self.part_start = self.buffer.len();
        if self.buffer.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(Place { offset, length })
    }

    #[cold]
    fn too_long(&self) -> Error {
        Error::invalid(format!("{}: longer than 4 GiB", self.file.path().display()))
    }

    /// Writes everything that is left, cuts off what was set aside behind it, makes it durable and returns the file's
    /// length in bytes.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.write_out()?;
        if self.file.length_bytes()? > self.written_bytes {
            self.file.set_length(self.written_bytes)?;
        }
        self.file.sync_data()?;
        Ok(self.written_bytes)
    }

    fn write_out(&mut self) -> Result<()> {
        self.file.write_at(&self.buffer, self.written_bytes)?;
        self.written_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        self.part_start = 0;
        self.write_back.written_through(&*self.file, self.written_bytes);
        for kept in [&mut self.buffer, &mut self.scratch] {
            if kept.capacity() > KEPT_BYTES {
                *kept = Vec::new();
            }
        }
        Ok(())
    }
}
