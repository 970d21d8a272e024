//! The files that a compaction reads. Keys are streamed, one chunk of each file at a time. Of the values only blocks
//! with a valid entry are read, each once ([`slmdb_engine::files::values_in_order`]).

use slmdb_table::KEY_CHUNK_BYTES;

/// The most bytes of a file's blocks that are read at a time,
const WINDOW_BYTES: usize = 1 << 20;
/// the most bytes of all inputs together,
const ALL_WINDOWS_BYTES: usize = 64 << 20;
/// and the least of a file, however many inputs there are.
const LEAST_WINDOW_BYTES: usize = 64 << 10;

/// Bytes of each file's blocks that are read at a time, for this number of inputs.
pub(crate) fn window_bytes(inputs: usize) -> usize {
    (ALL_WINDOWS_BYTES / inputs.max(1)).clamp(LEAST_WINDOW_BYTES, WINDOW_BYTES)
}

/// Memory of this number of inputs during a merge, in bytes: a chunk of keys and a window on the blocks for each.
pub(crate) fn memory_bytes(inputs: usize) -> u64 {
    (inputs * (KEY_CHUNK_BYTES + window_bytes(inputs))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_become_smaller_where_there_are_many_inputs() {
        let mib = 1 << 20;
        assert_eq!([0, 1, 64, 128, 1024, 5000].map(window_bytes), [mib, mib, mib, mib / 2, mib / 16, mib / 16]);
        assert_eq!(memory_bytes(64), 68 << 20);
    }
}
