//! Selective compaction: table files are merged, and only what still counts is written anew (paper, section 3.3; design.md
//! section 8).
//!
//! Which files, is for [`super::picker`] to say. Here they are merged: a compaction thread goes through their entries in
//! key order, asks the index whether it still points there, and copies what it does point to into new files of
//! `table_file_bytes`. Each file that is finished and durable goes to the index thread, which moves the keys to it, while
//! the compaction thread fills the next.
//!
//! # Why no newer write is undone
//!
//! A sequence number is given out once. So a key is moved if, and only if, the index has it at that very sequence number:
//! compare and swap, under the leaf's lock. Whatever a flush has put there since has another number and stays.
//!
//! # Each file is a job
//!
//! When a file is durable, with its key segment, a job record says *moving*; then the keys are moved and one MANIFEST record
//! adds the file, with as many live entries as were moved, and takes as many from the files they were in. The
//! record of the last file also removes the inputs. So live counts are right after each file, wherever a crash comes: a
//! file that was moving is finished by the next opening, and inputs that are left are files with little in them, to be
//! picked again. Between first move and record, [`Store::indexing`] is held, as flushes hold it: an entry that was left out
//! because a flush had replaced or removed it is given up only after that flush has committed.
//!
//! # Deletes
//!
//! A delete in a table file keeps older versions of its key dead when the index has to be rebuilt. It is left out once the
//! index has the key again (then at a larger number), or once the index checkpoints cover it.
//!
//! A compaction that finds no space gives up what it was writing, and is tried again later. An input that can't be read
//! is left alone, for `verify` to report. Any other failure stops all writing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use slmdb_env::{Error, Result};
use slmdb_manifest::{Edit, FileRecord};
use slmdb_pmem::{Claim, Medium, Pool};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::need::ENTRIES_UNDER_ONE_GUARD;
use slmdb_structures::fast_fair::{KeyRecord, Segment, Tree, set_replaced_file};
use slmdb_table::{KeyEntry, KeySection, TableBuilder};
use tracing::field::Empty;
use tracing::info_span;

use super::flush::{BuiltFile, Finished, file_record, numbered, segment_of, table_options};
use super::job::Job;
use super::merge::{Merge, Values, WINDOW_BYTES};
use super::older_versions::OlderVersions;
use super::store::Store;
use super::trace::timed;
use super::{locked, names, picker};
use crate::Event;

/// After so many entries a compaction looks whether the store closes.
const ENTRIES_BETWEEN_LOOKS: u64 = 1024;
/// How often those who wait for a compaction look whether it is stuck.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a compaction that found no space waits before it is tried again: at first, and at most. (It doubles each time.)
const NO_SPACE_PAUSE_FIRST: Duration = Duration::from_millis(10);
const NO_SPACE_PAUSE_MAX: Duration = Duration::from_secs(2);

/// A bound on keys, as [`Store::compact_range`] has them.
pub(crate) type KeyBound = Bound<Vec<u8>>;

/// Files to be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(super) inputs: Vec<u32>,
    /// What chose them.
    pub(super) chosen_by: &'static str,
}

/// What compactions are doing, and what is wanted of them.
#[derive(Debug, Default)]
pub(crate) struct Compactions {
    inner: Mutex<Inner>,
    /// There may be something to do, or something was done.
    changed: Condvar,
    /// The store closes, or has failed.
    stopping: AtomicBool,
    /// Compactions that have begun since the store was opened.
    begun: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    /// Inputs of compactions that are running.
    busy: BTreeSet<u32>,
    /// Files that could not be read.
    unfit: BTreeSet<u32>,
    /// What was asked for and has not begun.
    asked: VecDeque<Arc<Asked>>,
    /// Counts what may have changed what there is to do.
    changes: u64,
    /// When the last compaction ended, on the clock of the environment.
    last_end_ns: u64,
}

/// A range whose compaction was asked for.
#[derive(Debug)]
struct Asked {
    from: KeyBound,
    to: KeyBound,
    /// How it ended.
    ended: Mutex<Option<Result<()>>>,
}

/// A file that a compaction has made, or the end of one.
pub(crate) struct Output {
    file: Option<BuiltFile>,
    /// The inputs, if this is the last.
    removed: Vec<u32>,
    /// Deletes up to here may have been left out because the index checkpoints cover them.
    deletes_dropped_through: u64,
    /// Told once it is in the MANIFEST. (Dropped without a word if it does not get there.)
    done: SyncSender<()>,
}

/// Why a compaction ended early.
enum Stopped {
    /// The store closes, or has failed.
    Closing,
    /// There is no space for it.
    NoSpace(Error),
    /// This input can't be read.
    Unreadable(u32, Error),
    /// Something that must not be tried again.
    Failed(Error),
}

/// Of an error in writing.
impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        if matches!(error, Error::Full { .. }) { Stopped::NoSpace(error) } else { Stopped::Failed(error) }
    }
}

impl Compactions {
    /// The files there are, or their live counts, have changed.
    pub(super) fn wake(&self) {
        locked(&self.inner).changes += 1;
        self.changed.notify_all();
    }

    /// Ends all of them soon.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether something is being compacted.
    pub(super) fn is_busy(&self) -> bool {
        !locked(&self.inner).busy.is_empty()
    }

    /// Whether the store closes, or has failed.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

impl<M: Medium + Clone> Store<M> {
    /// A compaction thread.
    pub(crate) fn run_compaction_thread(&self, finished: SyncSender<Finished<M>>) {
        let mut pause = NO_SPACE_PAUSE_FIRST;
        while let Some((plan, asked)) = self.next_compaction() {
            let taken = asked.is_none().then(|| {
                let catalog = locked(&self.catalog);
                self.candidates.take(&plan.inputs, catalog.state(), self.checkpoints.deletes_droppable_through())
            });
            let ended = self.compact(&plan, &finished);
            if let (Ok(bytes_written), Some(taken)) = (&ended, &taken) {
                self.candidates.compacted(taken, *bytes_written);
                self.scan_leaves();
            }
            let mut inner = locked(&self.compactions.inner);
            inner.busy.retain(|number| !plan.inputs.contains(number));
            if let Err(Stopped::Unreadable(number, _)) = &ended {
                inner.unfit.insert(*number);
            }
            drop(inner);
            let failure = match ended {
                Ok(_) => None,
                Err(Stopped::Closing) => Some(Error::ReadOnly { cause: "the store closes".into() }),
                Err(Stopped::NoSpace(error) | Stopped::Unreadable(_, error)) => {
                    tracing::warn!(%error, "a compaction was given up");
                    Some(error)
                }
                Err(Stopped::Failed(error)) => {
                    self.fail(error.clone());
                    Some(error)
                }
            };
            let no_space = matches!(failure, Some(Error::Full { .. }));
            if let Some(asked) = asked {
                *locked(&asked.ended) = Some(failure.map_or(Ok(()), Err));
            }
            self.compactions.wake();
            self.set_compaction_pace();
            if no_space {
                self.pause_compactions(pause);
                pause = (2 * pause).min(NO_SPACE_PAUSE_MAX);
            } else {
                pause = NO_SPACE_PAUSE_FIRST;
            }
        }
        // Whoever asked for more gets an answer.
        for asked in locked(&self.compactions.inner).asked.drain(..) {
            *locked(&asked.ended) = Some(Err(Error::ReadOnly { cause: "the store closes, or has failed".into() }));
        }
        self.compactions.changed.notify_all();
    }

    /// Waits for so long, or until the store closes or somebody asks for a compaction.
    fn pause_compactions(&self, pause: Duration) {
        let inner = locked(&self.compactions.inner);
        let is_on = |inner: &mut Inner| !self.compactions.is_stopping() && inner.asked.is_empty();
        let waited = self.compactions.changed.wait_timeout_while(inner, pause, is_on);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for something to compact; `None` when the store closes or has failed. Its inputs are this thread's.
    fn next_compaction(&self) -> Option<(Plan, Option<Arc<Asked>>)> {
        let compactions = &self.compactions;
        let mut inner = locked(&compactions.inner);
        loop {
            if compactions.is_stopping() || self.has_failed() {
                return None;
            }
            let changes = inner.changes;
            let mut next = None;
            if let Some(asked) = inner.asked.front().cloned() {
                // It waits until none of its files is being compacted; nothing else begins meanwhile.
                let plan = self.plan_of_range(&asked);
                if plan.inputs.iter().all(|number| !inner.busy.contains(number)) {
                    inner.asked.pop_front();
                    if plan.inputs.is_empty() {
                        *locked(&asked.ended) = Some(Ok(()));
                        compactions.changed.notify_all();
                        continue;
                    }
                    next = Some((plan, Some(asked)));
                }
            } else {
                let catalog = locked(&self.catalog);
                let is_free = |number: u32| !inner.busy.contains(&number) && !inner.unfit.contains(&number);
                let deletes_droppable_through = self.checkpoints.deletes_droppable_through();
                self.candidates.refresh(catalog.state(), deletes_droppable_through);
                let choice = picker::Choice {
                    options: &self.options.compaction,
                    state: catalog.state(),
                    order: &self.options.comparator,
                    candidates: &self.candidates,
                    is_free: &is_free,
                    deletes_droppable_through,
                    memtable_bytes: self.options.memtable_bytes,
                };
                next = picker::pick(&choice).map(|plan| (plan, None));
            }
            if let Some((plan, asked)) = next {
                inner.busy.extend(&plan.inputs);
                return Some((plan, asked));
            }
            let nothing_new = |inner: &mut Inner| inner.changes == changes;
            inner = compactions.changed.wait_while(inner, nothing_new).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// See [`crate::Engine::compact_range`].
    pub(crate) fn compact_range(&self, from: KeyBound, to: KeyBound) -> Result<()> {
        self.check_writable()?;
        self.flush()?;
        let setbacks = locked(&self.traffic).setbacks.count();
        let asked = Arc::new(Asked { from, to, ended: Mutex::default() });
        let mut inner = locked(&self.compactions.inner);
        inner.asked.push_back(asked.clone());
        inner.changes += 1;
        self.compactions.changed.notify_all();
        loop {
            if let Some(ended) = locked(&asked.ended).take() {
                return ended;
            }
            // Then there may be nobody left to answer: a thread that panicked, or one that ended before this was asked.
            if self.compactions.is_stopping() {
                self.check_writable()?;
                return Err(Error::ReadOnly { cause: "the store closes".into() });
            }
            let waited = self.compactions.changed.wait_timeout(inner, LOOK_AGAIN);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            // The compaction goes on when there is space again; who asked for it is not kept waiting for that.
            locked(&self.traffic).setbacks.check_flush(setbacks)?;
            inner = locked(&self.compactions.inner);
        }
    }

    /// The files with keys in a range; none if there is nothing to gain: no garbage, and no two of them overlap.
    fn plan_of_range(&self, asked: &Asked) -> Plan {
        let order = &self.options.comparator;
        let is_before = |key: &[u8], to: &KeyBound| match to {
            Bound::Unbounded => true,
            Bound::Included(to) => order.compare(key, to).is_le(),
            Bound::Excluded(to) => order.compare(key, to).is_lt(),
        };
        let is_behind = |key: &[u8], from: &KeyBound| match from {
            Bound::Unbounded => true,
            Bound::Included(from) => order.compare(key, from).is_ge(),
            Bound::Excluded(from) => order.compare(key, from).is_gt(),
        };
        let catalog = locked(&self.catalog);
        let mut files: Vec<(&u32, &FileRecord)> = catalog
            .state()
            .files
            .iter()
            .filter(|(_, file)| is_before(&file.smallest_key, &asked.to) && is_behind(&file.largest_key, &asked.from))
            .collect();
        files.sort_by(|(_, a), (_, b)| order.compare(&a.smallest_key, &b.smallest_key));
        let droppable_through = self.checkpoints.deletes_droppable_through();
        let has_garbage = files.iter().any(|(_, file)| picker::garbage(file, droppable_through) > 0);
        let overlaps = files.windows(2).any(|two| order.compare(&two[0].1.largest_key, &two[1].1.smallest_key).is_ge());
        let inputs =
            if has_garbage || overlaps { files.iter().map(|(number, _)| **number).collect() } else { Vec::new() };
        Plan { inputs, chosen_by: "compact_range" }
    }

    /// Merges files into new ones; says how many bytes these have.
    fn compact(&self, plan: &Plan, finished: &SyncSender<Finished<M>>) -> Result<u64, Stopped> {
        let number = self.compactions.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let began_ns = self.env.monotonic_ns();
        let span = info_span!("compaction", number, chosen_by = plan.chosen_by, files = plan.inputs.len(), ms = Empty);
        let input_bytes = self.length_bytes_of(&plan.inputs);
        self.notify(|| Event::CompactionBegan {
            number,
            chosen_by: plan.chosen_by,
            inputs: plan.inputs.clone(),
            input_bytes,
        });
        let mut outputs = Outputs {
            store: self,
            builder: None,
            finished,
            sent: Vec::new(),
            made: Vec::new(),
            bytes_written: 0,
            deletes_dropped_through: 0,
        };
        let mut bytes_read = 0;
        let ended = timed(&*self.env, span, || {
            let merged = self.merge(plan, &mut outputs, &mut bytes_read);
            merged.and_then(|()| outputs.end(&plan.inputs))
        });
        outputs.abandon();
        let (made, bytes_written) = (std::mem::take(&mut outputs.made), outputs.bytes_written);
        self.counted.compaction_bytes_read.fetch_add(bytes_read, Ordering::Relaxed);
        // Key sections, blocks on their way, and the outputs' own: about as much as went in and out.
        self.budget.freed(bytes_read + bytes_written);
        self.share_memory();
        ended?;
        self.counted.compactions.fetch_add(1, Ordering::Relaxed);
        self.retire_files(&plan.inputs);
        let now_ns = self.env.monotonic_ns();
        let last_end_ns = std::mem::replace(&mut locked(&self.compactions.inner).last_end_ns, now_ns);
        let took_ns = now_ns.saturating_sub(began_ns.max(last_end_ns));
        self.pacing.compacted(input_bytes.saturating_sub(bytes_written), took_ns);
        self.notify(|| Event::CompactionEnded {
            number,
            inputs: plan.inputs.clone(),
            outputs: made,
            bytes_read,
            bytes_written,
            duration: Duration::from_nanos(now_ns.saturating_sub(began_ns)),
        });
        Ok(bytes_written)
    }

    /// How long table files are together, in bytes.
    fn length_bytes_of(&self, numbers: &[u32]) -> u64 {
        let catalog = locked(&self.catalog);
        numbers.iter().filter_map(|number| catalog.state().files.get(number)).map(|file| file.length_bytes).sum()
    }

    /// Copies what still counts.
    fn merge(&self, plan: &Plan, outputs: &mut Outputs<'_, M>, bytes_read: &mut u64) -> Result<(), Stopped> {
        let (mut sections, mut values, mut held) = (Vec::new(), Vec::new(), Vec::new());
        for &number in &plan.inputs {
            let open = || {
                let reader = self.tables.reader(number)?;
                Ok((reader.key_section()?, Values::new(&reader)))
            };
            let (section, input_values) = open().map_err(|error| Stopped::Unreadable(number, error))?;
            *bytes_read += section.memory_bytes() as u64;
            held.push(self.budget.background.hold(section.memory_bytes() as u64 + WINDOW_BYTES as u64));
            sections.push(section);
            values.push(input_values);
        }
        let copied = self.merge_sections(plan, &sections, &mut values, outputs);
        *bytes_read += values.iter().map(|values| values.read_bytes).sum::<u64>();
        copied
    }

    fn merge_sections(
        &self,
        plan: &Plan,
        sections: &[KeySection],
        values: &mut [Values],
        outputs: &mut Outputs<'_, M>,
    ) -> Result<(), Stopped> {
        let unreadable = |(input, error): (usize, Error)| Stopped::Unreadable(plan.inputs[input], error);
        let mut merge = Merge::new(sections, &self.options.comparator).map_err(unreadable)?;
        let mut looked_at = 0;
        // The key that was copied last. What comes of it after that is older.
        let mut copied: Option<&[u8]> = None;
        while let Some((input, entry)) = merge.next().map_err(unreadable)? {
            looked_at += 1;
            if looked_at % ENTRIES_BETWEEN_LOOKS == 0 && (self.compactions.is_stopping() || self.has_failed()) {
                return Err(Stopped::Closing);
            }
            let number = plan.inputs[input];
            let dropped_through = &mut outputs.deletes_dropped_through;
            if copied == Some(entry.key)
                || !self.still_counts(number, &entry, dropped_through).map_err(Stopped::Failed)?
            {
                continue;
            }
            copied = Some(entry.key);
            match entry.kind {
                slmdb_table::EntryKind::Delete => outputs.add(&entry, &[])?,
                slmdb_table::EntryKind::Put => {
                    let value = values[input].value(&entry).map_err(|error| Stopped::Unreadable(number, error))?;
                    outputs.add(&entry, &value)?;
                }
            }
        }
        Ok(())
    }

    /// Whether an entry of a table file is to be kept. `deletes_dropped_through` rises to the sequence number of a delete
    /// that is not, because index checkpoints cover it.
    fn still_counts(&self, number: u32, entry: &KeyEntry<'_>, deletes_dropped_through: &mut u64) -> Result<bool> {
        let guard = crossbeam_epoch::pin();
        let current = self.tree.get(entry.key, &guard)?;
        match (entry.kind, current) {
            (slmdb_table::EntryKind::Put, current) => {
                Ok(current.is_some_and(|current| current.file() == number && current.sequence() == entry.sequence))
            }
            (slmdb_table::EntryKind::Delete, Some(_)) => Ok(false),
            (slmdb_table::EntryKind::Delete, None) => {
                let is_covered = entry.sequence <= self.checkpoints.deletes_droppable_through();
                if is_covered {
                    *deletes_dropped_through = entry.sequence.max(*deletes_dropped_through);
                }
                Ok(!is_covered)
            }
        }
    }

    /// The index thread's part: moves the keys, and commits.
    pub(super) fn index_output(&self, output: Output) -> Result<()> {
        let agreement = locked(&self.indexing);
        let Output { file, removed, deletes_dropped_through, done } = output;
        self.retired.announce(&removed);
        let mut edit = Edit { files_removed: removed, ..Edit::default() };
        let (mut slot, mut number) = (None, None);
        if let Some(file) = file {
            let moved = move_to(&self.tree, &self.pool, &file.segment)?;
            add_output(&mut edit, file.number, file.record, &moved);
            (slot, number) = (file.slot, Some(file.number));
        }
        self.when_there_is_space(|| {
            self.commit(|state| {
                let dropped_through = state.deletes_dropped_through.max(deletes_dropped_through);
                numbered(state, Edit { deletes_dropped_through: Some(dropped_through), ..edit.clone() })
            })
        })?;
        number.inspect(|&number| self.file_numbers.end(number));
        drop(agreement);
        if let Some(slot) = slot {
            self.jobs.clear(&self.pool, slot)?;
        }
        // If nobody waits any more, nobody needs to know.
        let _ = done.send(());
        Ok(())
    }
}

/// What moving keys to an output changes in the MANIFEST. `moved`: how many from which file.
pub(super) fn add_output(edit: &mut Edit, number: u32, record: FileRecord, moved: &BTreeMap<u32, u64>) {
    edit.files_added.push((number, FileRecord { live: moved.values().sum(), ..record }));
    edit.live_changes.extend(moved.iter().map(|(&from, &count)| (from, -(count as i64))));
}

/// Moves the index to the records of a compaction's output, if it has the same versions elsewhere. Returns how many came
/// from which file. Doing it again after a crash in the middle does only what is missing, and counts all.
pub(crate) fn move_to<M: Medium>(tree: &Tree<M>, pool: &Pool<M>, segment: &Segment) -> Result<BTreeMap<u32, u64>> {
    let offsets: Vec<u64> = {
        let guard = crossbeam_epoch::pin();
        let puts = segment
            .records(pool, &guard)
            .filter(|record| record.as_ref().map_or(true, |record| record.kind() == EntryKind::Put));
        puts.map(|record| record.map(|record| record.offset())).collect::<Result<_>>()?
    };
    let mut moved = BTreeMap::new();
    for part in offsets.chunks(ENTRIES_UNDER_ONE_GUARD) {
        let guard = crossbeam_epoch::pin();
        let records: Vec<KeyRecord<'_>> =
            part.iter().map(|&offset| KeyRecord::at(pool, offset, &guard)).collect::<Result<_>>()?;
        tree.swap_sorted(records.iter().map(|record| record.key()), |index, current| {
            let record = &records[index];
            // One version in two outputs, since an earlier compaction was given up on the way: it is the later one's, also
            // when a recovery that was cut short has moved it there and begins anew with the earlier.
            if current.sequence() != record.sequence() || current.file() >= record.file() {
                return Ok(None);
            }
            set_replaced_file(pool, record.offset(), current.file())?;
            Ok(Some(record.offset()))
        })?;
        for record in records.iter().filter(|record| record.replaced_file() != 0) {
            *moved.entry(record.replaced_file()).or_insert(0) += 1;
        }
        guard.flush();
    }
    Ok(moved)
}

/// The files that a compaction makes.
struct Outputs<'s, M: Medium + Clone> {
    store: &'s Store<M>,
    /// The one that is being filled.
    builder: Option<(u32, TableBuilder)>,
    finished: &'s SyncSender<Finished<M>>,
    /// Those that are on their way to the MANIFEST.
    sent: Vec<Receiver<()>>,
    /// The numbers of those that were finished.
    made: Vec<u32>,
    bytes_written: u64,
    /// Up to here deletes were left out because the index checkpoints cover them.
    deletes_dropped_through: u64,
}

impl<M: Medium + Clone> Outputs<'_, M> {
    fn add(&mut self, entry: &KeyEntry<'_>, value: &[u8]) -> Result<(), Stopped> {
        let builder = match &mut self.builder {
            Some((_, builder)) => builder,
            None => &mut self.builder.insert(self.begin()?).1,
        };
        builder.add(entry.key, entry.sequence, entry.kind, value)?;
        if builder.estimated_bytes() >= self.store.options.compaction.table_file_bytes {
            let file = self.finish()?;
            self.send(file, Vec::new())?;
        }
        Ok(())
    }

    fn begin(&self) -> Result<(u32, TableBuilder), Stopped> {
        let store = self.store;
        let number = store.file_numbers.begin()?;
        let path = names::table(&store.directory, number);
        let (options, order) = (table_options(&store.options), store.options.comparator.clone());
        match TableBuilder::new_in_order(&*store.env, &path, number, store.files_uuid, options, order) {
            Ok(builder) => Ok((number, builder)),
            Err(error) => {
                store.file_numbers.end(number);
                Err(error.into())
            }
        }
    }

    /// Makes the file that is being filled durable, and its key segment.
    fn finish(&mut self) -> Result<Option<BuiltFile>, Stopped> {
        let store = self.store;
        let Some((number, builder)) = self.builder.take() else { return Ok(None) };
        let build = || {
            let finished = builder.finish()?;
            store.env.sync_directory(&store.directory)?;
            store.counted.file_bytes_written.fetch_add(finished.length_bytes, Ordering::Relaxed);
            store.counted.compaction_bytes_written.fetch_add(finished.length_bytes, Ordering::Relaxed);
            let segment = segment_of(&store.pool, number, &finished.keys, Claim::Ordinary)?;
            let slot = if M::PERSISTENT { Some(store.jobs.record(&store.pool, &Job::moving(number))?) } else { None };
            let record = file_record(&finished.properties, finished.length_bytes);
            Ok(BuiltFile { number, record, segment, older: OlderVersions::default(), slot })
        };
        match build().map_err(|error: Error| Stopped::from(error)) {
            Ok(file) => {
                self.made.push(number);
                self.bytes_written += file.record.length_bytes;
                Ok(Some(file))
            }
            Err(stopped @ Stopped::NoSpace(_)) => Err(self.remove(number, stopped)),
            Err(stopped) => Err(stopped),
        }
    }

    fn send(&mut self, file: Option<BuiltFile>, removed: Vec<u32>) -> Result<(), Stopped> {
        let (done, told) = sync_channel(1);
        let output = Output { file, removed, deletes_dropped_through: self.deletes_dropped_through, done };
        // Two at most are on their way: the records of their jobs have slots.
        while self.sent.len() > 1 {
            self.sent.remove(0).recv().map_err(|_| Stopped::Closing)?;
        }
        self.sent.push(told);
        self.finished.send(Finished::Compaction(output)).map_err(|_| Stopped::Closing)
    }

    /// The last file, and the end of the inputs; returns when that is in the MANIFEST.
    fn end(&mut self, inputs: &[u32]) -> Result<(), Stopped> {
        let file = self.finish()?;
        self.send(file, inputs.to_vec())?;
        self.sent.drain(..).try_for_each(|told| told.recv()).map_err(|_| Stopped::Closing)
    }

    /// Gives up the file that was being filled, if there is one.
    fn abandon(&mut self) {
        if let Some((number, builder)) = self.builder.take() {
            builder.abandon();
            let _ = self.remove(number, Stopped::Closing);
        }
    }

    /// Removes a file that is not to be; gives back why.
    fn remove(&self, number: u32, why: Stopped) -> Stopped {
        let store = self.store;
        if !store.has_failed() {
            // If it can't be removed, the next opening does.
            let removed = store.env.remove_file(&names::table(&store.directory, number));
            let _ = removed.inspect_err(|error| tracing::warn!(%error, "an unfinished table file stays for now"));
        }
        store.file_numbers.end(number);
        why
    }
}

#[cfg(test)]
mod tests;
