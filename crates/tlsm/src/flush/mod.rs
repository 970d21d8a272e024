//! A flush writes a MemTable to a run of level 0 (paper, IV-C): a list in the pool, or on `Dram` a table file.
//!
//! The run is durable before the MANIFEST names it (INV-7). The MemTable leaves the readers' list only after the commit, and
//! after the levels have the run (INV-9). A crash in between leaves a run that the MANIFEST lacks, which the next opening
//! removes; the MemTable's arena is still there.

mod pool_file;

use std::sync::Arc;

use slmdb_engine::background::crew::Next;
use slmdb_engine::files::file_records::{file_record, numbered};
use slmdb_engine::flush::table_file::{Form, give_up_table, write_table};
use slmdb_engine::memory::budget::flush_bytes;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::store::flush::FlushedFile;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::write::memtables::Immutable;
use slmdb_env::{Error, Result};
use slmdb_levels::{Change, Run, RunRecord, TableRun, edit_of};
use slmdb_manifest::Edit;
use tracing::field::Empty;
use tracing::info_span;

use crate::KIND;
use crate::compaction::pace::LevelsPace;
use crate::operations::range_query::TlsmCursor;
use crate::persistent_skiplist::run::TlsmRun;
use crate::state::TlsmState;
use crate::tiering::policy::RunKind;
use pool_file::write_lists;

/// The flush thread. It flushes MemTables strictly in their order, or an older put would undo a newer delete (INV-6).
pub(crate) struct Flush {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<TlsmState>,
    pub(crate) pace: Arc<LevelsPace>,
}

impl Flush {
    /// A step of the flushes.
    pub(crate) fn step(&self, cursor: impl Fn(u64) -> TlsmCursor) -> Next {
        self.store.flush_next(cursor, |immutable| self.flush(immutable).map(|()| true))
    }

    fn flush(&self, immutable: Immutable) -> Result<()> {
        let began_ns = self.store.flush_begins(&immutable);
        let (generation, entries) = (immutable.memtable.generation(), immutable.entries());
        let span = info_span!("flush_build", generation, entries, ms = Empty);
        let runs = timed(&*self.store.context.env, span, || {
            self.store.write_when_there_is_space(&immutable, |number| self.write(&immutable, number))
        })?;
        let written = self.commit(&immutable, runs.unwrap_or_default())?;
        if let Some(file) = &written {
            self.pace.flushed(file);
        }
        self.store.flush_ends(immutable, began_ns, written)?;
        self.state.compactions.wake();
        Ok(())
    }

    /// Writes a MemTable that has entries. Where the pool is full all the same, and runs may leave it, a table file is made at once.
    fn write(&self, immutable: &Immutable, number: u32) -> Result<Vec<Arc<TlsmRun>>> {
        let _held = self.store.context.budget.background.hold(flush_bytes(&immutable.totals));
        let moments = self.state.snapshots.snapshots_within(immutable.first_sequence(), immutable.last_sequence);
        if self.state.policy.of_flush() == RunKind::List {
            let written = write_lists(&self.store, &self.state, immutable, number, &moments);
            if !(matches!(written, Err(Error::Full { .. })) && self.state.policy.may_demote()) {
                return written;
            }
        }
        self.write_table(immutable, number, moments).map(|table| vec![table])
    }

    fn write_table(&self, immutable: &Immutable, number: u32, moments: Vec<u64>) -> Result<Arc<TlsmRun>> {
        let context = &self.store.context;
        // A level shows what a snapshot sees by its versions alone, deletes too.
        let form = Form { table: KIND.table_form, has_older_deletes: true };
        match write_table(context, immutable, number, moments, form) {
            Ok((finished, _)) => {
                let record = RunRecord::from(&file_record(&finished.properties, finished.length_bytes));
                let table = TableRun::new(number, record, self.store.tables.clone());
                Ok(Arc::new(Arc::new(table).into()))
            }
            Err(error) => {
                if error.may_be_tried_again() {
                    give_up_table(context, immutable, number)?;
                }
                Err(error)
            }
        }
    }

    /// Commits the flush, and then shows its runs to readers.
    /// LOCKS: indexing; catalog
    fn commit(&self, immutable: &Immutable, runs: Vec<Arc<TlsmRun>>) -> Result<Option<FlushedFile>> {
        let change = Change { added: runs.iter().map(|run| (0, run.clone())).collect(), ..Change::default() };
        let edit = Edit {
            arenas_removed: immutable.arenas_removed(),
            flushed_through: Some(immutable.last_sequence),
            ..edit_of(&change)
        };
        let span = info_span!("flush_commit", generation = immutable.memtable.generation(), ms = Empty);
        // (Whoever else waits for the lock is not kept waiting for space.)
        let commit = || {
            let _agreement = self.state.commit.lock();
            self.store.catalog.commit(|state| numbered(state, edit.clone()))?;
            self.state.levels.apply(&change).map_err(|what| Error::invalid(format!("levels: {what}")))
        };
        timed(&*self.store.context.env, span, || self.store.space.until_there_is_space(commit))?;
        let sum = |of: fn(&RunRecord) -> u64| runs.iter().map(|run| of(run.record())).sum();
        Ok(runs.first().map(|first| FlushedFile {
            number: first.number(),
            entries: sum(|record| record.entries),
            bytes: sum(|record| record.bytes),
        }))
    }
}
