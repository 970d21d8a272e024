//! The hybrid tree: a sorted structure whose leaves and records lie in the pool, and whose directory is in plain memory.
//!
//! LAB-DB (Kim and others, ACM TOS 20(1), 2024) keeps level 0 of an LSM tree in two of these. A flush changes them in place,
//! the oldest keys leave them by ranges, and an opening reads all leaves anyway to rebuild the upper levels. So this tree
//! needs less than [`fast_fair`](crate::fast_fair): it has one writer at a time, no intents, no bitmaps and no parents in the pool.
//!
//! Read it in this order: `layout` (the bytes), `record` and `leaf`, `directory`, `tree`, `read`, `apply`, `cut`, `open`, `verify`,
//! `space_bounds`.
//!
//! # How a change becomes durable
//!
//! The keys of a flush come in groups of 256. First everything that nothing leads to yet is written and fenced: records, slots
//! without their bits, whole new leaves. Then the words are stored that lead there: bits, record offsets, links of the chain.
//! A second fence, and the directory is published. A crash leaves each key with its old version or its new one, and
//! applying the same keys again gives the same tree.
//!
//! # Invariants
//!
//! * A key is at most once in a tree (I1 of the design).
//! * What the chain of leaves does not reach is free. Nothing else says so, and an opening rebuilds everything from the chain.
//! * A slot is used again only when its removal is durable, the directory is published, and no guard from before is
//!   left (I7).
//! * A leaf that was replaced is never changed again. A reader that came by an older directory finds in it what was so
//!   when it took that directory.
//! * Each tree has one writer at a time, a lock sees to that (I9). Readers take no lock.

mod apply;
mod cut;
mod damage;
mod directory;
mod layout;
mod leaf;
mod open;
mod read;
mod record;
mod space_bounds;
mod tree;
mod verify;

#[cfg(test)]
mod tests;

pub use apply::GROUP_KEYS;
pub use layout::{MAXIMUM_KEY_BYTES, MAXIMUM_SEQUENCE, TREES};
pub use read::{LeafCopy, Leaves, Place};
pub use record::{Entry, Version};
pub use space_bounds::pool_bytes_max;
pub use tree::{Counts, HybridTree, Size};
