//! What any engine's flush does: an Immutable MemTable becomes a table file.

pub mod older_versions;
pub mod table_file;
