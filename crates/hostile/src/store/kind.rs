//! Which stores there are: of each engine, on each medium.

use std::sync::Arc;

use slmdb::{CompactionOptions, CompactionPolicy, DramIndex, EngineName, Medium, Options, engines};
use slmdb_testkit::MemoryEnv;

/// The medium of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// No pool.
    Dram,
    /// A pool in a file.
    Emulated,
    /// No pool, but a clean close leaves an image of the index, however small it is.
    DramWithImage,
    /// The same with FAST and FAIR, whose image is that of a pool.
    DramWithPoolImage,
}

impl On {
    /// All that there are with this engine. Only SLM-DB has images.
    fn all(engine: EngineName) -> impl Iterator<Item = On> {
        let all = [On::Dram, On::Emulated, On::DramWithImage, On::DramWithPoolImage];
        all.into_iter().filter(move |on| !on.has_image() || engine == EngineName::Slm)
    }

    pub(super) fn has_image(self) -> bool {
        matches!(self, On::DramWithImage | On::DramWithPoolImage)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            On::Dram => "dram",
            On::Emulated => "emulated",
            On::DramWithImage => "dram-image",
            On::DramWithPoolImage => "dram-pool-image",
        }
    }
}

pub(super) const STORE: &str = "/db";
pub(super) const POOL: &str = "/pool";
const MEMTABLE_BYTES: u64 = 16 << 10;
pub(super) const BUDGET_BYTES: usize = 1 << 16;
/// A pool may grow so far, and in this machine files are memory.
pub(super) const POOL_BYTES_MAX: usize = 4 << 20;
/// An engine and a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub engine: EngineName,
    pub on: On,
}

/// All that there are. (Sound stores of a new engine have to be made: [`sound::make_all`](super::sound::make_all).)
pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    engines::names().flat_map(|engine| On::all(engine).map(move |on| Kind { engine, on }))
}

pub(super) fn options(Kind { engine, on }: Kind, env: &MemoryEnv) -> Options {
    let manual =
        CompactionOptions { policy: CompactionPolicy::Manual, table_file_bytes: 1 << 10, ..Default::default() };
    Options::default()
        .engine(engine)
        .env(Arc::new(env.clone()))
        .medium(if on == On::Emulated { Medium::Emulated { path: POOL.into() } } else { Medium::Dram })
        .memtable_bytes(MEMTABLE_BYTES)
        .memory_budget_bytes(BUDGET_BYTES as u64)
        .pool_initial_bytes(1 << 18)
        .pool_growth_bytes(64 << 10)
        .pool_maximum_bytes(POOL_BYTES_MAX as u64)
        .advanced(|advanced| {
            advanced
                .checkpoint_entries(12)
                .index_image_keys_min(if on.has_image() { 1 } else { u64::MAX })
                .dram_index(if on == On::DramWithPoolImage { DramIndex::FastFair } else { DramIndex::MemoryTree })
        })
        .compaction(manual)
}
