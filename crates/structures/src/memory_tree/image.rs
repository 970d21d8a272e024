//! The image of an index: its entries in pages that are checked one by one. `docs/formats/memory-index.md` has the bytes.
//!
//! Each page begins with a whole key, so pages can be read side by side, by [`ImageReader`]s that each begin at a page. What is read
//! goes through a bulk load, which checks the order of keys; so whatever the bytes say, the index that comes of them is whole.

use std::ops::Bound;
use std::path::{Path, PathBuf};

use slmdb_checksum::crc32c_append;
use slmdb_env::{Error, Result};
use slmdb_order::{Direction, common_prefix_bytes};
use slmdb_sync::epoch;

use super::bulk::BulkPart;
use super::place::{Found, Place};
use super::read::RangeRead;
use super::tree::MemoryTree;

/// Bytes of a page.
pub const IMAGE_PAGE_BYTES: usize = 64 << 10;

const PAGE_HEADER_BYTES: usize = 16;
const ENTRY_HEADER_BYTES: usize = 24;
/// So many keys are read at once when an image is written.
const KEYS_AT_ONCE: usize = 512;

/// What a page has.
mod kind {
    /// Entries.
    pub const ENTRIES: u8 = 1;
    /// An entry whose key goes on in the next page.
    pub const LONG: u8 = 2;
    /// The rest of that key.
    pub const REST: u8 = 3;
}

/// What an image has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImageSize {
    /// How many pages.
    pub pages: u64,
    /// How many keys.
    pub keys: u64,
}

/// Fills pages.
struct Pages<W> {
    seed: u32,
    write: W,
    page: Vec<u8>,
    entries: u16,
    last: Vec<u8>,
    size: ImageSize,
}

impl MemoryTree {
    /// Writes the image: `write` gets page after page. The seed, of the caller's choice, goes into each page's checksum, and binds them to what
    /// it stands for. REQUIRES: the index does not change meanwhile.
    pub fn write_image(&self, seed: u32, write: impl FnMut(&[u8]) -> Result<()>) -> Result<ImageSize> {
        let mut pages =
            Pages { seed, write, page: Vec::new(), entries: 0, last: Vec::new(), size: ImageSize::default() };
        pages.begin();
        let (mut read, mut from) = (RangeRead::default(), Bound::Unbounded);
        loop {
            let near = from.as_ref().map(Vec::as_slice);
            self.read(near, Direction::Forward, KEYS_AT_ONCE, &epoch::pin(), &mut read);
            for (key, found) in read.iter() {
                pages.add(key, found, self.files.file(found.place.slot))?;
            }
            match read.next() {
                Some(next) => from = next.map(<[u8]>::to_vec),
                None => break,
            }
        }
        pages.end(kind::ENTRIES)?;
        Ok(pages.size)
    }
}

impl<W: FnMut(&[u8]) -> Result<()>> Pages<W> {
    fn begin(&mut self) {
        self.page.clear();
        self.page.resize(PAGE_HEADER_BYTES, 0);
        self.entries = 0;
        self.last.clear();
    }

    fn room_bytes(&self) -> usize {
        IMAGE_PAGE_BYTES - self.page.len()
    }

    fn add(&mut self, key: &[u8], found: Found, file: u32) -> Result<()> {
        let shared = if self.entries == 0 { 0 } else { common_prefix_bytes(&self.last, key) };
        if self.room_bytes() < ENTRY_HEADER_BYTES + key.len() - shared && self.entries > 0 {
            self.end(kind::ENTRIES)?;
            return self.add(key, found, file);
        }
        self.size.keys += 1;
        self.entries += 1;
        let rest = &key[shared..];
        self.page.extend((shared as u16).to_le_bytes());
        self.page.extend((rest.len() as u16).to_le_bytes());
        self.page.extend(file.to_le_bytes());
        self.page.extend(found.place.offset.to_le_bytes());
        self.page.extend(found.place.length_bytes.to_le_bytes());
        self.page.extend(found.sequence.to_le_bytes());
        let (here, there) = rest.split_at(rest.len().min(self.room_bytes()));
        self.page.extend_from_slice(here);
        if !there.is_empty() {
            self.end(kind::LONG)?;
            self.page.extend_from_slice(there);
            return self.end(kind::REST);
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    /// Hands on a page, unless it has nothing.
    fn end(&mut self, kind: u8) -> Result<()> {
        let used = self.page.len();
        if used == PAGE_HEADER_BYTES {
            return Ok(());
        }
        self.page.resize(IMAGE_PAGE_BYTES, 0);
        self.page[4..8].copy_from_slice(&(self.size.pages as u32).to_le_bytes());
        self.page[8] = kind;
        self.page[10..12].copy_from_slice(&self.entries.to_le_bytes());
        self.page[12..16].copy_from_slice(&(used as u32).to_le_bytes());
        let crc = crc32c_append(self.seed, &self.page[4..]);
        self.page[..4].copy_from_slice(&crc.to_le_bytes());
        (self.write)(&self.page)?;
        self.size.pages += 1;
        self.begin();
        Ok(())
    }
}

/// Reads pages of an image, one behind the other from some page on, into a part of a bulk load.
#[derive(Debug)]
pub struct ImageReader {
    part: BulkPart,
    seed: u32,
    path: PathBuf,
    /// The number of the next page.
    page: u64,
    has_begun: bool,
    /// A key that goes on in the next page.
    long: Option<(Vec<u8>, usize, Found)>,
    key: Vec<u8>,
    keys: u64,
}

impl ImageReader {
    /// From a page on, for a tree. The path, and where pages lie in it, is for errors.
    pub fn new(tree: &MemoryTree, seed: u32, first_page: u64, path: &Path) -> ImageReader {
        ImageReader {
            part: tree.bulk_part(),
            seed,
            path: path.to_path_buf(),
            page: first_page,
            has_begun: false,
            long: None,
            key: Vec::new(),
            keys: 0,
        }
    }

    /// Takes the next page. `slot_of` tells the slot of a file, `None` if the image may not name that file. [`Error::Corruption`] if the
    /// page is not as it was written, whatever its checksum says, or its keys don't come behind those before.
    pub fn add_page(&mut self, page: &[u8], slot_of: impl FnMut(u32) -> Option<u32>) -> Result<()> {
        let taken = self.take_page(page, slot_of);
        self.page += 1;
        self.has_begun = true;
        taken
    }

    fn damaged(&self, what: &str) -> Error {
        Error::corruption(&self.path, self.page.saturating_mul(IMAGE_PAGE_BYTES as u64), what)
    }

    fn take_page(&mut self, page: &[u8], mut slot_of: impl FnMut(u32) -> Option<u32>) -> Result<()> {
        let malformed = || self.damaged("a page of the index's image is malformed");
        let page: &[u8; IMAGE_PAGE_BYTES] = page.try_into().map_err(|_| malformed())?;
        let sum = crc32c_append(self.seed, &page[4..]);
        if page[..4] != sum.to_le_bytes() || page[4..8] != (self.page as u32).to_le_bytes() {
            return Err(self.damaged("the checksum of a page of the index's image does not match"));
        }
        let (kind, entries) = (page[8], u16::from_le_bytes([page[10], page[11]]));
        let used = u32::from_le_bytes([page[12], page[13], page[14], page[15]]) as usize;
        let mut bytes = page.get(PAGE_HEADER_BYTES..used).ok_or_else(malformed)?;
        if kind == kind::REST {
            return self.take_rest(bytes);
        }
        if self.long.is_some() || (kind == kind::LONG && entries != 1) || !matches!(kind, kind::ENTRIES | kind::LONG) {
            return Err(malformed());
        }
        self.key.clear();
        for _ in 0..entries {
            let (header, rest) = bytes.split_first_chunk::<ENTRY_HEADER_BYTES>().ok_or_else(|| self.malformed())?;
            let half = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
            let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
            let (shared, length) = (half(0), half(2));
            let slot = slot_of(word(4)).ok_or_else(|| self.damaged("the index's image names an unknown file"))?;
            let sequence = u64::from(word(20)) << 32 | u64::from(word(16));
            let place = Place { slot, offset: word(8), length_bytes: word(12) };
            if shared > self.key.len() || length > rest.len() && kind != kind::LONG {
                return Err(self.malformed());
            }
            self.key.truncate(shared);
            let found = Found { place, sequence };
            if length > rest.len() {
                self.long = Some(([&self.key[..], rest].concat(), shared + length, found));
                return Ok(());
            }
            self.key.extend_from_slice(&rest[..length]);
            bytes = &rest[length..];
            let key = std::mem::take(&mut self.key);
            let added = self.add(&key, found);
            self.key = key;
            added?;
        }
        if bytes.is_empty() && kind == kind::ENTRIES { Ok(()) } else { Err(self.malformed()) }
    }

    fn malformed(&self) -> Error {
        self.damaged("a page of the index's image is malformed")
    }

    fn take_rest(&mut self, rest: &[u8]) -> Result<()> {
        let Some((mut key, length, found)) = self.long.take() else {
            // It belongs to who reads the pages before.
            return if self.has_begun { Err(self.malformed()) } else { Ok(()) };
        };
        key.extend_from_slice(rest);
        if key.len() != length {
            return Err(self.malformed());
        }
        self.add(&key, found)
    }

    fn add(&mut self, key: &[u8], found: Found) -> Result<()> {
        match self.part.add(key, found) {
            Err(Error::Invalid { what }) => return Err(self.damaged(&what)),
            added => added?,
        }
        self.keys += 1;
        Ok(())
    }

    /// Whether the last key goes on in the next page, which this reader must have, too.
    pub fn needs_next_page(&self) -> bool {
        self.long.is_some()
    }

    /// The part, for [`MemoryTree::finish_bulk_load`], and how many keys it has.
    pub fn finish(self) -> Result<(BulkPart, u64)> {
        match self.long {
            Some(_) => Err(self.damaged("the index's image ends within a key")),
            None => Ok((self.part, self.keys)),
        }
    }
}
