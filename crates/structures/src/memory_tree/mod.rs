//! An ordered index for plain memory: a B+-tree whose nodes are copied, not changed.
//!
//! It says of each key where its newest entry lies. FAST and FAIR ([`fast_fair`](crate::fast_fair)) does that in persistent memory,
//! where a node must be changed by 8-byte stores that survive a crash. Plain memory has nothing to survive, so here nodes are as dense
//! as they can be: of exact length, sorted, with whole keys less what they have in common. A look-up waits for memory once for each
//! level that is not in the processor's cache, and needs no other memory to know that a key is the right one.
//!
//! Read it in this order: `node` (the layout), `node_keys` and `search`, `place`, `keys`, `build`; `slab` and `chunks` (memory), `garbage` (what waits for readers);
//! `tree` (look-ups), `read` (ranges); `pending`, `update`, `leaf_change`, `merge` (the one write), `repoint`, `tidy`, `bulk`; `file_slots`,
//! `estimate`, `verify`, `image`.
//!
//! # Protocol
//!
//! There is one writer at a time, under a lock. Readers take none, never try again, and write nothing: they pin the epoch, and load the root, children,
//! and a place (Acquire).
//!
//! * A place alone is changed by one Release store into its leaf.
//! * Anything else makes a new leaf, which is put in the place of the old one by one Release store into the parent's word. If a leaf becomes
//!   several, or none, the parent is made anew likewise, and so on, up to the root's word.
//! * What was unlinked is freed when all guards are gone that were there then. Its memory comes back to the writer.
//!
//! # What a reader sees
//!
//! * The writer stores only into nodes that the root leads to, so a node that was replaced stands still. Who reads it sees the state from when it
//!   was replaced, which is after his pin. So a look-up sees one moment within the call.
//! * A range sees each leaf at a moment of its own. Leaves under one parent border on each other for ever, so no key comes twice and none that stays is
//!   missed.
//! * No thread goes back in time: a copy of a leaf has all that was stored into it before.

mod build;
mod bulk;
mod chunks;
mod estimate;
mod file_slots;
mod garbage;
mod image;
mod keys;
mod leaf_change;
mod merge;
#[cfg(all(test, loom))]
mod models;
mod node;
mod node_keys;
mod pending;
mod place;
mod read;
mod repoint;
mod search;
mod slab;
mod tidy;
mod tree;
mod update;
mod verify;

pub use bulk::BulkPart;
pub use chunks::{CHUNK_ALIGNMENT_BYTES, CHUNK_BYTES, ChunkSource, SystemMemory};
pub use estimate::Sample;
pub use file_slots::FileSlots;
pub use image::{IMAGE_PAGE_BYTES, ImageReader, ImageSize};
pub use place::{Found, Place};
pub use read::RangeRead;
pub use tree::{MAXIMUM_KEY_BYTES, MemoryTree, Settings};
pub use update::Decision;
