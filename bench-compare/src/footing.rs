//! [`Footing`]: what every store is given alike, so that what differs is the stores.
//!
//! The paper's settings (section 6): no compression unless it is asked for, a write buffer of 64 MB, a Bloom filter of 10 bits a
//! key where a store has one, the log not synced; everything else as the store's makers have it. What they leave to the user
//! (threads, the size of caches, of maps) is set as their documentation advises.

use std::{fs, thread};

/// Bits that a Bloom filter has for each key.
pub const BLOOM_BITS_PER_KEY: u32 = 10;

/// Write buffers of a store: one that fills and one that is being written out.
pub const WRITE_BUFFERS: usize = 2;

/// Blocks of table files, before they are compressed: LevelDB's size, which the paper has, too.
pub const BLOCK_BYTES: usize = 4096;

/// What a write that returned outlives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Durability {
    /// A kill of the process: the log is written, and not synced. The paper's, and most stores' default.
    Process,
    /// A power cut: the log is synced before a write returns.
    Sync,
}

/// How blocks are compressed, in stores that can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4; in LevelDB Snappy.
    Lz4,
}

/// What every store is given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Footing {
    /// All that a store may have in memory of its own: caches and write buffers together, in bytes.
    pub memory_budget_bytes: u64,
    /// What a store collects in memory before it writes a table file, if it does, in bytes.
    pub write_buffer_bytes: u64,
    /// What all keys and values together may come to, in bytes: for stores that want to know the size of a map.
    pub data_bytes: u64,
    /// The number of keys.
    pub keys: u64,
    /// How blocks are compressed.
    pub compression: Compression,
    /// What the process is confined to, page cache included, if it is, in bytes.
    pub memory_limit_bytes: Option<u64>,
}

impl Footing {
    /// What a store's setup says of compression, if it has one of this name.
    pub fn compressed_by(&self, name: &str) -> String {
        if self.compression == Compression::None { String::new() } else { format!(", {name}") }
    }

    /// What is left for a block cache beside the write buffers.
    pub fn block_cache_bytes(&self) -> u64 {
        self.memory_budget_bytes
            .saturating_sub(WRITE_BUFFERS as u64 * self.write_buffer_bytes)
            .max(self.memory_budget_bytes / 16)
    }
}

/// Processors that stores may use for work in the background.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A number of bytes for people.
pub fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// The machine's memory.
pub fn machine_memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
