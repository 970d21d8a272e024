//! The checksums of hybrid trees in a pool (`docs/formats/hybrid-tree.md`): roots, links, tags, records and fingerprints.
//!
//! With these mended, links may lead anywhere: in a circle, to leaves of the other tree or of an epoch that is over, to records
//! of other keys.

use crc32c::{crc32c, crc32c_append};

use super::extents::{ROOT_AREA, UNIT_BYTES};
use super::{put, u64_at};

const MAGIC: &[u8] = b"HYBRTREE";
const TREES: usize = 2;
const LEAVES: u8 = 6;
const RECORDS: u8 = 7;
const LEAF_BYTES: usize = 512;
const LEAF_SLOTS: usize = 48;
const FINGERPRINTS_AT: usize = 64;
const OFFSETS_AT: usize = 128;
const RECORD_HEADER_BYTES: usize = 24;

fn crc(words: [u64; 2]) -> u64 {
    u64::from(crc32c_append(crc32c(&words[0].to_le_bytes()), &words[1].to_le_bytes()))
}

/// The link at a place, with its check.
fn mend_link(bytes: &mut [u8], place: usize) {
    let target = u64_at(bytes, place) & ((1 << 48) - 1);
    let link = target | crc([place as u64, target]) << 48;
    put(bytes, place, &link.to_le_bytes());
}

/// Mends what the trees of a pool have, in these extents (unit, kind, end).
pub fn mend(bytes: &mut [u8], extents: &[(usize, u8, usize)]) {
    if !bytes[ROOT_AREA..].starts_with(MAGIC) {
        return;
    }
    for tree in 0..TREES {
        mend_root(bytes, ROOT_AREA + 64 * tree, ROOT_AREA + 128 + 64 * tree);
    }
    let in_records = |at: usize| {
        let within =
            |&&(unit, kind, end): &&(usize, u8, usize)| kind == RECORDS && (unit * UNIT_BYTES..end).contains(&at);
        extents.iter().find(within).map(|&(_, _, end)| end)
    };
    for &(unit, _, end) in extents.iter().filter(|(_, kind, _)| *kind == LEAVES) {
        for leaf in (unit * UNIT_BYTES..end).step_by(LEAF_BYTES) {
            // A slot that was never a leaf has no check.
            if u64_at(bytes, leaf + 16) != 0 {
                mend_leaf(bytes, leaf, &in_records);
            }
        }
    }
}

fn mend_root(bytes: &mut [u8], root: usize, words: usize) {
    if !bytes[root..].starts_with(MAGIC) {
        return;
    }
    let front = crc32c_append(crc32c(&(root as u64).to_le_bytes()), &bytes[root..root + 16]);
    put(bytes, root + 16, &u64::from(front).to_le_bytes());
    mend_link(bytes, words);
    let epoch = u64_at(bytes, words + 8) & u64::from(u32::MAX);
    let epoch = crc([words as u64 + 8, epoch]) << 32 | epoch;
    put(bytes, words + 8, &epoch.to_le_bytes());
}

fn mend_leaf(bytes: &mut [u8], leaf: usize, in_records: &impl Fn(usize) -> Option<usize>) {
    mend_link(bytes, leaf + 8);
    let owner = u64_at(bytes, leaf + 16) & ((1 << 40) - 1);
    let tag = owner | crc([leaf as u64, owner]) >> 8 << 40;
    put(bytes, leaf + 16, &tag.to_le_bytes());
    let valid = u64_at(bytes, leaf);
    for slot in (0..LEAF_SLOTS).filter(|slot| valid >> slot & 1 == 1) {
        let record = super::place(u64_at(bytes, leaf + OFFSETS_AT + 8 * slot));
        let Some(end) = in_records(record) else { continue };
        if let Some(fingerprint) = mend_record(bytes, record, end) {
            put(bytes, leaf + FINGERPRINTS_AT + slot, &[fingerprint]);
        }
    }
}

/// Mends the record at a place of an extent that ends there. Returns the fingerprint of its key, if it is within.
fn mend_record(bytes: &mut [u8], record: usize, end: usize) -> Option<u8> {
    let front = bytes[..end].get(record..record + RECORD_HEADER_BYTES)?;
    let key_bytes = usize::from(u16::from_le_bytes([front[20], front[21]]));
    let key = bytes[..end].get(record + RECORD_HEADER_BYTES..record + RECORD_HEADER_BYTES + key_bytes)?;
    let crc = crc32c_append(crc32c_append(crc32c(&(record as u64).to_le_bytes()), &front[..22]), key);
    let hash = crc32c(key);
    put(bytes, record + 22, &((crc ^ crc >> 16) as u16).to_le_bytes());
    Some((hash ^ hash >> 16) as u8 ^ (hash >> 8) as u8)
}
