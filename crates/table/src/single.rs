//! Entries that are parts of their own: what an uncompressed table file holds.
//!
//! A `get` wants one entry and knows where it is. So where nothing is gained by compressing several entries together, each
//! stands by itself, with a checksum of its own: that is all that has to be read, copied and checked. As stored:
//!
//! ```text
//! varint  bytes of the key × 2, + 1 for a delete
//! varint  sequence number
//! bytes   the key
//! bytes   the value
//! u8      128: an entry; 64: its value lies apart (not used yet); other bits 0
//! u32     CRC-32C
//! ```
//!
//! The CRC-32C covers what that of any part does (module `part`): first the store, the file, the kind of part (6) and the
//! offset, then what stands before it here. In a data block the fifth byte from the end is the highest one of a length, which is
//! never so high as 128: so one look tells an entry from a block.

use std::ops::Range;
use std::path::Path;

use slmdb_env::{Error, Result};

use crate::codec::{get_length, get_range, get_varint, put_varint, varint_bytes};
use crate::entry::{EntryKind, NewEntry};
use crate::options::MAXIMUM_KEY_BYTES;
use crate::part::{Identity, PartKind};

/// The byte and the checksum at the end.
pub(crate) const END_BYTES: usize = size_of::<u8>() + size_of::<u32>();
/// The shortest entry as stored: without a key and without a value.
pub(crate) const SHORTEST_BYTES: usize = 1 + 1 + END_BYTES;
/// What an entry takes on top of key and value, at most.
pub(crate) const OVERHEAD_BYTES_AT_MOST: usize = 3 + 10 + END_BYTES;

const IS_ENTRY: u8 = 1 << 7;

/// A checked entry as it lies in its bytes.
#[derive(Debug, Clone)]
pub(crate) struct SingleEntry {
    pub(crate) kind: EntryKind,
    pub(crate) sequence: u64,
    pub(crate) key: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// Whether this is an entry as stored; else it is a data block, or nothing that was ever written.
#[inline]
pub(crate) fn is_single(stored: &[u8]) -> bool {
    stored.len().checked_sub(END_BYTES).is_some_and(|at| stored[at] & IS_ENTRY != 0)
}

/// How long an entry is as stored, in bytes.
#[inline]
pub(crate) fn stored_bytes(entry: &NewEntry<'_>) -> usize {
    let head_bytes = varint_bytes((entry.key.len() as u64) << 1) + varint_bytes(entry.sequence);
    head_bytes + entry.key.len() + entry.value.len() + END_BYTES
}

/// Appends an entry as stored at this offset of the file.
pub(crate) fn append(out: &mut Vec<u8>, identity: Identity, offset: u32, entry: &NewEntry<'_>) {
    let start = out.len();
    out.reserve(entry.key.len() + entry.value.len() + OVERHEAD_BYTES_AT_MOST);
    put_varint(out, (entry.key.len() as u64) << 1 | entry.kind.bit());
    put_varint(out, entry.sequence);
    out.extend_from_slice(entry.key);
    out.extend_from_slice(entry.value);
    out.push(IS_ENTRY);
    let checksum = identity.checksum(PartKind::Entry, offset, &out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Checks an entry as stored that [is one](is_single), and was read at this offset. (Inlined in any case, as [`decode`]: what they find
/// went through memory, in pieces of other sizes than it was read again, which took a processor longer than all else.)
#[inline(always)]
pub(crate) fn check(stored: &[u8], identity: Identity, path: &Path, offset: u32) -> Result<SingleEntry> {
    let Some((covered, checksum)) = stored.split_last_chunk::<4>() else {
        return Err(corrupt(path, offset, "cut off"));
    };
    if identity.checksum(PartKind::Entry, offset, covered) != u32::from_le_bytes(*checksum) {
        return Err(corrupt(path, offset, "its checksum does not match"));
    }
    match covered.split_last() {
        Some((&IS_ENTRY, body)) => decode(body).ok_or_else(|| corrupt(path, offset, "cut off")),
        _ => {
            let what = format!("entry at {offset}: of a kind that this build does not know");
            Err(Error::Unsupported { what, file: Some(path.to_path_buf()) })
        }
    }
}

/// Takes an entry apart that ends where `body` does; `None` if it is none.
#[inline(always)]
pub(crate) fn decode(body: &[u8]) -> Option<SingleEntry> {
    let mut at = 0;
    let head = get_length(body, &mut at)?;
    let sequence = get_varint(body, &mut at)?;
    let key = get_range(body, &mut at, head >> 1)?;
    let (kind, value) = (EntryKind::of_bit(head as u64), at..body.len());
    let is_sound = key.len() <= MAXIMUM_KEY_BYTES && (kind == EntryKind::Put || value.is_empty());
    is_sound.then_some(SingleEntry { kind, sequence, key, value })
}

#[cold]
fn corrupt(path: &Path, offset: u32, what: &str) -> Error {
    Error::corruption(path, offset.into(), format!("entry: {what}"))
}
