//! The MemTable: the newest data of a store, sorted, and its log in one.
//!
//! SLM-DB keeps its MemTable in persistent memory so that it needs no write-ahead log (section 3.1 of the paper). Here it
//! is an [arena](slmdb_pmem::Arena) filled front to back with [records](Payload), one for each batch, and a skiplist over
//! the entries in them. On persistent memory a record is durable with one flush and one fence; where the arena is a file,
//! the same bytes are the log that a sync makes durable. There is no second format, and nothing is written twice.
//!
//! A write, from front to back: encode a [`Payload`] (may fail) → under the write path's lock
//! [`try_reserve`](MemTable::try_reserve) a place and number it → [`fill`](MemTable::fill) it, side by side with other
//! writers → publish the sequence number once everything before it is filled, which is the engine's part. Readers name
//! the number they look up to: [`get`](MemTable::get), [`cursor`](MemTable::cursor). A flush walks
//! [`newest_entries`](MemTable::newest_entries). After a crash, [`replay`] rebuilds MemTables from their arenas.
//!
//! **Two policies for links.** The paper persists the lowest level's links (Algorithm 1: two fences a write) and rebuilds
//! the levels above. This is the other one: no link is persisted, recovery reads the records by their CRCs, a write
//! needs one fence. The record format leaves the choice open: the policy concerns the skiplist alone.
//!
//! To read: `record` (the bytes), `arena_header`, `towers` and `skiplist` (the order), `memtable` (both together),
//! `cursor`, `replay`. `docs/arena.md` has the format and the rules of recovery on one page.

mod arena_header;
mod cursor;
#[allow(clippy::module_inception)]
mod memtable;
mod record;
mod replay;
mod skiplist;
mod towers;

pub use arena_header::{ARENA_FORMAT_VERSION, ARENA_HEADER_BYTES};
pub use cursor::MemTableCursor;
pub use memtable::{Found, MemTable, MemTableEntry, NewestEntries, Reservation};
pub use record::{
    ENTRY_HEADER_BYTES, MAXIMUM_BATCH_BYTES, MAXIMUM_KEY_BYTES, MAXIMUM_VALUE_BYTES, Payload, PayloadEntries,
    PayloadEntry, RECORD_ALIGNMENT_BYTES, RECORD_HEADER_BYTES,
};
pub use replay::{ExpectedSequence, Replayed, Stop, holds_records, known_safe_after, replay};
