//! Index checkpoints, taken while the store runs.
//!
//! A checkpoint is a file that says where the newest version of every key is. It begins with S, the sequence number up
//! to which flushes are committed, and the table files of that moment. Then the tree is read leaf by leaf while it goes
//! on changing. So a checkpoint is *fuzzy*: of a key that changes meanwhile it has the old or the new version. That
//! does no harm, because a rebuild also looks at every file that came later.
//!
//! But all that the scan may have seen must be in the MANIFEST before the checkpoint is. Each job holds
//! `Index::indexing` from its first swing to its commit. So taking that lock once, after the scan, waits for all of
//! them (INV-16).
//!
//! Two checkpoints are kept, but one while nothing was ever deleted. Deletes at or below the S of both need not be kept in
//! table files any more (INV-18). A full disk costs the checkpoint and nothing else; it is tried again later.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::Event;
use slmdb_engine::background::crew::Next;
use slmdb_engine::context::StoreContext;
use slmdb_engine::files::file_names as names;
use slmdb_engine::files::location::Location;
use slmdb_engine::store::parts::Parts;
use slmdb_env::{Env, Error, Result};
use slmdb_manifest::Edit;
use slmdb_order::Direction;
use slmdb_sync::scheduled::MutexGuard;
use slmdb_table::CheckpointWriter;

use crate::index::key_index::{IndexRead, KeyIndex};
use crate::manifest_section::{CheckpointRecord, Section, checkpoints_part};
use crate::recovery::checkpoint_schedule::{OF_INDEX_PART, droppable_through, wanted_checkpoints};
use crate::state::SlmState;

/// About this many keys are read from the tree at once.
const KEYS_AT_ONCE: usize = 1024;

/// Takes index checkpoints, in the background and for callers that need one now.
pub(crate) struct IndexCheckpointer {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<SlmState>,
}

impl IndexCheckpointer {
    /// A step of the work in the background: takes a checkpoint if it is due.
    /// LOCKS: memtables; those of [`IndexCheckpointer::take_due`]
    pub(crate) fn step(&self) -> Next {
        if self.store.writes.gives_up() {
            return Next::End;
        }
        if !self.state.checkpoints.is_due() {
            return Next::Wait(None);
        }
        match self.take_due(&|| self.store.writes.gives_up()) {
            Ok(()) => Next::Go,
            Err(error) => {
                self.store.context.fail(error);
                Next::End
            }
        }
    }

    /// Takes a checkpoint if it is due. Afterwards none is due before more is flushed.
    /// LOCKS: index checkpoint
    pub(crate) fn take_due(&self, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        // Without the lock first: a copy of the store may hold it for long, and no checkpoint is taken meanwhile.
        if !self.state.checkpoints.is_due() {
            return Ok(());
        }
        let taking = self.state.checkpoints.taking.lock();
        if self.state.checkpoints.is_due() { self.take_checkpoint_if_possible(&taking, is_stopped) } else { Ok(()) }
    }

    /// Takes checkpoints until they cover the deletes up to `sequence`: two at most. If one can't be taken, the deletes
    /// stay. REQUIRES: they are flushed.
    /// LOCKS: index checkpoint
    pub(crate) fn cover_deletes(&self, sequence: u64, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        let are_covered = || self.state.checkpoints.deletes_droppable_through() >= sequence;
        for _ in 0..2 {
            // Without the lock first, as above.
            if are_covered() {
                break;
            }
            let taking = self.state.checkpoints.taking.lock();
            if !are_covered() {
                self.take_checkpoint_if_possible(&taking, is_stopped)?;
            }
        }
        Ok(())
    }

    /// Takes one at a clean close, after all background threads have ended: on `Dram` the next opening begins with it.
    pub(crate) fn take_at_close(&self) -> Result<()> {
        if !self.state.checkpoints.is_due_at_close(self.store.context.options.checkpoint_entries) {
            return Ok(());
        }
        self.take_checkpoint_if_possible(&self.state.checkpoints.hold(), &|| self.store.context.has_failed())
    }

    /// Takes a checkpoint, or puts it off if there is no space or descriptor for it, or if the tree can't be read.
    fn take_checkpoint_if_possible(&self, taking: &MutexGuard<'_, ()>, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        match self.take_checkpoint(taking, is_stopped) {
            Ok(_) => Ok(()),
            Err(error) if costs_the_checkpoint_alone(&error) => {
                tracing::warn!(%error, "no index checkpoint could be taken");
                self.state.checkpoints.put_off();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Takes a checkpoint; it is durable on return. `false` if `is_stopped` said so meanwhile, or if the index has what
    /// the MANIFEST never will (INV-16). After an error there is no checkpoint; the next opening removes what is left
    /// of it.
    /// LOCKS: index checkpoint (held), catalog; memtables, indexing (tried); catalog
    fn take_checkpoint(&self, _taking: &MutexGuard<'_, ()>, is_stopped: &dyn Fn() -> bool) -> Result<bool> {
        let began_ns = self.store.context.env.monotonic_ns();
        let entries_since = self.state.checkpoints.entries_since.load(Ordering::Relaxed);
        let section = Section::of(self.store.catalog.lock().state())?;
        let new = {
            let catalog = self.store.catalog.lock();
            let state = catalog.state();
            NewCheckpoint {
                env: &*self.store.context.env,
                directory: &self.store.context.directory,
                store_uuid: self.store.context.files_uuid,
                index: &*self.state.index.keys,
                pool_path: self.state.index.pool.path(),
                number: section.checkpoints.last().map_or(1, |last| last.number.saturating_add(1)),
                through: self.store.writes.complete_through(state.flushed_through),
                files: state.files.keys().copied().collect(),
            }
        };
        let path = names::checkpoint(&self.store.context.directory, new.number);
        let written = new.write(is_stopped);
        // After any other error nothing is deleted (INV-27).
        let may_go = written.as_ref().map_or_else(costs_the_checkpoint_alone, Option::is_none);
        if may_go {
            remove_if_there(&*self.store.context.env, &path)?;
        }
        let Some(record) = written? else { return Ok(false) };
        self.store.context.counted.file_bytes_written.fetch_add(record.length_bytes, Ordering::Relaxed);

        // All that the scan has seen is in the MANIFEST after this, unless a job failed or gave up. Nobody waits for a job that waits
        // for space: that may be without end.
        let look = || Ok(self.state.index.indexing.try_lock().map(|ahead| *ahead));
        let looked = self.store.writes.take_from_jobs(look);
        if self.store.context.has_failed() {
            return Ok(false);
        }
        if !matches!(looked, Ok(false)) {
            self.store.context.env.remove_file(&path)?;
            return looked.map(|_is_ahead| false);
        }
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        // While `taking` is held, nobody else changes the checkpoints. Deletes that were dropped meanwhile count only where there
        // are fewer than two, and there none is dropped that a rebuild needs.
        let committed = self.store.catalog.commit(|state| {
            kept = section.checkpoints.iter().copied().chain([record]).collect();
            dropped = kept.drain(..kept.len().saturating_sub(wanted_checkpoints(state, &section))).collect();
            Edit { engine_section: [checkpoints_part(&kept)].into(), ..Edit::default() }
        });
        if let Err(error) = committed {
            // Unless the record may be there all the same.
            if error.may_be_tried_again() && !self.store.context.has_failed() {
                self.store.context.env.remove_file(&path)?;
            }
            return Err(error);
        }
        self.state.checkpoints.entries_since.fetch_sub(entries_since, Ordering::Relaxed);
        let entries_due = self.store.context.options.checkpoint_entries.max(record.entries / OF_INDEX_PART);
        self.state.checkpoints.entries_due.store(entries_due, Ordering::Relaxed);
        self.state.checkpoints.deletes_droppable_through.store(droppable_through(&kept), Ordering::Release);
        for checkpoint in dropped {
            remove_checkpoint(&self.store.context, checkpoint.number)?;
        }
        // More deletes may be garbage now.
        self.state.compactions.wake();
        self.store.context.notify(|| Event::IndexCheckpointTaken {
            sequence_number: record.through,
            keys: record.entries,
            bytes: record.length_bytes,
            duration: self.store.context.since(began_ns),
        });
        Ok(true)
    }
}

/// Whether an error means no more than that a checkpoint can't be taken now.
fn costs_the_checkpoint_alone(error: &Error) -> bool {
    error.may_be_tried_again() || matches!(error, Error::Corruption { .. })
}

/// Removes a checkpoint that the MANIFEST has given up. It may have been missing without notice.
pub(crate) fn remove_checkpoint(context: &StoreContext, number: u32) -> Result<()> {
    remove_if_there(&*context.env, &names::checkpoint(&context.directory, number))
}

fn remove_if_there(env: &dyn Env, path: &Path) -> Result<()> {
    if env.exists(path)? { env.remove_file(path) } else { Ok(()) }
}

/// A checkpoint to write.
pub(crate) struct NewCheckpoint<'a> {
    pub(crate) env: &'a dyn Env,
    pub(crate) directory: &'a Path,
    pub(crate) store_uuid: [u8; 16],
    pub(crate) index: &'a dyn KeyIndex,
    /// Where the index lies, for errors.
    pub(crate) pool_path: &'a Path,
    pub(crate) number: u32,
    /// S, and the table files at that moment.
    pub(crate) through: u64,
    pub(crate) files: Vec<u32>,
}

impl NewCheckpoint<'_> {
    /// Writes the file, and makes it and its name durable. `None` if `is_stopped` said so.
    pub(crate) fn write(&self, is_stopped: &dyn Fn() -> bool) -> Result<Option<CheckpointRecord>> {
        let (env, index, number, through) = (self.env, self.index, self.number, self.through);
        let path = names::checkpoint(self.directory, number);
        // A file that an earlier attempt left.
        remove_if_there(env, &path)?;
        let (order, files) = (index.order().clone(), self.files.iter().copied());
        let mut writer = CheckpointWriter::new(env, &path, number, self.store_uuid, through, files, order)?;
        let (mut read, mut from) = (IndexRead::default(), Bound::Unbounded);
        loop {
            if is_stopped() {
                return Ok(None);
            }
            let bound = from.as_ref().map(Vec::as_slice);
            index.read(bound, Direction::Forward, KEYS_AT_ONCE, u64::MAX, &mut read)?;
            for entry in &read.entries {
                let Location { file, place, sequence } = entry.location;
                // None is too long, so the index has them out of order.
                writer.add(read.key(entry), sequence, file, place).map_err(|error| match error {
                    Error::Invalid { .. } => {
                        Error::corruption(self.pool_path, 0, "the keys of the index do not ascend")
                    }
                    error => error,
                })?;
            }
            match read.next.take() {
                Some(next) => from = next,
                None => break,
            }
        }
        let finished = writer.finish()?;
        env.sync_directory(self.directory)?;
        let (entries, length_bytes) = (finished.entries, finished.length_bytes);
        Ok(Some(CheckpointRecord { number, through, entries, length_bytes }))
    }
}

#[cfg(test)]
mod tests {
    use std::cmp;
    use std::sync::atomic::AtomicBool;

    use slmdb_order::{Comparator, KeyOrder};
    use slmdb_pmem::{AnyMedium, Blocks, Pool, PoolOptions};
    use slmdb_structures::EntryKind;
    use slmdb_structures::fast_fair::{SegmentEntry, SegmentWriter, Tree};
    use slmdb_testkit::MemoryEnv;

    use super::*;
    use crate::index::in_pool::PoolIndex;

    /// By bytes, until it is turned round.
    #[derive(Default)]
    struct Turned(AtomicBool);

    impl Comparator for Turned {
        fn name(&self) -> &'static str {
            "turned"
        }

        fn compare(&self, left: &[u8], right: &[u8]) -> cmp::Ordering {
            if self.0.load(Ordering::Relaxed) { right.cmp(left) } else { left.cmp(right) }
        }
    }

    /// The store took no more writes then.
    #[test]
    fn an_index_out_of_order_costs_the_checkpoint_alone() {
        let options = PoolOptions { initial_bytes: 0, growth_bytes: 64 << 10, maximum_bytes: 4 << 20, uuid: [7; 16] };
        let pool = Arc::new(Pool::anonymous(AnyMedium::dram(), &options).unwrap());
        let blocks = Arc::new(Blocks::open(pool.clone()).unwrap());
        let order = Arc::new(Turned::default());
        let tree = Tree::create(pool.clone(), blocks, 512, KeyOrder::Custom(order.clone())).unwrap();
        let mut part = tree.bulk_load(&[]).unwrap().remove(0);
        let mut segment = SegmentWriter::new(&pool, 1, 1024);
        for key in [b"a", b"b", b"c"] {
            let entry = SegmentEntry { key, sequence: 1, kind: EntryKind::Put, block_offset: 0, block_length: 100 };
            part.add(key, segment.add(&entry).unwrap()).unwrap();
        }
        SegmentWriter::finish(vec![segment]).unwrap();
        tree.finish_bulk_load(vec![part]).unwrap();
        let index = PoolIndex::new(pool.clone(), tree);
        let write = || {
            let (env, directory) = (MemoryEnv::new(), Path::new("/db"));
            env.create_directory(directory).unwrap();
            let (number, through, files, store_uuid) = (1, 3, vec![1], [7; 16]);
            let pool_path = pool.path();
            let new =
                NewCheckpoint { env: &env, directory, store_uuid, index: &index, pool_path, number, through, files };
            new.write(&|| false)
        };
        assert_eq!(write().unwrap().unwrap().entries, 3);
        order.0.store(true, Ordering::Relaxed);
        let error = write().unwrap_err();
        assert!(costs_the_checkpoint_alone(&error), "{error:?}");
    }
}
