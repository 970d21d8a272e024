//! The store above the engines.
//!
//! A [`Store`](store::Store) has the parts that know no index ([`Parts`](parts::Parts)): MemTables and their log, the
//! MANIFEST, table files, space, memory, snapshots. Below the MemTables it has a *tier*, which is the engine's. The tier is in two
//! halves: [`TierState`](tier_state::TierState) is what an engine keeps, and [`Tier`](tier::Tier) what it does with that and with the
//! parts. So each half is whole before the next one is made, and no part leads back to what is above it:
//!
//! ```text
//! Store ──> Tier ──> Parts ──> TierState ──> pool, index, candidates …
//! ```

pub mod compaction;
pub mod cursor;
pub mod estimate;
pub mod flush;
pub mod memory;
pub mod opening;
pub mod parts;
pub mod shared;
pub mod snapshot;
pub mod stats;
#[allow(clippy::module_inception)]
pub mod store;
#[cfg(test)]
mod tests;
pub mod tier;
pub mod tier_state;
