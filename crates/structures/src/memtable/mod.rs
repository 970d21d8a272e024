//! The MemTable: the newest data of a store, sorted: a skiplist over the entries in a [log](crate::log).
//!
//! [`fill`](MemTable::fill) writes a record to the log, links its entries and persists it. Readers name the sequence number
//! that they look up to: [`get`](MemTable::get), [`cursor`](MemTable::cursor). A flush walks
//! [`newest_entries`](MemTable::newest_entries), or [all](MemTable::all_entries) if a snapshot sees older ones. After a
//! crash, [`replay`] rebuilds MemTables from their logs, and [`MemTable::copied_from`] moves small ones into a new arena.
//!
//! **Two policies for links.** The paper persists the lowest level's links (Algorithm 1: two fences a write) and rebuilds
//! the levels above. [`LinkPolicy::Persisted`] is that; with [`LinkPolicy::Rebuilt`] no link is persisted, recovery reads the
//! records by their CRCs and sorts, and a write needs one fence. The log says under both what counts.
//!
//! To read: `links`; `node`, `key_heads` and `skiplist` (the order), `filter`, `range_deletes`; `memtable` (all together) with `chain`
//! (persisted links); `entries`, `cursor` and `sample`; then `replay`, `gathered`, `sort`, `rebuild` and `copy` (coming back).

mod chain;
mod copy;
mod cursor;
mod entries;
mod filter;
mod gathered;
mod key_heads;
mod links;
#[allow(clippy::module_inception)]
mod memtable;
mod node;
mod range_deletes;
mod rebuild;
mod replay;
mod sample;
mod skiplist;
mod sort;

pub use cursor::MemTableCursor;
pub use entries::{AllEntries, Found, MemTableEntry, NewestEntries};
pub use links::LinkPolicy;
pub use memtable::{MemTable, MemTableOptions};
pub use range_deletes::{DeletedRange, DeletedRanges};
pub use replay::{ReadArena, Replayed, read, replay};

pub(crate) use key_heads::head_of;
