//! Properties: what is to be known of a table file without reading its entries, and where its key chunks are.
//!
//! One part, behind the key section; its content:
//!
//! ```text
//! 0   u64     entries
//! 8   u64     older versions among them: entries that a newer one of the same key stands before
//! 16  u64     deletes among the others
//! 24  u64     blocks
//! 32  u64     length of all blocks as stored: where the key section starts
//! 40  u64     length of all keys
//! 48  u64     length of all values
//! 56  u64     lowest sequence number
//! 64  u64     highest sequence number
//! 72  u64     creation time, nanoseconds since 1970 UTC
//! 80  u16     length of the smallest key
//! 82  u16     length of the largest key
//! 84  u32     how many key chunks
//! 88  bytes   the smallest key, the largest key
//! …   u32 …   length of each key chunk as stored, in order
//! ```

use std::path::Path;

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;

use crate::codec::{get_range, get_u16, get_u32, get_u64};
use crate::entry::EntryKind;
use crate::options::MAXIMUM_KEY_BYTES;
use crate::part::TRAILER_BYTES;

const FIXED_BYTES: usize = 88;
const _: () = assert!(FIXED_BYTES == 10 * size_of::<u64>() + 2 * size_of::<u16>() + size_of::<u32>());
const _: () = assert!(MAXIMUM_KEY_BYTES == u16::MAX as usize);

/// What a table file says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// The file's number.
    pub number: u32,
    /// How many entries it has; at least one.
    pub entries: u64,
    /// How many of them are older versions: an entry of the same key with a higher sequence number stands before. The index
    /// is never to know them.
    pub older_versions: u64,
    /// How many of the others are deletes.
    pub deletes: u64,
    /// How many blocks they are in.
    pub blocks: u64,
    /// The smallest key.
    pub smallest_key: Vec<u8>,
    /// The largest key.
    pub largest_key: Vec<u8>,
    /// The lowest sequence number of an entry.
    pub lowest_sequence: u64,
    /// The highest sequence number of an entry.
    pub highest_sequence: u64,
    /// When building began, in nanoseconds since 1970 UTC.
    pub created_unix_ns: u64,
    /// Length of all blocks as stored, in bytes.
    pub data_bytes: u64,
    /// Length of all keys, in bytes.
    pub key_bytes: u64,
    /// Length of all values, in bytes.
    pub value_bytes: u64,
}

impl Properties {
    /// Of a table without entries, to [`count`](Properties::count) them into.
    pub(crate) fn new(number: u32, created_unix_ns: u64) -> Properties {
        Properties {
            number,
            entries: 0,
            older_versions: 0,
            deletes: 0,
            blocks: 0,
            smallest_key: Vec::new(),
            largest_key: Vec::new(),
            lowest_sequence: u64::MAX,
            highest_sequence: 0,
            created_unix_ns,
            data_bytes: 0,
            key_bytes: 0,
            value_bytes: 0,
        }
    }

    /// Takes an entry into account; all but the largest key, which is set at the end.
    #[inline]
    pub(crate) fn count(&mut self, key: &[u8], sequence: u64, kind: EntryKind, value_bytes: usize, is_older: bool) {
        if self.entries == 0 {
            self.smallest_key = key.to_vec();
        }
        self.entries += 1;
        self.older_versions += u64::from(is_older);
        self.deletes += u64::from(!is_older && kind == EntryKind::Delete);
        self.lowest_sequence = self.lowest_sequence.min(sequence);
        self.highest_sequence = self.highest_sequence.max(sequence);
        self.key_bytes += key.len() as u64;
        self.value_bytes += value_bytes as u64;
    }

    /// What the properties of a file with so many chunks take, trailer included, when its smallest and largest key are
    /// together this long.
    pub(crate) fn length_bytes(keys_bytes: usize, chunks: usize) -> u64 {
        (FIXED_BYTES + keys_bytes + size_of::<u32>() * chunks + TRAILER_BYTES) as u64
    }

    /// Appends the part's content.
    pub(crate) fn encode(&self, chunk_lengths: &[u32], out: &mut Vec<u8>) {
        let numbers = [
            self.entries,
            self.older_versions,
            self.deletes,
            self.blocks,
            self.data_bytes,
            self.key_bytes,
            self.value_bytes,
            self.lowest_sequence,
            self.highest_sequence,
            self.created_unix_ns,
        ];
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        // Both lengths fit: the builder takes no longer keys.
        out.extend_from_slice(&(self.smallest_key.len() as u16).to_le_bytes());
        out.extend_from_slice(&(self.largest_key.len() as u16).to_le_bytes());
        out.extend_from_slice(&(chunk_lengths.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.smallest_key);
        out.extend_from_slice(&self.largest_key);
        for length in chunk_lengths {
            out.extend_from_slice(&length.to_le_bytes());
        }
    }

    /// Undoes [`encode`](Properties::encode), for content that was read at `offset`; also checks that the numbers do not
    /// contradict each other.
    pub(crate) fn decode(
        content: &[u8],
        number: u32,
        path: &Path,
        offset: u64,
        order: &KeyOrder,
    ) -> Result<(Properties, Vec<u32>)> {
        let (properties, chunk_lengths) = Properties::decode_fields(content, number)
            .ok_or_else(|| Error::corruption(path, offset, "properties: not as long as their lengths say"))?;
        match properties.contradiction(order) {
            Some(what) => Err(Error::corruption(path, offset, format!("properties: {what}"))),
            None => Ok((properties, chunk_lengths)),
        }
    }

    fn decode_fields(content: &[u8], number: u32) -> Option<(Properties, Vec<u32>)> {
        let mut at = 0;
        let mut numbers = [0; 10];
        for number in &mut numbers {
            *number = get_u64(content, &mut at)?;
        }
        let [
            entries,
            older_versions,
            deletes,
            blocks,
            data_bytes,
            key_bytes,
            value_bytes,
            lowest,
            highest,
            created_unix_ns,
        ] = numbers;
        let smallest_bytes = get_u16(content, &mut at)?;
        let largest_bytes = get_u16(content, &mut at)?;
        let chunks = get_u32(content, &mut at)? as usize;
        let smallest = get_range(content, &mut at, smallest_bytes.into())?;
        let largest = get_range(content, &mut at, largest_bytes.into())?;
        if content.len() - at != chunks.checked_mul(size_of::<u32>())? {
            return None;
        }
        let mut chunk_lengths = Vec::with_capacity(chunks);
        while at < content.len() {
            chunk_lengths.push(get_u32(content, &mut at)?);
        }
        let properties = Properties {
            number,
            entries,
            older_versions,
            deletes,
            blocks,
            smallest_key: content[smallest].to_vec(),
            largest_key: content[largest].to_vec(),
            lowest_sequence: lowest,
            highest_sequence: highest,
            created_unix_ns,
            data_bytes,
            key_bytes,
            value_bytes,
        };
        Some((properties, chunk_lengths))
    }

    /// What can't be, if anything.
    fn contradiction(&self, order: &KeyOrder) -> Option<&'static str> {
        let keys = self.entries.saturating_sub(self.older_versions);
        let keys_ascend = if keys == 1 {
            self.smallest_key == self.largest_key
        } else {
            order.compare(&self.smallest_key, &self.largest_key).is_lt()
        };
        if self.entries == 0 || self.blocks == 0 || self.blocks > self.entries {
            Some("no such numbers of entries and blocks")
        } else if keys == 0 {
            Some("no such number of older versions")
        } else if self.deletes > keys {
            Some("more deletes than entries")
        } else if self.lowest_sequence > self.highest_sequence {
            Some("the lowest sequence number is above the highest")
        } else if !keys_ascend {
            Some("no such smallest and largest key")
        } else {
            None
        }
    }
}
