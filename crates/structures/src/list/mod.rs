//! Lists: packed, sorted and immutable, over entries that lie in shared segments of the pool.
//!
//! TLSM (Lee and others, IEEE Access 8, 2020) keeps the upper levels of an LSM tree in persistent memory. A flush copies
//! entries, keys and values, into a persistent buffer, and builds a persistent skiplist whose nodes point there (sections
//! IV-A and IV-C). A compaction writes a new list over the old entries and copies none (IV-B).
//!
//! Here a buffer is several *segments*, and the skiplist is packed: a list is built from sorted input and never changed,
//! so links would say nothing that positions do not. What is left of the skiplist is its search: each level has every
//! sixteenth node of the level below. Of the upper levels only heads are stored, eight bytes of each key.
//! `docs/formats/list.md` has the bytes.
//!
//! Read it in this order: `layout` (the bytes), `entry`, `segment_writer`, `record`, `list_writer`, `open`, `search`, `cursor`,
//! `verify`.
//!
//! # What is promised
//!
//! * A list and its entries become durable together: a job writes all its segments and lists, then a fence, then each
//!   list's last word, then a second fence ([`SegmentWriter::complete`]). What a crash leaves before that is no list.
//! * A list never changes, and neither does a byte of a segment that lies below the end of an entry. There is no word that two
//!   threads share, so there is nothing for a model checker to look at: whoever passes a complete list on to another thread makes
//!   it visible. (The engine does, by its version of the levels.)
//! * Damage gives an error, not another answer. An entry is checked when it is returned. That a key is missing is shown by its two
//!   neighbours, whose nodes check themselves. The filter and the upper levels are checked at the opening.
//! * Nothing here counts who points into a segment, or frees one. That is the engine's.

mod cursor;
mod entry;
mod layout;
mod list_writer;
mod open;
mod record;
mod search;
mod segment_writer;
mod verify;

pub use cursor::ListCursor;
pub use entry::{MAXIMUM_SEQUENCE, Place, entry_bytes};
pub use layout::list_bytes;
pub use list_writer::{ListOptions, ListWriter, Persists};
pub use open::List;
pub use record::{FinishedList, ListRecord, SegmentShare};
pub use search::Found;
pub use segment_writer::{OpenSegment, SegmentOptions, SegmentWriter};

use slmdb_env::Error;
use slmdb_pmem::{Medium, Pool};

#[cold]
fn damaged<M: Medium>(pool: &Pool<M>, offset: u64, what: &str) -> Error {
    Error::corruption(pool.path(), offset, what)
}
