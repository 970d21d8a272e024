//! What any engine's flush does: an Immutable MemTable becomes a table file.

pub mod deletes;
mod entries;
pub mod older_versions;
pub mod range_deletes;
pub mod table_file;
