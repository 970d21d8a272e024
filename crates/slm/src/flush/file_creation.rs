//! Flush: an Immutable MemTable becomes a table file (paper, section 3.2 «Building a B+-tree»).
//!
//! Two threads, as in the paper:
//!
//! - The *file thread* writes the newest version of every key to a table file, and older versions that snapshots see.
//!   It syncs the file and its directory, and builds the key segment. Then it goes on with the next MemTable.
//! - The *index thread* takes finished files from a queue, swings the index's words to the new records, and commits the
//!   job with a MANIFEST record.
//!
//! Order keeps this right. Jobs are indexed, committed and retired strictly in MemTable order, or an older put would
//! undo a newer delete (INV-6). The index is swung only when the table file is durable, so a reader may trust it
//! (INV-7). The MemTable leaves the readers' list only after the commit, so each entry is found in at least one place
//! at every moment (INV-9).
//!
//! A flush that finds the disk full, or too many files open, waits and tries again (INV-28): what was accepted stays in
//! its arena. Any other failure stops all writing, and the next opening recovers.

use std::sync::Arc;

use slmdb_engine::background::crew::Next;
use slmdb_engine::files::file_records::file_record;
use slmdb_engine::files::location::Location;
use slmdb_engine::flush::older_versions::OlderVersions;
use slmdb_engine::flush::table_file::{Form, give_up_table, write_table};
use slmdb_engine::memory::budget::flush_bytes;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::write::memtables::Immutable;
use slmdb_env::Result;
use slmdb_table::FinishedTable;
use tracing::field::Empty;
use tracing::info_span;

use crate::flush::finished::{Built, BuiltFile, Finished, ToIndex};
use crate::index::key_index::Flush;
use crate::operations::range_query::SlmCursor;
use crate::state::SlmState;

/// The file creation thread of the paper.
pub(crate) struct FileCreation {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<SlmState>,
}

impl FileCreation {
    /// A step of the flushes: a table file.
    pub(crate) fn step(&self, finished: &ToIndex, cursor: impl Fn(u64) -> SlmCursor) -> Next {
        self.store.flush_next(cursor, |immutable| {
            let began_ns = self.store.flush_begins(&immutable);
            let (generation, entries) = (immutable.memtable.generation(), immutable.entries());
            let span = info_span!("flush_build", generation, entries, ms = Empty);
            let file = timed(&*self.store.context.env, span, || {
                self.store.write_when_there_is_space(&immutable, |number| self.build(&immutable, number))
            })?;
            Ok(finished.send(Finished::Flush(Built { immutable, began_ns, file })))
        })
    }

    /// Writes the table file of a MemTable, and what the index needs of it. Both are durable on return. Until then nothing refers
    /// to them, and a failure leaves only what the next opening removes.
    fn build(&self, immutable: &Immutable, number: u32) -> Result<BuiltFile> {
        let _held = self.store.context.budget.background.hold(flush_bytes(&immutable.totals));
        let (generation, last_sequence) = (immutable.generation(), immutable.last_sequence);
        let index = &self.state.index.keys;
        let mut job = index.begin_flush(Flush { generation, file: number, last_sequence })?;
        let built = self.build_file(immutable, number).and_then(|(finished, older)| {
            index.flush_is_durable(&mut job, &finished.keys)?;
            Ok((finished, older))
        });
        let (finished, older) = match built {
            Ok(built) => built,
            Err(error) => {
                if error.may_be_tried_again() {
                    give_up_table(&self.store.context, immutable, number)?;
                    index.give_up(job)?;
                }
                return Err(error);
            }
        };
        older.note(&finished.keys, |entry, replaced_at| {
            let location = Location { file: number, place: entry.place, sequence: entry.sequence };
            self.state.index.snapshots.note_replaced(entry.key, location, replaced_at);
        })?;
        let record = file_record(&finished.properties, finished.length_bytes);
        Ok(BuiltFile { number, record, job, older })
    }

    fn build_file(&self, immutable: &Immutable, number: u32) -> Result<(FinishedTable, OlderVersions)> {
        let moments = self.state.index.snapshots.snapshots_within(immutable.first_sequence(), immutable.last_sequence);
        write_table(&self.store.context, immutable, number, moments, Form::default())
    }
}
