//! What a write goes through on its way to a MemTable: arenas, publication, one sync for all who wait.

pub mod arena_kind;
pub mod arenas;
pub mod group_commit;
pub mod publication;
