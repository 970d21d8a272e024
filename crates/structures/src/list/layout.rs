//! The bytes of a list. `docs/formats/list.md` has the tables.

use slmdb_order::KeyOrder;

use crate::memtable::head_of;

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"LIST");
pub(super) const VERSION: u32 = 1;

/// Bytes of the header before the keys.
pub(super) const HEADER_BYTES: usize = 84;
/// The word that completes a list: its magic, and the checksum of the rest of its header.
pub(super) const LAST_WORD_BYTES: usize = 8;
/// A row of the segment table.
pub(super) const SHARE_BYTES: usize = 16;
/// A node of level 0: head and word.
pub(super) const NODE_BYTES: usize = 16;
/// A node of the levels above.
pub(super) const HEAD_BYTES: usize = 8;
/// Nodes of a level for one of the level above.
pub(super) const FANOUT: usize = 16;
/// Filter, levels and nodes begin at a multiple of this.
pub(super) const LINE_BYTES: u64 = slmdb_filter::LINE_BYTES as u64;
/// As many levels lie above the nodes of the longest list.
const UPPER_LEVELS_MAX: usize = 7;

const PLACE_BITS: u32 = 43;
const ENTRY_CHECK_BITS: u32 = 10;
const NODE_CHECK_SHIFT: u32 = PLACE_BITS + ENTRY_CHECK_BITS;

const _: () = {
    assert!(NODE_BYTES == HEAD_BYTES + 8 && LINE_BYTES.is_multiple_of(NODE_BYTES as u64));
    // The first word is stored last, and has the magic below the header's CRC.
    assert!(LAST_WORD_BYTES == 8 && MAGIC == u32::from_le_bytes([b'L', b'I', b'S', b'T']));
    // No pool has more than 2^46 bytes, and entries lie at multiples of 8.
    assert!(PLACE_BITS == 46 - 3 && NODE_CHECK_SHIFT == 64 - 11);
    assert!((FANOUT as u64).pow(UPPER_LEVELS_MAX as u32 + 1) >= 1 << 32);
};

/// How long the extent of a list has to be, in bytes: of so many entries, with so many bits of filter for each key, whose
/// smallest and largest key together have so many bytes, and whose entries lie in so many segments.
pub fn list_bytes(entries: u64, filter_bits_per_key: u32, key_bytes: u64, segments: u64) -> u64 {
    Shape::new(entries, slmdb_filter::lines_of(entries, filter_bits_per_key), key_bytes, segments).end
}

/// Where the parts of a list are, in bytes from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub segments: u64,
    pub filter: u64,
    pub filter_end: u64,
    /// The levels above the nodes from the lowest on: place, and how many heads.
    levels: [(u64, u64); UPPER_LEVELS_MAX],
    level_count: usize,
    pub nodes: u64,
    pub end: u64,
}

impl Shape {
    /// Of a list of at most 2^32 entries.
    pub fn new(entries: u64, filter_lines: u64, key_bytes: u64, segments: u64) -> Shape {
        let table = (HEADER_BYTES as u64 + key_bytes).next_multiple_of(8);
        let filter = (table + segments * SHARE_BYTES as u64).next_multiple_of(LINE_BYTES);
        let filter_end = filter + filter_lines * LINE_BYTES;
        let (mut levels, mut level_count, mut at) = ([(0, 0); UPPER_LEVELS_MAX], 0, filter_end);
        let mut count = entries;
        while count > FANOUT as u64 && level_count < UPPER_LEVELS_MAX {
            count = count.div_ceil(FANOUT as u64);
            levels[level_count] = (at, count);
            at = (at + count * HEAD_BYTES as u64).next_multiple_of(LINE_BYTES);
            level_count += 1;
        }
        let end = at + entries * NODE_BYTES as u64;
        Shape { segments: table, filter, filter_end, levels, level_count, nodes: at, end }
    }

    /// The levels above the nodes, from the lowest on: place, and how many heads.
    pub fn levels(&self) -> &[(u64, u64)] {
        &self.levels[..self.level_count]
    }
}

/// What mixes a place into a checksum, so that what was copied from elsewhere, or from another store's pool, does not match.
#[inline]
pub(super) fn mark(uuid_crc: u32, offset: u64) -> u32 {
    uuid_crc ^ ((offset >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// What of the checksum of an entry's front is in its node.
fn entry_bits(entry_check: u32) -> u64 {
    u64::from(entry_check) & ((1 << ENTRY_CHECK_BITS) - 1)
}

/// What completes a list whose header has this checksum.
pub(super) fn last_word(header_crc: u32) -> u64 {
    u64::from(header_crc) << 32 | u64::from(MAGIC)
}

/// A node of level 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub head: u64,
    /// Place and check of the entry.
    low: u64,
}

impl Node {
    /// For an entry at this place, whose front has this checksum.
    pub fn new(head: u64, offset: u64, entry_check: u32) -> Node {
        Node { head, low: offset >> 3 | entry_bits(entry_check) << PLACE_BITS }
    }

    /// Where the entry lies.
    #[inline]
    pub fn place(&self) -> u64 {
        (self.low & ((1 << PLACE_BITS) - 1)) << 3
    }

    /// Where the entry of these bytes seems to lie, if nothing is checked.
    #[inline]
    pub fn seeming_place(bytes: &[u8; NODE_BYTES]) -> u64 {
        let low = bytes.last_chunk().map_or(0, |low| u64::from_le_bytes(*low));
        Node { head: 0, low }.place()
    }

    /// Whether the checksum of an entry's front can be the one that this node is for.
    #[inline]
    pub fn is_of(&self, entry_check: u32) -> bool {
        self.low >> PLACE_BITS == entry_bits(entry_check)
    }

    fn check(&self, number: u32, index: u32) -> u64 {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        bytes[4..8].copy_from_slice(&index.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.head.to_le_bytes());
        bytes[16..].copy_from_slice(&self.low.to_le_bytes());
        u64::from(slmdb_checksum::crc32c(&bytes)) << NODE_CHECK_SHIFT
    }

    /// Its second word, as the node of this list and index.
    pub fn word(&self, number: u32, index: u32) -> u64 {
        self.low | self.check(number, index)
    }

    /// Reverses [`Node::word`]; `None`: the node is damaged.
    #[inline]
    pub fn parse(head: u64, word: u64, number: u32, index: u32) -> Option<Node> {
        let node = Node { head, low: word & ((1 << NODE_CHECK_SHIFT) - 1) };
        (node.word(number, index) == word).then_some(node)
    }
}

/// What keys of a list have for a head: eight bytes behind the prefix that all of them share. Where keys are not ordered by bytes the
/// prefix is empty and heads are 0.
#[inline]
pub(super) fn head_behind(order: &KeyOrder, prefix_bytes: usize, key: &[u8]) -> u64 {
    if order.is_bytewise() { head_of(key.get(prefix_bytes..).unwrap_or_default()) } else { 0 }
}

/// What a list says of the order of its keys: 0 by bytes, else the crc32c of the comparator's name.
pub(super) fn order_word(order: &KeyOrder) -> u32 {
    if order.is_bytewise() { 0 } else { slmdb_checksum::crc32c(order.name().as_bytes()).max(1) }
}
