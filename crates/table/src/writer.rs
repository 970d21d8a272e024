//! [`PartWriter`]: where a table file's parts are put together and written out.
//!
//! Parts are built at the end of one buffer, sealed there and written in large pieces, so that a value is copied once on
//! its way from the MemTable to the system. The buffer grows to what one part takes and shrinks again after a large one.

use std::sync::Arc;

use slmdb_env::{Error, File, Result};

use crate::compression::Compression;
use crate::entry::Place;
use crate::part::{self, Identity, PartKind};

/// How much is collected before it is written: long enough to make the call's cost vanish, short enough to stay in the
/// processor's cache until then.
const WRITE_BYTES: usize = 256 << 10;
/// After so many blocks, one behind the other, that compression did not make smaller, the others are not tried,
const BLOCKS_IN_VAIN_MAX: u32 = 4;
/// but for one in so many: data is rarely alike for long.
const BLOCKS_PER_TRY: u32 = 16;
/// A buffer larger than this is given back after use.
const KEPT_BYTES: usize = 4 * WRITE_BYTES;

#[derive(Debug)]
pub(crate) struct PartWriter {
    file: Arc<dyn File>,
    identity: Identity,
    compression: Compression,
    /// So many blocks, one behind the other, were not made smaller.
    blocks_in_vain: u32,
    /// Sealed parts not yet written, then the part being built.
    buffer: Vec<u8>,
    /// Where the part being built starts in the buffer.
    part_start: usize,
    /// How much of the file is written.
    written_bytes: u64,
    scratch: Vec<u8>,
}

impl PartWriter {
    pub(crate) fn new(file: Arc<dyn File>, identity: Identity, compression: Compression) -> PartWriter {
        PartWriter {
            file,
            identity,
            compression,
            blocks_in_vain: 0,
            buffer: Vec::with_capacity(WRITE_BYTES + WRITE_BYTES / 4),
            part_start: 0,
            written_bytes: 0,
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
        let too_long = |_| Error::invalid(format!("{}: longer than 4 GiB", self.file.path().display()));
        let offset = u32::try_from(self.offset()).map_err(too_long)?;
        let compression = self.compression_of(kind);
        let smaller =
            part::seal(&mut self.buffer, self.part_start, self.identity, kind, offset, compression, &mut self.scratch);
        if kind == PartKind::Block {
            self.blocks_in_vain = if smaller { 0 } else { self.blocks_in_vain.saturating_add(1) };
        }
        let length = u32::try_from(self.part_bytes()).map_err(too_long)?;
        self.part_start = self.buffer.len();
        if self.buffer.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(Place { offset, length })
    }

    /// How the part being built is to be compressed: not at all, mostly, if it is a block and those before it were tried in
    /// vain. (On data that can't be compressed, trying was three tenths of the work of making a file.)
    fn compression_of(&self, kind: PartKind) -> Compression {
        let is_in_vain = kind == PartKind::Block
            && self.blocks_in_vain >= BLOCKS_IN_VAIN_MAX
            && self.blocks_in_vain % BLOCKS_PER_TRY != 0;
        if is_in_vain { Compression::None } else { self.compression }
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
        for kept in [&mut self.buffer, &mut self.scratch] {
            if kept.capacity() > KEPT_BYTES {
                *kept = Vec::new();
            }
        }
        Ok(())
    }
}
