//! Section 3.2: a flush writes a run file and changes the mutable tree in place (Figure 7).

mod tree_insertion;

pub(crate) use tree_insertion::version;

use std::sync::Arc;

use slmdb_engine::background::crew::Next;
use slmdb_engine::files::file_records::{file_record, numbered};
use slmdb_engine::flush::older_versions::OlderVersions;
use slmdb_engine::flush::table_file::{Form, give_up_table, write_table};
use slmdb_engine::memory::budget::flush_bytes;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::store::flush::FlushedFile;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::write::memtables::Immutable;
use slmdb_env::Result;
use slmdb_manifest::{Edit, FileRecord};
use slmdb_table::{KeySection, Properties};
use tracing::field::Empty;
use tracing::info_span;

use crate::compaction::pace::LevelZeroPace;
use crate::operations::range_query::LabCursor;
use crate::state::LabState;

/// The flush thread. It flushes MemTables strictly in their order, or an older put would undo a newer delete (INV-6).
///
/// The run file is durable before a record leads to it (INV-7). The MemTable leaves the readers' list only after the
/// commit (INV-9). A crash in between leaves records of a file that the MANIFEST lacks: the next opening takes them out,
/// and the MemTable, whose arena is still there, has newer versions of all their keys.
pub(crate) struct Flush {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<LabState>,
    pub(crate) pace: Arc<LevelZeroPace>,
}

/// A durable run file that no record leads to yet.
struct RunFile {
    number: u32,
    record: FileRecord,
    keys: KeySection,
    older: OlderVersions,
}

impl Flush {
    /// A step of the flushes.
    pub(crate) fn step(&self, cursor: impl Fn(u64) -> LabCursor) -> Next {
        self.store.flush_next(cursor, |immutable| self.flush(immutable))
    }

    /// Flushes a MemTable. `false`: level 0 is full and the store closes, so it is left to the next opening.
    fn flush(&self, immutable: Immutable) -> Result<bool> {
        let wait = || self.state.compactions.wait_for_drain(|| self.is_full(), || self.store.writes.gives_up());
        if !self.store.space.until_there_is_space(wait)? {
            return Ok(false);
        }
        let began_ns = self.store.flush_begins(&immutable);
        let (generation, entries) = (immutable.memtable.generation(), immutable.entries());
        let span = info_span!("flush_build", generation, entries, ms = Empty);
        let file = timed(&*self.store.context.env, span, || {
            self.store.write_when_there_is_space(&immutable, |number| self.write(&immutable, number))
        })?;
        let written = self.insert_and_commit(&immutable, file)?;
        self.store.flush_ends(immutable, began_ns, written)?;
        self.state.compactions.wake();
        Ok(true)
    }

    /// Whether level 0 has no room for another flush.
    fn is_full(&self) -> bool {
        self.state.level_zero.used_bytes() >= self.state.level_zero.bytes_max()
            && self.state.level_zero.immutable().counts().keys > 0
    }

    fn write(&self, immutable: &Immutable, number: u32) -> Result<RunFile> {
        let _held = self.store.context.budget.background.hold(flush_bytes(&immutable.totals));
        let moments =
            self.state.level_zero.snapshots.snapshots_within(immutable.first_sequence(), immutable.last_sequence);
        match write_table(&self.store.context, immutable, number, moments, Form::default()) {
            Ok((finished, older)) => {
                let record = run_file_record(&finished.properties, finished.length_bytes);
                Ok(RunFile { number, record, keys: finished.keys, older })
            }
            Err(error) => {
                if error.may_be_tried_again() {
                    give_up_table(&self.store.context, immutable, number)?;
                }
                Err(error)
            }
        }
    }

    /// Brings the entries of a run file into the mutable tree, and commits the flush.
    /// LOCKS: indexing, snapshots; catalog
    fn insert_and_commit(&self, immutable: &Immutable, file: Option<RunFile>) -> Result<Option<FlushedFile>> {
        let mut is_ahead = self.state.level_zero.indexing.lock();
        *is_ahead = true;
        let mut edit = Edit {
            arenas_removed: immutable.arenas_removed(),
            flushed_through: Some(immutable.last_sequence),
            ..Edit::default()
        };
        let mut written = None;
        if let Some(file) = &file {
            self.note_older(file)?;
            let before = self.state.level_zero.mutable().size().keys;
            let span = info_span!("flush_index", file = file.number, ms = Empty);
            timed(&*self.store.context.env, span, || self.store.space.until_there_is_space(|| self.insert(file)))?;
            let new_keys = self.state.level_zero.mutable().size().keys.saturating_sub(before);
            self.pace.flushed(&immutable.totals, new_keys, file.record.length_bytes);
            edit.files_added = vec![(file.number, file.record.clone())];
            written = Some(FlushedFile {
                number: file.number,
                entries: file.record.entries,
                bytes: file.record.length_bytes,
            });
        }
        let span = info_span!("flush_commit", generation = immutable.memtable.generation(), ms = Empty);
        let commit = || self.store.catalog.commit(|state| numbered(state, edit.clone()));
        timed(&*self.store.context.env, span, || self.store.space.until_there_is_space(commit))?;
        *is_ahead = false;
        if self.is_switch_due() {
            self.store.space.until_there_is_space(|| self.state.level_zero.switch(&self.store.catalog))?;
        }
        Ok(written)
    }

    /// Whether the trees have so many bytes that the mutable one should become immutable.
    fn is_switch_due(&self) -> bool {
        let due_bytes = self.state.level_zero.bytes_max() as f64 * self.state.options.level_zero_compaction_at;
        self.state.level_zero.used_bytes() as f64 >= due_bytes
    }
}

/// The record of a run file. Which of its entries count, the trees know alone.
fn run_file_record(properties: &Properties, length_bytes: u64) -> FileRecord {
    FileRecord { live_keys: 0, ..file_record(properties, length_bytes) }
}
