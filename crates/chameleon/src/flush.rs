//! A flush (paper, section 2.1): a MemTable becomes a table file, and its keys are dealt out to the shards.
//!
//! Slots come only after the commit of the entries that they lead to, and the MemTable leaves the readers' list after that (INV-9).

use std::sync::Arc;

use slmdb_engine::background::crew::Next;
use slmdb_engine::files::file_records::numbered;
use slmdb_engine::flush::table_file::{Form, give_up_table, write_table};
use slmdb_engine::memory::budget::flush_bytes;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::store::flush::FlushedFile;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::write::memtables::Immutable;
use slmdb_env::{Error, Result};
use slmdb_manifest::{Edit, FileRecord};
use slmdb_pmem::Claim;
use slmdb_structures::hash::{Identity, Slot};
use slmdb_table::TableForm;
use tracing::field::Empty;
use tracing::info_span;

use crate::compaction::pace::Pace;
use crate::operations::range_query::ChameleonCursor;
use crate::options::{ChameleonOptions, UpperLevels};
use crate::shards::section::{Level, Row, new_file};
use crate::shards::{Index, slot_of};
use crate::state::ChameleonState;

/// The flush thread. It flushes MemTables strictly in their order, or an older put would undo a newer delete (INV-6).
pub(crate) struct Flush {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<ChameleonState>,
    pub(crate) pace: Arc<Pace>,
}

/// A durable table file that no slot leads to yet, and the slots that will.
struct Made {
    number: u32,
    record: FileRecord,
    /// How long the hash table of its slots is, in bytes; 0 if there is none.
    hash_table_bytes: u64,
    slots: Vec<(Identity, Slot)>,
}

impl Flush {
    /// A step of the flushes.
    pub(crate) fn step(&self, cursor: impl Fn(u64) -> ChameleonCursor) -> Next {
        self.store.flush_next(cursor, |immutable| self.flush(immutable).map(|()| true))
    }

    fn flush(&self, immutable: Immutable) -> Result<()> {
        let began_ns = self.store.flush_begins(&immutable);
        let (generation, entries) = (immutable.memtable.generation(), immutable.entries());
        let span = info_span!("flush_build", generation, entries, ms = Empty);
        let made = timed(&*self.store.context.env, span, || {
            self.store.write_when_there_is_space(&immutable, |number| self.write(&immutable, number))
        })?;
        let file = self.commit(&immutable, made)?;
        if let Some(file) = &file {
            self.pace.flushed(file);
        }
        self.store.flush_ends(immutable, began_ns, file)?;
        self.state.compactions.wake();
        Ok(())
    }

    /// Writes a table file: of each key the newest version, and what moments see.
    fn write(&self, immutable: &Immutable, number: u32) -> Result<Made> {
        let context = &self.store.context;
        let _held = context.budget.background.hold(flush_bytes(&immutable.totals));
        let moments = self.state.snapshots.snapshots_within(immutable.first_sequence(), immutable.last_sequence);
        // Files alone show what a moment sees, deletes too.
        let form = Form { table: TableForm::ByPlace, has_older_deletes: true };
        match write_table(context, immutable, number, moments, form) {
            Ok((finished, _)) => {
                let record = new_file(&finished);
                let slots = deal(&self.state.index, number, &finished.keys)?;
                let hash_table_bytes = self.write_hash_table(number, &slots, finished.length_bytes)?;
                Ok(Made { number, record, hash_table_bytes, slots })
            }
            Err(error) => {
                if error.may_be_tried_again() {
                    give_up_table(context, immutable, number)?;
                }
                Err(error)
            }
        }
    }

    /// Writes a hash table for the next opening, which has the number of the table file. Returns its length in bytes. Where there is no
    /// space for one, or it saves little, the opening will read the table file's keys.
    fn write_hash_table(&self, number: u32, slots: &[(Identity, Slot)], file_bytes: u64) -> Result<u64> {
        let upper_levels = self.store.context.options.own::<ChameleonOptions>().upper_levels;
        if upper_levels == UpperLevels::None || !self.state.is_worth_writing(slots.len(), file_bytes) {
            return Ok(0);
        }
        let table = self.state.upper_table(number, slots)?;
        match self.state.hash_tables.write(&table, Claim::Ordinary) {
            Ok(()) => {
                self.state.count_written(&self.store.context, table.record().length_bytes);
                Ok(table.record().length_bytes)
            }
            Err(Error::Full { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Commits the flush, and lets slots lead to its entries.
    /// LOCKS: indexing; catalog
    fn commit(&self, immutable: &Immutable, made: Option<Made>) -> Result<Option<FlushedFile>> {
        let mut edit = Edit {
            arenas_removed: immutable.arenas_removed(),
            flushed_through: Some(immutable.last_sequence),
            ..Edit::default()
        };
        edit.files_added.extend(made.iter().map(|made| (made.number, made.record.clone())));
        let span = info_span!("flush_commit", generation = immutable.memtable.generation(), ms = Empty);
        let made = made.as_ref();
        let commit = || {
            let mut writers = self.state.index.writers.lock();
            let mut edit = edit.clone();
            let mut rows = writers.rows().to_vec();
            if let Some(&Made { number, hash_table_bytes, .. }) = made {
                let level = if hash_table_bytes > 0 { Level::Upper } else { Level::KeySection };
                rows.push(Row { number, epoch: writers.next_epoch()?, length_bytes: hash_table_bytes, level });
                edit.engine_section = [self.state.index.part(&rows)].into();
            }
            self.store.catalog.commit(|state| numbered(state, edit))?;
            writers.take_rows(rows);
            let slots = made.iter().flat_map(|made| &made.slots);
            slots.for_each(|(identity, slot)| writers.insert(identity, *slot));
            Ok(())
        };
        timed(&*self.store.context.env, span, || self.store.space.until_there_is_space(commit))?;
        Ok(made.map(|Made { number, record, .. }| FlushedFile {
            number: *number,
            entries: record.entries,
            bytes: record.length_bytes,
        }))
    }
}

/// The slots of the newest entries of a table file, in the order of their identities: so a hash table wants them, and so they come
/// into one shard after the other.
fn deal(index: &Index, number: u32, keys: &slmdb_table::KeySection) -> Result<Vec<(Identity, Slot)>> {
    let slot = |entry: Result<slmdb_table::KeyEntry<'_>>| {
        let entry = entry?;
        let identity = index.identity(entry.key);
        Ok((identity, slot_of(&identity, number, &entry)?))
    };
    let mut slots: Vec<_> = keys.newest_entries().map(slot).collect::<Result<_>>()?;
    slots.sort_unstable_by_key(|(identity, _)| *identity);
    Ok(slots)
}
