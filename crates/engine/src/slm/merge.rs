//! Merging table files: all their entries in key order, each with the file it is in (paper, section 3.3: merge-sort).
//!
//! Keys, sequence numbers and places come from the files' key sections; values are read only for entries that are wanted,
//! block by block and each block once. Versions of one key come newest first.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;
use slmdb_table::{Block, EntryKind, KeyEntries, KeyEntry, KeySection, SequentialReader, Slice, TableReader};

/// How much of a file is read at a time, in bytes.
pub(super) const WINDOW_BYTES: usize = 1 << 20;

/// The values of one input, read in the order of the file.
pub(super) struct Values {
    reader: SequentialReader,
    block: Option<(u32, Block)>,
    path: std::path::PathBuf,
    /// Bytes of blocks that were read.
    pub(super) read_bytes: u64,
}

impl Values {
    pub(super) fn new(reader: &TableReader) -> Values {
        Values { reader: reader.sequential(WINDOW_BYTES), block: None, path: reader.path().into(), read_bytes: 0 }
    }

    /// The value of an entry of the file's key section, a put. What the block says otherwise is [`Error::Corruption`].
    pub(super) fn value(&mut self, entry: &KeyEntry<'_>) -> Result<Slice> {
        let block = match self.block.take() {
            Some((offset, block)) if offset == entry.place.offset => block,
            _ => {
                self.read_bytes += u64::from(entry.place.length);
                self.reader.read_block(entry.place)?
            }
        };
        let found = block.get(entry.key)?;
        self.block = Some((entry.place.offset, block));
        match found {
            Some(found) if found.sequence == entry.sequence && found.kind == EntryKind::Put => Ok(found.value),
            _ => {
                let what = "a block does not hold what the key section says";
                Err(Error::corruption(&self.path, u64::from(entry.place.offset), what))
            }
        }
    }
}

/// Entries of several files in key order, each with the number of its input.
pub(super) struct Merge<'a> {
    heads: BinaryHeap<Head<'a>>,
    inputs: Vec<KeyEntries<'a>>,
}

impl<'a> Merge<'a> {
    /// An error comes with the input that it is in.
    pub(super) fn new(sections: &'a [KeySection], order: &'a KeyOrder) -> Result<Merge<'a>, (usize, Error)> {
        let mut inputs: Vec<KeyEntries<'a>> = sections.iter().map(KeySection::entries).collect();
        let mut heads = BinaryHeap::with_capacity(inputs.len());
        for (input, entries) in inputs.iter_mut().enumerate() {
            if let Some(entry) = entries.next() {
                let entry = entry.map_err(|error| (input, error))?;
                heads.push(Head { entry, input, order });
            }
        }
        Ok(Merge { heads, inputs })
    }

    /// The next entry and its input; `None` at the end. An error comes with the input that it is in.
    pub(super) fn next(&mut self) -> Result<Option<(usize, KeyEntry<'a>)>, (usize, Error)> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        let (input, entry) = (head.input, head.entry);
        match self.inputs[input].next() {
            Some(next) => head.entry = next.map_err(|error| (input, error))?,
            None => drop(std::collections::binary_heap::PeekMut::pop(head)),
        }
        Ok(Some((input, entry)))
    }
}

/// The next entry of one input. The greatest is the one that comes first.
struct Head<'a> {
    entry: KeyEntry<'a>,
    input: usize,
    order: &'a KeyOrder,
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Head<'_>) -> Ordering {
        let by_key = self.order.compare(other.entry.key, self.entry.key);
        by_key.then_with(|| self.entry.sequence.cmp(&other.entry.sequence))
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Head<'_>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Head<'_>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head<'_> {}
