//! One change of a [`StoreState`](crate::StoreState): what a flush, a compaction, a new arena or a clean close appends.

use crate::state::{ArenaRecord, Counters, EngineSection, FileRecord, MediumRecord};

/// A change, applied as a whole or not at all. The default changes nothing but `closed_at_sequence`, which it clears.
///
/// `apply.rs` says what is refused. Within one edit, files, lists and arenas are added first, then live counts change, then
/// files, lists and arenas are removed; so live counts of files that the same edit removes may be given or left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    /// The job that ends with this edit, 0 if none does. Jobs get their numbers in the order in which they commit.
    pub job: u64,
    /// New table files, all of it durable already.
    pub files_added: Vec<(u32, FileRecord)>,
    /// Table files that are no longer part of the store.
    pub files_removed: Vec<u32>,
    /// New lists in the pool, all of them durable already.
    pub lists_added: Vec<(u32, FileRecord)>,
    /// Lists that are no longer part of the store.
    pub lists_removed: Vec<u32>,
    /// What is added to the live counts of files: changes, so that jobs may commit in another order than they counted.
    pub live_changes: Vec<(u32, i64)>,
    /// New arenas. One that is there already may be given again to record that it is sealed (or, after a recovery that
    /// found less in it, where it really ends); its length stays.
    pub arenas_added: Vec<(u64, ArenaRecord)>,
    /// Arenas whose MemTables are in table files now.
    pub arenas_removed: Vec<u64>,
    /// Where file numbers go on, if that changed.
    pub next_file_number: Option<u32>,
    /// Where generations go on, if that changed.
    pub next_generation: Option<u64>,
    /// How far the flushes have come, if that changed.
    pub flushed_through: Option<u64>,
    /// Given by the edit of a clean close only: the last sequence number. Any edit without it clears it.
    pub closed_at_sequence: Option<u64>,
    /// The counters as they are now.
    pub lifetime: Option<Counters>,
    /// The medium, if it moved or was rebuilt.
    pub medium: Option<MediumRecord>,
    /// Files and lists that were there and go to another level.
    pub level_changes: Vec<(u32, u8)>,
    /// The parts of the engine's section that have changed, each as a whole.
    pub engine_section: EngineSection,
}
