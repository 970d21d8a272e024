//! The bytes of a hybrid tree: its root, links and tags. `docs/formats/hybrid-tree.md` has the tables.

use slmdb_pmem::ROOT_BYTES;

/// Bytes of a leaf.
pub(super) const LEAF_BYTES: u64 = 512;
/// Keys that a leaf has room for.
pub(super) const LEAF_SLOTS: usize = 48;
/// Words of a leaf.
pub(super) const LEAF_WORDS: usize = 64;
/// The bits of a commit word that say which slots are valid.
pub(super) const VALID_BITS: u64 = (1 << LEAF_SLOTS) - 1;

pub(super) const COMMIT_WORD: usize = 0;
pub(super) const NEXT_WORD: usize = 1;
pub(super) const TAG_WORD: usize = 2;
/// The first word of fingerprints.
pub(super) const FINGERPRINT_WORD: usize = 8;
/// The first word of record offsets.
pub(super) const RECORD_WORD: usize = 16;

/// Bytes of a record before its key.
pub(super) const RECORD_HEADER_BYTES: u64 = 24;
/// The longest key.
pub const MAXIMUM_KEY_BYTES: usize = u16::MAX as usize;
/// The largest sequence number that a record has room for.
pub const MAXIMUM_SEQUENCE: u64 = (1 << 56) - 1;

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"HYBRTREE");
pub(super) const VERSION: u32 = 1;
/// Trees of a pool.
pub const TREES: u32 = 2;
/// Where a tree's words are in the root area.
pub(super) const MAGIC_OFFSET: u64 = 0;
pub(super) const SETTINGS_OFFSET: u64 = 8;
pub(super) const CHECK_OFFSET: u64 = 16;
/// First leaf and epoch share a line, so they become durable in the order in which they are stored.
pub(super) const FIRST_OFFSET: u64 = 128;
pub(super) const EPOCH_OFFSET: u64 = 136;
/// Each tree has a line for what never changes, and another for first leaf and epoch.
pub(super) const ROOT_STRIDE_BYTES: u64 = 64;

const LINK_BITS: u32 = 48;
const LINK_MASK: u64 = (1 << LINK_BITS) - 1;

const _: () = {
    assert!(RECORD_WORD + LEAF_SLOTS == LEAF_WORDS);
    assert!(FINGERPRINT_WORD + LEAF_SLOTS / 8 <= RECORD_WORD);
    assert!(LEAF_WORDS as u64 * 8 == LEAF_BYTES);
    assert!(FIRST_OFFSET + TREES as u64 * ROOT_STRIDE_BYTES <= ROOT_BYTES);
};

fn crc(words: [u64; 2]) -> u64 {
    u64::from(slmdb_checksum::crc32c_append(slmdb_checksum::crc32c(&words[0].to_le_bytes()), &words[1].to_le_bytes()))
}

/// The word at `place` that leads to a leaf, or to none for 0. Its upper bits are a check.
pub(super) fn link(place: u64, target: u64) -> u64 {
    target | crc([place, target]) << LINK_BITS
}

/// Reverses [`link`].
pub(super) fn parse_link(place: u64, word: u64) -> Option<u64> {
    let target = word & LINK_MASK;
    (link(place, target) == word).then_some(target)
}

/// What the tag of a leaf is: its tree and epoch, with a check over these and the leaf's place.
pub(super) fn tag(leaf: u64, tree: u32, epoch: u32) -> u64 {
    let what = owner(tree, epoch);
    what | crc([leaf, what]) >> 8 << 40
}

/// The part of a tag that says whose a leaf is.
pub(super) fn owner(tree: u32, epoch: u32) -> u64 {
    u64::from(tree) << 32 | u64::from(epoch)
}

/// The bits of [`owner`] in a tag.
pub(super) const OWNER_MASK: u64 = (1 << 40) - 1;

/// The word that says a tree's epoch.
pub(super) fn epoch_word(place: u64, epoch: u32) -> u64 {
    crc([place, u64::from(epoch)]) << 32 | u64::from(epoch)
}

/// What a leaf has of a key beside its record.
#[inline]
pub(super) fn fingerprint(key: &[u8]) -> u8 {
    let hash = slmdb_checksum::crc32c(key);
    (hash ^ hash >> 16) as u8 ^ (hash >> 8) as u8
}
