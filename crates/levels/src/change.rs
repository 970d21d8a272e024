//! [`Change`]: what a compaction does to the levels.

use std::sync::Arc;

use slmdb_manifest::{Edit, FileRecord};

use crate::run::{Run, RunRecord};

/// What a compaction, or anything else that commits runs, does to the levels.
#[derive(Clone)]
pub struct Change<R: Run> {
    /// Runs that are no longer on any level.
    pub removed: Vec<Arc<R>>,
    /// New runs, all of them durable, and their levels.
    pub added: Vec<(u8, Arc<R>)>,
    /// Runs that go to another level, and that level.
    pub moved: Vec<(Arc<R>, u8)>,
}

impl<R: Run> Default for Change<R> {
    fn default() -> Change<R> {
        Change { removed: Vec::new(), added: Vec::new(), moved: Vec::new() }
    }
}

impl<R: Run> Change<R> {
    /// Runs that come to a level, new or from another.
    pub(crate) fn arriving(&self) -> impl Iterator<Item = (u8, &Arc<R>)> {
        let moved = self.moved.iter().map(|(run, level)| (*level, run));
        self.added.iter().map(|(level, run)| (*level, run)).chain(moved)
    }
}

/// The MANIFEST's edit for a change. Runs that are no [files](Run::is_file) are its lists. The engine adds everything else that it
/// commits together with the change.
///
/// Levels keep no live counts, so `live_keys` is 0.
pub fn edit_of<R: Run>(change: &Change<R>) -> Edit {
    let added = |are_files: bool| {
        let added = change.added.iter().filter(move |(_, run)| run.is_file() == are_files);
        added.map(|(level, run)| (run.number(), run.record().on_level(*level))).collect()
    };
    let removed = |are_files: bool| {
        let removed = change.removed.iter().filter(move |run| run.is_file() == are_files);
        removed.map(|run| run.number()).collect()
    };
    Edit {
        files_added: added(true),
        lists_added: added(false),
        files_removed: removed(true),
        lists_removed: removed(false),
        level_changes: change.moved.iter().map(|(run, level)| (run.number(), *level)).collect(),
        ..Edit::default()
    }
}

impl RunRecord {
    /// The MANIFEST's record of a run on this level. Levels keep no live counts.
    pub fn on_level(&self, level: u8) -> FileRecord {
        FileRecord {
            length_bytes: self.bytes,
            entries: self.entries,
            deletes: self.deletes,
            live_keys: 0,
            smallest_key: self.smallest_key.to_vec(),
            largest_key: self.largest_key.to_vec(),
            lowest_sequence: self.lowest_sequence,
            highest_sequence: self.highest_sequence,
            created_unix_ns: self.created_unix_ns,
            level,
        }
    }
}

impl From<&FileRecord> for RunRecord {
    fn from(file: &FileRecord) -> RunRecord {
        RunRecord {
            entries: file.entries,
            deletes: file.deletes,
            bytes: file.length_bytes,
            smallest_key: file.smallest_key.as_slice().into(),
            largest_key: file.largest_key.as_slice().into(),
            lowest_sequence: file.lowest_sequence,
            highest_sequence: file.highest_sequence,
            created_unix_ns: file.created_unix_ns,
        }
    }
}
