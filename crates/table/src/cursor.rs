//! [`BlockCursor`]: walking through a block, both ways, from anywhere.
//!
//! Entries are numbered by their slots, and each can be read by itself, so a search goes by halves and a step back is a
//! step like any other. Whoever steps finds out if keys do not ascend; so a walk from first to last proves the block's
//! entries sound.

use std::cmp::Ordering;
use std::ops::Range;

use slmdb_env::Result;

use crate::block::Block;
use crate::entry::{EntryKind, TableEntry, order_of_entries};
use crate::options::MAXIMUM_KEY_BYTES;
use crate::slice::Slice;

/// A position in a block: on an entry, or nowhere (not [`valid`](BlockCursor::valid)): before the first move, after a
/// move past either end, and after an error.
#[derive(Debug, Clone)]
pub struct BlockCursor {
    block: Block,
    valid: bool,
    slot: usize,
    key: Vec<u8>,
    /// The key of the position before, kept for its memory.
    previous_key: Vec<u8>,
    sequence: u64,
    kind: EntryKind,
    value: Range<usize>,
}

impl Block {
    /// The entries in key order, versions of one key newest first. The iterator keeps the block in memory.
    pub fn entries(&self) -> BlockEntries {
        BlockEntries::new(self.cursor())
    }

    /// A cursor over the entries, not yet on any of them. It keeps the block in memory.
    pub fn cursor(&self) -> BlockCursor {
        BlockCursor::new(self.clone())
    }
}

impl BlockCursor {
    pub(crate) fn new(block: Block) -> BlockCursor {
        BlockCursor {
            block,
            valid: false,
            slot: 0,
            key: Vec::new(),
            previous_key: Vec::new(),
            sequence: 0,
            kind: EntryKind::Put,
            value: 0..0,
        }
    }

    /// Goes to another block, and there nowhere. What the cursor has in memory for keys is used again.
    pub(crate) fn enter(&mut self, block: Block) {
        (self.block, self.valid, self.slot) = (block, false, 0);
    }

    /// Whether the cursor is on an entry.
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// Whether there is no entry behind it in the block.
    pub(crate) fn is_at_last(&self) -> bool {
        self.slot + 1 >= self.block.len()
    }

    /// Whether there is no entry before it in the block.
    pub(crate) fn is_at_first(&self) -> bool {
        self.slot == 0
    }

    /// The current entry's key. Like the others, meaningless unless [`valid`](BlockCursor::valid).
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The current entry's sequence number.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// What the current entry does.
    pub fn kind(&self) -> EntryKind {
        self.kind
    }

    /// The current entry's value, without pinning the block.
    pub fn value(&self) -> &[u8] {
        self.block.bytes().get(self.value.clone()).unwrap_or_default()
    }

    /// The current entry's value, as a slice that keeps the block in memory.
    pub fn value_slice(&self) -> Slice {
        self.block.value(self.value.clone())
    }

    /// Whether the tag in the block is that of the current key.
    pub(crate) fn has_right_tag(&self) -> bool {
        self.block.has_tag_of(self.slot, &self.key)
    }

    /// Moves to the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.move_to(0)
    }

    /// Moves to the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        self.move_to(self.block.len() - 1)
    }

    /// Moves to the first entry whose key is at least `key`, the newest of that key; nowhere if there is none.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        match self.slot_of(key)? {
            slot if slot < self.block.len() => self.move_to(slot),
            _ => Ok(()),
        }
    }

    /// Moves to the last entry whose key is less than `key`, the oldest of that key; nowhere if there is none.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        match self.slot_of(key)? {
            0 => Ok(()),
            slot => self.move_to(slot - 1),
        }
    }

    /// Moves to the next entry; nowhere after the last. Stays nowhere if it is.
    // Named as every cursor's step is; it can fail, and there is nothing to return that would outlive the next one.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<()> {
        if !self.valid || self.slot + 1 >= self.block.len() {
            self.valid = false;
            return Ok(());
        }
        self.step_to(self.slot + 1, Ordering::Greater)
    }

    /// Moves to the entry before; nowhere before the first. Stays nowhere if it is.
    pub fn prev(&mut self) -> Result<()> {
        if !self.valid || self.slot == 0 {
            self.valid = false;
            return Ok(());
        }
        self.step_to(self.slot - 1, Ordering::Less)
    }

    /// The first slot whose key is at least `key`. The cursor is nowhere meanwhile.
    pub(crate) fn slot_of(&mut self, key: &[u8]) -> Result<usize> {
        self.valid = false;
        let (mut low, mut high) = (0, self.block.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.compare(middle, key)? {
                Ordering::Less => low = middle + 1,
                // Newer versions of the key may stand before.
                Ordering::Equal | Ordering::Greater => high = middle,
            }
        }
        Ok(low)
    }

    /// How the key in a slot compares to `key`. The cursor is nowhere afterwards.
    #[inline]
    fn compare(&mut self, slot: usize, key: &[u8]) -> Result<Ordering> {
        if self.block.order().is_bytewise() {
            return self.block.compare_bytes(slot, key);
        }
        // A comparator wants the key in one piece.
        self.move_to(slot)?;
        self.valid = false;
        Ok(self.block.order().compare(&self.key, key))
    }

    /// Moves to a slot whose entry must compare like this to the current one.
    #[inline]
    fn step_to(&mut self, slot: usize, expected: Ordering) -> Result<()> {
        std::mem::swap(&mut self.key, &mut self.previous_key);
        let previous_sequence = self.sequence;
        self.move_to(slot)?;
        let (here, previous) = ((&*self.key, self.sequence), (&*self.previous_key, previous_sequence));
        if order_of_entries(self.block.order(), here, previous) != expected {
            self.valid = false;
            return Err(self.block.corrupt("its keys do not ascend"));
        }
        Ok(())
    }

    /// Moves to a slot, which is one of the block's.
    #[inline]
    fn move_to(&mut self, slot: usize) -> Result<()> {
        self.valid = false;
        let entry = self.block.raw_entry(slot)?;
        let head = self.block.head(slot, entry.shared)?;
        if head.len() + entry.suffix.len() > MAXIMUM_KEY_BYTES {
            return Err(self.block.corrupt("a key is too long"));
        }
        self.key.clear();
        self.key.extend_from_slice(head);
        self.key.extend_from_slice(&self.block.bytes()[entry.suffix]);
        self.slot = slot;
        self.sequence = entry.sequence;
        self.kind = entry.kind;
        self.value = entry.value;
        self.valid = true;
        Ok(())
    }
}

/// The entries of a block in order; after an error there are no more.
#[derive(Debug, Clone)]
pub struct BlockEntries {
    cursor: BlockCursor,
    started: bool,
}

impl BlockEntries {
    pub(crate) fn new(cursor: BlockCursor) -> BlockEntries {
        BlockEntries { cursor, started: false }
    }
}

impl Iterator for BlockEntries {
    type Item = Result<TableEntry>;

    fn next(&mut self) -> Option<Result<TableEntry>> {
        let moved = if self.started { self.cursor.next() } else { self.cursor.seek_first() };
        self.started = true;
        match moved {
            Err(error) => Some(Err(error)),
            Ok(()) => self.cursor.valid().then(|| {
                Ok(TableEntry {
                    key: self.cursor.key().to_vec(),
                    sequence: self.cursor.sequence(),
                    kind: self.cursor.kind(),
                    value: self.cursor.value_slice(),
                })
            }),
        }
    }
}
