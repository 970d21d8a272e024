//! Key chunks with shortened keys: how they are stored where nothing else makes them smaller.
//!
//! A key has most of its bytes in common with the one before, and is mostly as long; an entry by itself is mostly about as
//! long as the one before. So a chunk's content is stored as
//!
//! ```text
//! 0   bytes   the 24 bytes that the content begins with
//! 24  runs    for each:
//!             varint  zigzag difference of its length to that of the run before × 2, + 1 if it has several entries
//!             varint  how many, if it has several; then for each entry:
//!                     varint  bytes of the key shared with the key before × 4, + 2 if both are as long, + 1 for a delete
//!                     varint  how many other bytes, unless both are as long
//!                     varint  zigzag difference of its sequence number, as in the content
//!                     bytes   the key's other bytes
//! ```
//!
//! Before the first run, lengths and keys count as 0 and empty. The content is made whole when a chunk is read, so that
//! iterators can lend its keys out as they lie.

use slmdb_order::common_prefix_bytes;

use crate::codec::{get_length, get_range, get_varint, put_varint, unzigzag, zigzag};
use crate::key_chunk_sizes::CHUNK_HEADER_BYTES;

const HAS_SEVERAL: u64 = 1;
const IS_DELETE: u64 = 1;
const IS_AS_LONG: u64 = 2;

/// Appends the shortened form of a chunk's content to `into`. `None`: this is no such content.
pub(crate) fn shorten(content: &[u8], into: &mut Vec<u8>) -> Option<()> {
    let mut at = CHUNK_HEADER_BYTES;
    into.extend_from_slice(content.get(..at)?);
    let (mut length_before, mut key_before) = (0, 0..0);
    while at < content.len() {
        let length = get_varint(content, &mut at).filter(|&length| length <= u32::MAX.into())?;
        let entries = get_varint(content, &mut at)?;
        let several = if entries == 1 { 0 } else { HAS_SEVERAL };
        put_varint(into, zigzag(length_before, length) << 1 | several);
        if several != 0 {
            put_varint(into, entries);
        }
        length_before = length;
        for _ in 0..entries {
            let head = get_varint(content, &mut at)?;
            let difference = get_varint(content, &mut at)?;
            let key = get_range(content, &mut at, usize::try_from(head >> 1).ok()?)?;
            let shared = common_prefix_bytes(&content[key_before.clone()], &content[key.clone()]);
            let is_as_long = key.len() == key_before.len();
            let flags = if is_as_long { IS_AS_LONG } else { 0 } | head & IS_DELETE;
            put_varint(into, (shared as u64) << 2 | flags);
            if !is_as_long {
                put_varint(into, (key.len() - shared) as u64);
            }
            put_varint(into, difference);
            into.extend_from_slice(&content[key.start + shared..key.end]);
            key_before = key;
        }
    }
    Some(())
}

/// Makes a shortened content of so many bytes whole. `None`: this is none.
pub(crate) fn expand(shortened: &[u8], content_bytes: usize) -> Option<Vec<u8>> {
    let mut at = 0;
    let mut content = Vec::with_capacity(content_bytes);
    content.extend_from_slice(&shortened[get_range(shortened, &mut at, CHUNK_HEADER_BYTES)?]);
    let (mut length, mut key) = (0, 0..0);
    while at < shortened.len() {
        let head = get_varint(shortened, &mut at)?;
        length = unzigzag(length, head >> 1);
        let entries = if head & HAS_SEVERAL != 0 { get_varint(shortened, &mut at)? } else { 1 };
        put_varint(&mut content, length);
        put_varint(&mut content, entries);
        // Each entry takes bytes of what is left, so this ends.
        for _ in 0..entries {
            let head = get_varint(shortened, &mut at)?;
            let shared = usize::try_from(head >> 2).ok().filter(|&shared| shared <= key.len())?;
            let others = match head & IS_AS_LONG {
                0 => get_length(shortened, &mut at)?,
                _ => key.len() - shared,
            };
            let difference = get_varint(shortened, &mut at)?;
            let others = get_range(shortened, &mut at, others)?;
            put_varint(&mut content, ((shared + others.len()) as u64) << 1 | head & IS_DELETE);
            put_varint(&mut content, difference);
            let start = content.len();
            content.extend_from_within(key.start..key.start + shared);
            content.extend_from_slice(&shortened[others]);
            key = start..content.len();
            // A few bytes may ask for many that are shared.
            if content.len() > content_bytes {
                return None;
            }
        }
    }
    (content.len() == content_bytes).then_some(content)
}

#[cfg(test)]
mod tests;
