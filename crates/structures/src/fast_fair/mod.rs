//! The index: a FAST and FAIR B+-tree with string keys.
//!
//! The SLM-DB paper (section 3.1) keeps, for every live key, where its newest value is in a B+-tree in persistent memory,
//! the one of Hwang and others, *Endurable Transient Inconsistency in Byte-Addressable Persistent B+-Tree* (FAST '18).
//! Its idea: order the 8-byte stores of an insertion so that anything that looks in between, a reader or a restart after a crash,
//! sees a node that is at most transiently odd in a way that can be told. So there is no log, readers take no lock, and
//! opening takes no time, however many keys there are.
//!
//! Read it in this order:
//!
//! * [`key_record`]: what a leaf points to; [`segment`] and `part`: where key records lie;
//! * `fences`: fences and heads (how byte strings of any length fit a tree of 8-byte words); `node`: a node's layout, and
//!   reading it without a lock; `change`: locking and changing it;
//! * [`tree`]: root, descent, `get`; [`update`]: the one write; [`batch`]: the same for many keys in order;
//! * [`bulk`]: filling an empty tree at once; [`segment_writer`]: the records for that;
//! * `replace`, `intent_recovery`, `intent`, `reserve`, `build`, `merge`: splits, merges, a new root: one mechanism, and its recovery;
//! * `shortcuts` and `shortcut_descent`: descents that begin below the root;
//! * `lookup`: `get` of many keys at once; [`iterate`]: reading in order; [`verify`]: checking all of it;
//! * [`estimate`]: how many keys are in a range, about;
//! * [`space_bounds`]: how much of the pool it may come to need.
//!
//! # What differs from the paper
//!
//! * Keys are byte strings of 0 to 65,535 bytes. A leaf's entry has 8 telling bytes of the key and the offset of the key
//!   record, which has it whole.
//! * Nodes are never split in place. A node that overflows, or two that have become sparse, are replaced by new ones with
//!   one 8-byte store; the old ones are not changed any more. So fences and prefixes can be fixed for a node's life, and a
//!   crash finds either the old or the new.
//! * A change in flight is known from a counter, whose lowest bit is the direction: a reader that saw it change scans anew.
//! * Whatever a crash has left of a shift is repaired before the node is changed again, by the writer that locks it first.
//!
//! # Invariants
//!
//! With INV-21 to INV-24 of `docs/internals/invariants.md`:
//!
//! * Each level is a chain of nodes, by their siblings, that border on each other and cover all keys. A node that was
//!   replaced forwards to the first of those that cover its keys now.
//! * An inner node's entries are exactly the nodes of the level below whose low fences are within its own fences, but for
//!   replacements under way: then some lead to a node that forwards, and new nodes are reached as siblings.
//! * Every entry's pointer is different from all others' in its node. The same pointer in two slots next to each other
//!   means one entry, caught in a shift.
//! * What can be reached has been made durable before, apart from the one word that made it reachable (INV-21); and no lock that
//!   is needed to build on that word is released before it is durable too. (To build on a parent's links takes the lock of the
//!   tree's structure, not the parent's.)
//! * A block is marked used, or is about to be freed, only while an intent names it (INV-23), or while it is part of the tree.

pub mod batch;
mod build;
pub mod bulk;
mod change;
pub mod estimate;
mod fences;
mod intent;
mod intent_recovery;
pub mod iterate;
pub mod key_record;
mod lookup;
mod merge;
mod node;
mod part;
mod replace;
mod reserve;
pub mod segment;
pub mod segment_writer;
mod shortcut_descent;
mod shortcuts;
pub mod space_bounds;
pub mod tree;
pub mod update;
pub mod verify;

#[cfg(test)]
mod tests;

pub use bulk::BulkPart;
pub use estimate::Sample;
pub use iterate::{LeafRead, Range};
pub use key_record::{KeyRecord, MAXIMUM_KEY_BYTES, SegmentEntry, set_replaced_file};
pub use part::Part;
pub use segment::{Records, Segment, write_segment, write_segment_claiming};
pub use segment_writer::SegmentWriter;
pub use space_bounds::{SegmentSize, key_lengths_in_segments, piece_bytes, segment_bytes_max};
pub use tree::{LARGEST_NODE_BYTES, SMALLEST_NODE_BYTES, Tree};
pub use update::{Applied, Decision};
