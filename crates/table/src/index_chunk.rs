//! [`IndexChunk`]: which block of a file that is searched by key has a key, for about 128 blocks.
//!
//! A row for each block, in order, and a filter over the keys of all. The rows are searched by halves where they lie. A
//! chunk's content:
//!
//! ```text
//! 0   u32     how many blocks, at least one
//! 4   u32     offset in the file of the first block
//! 8   u32     how many entries of the file stand before it
//! 12  u32     how many lines of 64 bytes the filter has; 0: there is none
//! 16  u32     how many bits of a key the filter has; 0 without lines
//! 20  rows    12 bytes for each block:
//!             u32     where its separator ends, counted from the first separator; highest bit set: its key goes on
//!             u32     offset in the file where the block ends, and the next one starts
//!             u32     how many entries of the file stand before that
//! …   bytes   the separators: a key, then, if it goes on, the sequence number of the block's last entry (u64)
//! …   bytes   the filter
//! ```
//!
//! A separator is not less than any key of its block, and less than all keys of the next; in an order by bytes it is
//! shortened. Where a key has versions on both sides it *goes on*: then it is the separator, together with the last sequence number before the
//! cut. So a key and a sequence number lead to the one block that can have the version.
//!
//! The *top* of a file has the same form, with a row for each chunk in place of a block, and no filter.

use std::cmp::Ordering;
use std::fmt::{self, Debug, Formatter};
use std::ops::Range;
use std::sync::Arc;

use slmdb_order::KeyOrder;

use crate::codec::{get_array, get_u32};
use crate::entry::{Place, order_of_entries};
use crate::options::MAXIMUM_KEY_BYTES;
use crate::part::Content;
use slmdb_filter::{LINE_BYTES, PROBES_AT_MOST};

/// Length of what stands before the rows.
pub(crate) const HEADER_BYTES: usize = 20;
/// Length of a row.
pub(crate) const ROW_BYTES: usize = 12;
/// The bit of a separator's end that says that its key goes on in the next block.
pub(crate) const GOES_ON: u32 = 1 << 31;
/// What such a separator has behind its key.
pub(crate) const SEQUENCE_BYTES: usize = size_of::<u64>();

const _: () = assert!(HEADER_BYTES == 5 * size_of::<u32>() && ROW_BYTES == 3 * size_of::<u32>());

/// An index chunk, checked. Cheap to clone.
#[derive(Clone)]
pub struct IndexChunk {
    inner: Arc<Inner>,
}

struct Inner {
    content: Content,
    rows: usize,
    first_offset: u32,
    first_entries: u32,
    separators_at: usize,
    filter_at: usize,
    probes: u32,
}

/// A row of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub(crate) separator: Separator<'a>,
    /// The block's place; in the top, the chunk's.
    pub(crate) place: Place,
    /// How many entries of the file stand before the block.
    pub(crate) entries_before: u32,
    /// How many entries it has.
    pub(crate) entries: u32,
}

/// What stands between the last entry of a block and the first of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Separator<'a> {
    pub(crate) key: &'a [u8],
    /// The sequence number of the block's last entry, if the key has older versions in the next block; else 0: less than
    /// any, as versions stand newest first.
    pub(crate) sequence: u64,
    pub(crate) goes_on: bool,
}

impl Separator<'_> {
    /// How it stands to an entry in the file's order.
    #[inline]
    pub(crate) fn compare(&self, order: &KeyOrder, key: &[u8], sequence: u64) -> Ordering {
        order_of_entries(order, (self.key, self.sequence), (key, sequence))
    }
}

impl IndexChunk {
    /// Takes a chunk's content apart. All rows are looked at: places and counts ascend, separators lie within the chunk. The error
    /// says what is wrong.
    pub(crate) fn parse(content: Content) -> Result<IndexChunk, &'static str> {
        let inner = Inner::parse(content).ok_or("its lengths are not those of an index chunk")?;
        inner.check_rows()?;
        Ok(IndexChunk { inner: Arc::new(inner) })
    }

    /// How many rows it has; at least one.
    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.inner.rows
    }

    /// A row, which must be one of the chunk's.
    pub(crate) fn row(&self, row: usize) -> Row<'_> {
        let ([_, _, entries_end], [_, _, entries_start]) = (self.inner.fields(row), self.inner.fields_before(row));
        Row {
            separator: self.separator(row),
            place: self.place(row),
            entries_before: entries_start,
            entries: entries_end - entries_start,
        }
    }

    /// The place of a row, which must be one of the chunk's.
    #[inline]
    pub(crate) fn place(&self, row: usize) -> Place {
        let (start, end) = (self.inner.fields_before(row)[1], self.inner.fields(row)[1]);
        Place { offset: start, length: end - start }
    }

    /// The separator of a row, which must be one of the chunk's.
    #[inline]
    pub(crate) fn separator(&self, row: usize) -> Separator<'_> {
        let (range, goes_on) = self.inner.separator(row);
        let bytes = &self.inner.separators()[range];
        match bytes.split_last_chunk::<SEQUENCE_BYTES>() {
            Some((key, sequence)) if goes_on => {
                Separator { key, sequence: u64::from_le_bytes(*sequence), goes_on: true }
            }
            _ => Separator { key: bytes, sequence: 0, goes_on: false },
        }
    }

    /// The first row whose separator does not stand before an entry of `key` with this sequence number: that of the block that has the
    /// entry, if there is one. As many as there are rows if all stand before.
    #[inline]
    pub(crate) fn row_of(&self, order: &KeyOrder, key: &[u8], sequence: u64) -> usize {
        let (mut low, mut high) = (0, self.rows());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.separator(middle).compare(order, key, sequence) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal | Ordering::Greater => high = middle,
            }
        }
        low
    }

    /// The row that is about this place.
    pub(crate) fn row_at(&self, place: Place) -> Option<Row<'_>> {
        let (mut low, mut high) = (0, self.rows());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.inner.fields(middle)[1] <= place.offset { low = middle + 1 } else { high = middle }
        }
        (low < self.rows()).then(|| self.row(low)).filter(|row| row.place == place)
    }

    /// Whether the chunk's blocks may have this key; false: they have not.
    #[inline]
    pub(crate) fn may_have(&self, key: &[u8]) -> bool {
        let filter = self.filter();
        filter.is_empty() || slmdb_filter::may_have(filter, self.inner.probes, slmdb_filter::hash_of(key))
    }

    /// The filter; empty if there is none.
    pub(crate) fn filter(&self) -> &[u8] {
        &self.inner.content.as_slice()[self.inner.filter_at..]
    }

    /// How many bits of a key the filter has.
    pub(crate) fn probes(&self) -> u32 {
        self.inner.probes
    }

    /// Its content.
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.inner.content.as_slice()
    }

    /// What the chunk takes in memory, in bytes: what a cache has to count for it.
    pub fn memory_bytes(&self) -> usize {
        // Two counts lie before what an `Arc` points to.
        const COUNTS_BYTES: usize = 2 * size_of::<usize>();
        self.inner.content.bytes.len() + COUNTS_BYTES + size_of::<Inner>() + COUNTS_BYTES
    }
}

impl Debug for IndexChunk {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "IndexChunk({} rows, {} bytes of filter)", self.rows(), self.filter().len())
    }
}

impl Inner {
    fn parse(content: Content) -> Option<Inner> {
        let (bytes, mut at) = (content.as_slice(), 0);
        let rows = get_u32(bytes, &mut at)? as usize;
        let first_offset = get_u32(bytes, &mut at)?;
        let first_entries = get_u32(bytes, &mut at)?;
        let filter_bytes = (get_u32(bytes, &mut at)? as usize).checked_mul(LINE_BYTES)?;
        let probes = get_u32(bytes, &mut at)?;
        let separators_at = rows.checked_mul(ROW_BYTES)?.checked_add(at)?;
        let filter_at = bytes.len().checked_sub(filter_bytes)?;
        let is_sound =
            rows > 0 && separators_at <= filter_at && probes <= PROBES_AT_MOST && (probes == 0) == (filter_bytes == 0);
        is_sound.then_some(Inner { content, rows, first_offset, first_entries, separators_at, filter_at, probes })
    }

    fn check_rows(&self) -> Result<(), &'static str> {
        let mut before = self.fields_before(0);
        for row in 0..self.rows {
            let (fields, (range, goes_on)) = (self.fields(row), self.separator(row));
            let overhead_bytes = if goes_on { SEQUENCE_BYTES } else { 0 };
            if fields[0] & !GOES_ON < before[0] & !GOES_ON || range.len() < overhead_bytes {
                return Err("a separator ends before it starts");
            }
            if range.len() - overhead_bytes > MAXIMUM_KEY_BYTES {
                return Err("a separator is too long");
            }
            if fields[1] <= before[1] || fields[2] <= before[2] {
                return Err("its rows do not ascend");
            }
            before = fields;
        }
        if (before[0] & !GOES_ON) as usize != self.separators().len() {
            return Err("its separators do not end where its filter starts");
        }
        Ok(())
    }

    fn separators(&self) -> &[u8] {
        &self.content.as_slice()[self.separators_at..self.filter_at]
    }

    /// The three numbers of a row, which must be one of the chunk's.
    #[inline]
    fn fields(&self, row: usize) -> [u32; 3] {
        let mut at = HEADER_BYTES + row * ROW_BYTES;
        let fields: [u8; ROW_BYTES] = get_array(self.content.as_slice(), &mut at).unwrap_or_default();
        let field = |at: usize| u32::from_le_bytes([fields[at], fields[at + 1], fields[at + 2], fields[at + 3]]);
        [field(0), field(4), field(8)]
    }

    /// The three numbers of the row before, or what stands for them before the first.
    #[inline]
    fn fields_before(&self, row: usize) -> [u32; 3] {
        match row.checked_sub(1) {
            Some(before) => self.fields(before),
            None => [0, self.first_offset, self.first_entries],
        }
    }

    /// Where a row's separator lies among them, and whether its key goes on.
    #[inline]
    fn separator(&self, row: usize) -> (Range<usize>, bool) {
        let (start, end) = (self.fields_before(row)[0] & !GOES_ON, self.fields(row)[0]);
        (start as usize..(end & !GOES_ON) as usize, end & GOES_ON != 0)
    }
}
