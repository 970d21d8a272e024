//! [`WorstCase`]: what a table file takes at most, known before a byte of it is written.
//!
//! A store sets space aside for the table file of a MemTable while it admits writes to it, so that a disk that fills up
//! meanwhile refuses the next write and never one that was accepted. The bound follows the builder:
//! an entry stands once in a block, or by itself, and its key once more in the key section; two blocks in a row are together longer
//! than one block may be, as are two chunks.

use crate::block_builder::ENTRY_HEAD_BYTES_AT_MOST;
use crate::footer::FOOTER_BYTES;
use crate::index_builder;
use crate::key_chunk_sizes::{self, CHUNK_BYTES, CHUNK_HEADER_BYTES, RUN_BYTES, RUN_HEAD_BYTES_AT_MOST};
use crate::layout::TAIL_BYTES;
use crate::options::{TableForm, TableOptions};
use crate::part::TRAILER_BYTES;
use crate::properties::Properties;
use crate::single;
use slmdb_filter::LINE_BYTES;

/// What is to go into a table file, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorstCase {
    /// Entries.
    pub entries: u64,
    /// Their keys, in bytes.
    pub key_bytes: u64,
    /// The longest of them, in bytes.
    pub longest_key_bytes: u64,
    /// Their values, in bytes.
    pub value_bytes: u64,
}

/// What a block takes beside its entries: its tail and trailer, and its run's head in the key section.
const BLOCK_OVERHEAD_BYTES: u64 = (TAIL_BYTES + TRAILER_BYTES + RUN_HEAD_BYTES_AT_MOST) as u64;
/// What the run of an entry by itself takes beside the entry: a length, and that it is one.
const SINGLE_RUN_HEAD_BYTES: u64 = 5 + 1;
const _: () = assert!(single::OVERHEAD_BYTES_AT_MOST <= ENTRY_HEAD_BYTES_AT_MOST);
const CHUNK_OVERHEAD_BYTES: u64 = (CHUNK_HEADER_BYTES + TRAILER_BYTES) as u64;

impl WorstCase {
    /// The length, in bytes, that no table file of such entries passes, however compression fares.
    pub fn file_bytes(&self, options: &TableOptions) -> u64 {
        let in_blocks = self
            .key_bytes
            .saturating_add(self.value_bytes)
            .saturating_add(self.entries.saturating_mul(ENTRY_HEAD_BYTES_AT_MOST as u64));
        let in_runs = self
            .key_bytes
            .saturating_add(self.entries.saturating_mul(key_chunk_sizes::ENTRY_HEAD_BYTES_AT_MOST as u64));
        if let TableForm::ByKey { filter_bits_per_key } = options.form {
            return self.file_bytes_by_key(options, in_blocks, filter_bits_per_key);
        }
        // An entry by itself takes no more than one in a block, but has a run of its own.
        let run_heads = self.entries.saturating_mul(SINGLE_RUN_HEAD_BYTES);
        // A block ends because the next entry would make it too long, or its run.
        let tail_bytes = (TAIL_BYTES + TRAILER_BYTES) as u64;
        let blocks = pieces(in_blocks, (options.block_bytes as u64).saturating_sub(2 * tail_bytes))
            .saturating_add(pieces(in_runs, RUN_BYTES as u64))
            .min(self.entries);
        let keys =
            in_runs.saturating_add(run_heads).saturating_add(blocks.saturating_mul(RUN_HEAD_BYTES_AT_MOST as u64));
        let chunks = pieces(keys, (CHUNK_BYTES - CHUNK_HEADER_BYTES) as u64);
        let properties = Properties::length_bytes(
            2 * self.longest_key_bytes as usize,
            usize::try_from(chunks).unwrap_or(usize::MAX),
        );
        in_blocks
            .saturating_add(in_runs)
            .saturating_add(run_heads)
            .saturating_add(blocks.saturating_mul(BLOCK_OVERHEAD_BYTES))
            .saturating_add(chunks.saturating_mul(CHUNK_OVERHEAD_BYTES))
            .saturating_add(properties)
            .saturating_add(FOOTER_BYTES as u64)
    }
}

impl WorstCase {
    /// Likewise, of a file that is searched by key, whose entries take so much in blocks.
    fn file_bytes_by_key(&self, options: &TableOptions, in_blocks: u64, filter_bits_per_key: u32) -> u64 {
        let tail_bytes = (TAIL_BYTES + TRAILER_BYTES) as u64;
        let blocks = pieces(in_blocks, (options.block_bytes as u64).saturating_sub(2 * tail_bytes)).min(self.entries);
        // No separator is longer than the last key of its block.
        let rows = self.rows_bytes(blocks);
        let filter_bytes = self.entries.saturating_mul(filter_bits_per_key.into()) / 8;
        let chunks = (rows / index_builder::ROWS_BYTES as u64)
            .saturating_add(rows.saturating_add(filter_bytes) / (index_builder::CHUNK_BYTES - LINE_BYTES) as u64)
            .saturating_add(1)
            .min(blocks);
        // The top is one more.
        let overheads = chunks
            .saturating_mul(LINE_BYTES as u64)
            .saturating_add(chunks.saturating_add(1).saturating_mul(index_builder::CHUNK_OVERHEAD_BYTES as u64));
        in_blocks
            .saturating_add(blocks.saturating_mul(tail_bytes))
            .saturating_add(rows)
            .saturating_add(filter_bytes)
            .saturating_add(self.rows_bytes(chunks))
            .saturating_add(overheads)
            .saturating_add(Properties::length_bytes(2 * self.longest_key_bytes as usize, 1))
            .saturating_add(FOOTER_BYTES as u64)
    }

    /// What so many rows take with their separators, which are keys of as many different entries, or shorter.
    fn rows_bytes(&self, rows: u64) -> u64 {
        let keys = self.key_bytes.min(rows.saturating_mul(self.longest_key_bytes));
        keys.saturating_add(rows.saturating_mul(index_builder::ROW_BYTES_AT_MOST as u64))
    }
}

/// Into how many pieces bytes can be cut, if two pieces in a row are together longer than `limit`.
fn pieces(bytes: u64, limit: u64) -> u64 {
    match limit {
        0 => u64::MAX,
        limit => bytes.saturating_mul(2) / limit + 1,
    }
}
