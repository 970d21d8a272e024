//! The fast tier: media, the pool with its extents and blocks, and the arenas of MemTables. No keys in here.
//!
//! Read it in this order, which is also the way a store takes: [`medium`] (what a store, a flush and a fence are),
//! [`persistent`] (those that are real), `layout` (the format), `mapping` (address space), [`pool`] (words, bytes and extents
//! behind 64-bit offsets), [`blocks`] (fixed-size blocks within extents, for tree nodes), [`slots`] (the same without a durable
//! bitmap), and [`arena`] (memory for one MemTable). (`heap` is about plain memory.) The medium that shows what a crash could
//! have left is in `crates/testkit`.
//!
//! All stores to the fast tier pass through [`Medium`], so that one recorder sees them all; every offset that was read
//! from the fast tier is checked before it is followed, so that damaged bytes give [`slmdb_env::Error::Corruption`] and
//! nothing worse. `docs/formats/pool.md` has the byte tables and the invariants (POOL-1 to POOL-9).

mod any_medium;
pub mod arena;
pub mod blocks;
mod extent;
mod heap;
mod layout;
mod mapping;
pub mod medium;
pub mod persistent;
pub mod pool;
pub mod slots;

pub use any_medium::AnyMedium;
pub use arena::{Arena, ArenaKind, ArenaPast};
pub use blocks::Blocks;
pub use heap::trim_heap;
pub use layout::{ROOT_BYTES, UNIT_BYTES};
pub use mapping::{give_large_pages_back, take_large_pages};
pub use medium::{Dram, FlushCounters, Medium, Reads};
pub use persistent::{Delayed, Emulated, Emulation, LatencyModel, Persistent};
pub use pool::{Claim, Extent, ExtentKind, Pool, PoolOptions};
pub use slots::Slots;
