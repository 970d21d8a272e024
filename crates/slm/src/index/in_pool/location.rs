//! The location object (paper, section 3.2): where an index record says the value is.

use slmdb_engine::files::location::Location;
use slmdb_structures::fast_fair::KeyRecord;

/// Where an index record says the value is.
pub(crate) fn location(record: &KeyRecord<'_>) -> Location {
    let place = slmdb_table::Place { offset: record.block_offset(), length: record.block_length() };
    Location { file: record.file(), place, sequence: record.sequence() }
}
