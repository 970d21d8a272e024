//! Reading from a mapping of the file, where it [is mapped](TableReader::map) and what is wanted is in memory.
//!
//! The bytes of a mapping are the system's, and somebody else's write may change them. So what is wanted is copied first, and the copy
//! is checked: what was checked can't change any more. An entry by itself is copied to where its value stays. Who wants one value of a
//! block of ordinary size has the block copied to a place that the thread uses again and again, which stays in the processor's cache,
//! and takes the value from there: it pins no block then, and one small allocation is all that it takes. A longer block is mostly the
//! one value: it is copied to where it stays.
//!
//! A mapping may have nothing to say ([`slmdb_env::Mapped`]): then the file is to be read.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slmdb_env::{Error, Result};

use crate::block::{Block, NO_BLOCK};
use crate::entry::{BlockEntry, EntryKind, Place};
use crate::layout::{Layout, RawEntry};
use crate::mapping::Mapping;
use crate::part::{self, PartKind, Stored};
use crate::reader::TableReader;
use crate::single::{self, SingleEntry};
use crate::slice::Slice;

/// Longer blocks are copied to where they stay, in bytes.
const SCRATCH_BYTES: usize = 16 << 10;

thread_local! {
    /// Where a thread copies blocks to that it wants only for a moment.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What a mapping gave.
#[derive(Debug)]
pub enum MappedRead {
    /// Nothing: the file is to be read.
    Nothing,
    /// The entry that was wanted.
    Entry(BlockEntry),
    /// The block, which was compressed, or is long, or has no such entry.
    Block(Block),
}

impl TableReader {
    /// Maps the file for reading, if that can be.
    pub fn map(&mut self) {
        let mapped = self.source.file.map(self.footer.file_bytes);
        self.mapping = mapped.map(|mapped| Mapping { mapped, has_compressed: AtomicBool::new(false) });
    }

    /// How much of the file is mapped, in bytes; 0 if it is not.
    pub fn mapped_bytes(&self) -> u64 {
        self.mapping.as_ref().map_or(0, |mapping| mapping.mapped.length_bytes())
    }

    /// Whether there have been compressed blocks in the mapping: only those are worth to be kept unpacked.
    #[inline]
    pub fn has_met_compressed(&self) -> bool {
        self.mapping.as_ref().is_some_and(|mapping| mapping.has_compressed.load(Ordering::Relaxed))
    }

    /// The entry of `key` with this sequence number at `place`, from the mapping. Errors as [`TableReader::read_block`] has
    /// them.
    #[inline]
    pub fn read_mapped_version(&self, place: Place, key: &[u8], sequence: u64) -> Result<MappedRead> {
        self.read_mapped_in(place, key, sequence..=sequence)
    }

    /// The newest entry of `key` with a sequence number up to `at_most` in the block at `place`, from the mapping. Errors as
    /// [`TableReader::read_block`] has them.
    #[inline]
    pub fn read_mapped_at_most(&self, place: Place, key: &[u8], at_most: u64) -> Result<MappedRead> {
        self.read_mapped_in(place, key, 0..=at_most)
    }

    /// What is stored at a place, unchecked, from the mapping.
    pub(crate) fn read_mapped(&self, place: Place) -> Result<Option<Arc<[u8]>>> {
        match &self.mapping {
            Some(mapping) => mapping.mapped.read_shared(place.length as usize, place.offset.into()),
            None => Ok(None),
        }
    }

    #[inline]
    fn read_mapped_in(&self, place: Place, key: &[u8], wanted: RangeInclusive<u64>) -> Result<MappedRead> {
        let Some(mapping) = &self.mapping else { return Ok(MappedRead::Nothing) };
        self.source.check(place)?;
        let is_block = self.top.is_some() || mapping.has_compressed.load(Ordering::Relaxed);
        if is_block && place.length as usize <= SCRATCH_BYTES {
            return self.read_version_by_scratch(mapping, place, key, wanted);
        }
        let Some(bytes) = mapping.mapped.read_shared(place.length as usize, place.offset.into())? else {
            return Ok(MappedRead::Nothing);
        };
        if single::is_single(&bytes)
            && let Some(entry) = self.checked_entry(&bytes, place, key, &wanted)?
        {
            let value = Slice::of(bytes, entry.value);
            return Ok(MappedRead::Entry(BlockEntry { sequence: entry.sequence, kind: entry.kind, value }));
        }
        self.block_of_mapped(mapping, bytes, place).map(MappedRead::Block)
    }

    /// Checks an entry by itself, and whether it is a wanted version of this key.
    #[inline(always)]
    fn checked_entry(
        &self,
        stored: &[u8],
        place: Place,
        key: &[u8],
        wanted: &RangeInclusive<u64>,
    ) -> Result<Option<SingleEntry>> {
        let entry = single::check(stored, self.source.identity, &self.source.path, place.offset)?;
        Ok((wanted.contains(&entry.sequence) && stored[entry.key.clone()] == *key).then_some(entry))
    }

    /// The entry of `key` with this sequence number, if it stands by itself at `place` and the mapping has it. `buffer` is where the
    /// last one was copied to: if nobody has that any more, this one is, too. Errors as [`TableReader::read_block`] has them.
    #[inline]
    pub fn read_mapped_entry(
        &self,
        place: Place,
        key: &[u8],
        sequence: u64,
        buffer: &mut Option<Arc<[u8]>>,
    ) -> Result<Option<BlockEntry>> {
        let Some(mapping) = self.mapping.as_ref().filter(|_| !self.has_met_compressed()) else { return Ok(None) };
        self.source.check(place)?;
        let (length, offset) = (place.length as usize, u64::from(place.offset));
        let unused = buffer.as_mut().filter(|buffer| length <= buffer.len() && length > buffer.len() / 4);
        let bytes = match unused.and_then(Arc::get_mut) {
            Some(unused) => {
                if mapping.mapped.read_at(&mut unused[..length], offset)? {
                    buffer.clone()
                } else {
                    None
                }
            }
            None => mapping.mapped.read_shared(length, offset)?,
        };
        let Some(bytes) = bytes.filter(|bytes| single::is_single(&bytes[..length])) else { return Ok(None) };
        let Some(entry) = self.checked_entry(&bytes[..length], place, key, &(sequence..=sequence))? else {
            return Ok(None);
        };
        *buffer = Some(bytes.clone());
        Ok(Some(BlockEntry { sequence, kind: entry.kind, value: Slice::of(bytes, entry.value) }))
    }

    /// Copies the entry of `key` with this sequence number to the beginning of `into`, if it is a put that stands by itself at `place`,
    /// the mapping has it, and it has room there. Returns where in `into` the value is. Errors as [`TableReader::read_block`] has
    /// them.
    #[inline]
    pub fn copy_mapped_entry(
        &self,
        place: Place,
        key: &[u8],
        sequence: u64,
        into: &mut [u8],
    ) -> Result<Option<Range<usize>>> {
        let Some(mapping) = self.mapping.as_ref().filter(|_| !self.has_met_compressed()) else { return Ok(None) };
        self.source.check(place)?;
        let Some(into) = into.get_mut(..place.length as usize) else { return Ok(None) };
        if !mapping.mapped.read_at(into, place.offset.into())? || !single::is_single(into) {
            return Ok(None);
        }
        let entry = self.checked_entry(into, place, key, &(sequence..=sequence))?;
        Ok(entry.filter(|entry| entry.kind == EntryKind::Put).map(|entry| entry.value))
    }

    /// Likewise, for what is mostly a block.
    fn read_version_by_scratch(
        &self,
        mapping: &Mapping,
        place: Place,
        key: &[u8],
        wanted: RangeInclusive<u64>,
    ) -> Result<MappedRead> {
        SCRATCH.with_borrow_mut(|scratch| {
            if scratch.is_empty() {
                scratch.resize(SCRATCH_BYTES, 0);
            }
            let bytes = &mut scratch[..place.length as usize];
            if !mapping.mapped.read_at(bytes, place.offset.into())? {
                return Ok(MappedRead::Nothing);
            }
            self.version_in(mapping, bytes, place, key, wanted)
        })
    }

    /// Checks a block, or an entry by itself, as it is stored, and looks for an entry in it.
    fn version_in(
        &self,
        mapping: &Mapping,
        bytes: &[u8],
        place: Place,
        key: &[u8],
        wanted: RangeInclusive<u64>,
    ) -> Result<MappedRead> {
        let (source, offset) = (&self.source, u64::from(place.offset));
        if single::is_single(bytes) {
            if let Some(entry) = self.checked_entry(bytes, place, key, &wanted)? {
                let value = Slice::from(&bytes[entry.value]);
                return Ok(MappedRead::Entry(BlockEntry { sequence: entry.sequence, kind: entry.kind, value }));
            }
            return source.block_of_stored(Stored::Lent(bytes), place).map(MappedRead::Block);
        }
        let part = part::check(bytes, source.identity, PartKind::Block, &source.path, place.offset, offset)?;
        if !part.is_compressed() {
            let corrupt = |what: String| Error::corruption(&source.path, offset, what);
            let layout = Layout::parse(part.body).ok_or_else(|| corrupt(NO_BLOCK.into()))?;
            let found = layout.of(part.body).find(key, |entry| wanted.contains(&entry.sequence));
            if let Some(entry) = found.map_err(|what| corrupt(format!("block: {what}")))? {
                let RawEntry { sequence, kind, value, .. } = entry;
                return Ok(MappedRead::Entry(BlockEntry { sequence, kind, value: Slice::from(&part.body[value]) }));
            }
        } else {
            mapping.note_compressed();
        }
        let content = part.unpack(PartKind::Block, &source.path, offset)?;
        source.block_with(content, place).map(MappedRead::Block)
    }

    /// The block at `place`, from the mapping; `None`: the file is to be read. Errors as [`TableReader::read_block`] has them.
    pub fn read_mapped_block(&self, place: Place) -> Result<Option<Block>> {
        let Some(mapping) = &self.mapping else { return Ok(None) };
        let source = &self.source;
        source.check(place)?;
        let Some(bytes) = mapping.mapped.read_shared(place.length as usize, place.offset.into())? else {
            return Ok(None);
        };
        self.block_of_mapped(mapping, bytes, place).map(Some)
    }

    fn block_of_mapped(&self, mapping: &Mapping, bytes: Arc<[u8]>, place: Place) -> Result<Block> {
        let block = self.source.block_of_stored(Stored::Own(bytes), place)?;
        if block.was_compressed() {
            mapping.note_compressed();
        }
        Ok(block)
    }

    /// Says that what is at this place will be read from the mapping in a moment; see [`Mapped::prefetch`](slmdb_env::Mapped::prefetch).
    #[inline]
    pub fn prefetch_mapped(&self, place: Place) {
        if let Some(mapping) = &self.mapping {
            mapping.mapped.prefetch(place.offset.into(), place.length as usize);
        }
    }

    /// The same for all of a block of ordinary size.
    pub fn prefetch_mapped_block(&self, place: Place) {
        const AT_ONCE_BYTES: u32 = 2048;
        for start in (0..place.length.min(2 * AT_ONCE_BYTES)).step_by(AT_ONCE_BYTES as usize) {
            let length = AT_ONCE_BYTES.min(place.length - start);
            self.prefetch_mapped(Place { offset: place.offset.wrapping_add(start), length });
        }
    }

    /// Says that what was in memory may have left it meanwhile; see [`Mapped::doubt`](slmdb_env::Mapped::doubt).
    pub fn doubt_mapped(&self) {
        if let Some(mapping) = &self.mapping {
            mapping.mapped.doubt();
        }
    }
}
