//! How long the chunks of a key section are, and what is in them besides keys. Their form is described in `key_section`.

use crate::options::MAXIMUM_KEY_BYTES;

/// A chunk is ended rather than made longer than this, unless one run alone is.
pub const CHUNK_BYTES: usize = 64 << 10;
/// A block is ended rather than have a run longer than this, unless one entry alone is. Keys with long common heads make
/// short blocks but long runs.
pub(crate) const RUN_BYTES: usize = CHUNK_BYTES - CHUNK_HEADER_BYTES - RUN_HEAD_BYTES_AT_MOST;

/// No chunk is longer than this: a run of one entry is the longest.
pub(crate) const CHUNK_BYTES_AT_MOST: usize = 2 * CHUNK_BYTES;

pub(crate) const CHUNK_HEADER_BYTES: usize = 24;
/// The most that an entry takes in a run on top of its key: a length and a difference.
pub(crate) const ENTRY_HEAD_BYTES_AT_MOST: usize = 3 + 10;
/// The most that a run takes on top of its entries.
pub(crate) const RUN_HEAD_BYTES_AT_MOST: usize = 5 + 5;
const _: () = assert!(
    CHUNK_HEADER_BYTES + RUN_HEAD_BYTES_AT_MOST + MAXIMUM_KEY_BYTES + ENTRY_HEAD_BYTES_AT_MOST <= CHUNK_BYTES_AT_MOST
);
const _: () = assert!(CHUNK_HEADER_BYTES == size_of::<u64>() + 2 * size_of::<u32>() + size_of::<u64>());
