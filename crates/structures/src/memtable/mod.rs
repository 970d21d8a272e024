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
//! [`newest_entries`](MemTable::newest_entries), or [all](MemTable::all_entries) if a snapshot sees older ones. After a crash, [`replay`] rebuilds MemTables from their arenas, and
//! [`MemTable::copied_from`] moves small ones into a new arena.
//!
//! **Two policies for links.** The paper persists the lowest level's links (Algorithm 1: two fences a write) and rebuilds
//! the levels above. [`LinkPolicy::Persisted`] is that; with [`LinkPolicy::Rebuilt`] no link is persisted, recovery reads the
//! records by their CRCs and sorts, and a write needs one fence. The log is the same under both, and says what counts.
//!
//! To read: `record` (the bytes), `arena_header`, `links`; `node`, `key_heads` and `skiplist` (the order), `filter`; `memtable`
//! (both together) with `chain` (persisted links); `verify`; `entries`, `cursor` and `sample`; then `log`, `replay`, `gathered`, `sort`,
//! `rebuild` and `copy` (coming back). `docs/formats/arena.md` has the format and the rules of recovery on one page.

mod arena_header;
mod chain;
mod copy;
mod cursor;
mod entries;
mod filter;
mod gathered;
mod key_heads;
mod links;
mod log;
#[allow(clippy::module_inception)]
mod memtable;
mod node;
mod rebuild;
mod record;
mod replay;
mod sample;
mod skiplist;
mod sort;
mod verify;

pub use arena_header::{ARENA_FORMAT_VERSION, ARENA_HEADER_BYTES, MAXIMUM_ARENA_BYTES, arena_bytes_in_header};
pub use cursor::MemTableCursor;
pub use entries::{AllEntries, Found, MemTableEntry, NewestEntries};
pub use links::{LinkPolicy, SLOT_BYTES};
pub use memtable::{MemTable, MemTableOptions, Reservation};
pub use record::{
    ENTRY_HEADER_BYTES, MAXIMUM_BATCH_BYTES, MAXIMUM_KEY_BYTES, MAXIMUM_VALUE_BYTES, Payload, PayloadEntries,
    PayloadEntry, RECORD_ALIGNMENT_BYTES, RECORD_HEADER_BYTES,
};
pub use replay::{ExpectedSequence, ReadArena, Replayed, Stop, holds_records, known_safe_after, read, replay};
