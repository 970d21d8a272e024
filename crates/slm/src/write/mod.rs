//! Section 3.1: the persistent MemTable and the Immutable MemTables, from a put to the flush.

pub(crate) mod memtable_preparer;
pub(crate) mod memtables;
pub(crate) mod write_path;
pub(crate) mod write_stall;
