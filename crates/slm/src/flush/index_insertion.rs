//! The B+-tree insertion thread (paper, section 3.2): it indexes and commits finished table files, one after the other
//! (INV-6).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::Event;
use slmdb_engine::context::StoreContext;
use slmdb_engine::files::catalog::Catalog;
use slmdb_engine::files::file_records::numbered;
use slmdb_engine::files::location::Location;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::space::controller::SpaceController;
use slmdb_engine::write::memtables::Immutable;
use slmdb_engine::write::write_path::WritePath;
use slmdb_env::Result;
use slmdb_manifest::Edit;
use slmdb_pmem::Medium;
use slmdb_sync::scheduled::mpsc::Receiver;
use tracing::field::Empty;
use tracing::info_span;

use crate::compaction::pace::CompactionPace;
use crate::compaction::queue::CompactionQueue;
use crate::compaction::repointing::Repointing;
use crate::flush::finished::{Built, Finished};
use crate::index::Index;
use crate::index::insertion::insert_segment;
use crate::memory::MemoryShare;
use crate::recovery::checkpoint_schedule::Checkpoints;
use crate::space::flush_cost::PoolFlushCost;

/// The B+-tree insertion thread, which alone swings and repoints the index's words.
pub(crate) struct IndexInsertion<M: Medium> {
    pub(crate) context: Arc<StoreContext>,
    pub(crate) writes: Arc<WritePath<M>>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) index: Arc<Index<M>>,
    pub(crate) space: Arc<SpaceController<M>>,
    pub(crate) cost: Arc<PoolFlushCost<M>>,
    pub(crate) checkpoints: Arc<Checkpoints>,
    pub(crate) compactions: Arc<CompactionQueue>,
    pub(crate) pace: Arc<CompactionPace<M>>,
    pub(crate) memory: Arc<MemoryShare<M>>,
    pub(crate) repointing: Repointing<M>,
}

impl<M: Medium + Clone> IndexInsertion<M> {
    /// The thread's loop, until the store closes or fails.
    pub(crate) fn run(&self, finished: Receiver<Finished<M>>) {
        for finished in finished {
            let indexed = match finished {
                Finished::Flush(built) => self.index_and_commit(built),
                Finished::Compaction(output) => self.repointing.index_output(output),
            };
            match indexed {
                Ok(()) => {}
                // The next opening carries the job on.
                Err(error) if error.may_be_tried_again() && self.writes.gives_up() => return,
                Err(error) => return self.context.fail(error),
            }
        }
    }

    /// Indexes a flush's file, commits it, and retires the MemTable.
    /// LOCKS: indexing, catalog; memtables
    fn index_and_commit(&self, built: Built<M>) -> Result<()> {
        // From the first swing to the commit the index is ahead of the MANIFEST (INV-16).
        let mut index_is_ahead = self.index.indexing.lock();
        *index_is_ahead = true;
        let Built { immutable, began_ns, file } = built;
        let flushed_through = self.writes.flushed_through.load(Ordering::Acquire);
        debug_assert!(immutable.last_sequence >= flushed_through, "INV-6: flushed through {flushed_through} already");
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
                self.index.snapshots.note_replaced(key, old, file.older.replaced_at(key, newest));
            };
            let swing = || insert_segment(&self.index.tree, &self.index.pool, &file.segment, note);
            let live_changes = timed(&*self.context.env, span, || self.space.until_there_is_space(swing))?;
            let replaced = live_changes.values().sum::<i64>().unsigned_abs();
            let (entries, file_bytes) = (file.record.entries, file.record.length_bytes);
            self.writes.pacing.replaced(replaced, entries, file_bytes, self.context.env.monotonic_ns());
            edit.live_changes = live_changes.into_iter().collect();
            self.cost.pool_reserve.add_file(
                &self.index.pool,
                file.record.length_bytes,
                &file.segment,
                &self.catalog.reserve,
            );
            edit.files_added = vec![(file.number, file.record)];
            slot = file.slot;
        }
        // One record adds the file and gives up the arena.
        let span = info_span!("flush_commit", generation = immutable.memtable.generation(), ms = Empty);
        let commit = || self.catalog.commit(|state| numbered(state, edit.clone()));
        timed(&*self.context.env, span, || self.space.until_there_is_space(commit))?;
        number.inspect(|&number| self.catalog.numbers.end(number));
        *index_is_ahead = false;
        drop(index_is_ahead);
        if let Some(slot) = slot {
            self.index.jobs.clear(&self.index.pool, slot)?;
        }
        self.context.counted.flushes.fetch_add(1, Ordering::Relaxed);
        let generation = immutable.memtable.generation();
        let file = edit.files_added.first();
        let (entries, bytes) = file.map_or((0, 0), |(_, record)| (record.entries, record.length_bytes));
        self.checkpoints.flushed(entries);
        self.retire(immutable, began_ns)?;
        let (file, duration) = (file.map(|(number, _)| *number), self.context.since(began_ns));
        tracing::info!(generation, file, entries, bytes, ms = duration.as_secs_f64() * 1e3, "flushed");
        self.context.notify(|| Event::FlushEnded { generation, file, entries, bytes, duration });
        Ok(())
    }

    /// Takes a flushed MemTable from the readers' list (INV-9), and frees what was set aside for it.
    /// LOCKS: catalog; memtables; indexed keys, memtables; catalog, compactions
    fn retire(&self, flushed: Immutable<M>, began_ns: u64) -> Result<()> {
        let Immutable { memtable, last_sequence, totals, space } = flushed;
        debug_assert!(
            self.catalog.lock().state().flushed_through >= last_sequence,
            "INV-9: the flush through {last_sequence} has not committed"
        );
        space.map_or(Ok(()), |space| space.discard(&*self.context.env))?;
        match self.catalog.fill_reserve() {
            Err(error) if !error.may_be_tried_again() => return Err(error),
            _ => {}
        }
        let (bytes, list_bytes) = (memtable.used_bytes(), memtable.memory_bytes());
        self.writes.take_from_view(&memtable);
        // Before `release_in_pool` counts the space as returned: writers that wait for it look again then.
        self.writes.arenas.retire(memtable)?;
        self.memory.flush_freed(&totals, list_bytes);
        self.cost.release_in_pool(&totals)?;
        self.writes.flush_ended(last_sequence, bytes, began_ns);
        self.pace.set();
        self.compactions.wake();
        Ok(())
    }
}
