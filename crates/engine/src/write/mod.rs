//! The write path: what a write goes through on its way to a MemTable, and the MemTables until they are flushed.

pub mod arena_kind;
pub mod arenas;
pub mod closing;
mod conditional;
pub mod expected_prefix;
pub mod group_commit;
pub mod memtable_preparer;
pub mod memtables;
pub mod publication;
pub mod write_path;
mod write_stall;
