//! Hash tables of slots: one that grows in DRAM, and packed ones that never change, in the pool or in a file.
//!
//! ChameleonDB (Zhang and others, EuroSys '21) cuts an index by hash into *shards*. Each shard is a small LSM tree whose runs
//! are hash tables (section 2.1), and has one more hash table in DRAM, the Auxiliary Bypass Index, for all runs but the last
//! (section 2.2). Keys and values lie elsewhere. A table has 24 bytes for each key: which it is, and where its entry lies.
//!
//! All tables here keep their slots in the order of their hashes. With that *ordered probing* a search ends at the first
//! larger hash, so a key that is missing costs as much as one that is there. (The paper's linear probing ends at an empty
//! slot.) Each table is a sorted run, too, and tables are merged by reading each once.
//!
//! `docs/formats/hash-table.md` has the bytes. Read it in this order: `identity` (a key's hash), `slot`, `dram_table`; then
//! `layout` (the bytes), `record`, `builder`, `table_bytes` (where a table lies), `search`, `part_cursor`, `merge`, `verify`.
//!
//! # What is promised
//!
//! * A table in the pool becomes durable as a whole: all its bytes, then a fence, then its first word, then a second fence.
//!   What a crash leaves before that is no table. Whoever writes a table to a file syncs it before anything names it.
//! * A packed table never changes, so threads share nothing there that a model checker could look at. The table in DRAM has one
//!   writer and any number of readers without a lock; `dram_table/models.rs` is its model.
//! * Whatever the bytes are, a search ends within its part, and finds damage of what it looks at. A cursor that reads a whole part
//!   ([`PartCursor`]) finds any damage.
//! * Two keys with one [`Identity`] count as one. At `n` keys in 256 shards that has a chance of n²/2^107.

mod builder;
mod dram_table;
mod identity;
mod layout;
mod merge;
mod part_cursor;
mod record;
mod search;
mod slot;
mod table_bytes;
mod verify;

pub use builder::{FinishedTable, TableBuilder, TableOptions};
pub use dram_table::{DramTable, DramWriter};
pub use identity::{Identity, KeyHasher, SHARDS_MAX};
pub use layout::table_bytes;
pub use merge::{Deletes, Lost, Merge};
pub use part_cursor::PartCursor;
pub use record::TableRecord;
pub use search::HashTable;
pub use slot::{LENGTH_BYTES_MAX, Slot, SlotPlace};
pub use table_bytes::{PoolBytes, TableBytes};

use slmdb_env::Error;

/// Damage at so many bytes from the beginning of a table.
#[cold]
fn damaged(bytes: &impl TableBytes, at: u64, what: &str) -> Error {
    Error::corruption(bytes.path(), bytes.offset_bytes().saturating_add(at), what)
}
