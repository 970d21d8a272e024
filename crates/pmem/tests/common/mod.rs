//! What the tests of this crate share.
#![allow(dead_code, reason = "every test file uses its own part")]

use slmdb_pmem::{Extent, Medium, Pool, PoolOptions, UNIT_BYTES};

pub const UUID: [u8; 16] = *b"a store of tests";

/// A small pool: 2 units at first, growing by 4, up to 64 MiB.
pub fn small() -> PoolOptions {
    PoolOptions { initial_bytes: 0, growth_bytes: 4 * UNIT_BYTES, maximum_bytes: 64 << 20, uuid: UUID }
}

/// Fills an extent with bytes that tell it from every other.
pub fn fill<M: Medium>(pool: &Pool<M>, extent: &Extent) {
    let bytes = content(extent);
    // SAFETY: the tests fill extents that they allocated and did not show to anybody yet.
    unsafe { pool.write(extent.offset, &bytes) }.unwrap();
    pool.persist(extent.offset, extent.length_bytes);
}

/// Whether an extent still holds what [`fill`] wrote.
pub fn is_filled<M: Medium>(pool: &Pool<M>, extent: &Extent) -> bool {
    // SAFETY: the tests write extents once only.
    unsafe { pool.bytes(extent.offset, extent.length_bytes) }.unwrap() == content(extent)
}

fn content(extent: &Extent) -> Vec<u8> {
    let word = (u64::from(extent.owner) << 32 | extent.offset).to_le_bytes();
    word.iter().copied().cycle().take(extent.length_bytes as usize).collect()
}
