//! Lists: packed, sorted and immutable, over entries that lie in shared segments of the pool.
//!
//! TLSM (Lee and others, IEEE Access 8, 2020) keeps the upper levels of an LSM tree in persistent memory. A flush copies
//! entries, keys and values, into a persistent buffer, and builds a persistent skiplist whose nodes point there (sections
//! IV-A and IV-C). A compaction writes a new list over the old entries and copies none (IV-B).

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
pub use segment_writer::{SegmentOptions, SegmentWriter};
