//! [`Caches`]: table files that are held open, and blocks of table files: of one store, or of all that share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use slmdb_sync::scheduled::atomic::AtomicU64;
use slmdb_table::{Block, IndexChunk, KeyChunk, TableReader};

/// The name of a table file: the number of its store, and its own.
pub(super) type FileKey = (u32, u32);
/// The name of a block or an index chunk: that of its file, and its offset.
pub(super) type BlockKey = (u32, u32, u32);

/// What the cache holds.
#[derive(Clone)]
pub(super) enum Cached {
    Block(Block),
    Chunk(IndexChunk),
    Keys(KeyChunk),
}

/// What an allocator adds to each allocation, rounding included. A block is two allocations.
pub const ALLOCATION_BYTES: usize = 16;

/// What the cache's own tables take for each block. This estimate keeps the cache within its share. `stats` asks the
/// cache itself.
const CACHE_ENTRY_BYTES: usize = 64;

#[derive(Clone)]
pub(super) struct ByMemory;

impl Weighter<BlockKey, Cached> for ByMemory {
    fn weight(&self, _: &BlockKey, cached: &Cached) -> u64 {
        let memory_bytes = match cached {
            Cached::Block(block) => block.memory_bytes(),
            Cached::Chunk(chunk) => chunk.memory_bytes(),
            Cached::Keys(chunk) => chunk.memory_bytes(),
        };
        (memory_bytes + 2 * ALLOCATION_BYTES + CACHE_ENTRY_BYTES) as u64
    }
}

/// Table files that are held open, and blocks of table files.
pub struct Caches {
    pub(super) readers: Cache<FileKey, Arc<TableReader>>,
    pub(super) blocks: Cache<BlockKey, Cached, ByMemory>,
    stores: AtomicU64,
}

impl fmt::Debug for Caches {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, blocks) = (self.readers.len(), self.blocks.len());
        formatter.debug_struct("Caches").field("files", &files).field("blocks", &blocks).finish()
    }
}

impl Caches {
    /// Empty ones, for so many files, and for blocks of so many bytes.
    pub fn new(open_tables_max: usize, cache_bytes: u64) -> Caches {
        let typical_blocks = (cache_bytes / 4096).clamp(16, 1 << 24) as usize;
        Caches {
            readers: Cache::new(open_tables_max),
            blocks: Cache::with_weighter(typical_blocks, cache_bytes, ByMemory),
            stores: AtomicU64::new(0),
        }
    }

    /// A number for one more store.
    pub(super) fn one_more(&self) -> u32 {
        self.stores.fetch_add(1, Ordering::Relaxed) as u32
    }

    /// Closes all files. One that is being read is closed when the read has ended.
    pub fn close_all(&self) {
        self.readers.retain(|_, _| false);
    }

    /// Closes a store's files, likewise.
    pub(super) fn close_those_of(&self, store: u32) {
        self.readers.retain(|&(of, _), _| of != store);
    }

    /// Forgets all that is a store's.
    pub(super) fn forget(&self, store: u32) {
        self.close_those_of(store);
        self.blocks.retain(|&(of, _, _), _| of != store);
    }

    /// Memory of the block cache in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let guessed_bytes = (self.blocks.len() * CACHE_ENTRY_BYTES) as u64;
        let own = self.blocks.memory_used();
        self.blocks.weight().saturating_sub(guessed_bytes) + (own.entries + own.map) as u64
    }

    /// Sets the most memory that the block cache may take, in bytes. Returns how much it freed for that.
    pub fn set_bytes(&self, bytes: u64) -> u64 {
        let before = self.blocks.weight();
        self.blocks.set_capacity(bytes);
        before.saturating_sub(self.blocks.weight())
    }
}
