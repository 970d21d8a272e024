//! Flush: an Immutable MemTable becomes a table file (paper, section 3.2 «Building a B+-tree»).
//!
//! Two threads, as in the paper. The *file thread* writes the newest version of every key to a table file (and older
//! ones that snapshots see), syncs it and its directory, and builds the key segment. The *index thread* takes finished files from a queue and swings the index's
//! words to the new records; meanwhile the file thread writes the next MemTable's file. A MANIFEST record commits the job.
//!
//! Order is what keeps this right: jobs are indexed, committed and retired strictly in MemTable order, else an older put
//! would undo a newer delete. The index is swung only when the table file is durable, so a reader may trust it. The
//! MemTable leaves the readers' list only after the commit: at every moment each entry is found in one place at least.
//!
//! A flush that finds the disk full, or too many files open, waits and tries again: what was accepted stays in its arena. Any other failure
//! stops all writing, and the next opening recovers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_env::Result;
use slmdb_manifest::{Edit, FileRecord, StoreState};
use slmdb_pmem::{Claim, Medium, Pool};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::need::ENTRIES_UNDER_ONE_GUARD;
use slmdb_structures::fast_fair::{
    Decision, KeyRecord, Segment, SegmentEntry, Tree, set_replaced_file, write_segment_claiming,
};
use slmdb_sync::epoch;
use slmdb_sync::scheduled::mpsc::{Receiver, SyncSender};
use slmdb_table::{FinishedTable, KeySection, TableBuilder};
use tracing::field::Empty;
use tracing::info_span;

use crate::compaction::outputs::Output;
use crate::flush::older_versions::OlderVersions;
use crate::index::compaction_log::{Job, Phase, Slot};
use crate::store::Store;
use slmdb_engine::Event;
use slmdb_engine::files::file_names as names;
use slmdb_engine::files::location::Location;
use slmdb_engine::memory::budget::flush_bytes;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::space::reserved_file::SetAside;
use slmdb_engine::write::memtables::Immutable;
use slmdb_engine::write::memtables::View;

/// What the index thread takes from its queue.
pub(crate) enum Finished<M: Medium> {
    /// A flush's.
    Flush(Built<M>),
    /// A compaction's.
    Compaction(Output),
}

/// A MemTable with its table file and key segment, ready to be indexed.
pub(crate) struct Built<M: Medium> {
    immutable: Immutable<M>,
    /// When its flush began, on the clock of the environment.
    began_ns: u64,
    /// `None`: there was nothing in it.
    file: Option<BuiltFile>,
}

/// A table file that is durable, with its key segment.
pub(crate) struct BuiltFile {
    pub(crate) number: u32,
    pub(crate) record: FileRecord,
    pub(crate) segment: Segment,
    /// What snapshots see of the MemTable beside the newest versions.
    pub(crate) older: OlderVersions,
    pub(crate) slot: Option<Slot>,
}

impl<M: Medium + Clone> Store<M> {
    /// The file thread.
    pub(crate) fn run_file_thread(&self, finished: SyncSender<Finished<M>>) {
        while let Some(immutable) = self.next_immutable() {
            self.writes.publication.wait_for(immutable.last_sequence);
            self.share_memory();
            let began_ns = self.env.monotonic_ns();
            self.notify(|| Event::FlushBegan {
                generation: immutable.memtable.generation(),
                entries: immutable.memtable.entries(),
                memtable_bytes: immutable.memtable.used_bytes(),
            });
            let (generation, entries) = (immutable.memtable.generation(), immutable.memtable.entries());
            let span = info_span!("flush_build", generation, entries, ms = Empty);
            let build = || self.build_when_there_is_space(&immutable);
            let file = match timed(&*self.env, span, build) {
                Ok(file) => file,
                // Everything is in the arenas, and stays there for the next opening.
                Err(error) if error.may_be_tried_again() && self.gives_up() => return,
                Err(error) => return self.fail(error),
            };
            if finished.send(Finished::Flush(Built { immutable, began_ns, file })).is_err() {
                return;
            }
        }
    }

    /// The table file and the key segment of a MemTable; `None` if it is empty.
    fn build_when_there_is_space(&self, immutable: &Immutable<M>) -> Result<Option<BuiltFile>> {
        if immutable.memtable.entries() == 0 {
            return Ok(None);
        }
        let number = self.file_numbers.begin()?;
        let built = self.when_there_is_space(|| self.build(immutable, number));
        if built.is_err() {
            self.file_numbers.end(number);
        }
        built.map(Some)
    }

    /// The oldest MemTable that waits for its flush; `None` when the store closes and none is left, or has failed.
    fn next_immutable(&self) -> Option<Immutable<M>> {
        let mut traffic = self.writes.traffic.lock();
        loop {
            if self.has_failed() {
                return None;
            }
            if let Some(immutable) = traffic.queue.pop_front() {
                return Some(immutable);
            }
            if traffic.closing {
                return None;
            }
            traffic = self.writes.work.wait(traffic);
        }
    }

    /// Writes the table file and the key segment of a MemTable; both are durable on return. Until then nothing refers to
    /// them, and a failure leaves nothing behind but what the next opening removes.
    fn build(&self, immutable: &Immutable<M>, number: u32) -> Result<BuiltFile> {
        let memtable = &*immutable.memtable;
        let _held = self.budget.background.hold(flush_bytes(&immutable.totals));
        let mut job = Job {
            phase: Phase::Building,
            generation: memtable.generation(),
            file: number,
            last_sequence: immutable.last_sequence,
            order: immutable.last_sequence,
        };
        let slot = if M::PERSISTENT { Some(self.jobs.record(&self.pool, &job)?) } else { None };
        let built = self.build_file(immutable, number).and_then(|(finished, older)| {
            let segment = segment_of(&self.pool, number, &finished.keys, Claim::Privileged)?;
            Ok((finished, older, segment))
        });
        let (finished, older, segment) = match built {
            Ok(built) => built,
            Err(error) => {
                if error.may_be_tried_again() {
                    let path = names::table(&self.directory, number);
                    let put_back = |space: &Arc<SetAside>| space.put_back(&*self.env, &path).unwrap_or(false);
                    if self.env.exists(&path)? && !immutable.space.as_ref().is_some_and(put_back) {
                        self.env.remove_file(&path)?;
                    }
                    slot.map_or(Ok(()), |slot| self.jobs.clear(&self.pool, slot))?;
                }
                return Err(error);
            }
        };
        if let Some(slot) = &slot {
            job.phase = Phase::Indexing;
            self.jobs.advance(&self.pool, slot, &job)?;
        }
        older.note(number, &finished.keys, &self.snapshots)?;
        let record = file_record(&finished.properties, finished.length_bytes);
        Ok(BuiltFile { number, record, segment, older, slot })
    }

    fn build_file(&self, immutable: &Immutable<M>, number: u32) -> Result<(FinishedTable, OlderVersions)> {
        let path = names::table(&self.directory, number);
        let (options, order) = (self.options.table(), self.options.comparator.clone());
        let space = immutable.space.as_ref().map_or(Ok(None), |space| space.take(&*self.env, &path))?;
        let mut builder = match space {
            Some(file) => TableBuilder::in_file(file, &*self.env, &path, number, self.files_uuid, options, order)?,
            None => TableBuilder::new_in_order(&*self.env, &path, number, self.files_uuid, options, order)?,
        };
        let first_sequence = immutable.memtable.first_sequence().unwrap_or(immutable.last_sequence);
        let moments = self.snapshots.snapshots_within(first_sequence, immutable.last_sequence);
        let older = OlderVersions::write(&immutable.memtable, moments, |entry| {
            builder.add(entry.key, entry.sequence, table_kind(entry.kind), entry.value)
        })?;
        let finished = builder.finish()?;
        self.env.sync_directory(&self.directory)?;
        self.counted.file_bytes_written.fetch_add(finished.length_bytes, Ordering::Relaxed);
        Ok((finished, older))
    }

    /// The index thread.
    pub(crate) fn run_index_thread(&self, finished: Receiver<Finished<M>>) {
        for finished in finished {
            let indexed = match finished {
                Finished::Flush(built) => self.index_and_commit(built),
                Finished::Compaction(output) => self.index_output(output),
            };
            match indexed {
                Ok(()) => {}
                // The next opening carries the job on.
                Err(error) if error.may_be_tried_again() && self.gives_up() => return,
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Whether a job that finds no space is left to the next opening.
    pub(crate) fn gives_up(&self) -> bool {
        self.has_failed() || self.writes.traffic.lock().closing
    }

    fn index_and_commit(&self, built: Built<M>) -> Result<()> {
        let mut index_is_ahead = self.indexing.lock();
        *index_is_ahead = true;
        let Built { immutable, began_ns, file } = built;
        let mut edit = Edit {
            arenas_removed: vec![immutable.memtable.generation()],
            flushed_through: Some(immutable.last_sequence),
            ..Edit::default()
        };
        let number = file.as_ref().map(|file| file.number);
        let mut slot = None;
        if let Some(file) = file {
            let span = info_span!("flush_index", file = file.number, ms = Empty);
            let note = |key: &[u8], old: Location, newest: u64| {
                self.snapshots.note_replaced(key, old, file.older.replaced_at(key, newest));
            };
            let swing = || swing(&self.tree, &self.pool, &file.segment, note);
            let live_changes = timed(&*self.env, span, || self.when_there_is_space(swing))?;
            self.writes.pacing.replaced(live_changes.values().sum::<i64>().unsigned_abs(), file.record.entries);
            edit.live_changes = live_changes.into_iter().collect();
            self.kept_back.settle_with(&self.options, &self.pool, file.record.length_bytes, &file.segment);
            edit.files_added = vec![(file.number, file.record)];
            slot = file.slot;
        }
        let span = info_span!("flush_commit", generation = immutable.memtable.generation(), ms = Empty);
        let commit = || self.commit(|state| numbered(state, edit.clone()));
        timed(&*self.env, span, || self.when_there_is_space(commit))?;
        number.inspect(|&number| self.file_numbers.end(number));
        *index_is_ahead = false;
        drop(index_is_ahead);
        if let Some(slot) = slot {
            self.jobs.clear(&self.pool, slot)?;
        }
        self.counted.flushes.fetch_add(1, Ordering::Relaxed);
        let generation = immutable.memtable.generation();
        let file = edit.files_added.first();
        let (entries, bytes) = file.map_or((0, 0), |(_, record)| (record.entries, record.length_bytes));
        self.checkpoints.flushed(entries);
        self.retire(immutable, began_ns)?;
        let (file, duration) = (file.map(|(number, _)| *number), self.since(began_ns));
        tracing::info!(generation, file, entries, bytes, ms = duration.as_secs_f64() * 1e3, "flushed");
        self.notify(|| Event::FlushEnded { generation, file, entries, bytes, duration });
        Ok(())
    }

    /// Takes a flushed MemTable from the readers' list, and gives up what was set aside for it.
    fn retire(&self, flushed: Immutable<M>, began_ns: u64) -> Result<()> {
        let Immutable { memtable, last_sequence, totals, space } = flushed;
        space.map_or(Ok(()), |space| space.discard(&*self.env))?;
        match self.fill_ballast() {
            Err(error) if !error.may_be_tried_again() => return Err(error),
            _ => {}
        }
        let (bytes, list_bytes) = (memtable.used_bytes(), memtable.memory_bytes());
        {
            let _traffic = self.writes.traffic.lock();
            let view = self.writes.view.load_full();
            let rest = view.memtables.iter().filter(|other| !Arc::ptr_eq(other, &memtable)).cloned().collect();
            self.writes.view.store(Arc::new(View { memtables: rest }));
        }
        // Before anybody who waits for space looks again.
        self.writes.arenas.retire(memtable)?;
        self.flush_freed(&totals, list_bytes);
        self.release_in_pool(&totals)?;
        let now_ns = self.env.monotonic_ns();
        let mut traffic = self.writes.traffic.lock();
        self.writes.pacing.flushed(bytes, now_ns.saturating_sub(began_ns.max(traffic.last_flush_end_ns)));
        traffic.last_flush_end_ns = now_ns;
        self.writes.set_pace(&traffic);
        self.writes.flushed_through.store(last_sequence, Ordering::Release);
        self.writes.group_sync.advance(last_sequence);
        self.writes.room.notify_all();
        self.writes.work.notify_all();
        // Writers need it, and whoever holds what follows may be waiting for the MANIFEST's disk.
        drop(traffic);
        self.set_compaction_pace();
        self.compactions.wake();
        Ok(())
    }
}

/// Swings the index to the records of a segment, in key order: what is older is replaced, a delete removes. Returns how
/// the live counts of other files change. Doing it again after a crash in the middle does only what is missing: a record
/// that the index points to already stays, and the number of the file it replaced is in the record.
///
/// `note` is told of each record that is replaced, before it is: its key, where its value is, and the sequence number of
/// what takes its place.
pub(crate) fn swing<M: Medium>(
    tree: &Tree<M>,
    pool: &Pool<M>,
    segment: &Segment,
    note: impl Fn(&[u8], Location, u64),
) -> Result<BTreeMap<u32, i64>> {
    let offsets: Vec<u64> = {
        let guard = epoch::pin();
        segment.records(pool, &guard).map(|record| record.map(|record| record.offset())).collect::<Result<_>>()?
    };
    let mut live_changes = BTreeMap::new();
    for part in offsets.chunks(ENTRIES_UNDER_ONE_GUARD) {
        let guard = epoch::pin();
        let records: Vec<KeyRecord<'_>> =
            part.iter().map(|&offset| KeyRecord::at(pool, offset, &guard)).collect::<Result<_>>()?;
        tree.update_sorted(records.iter().map(|record| record.key()), |index, current| {
            let record = &records[index];
            if let Some(current) = current {
                // One version in two files: a compaction has copied it, into the one with the larger number.
                if (current.sequence(), current.file()) >= (record.sequence(), record.file()) {
                    return Ok(Decision::Keep);
                }
                note(record.key(), location(&current), record.sequence());
                set_replaced_file(pool, record.offset(), current.file())?;
            }
            Ok(match record.kind() {
                EntryKind::Put => Decision::Put(record.offset()),
                EntryKind::Delete => Decision::Remove,
            })
        })?;
        for record in records.iter().filter(|record| record.replaced_file() != 0) {
            *live_changes.entry(record.replaced_file()).or_insert(0) -= 1;
        }
        guard.flush();
    }
    Ok(live_changes)
}

/// A job's edit of the MANIFEST, with the job's number, and where the numbers of files go on.
pub(crate) fn numbered(state: &StoreState, edit: Edit) -> Edit {
    let next =
        edit.files_added.iter().map(|&(number, _)| number.saturating_add(1)).fold(state.next_file_number, u32::max);
    Edit { job: state.last_job + 1, next_file_number: Some(next), ..edit }
}

/// The key segment of a finished table file: the newest version of each key.
pub(crate) fn segment_of<M: Medium>(
    pool: &Arc<Pool<M>>,
    number: u32,
    keys: &KeySection,
    claim: Claim,
) -> Result<Segment> {
    let mut entries = Vec::with_capacity(keys.len() as usize);
    let mut key_bytes = Vec::new();
    for entry in keys.newest_entries() {
        let entry = entry?;
        let start = key_bytes.len();
        key_bytes.extend_from_slice(entry.key);
        entries.push((start..key_bytes.len(), entry.sequence, entry.kind, entry.place));
    }
    let entries = entries.iter().map(|(key, sequence, kind, place)| SegmentEntry {
        key: &key_bytes[key.clone()],
        sequence: *sequence,
        kind: structures_kind(*kind),
        block_offset: place.offset,
        block_length: place.length,
    });
    write_segment_claiming(pool, number, entries, claim)
}

/// Where an index record says the value is.
pub(crate) fn location(record: &KeyRecord<'_>) -> Location {
    let place = slmdb_table::Place { offset: record.block_offset(), length: record.block_length() };
    Location { file: record.file(), place, sequence: record.sequence() }
}

/// What the MANIFEST keeps of a table file; all its puts are live when it is new, but for older versions, which never are.
pub(crate) fn file_record(properties: &slmdb_table::Properties, length_bytes: u64) -> FileRecord {
    FileRecord {
        length_bytes,
        entries: properties.entries,
        deletes: properties.deletes,
        live: properties.entries - properties.older_versions - properties.deletes,
        smallest_key: properties.smallest_key.clone(),
        largest_key: properties.largest_key.clone(),
        lowest_sequence: properties.lowest_sequence,
        highest_sequence: properties.highest_sequence,
        created_unix_ns: properties.created_unix_ns,
        level: 0,
    }
}

pub(crate) fn table_kind(kind: EntryKind) -> slmdb_table::EntryKind {
    match kind {
        EntryKind::Put => slmdb_table::EntryKind::Put,
        EntryKind::Delete => slmdb_table::EntryKind::Delete,
    }
}

fn structures_kind(kind: slmdb_table::EntryKind) -> EntryKind {
    match kind {
        slmdb_table::EntryKind::Put => EntryKind::Put,
        slmdb_table::EntryKind::Delete => EntryKind::Delete,
    }
}
