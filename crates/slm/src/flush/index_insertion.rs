//! The B+-tree insertion thread (paper, section 3.2): it indexes and commits finished table files, one after the other
//! (INV-6).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::background::crew::Next;
use slmdb_engine::files::file_records::numbered;
use slmdb_engine::files::location::Location;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::store::flush::FlushedFile;
use slmdb_engine::store::parts::Parts;
use slmdb_env::Result;
use slmdb_manifest::Edit;
use slmdb_sync::scheduled::mpsc::{Receiver, TryRecvError};
use tracing::field::Empty;
use tracing::info_span;

use crate::compaction::pace::CompactionPace;
use crate::compaction::repointing::Repointing;
use crate::flush::finished::{Built, Finished};
use crate::state::SlmState;

/// The B+-tree insertion thread, which alone swings and repoints the index's words.
pub(crate) struct IndexInsertion {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<SlmState>,
    pub(crate) pace: Arc<CompactionPace>,
    pub(crate) repointing: Repointing,
}

impl IndexInsertion {
    /// A step: indexes and commits the next finished file, if there is one.
    pub(crate) fn step(&self, finished: &Receiver<Finished>) -> Next {
        let indexed = match finished.try_recv() {
            Ok(Finished::Flush(built)) => self.index_and_commit(built),
            Ok(Finished::Compaction(output)) => self.repointing.index_output(output),
            Err(TryRecvError::Empty) => return Next::Wait(None),
            Err(TryRecvError::Disconnected) => return Next::End,
        };
        match indexed {
            Ok(()) => return Next::Go,
            // The next opening carries the job on.
            Err(error) if error.may_be_tried_again() && self.store.writes.gives_up() => {}
            Err(error) => self.store.context.fail(error),
        }
        Next::End
    }

    /// Indexes a flush's file, commits it, and retires the MemTable.
    /// LOCKS: indexing, catalog; memtables
    fn index_and_commit(&self, built: Built) -> Result<()> {
        // From the first swing to the commit the index is ahead of the MANIFEST (INV-16).
        let mut index_is_ahead = self.state.index.indexing.lock();
        *index_is_ahead = true;
        let Built { immutable, began_ns, file } = built;
        let flushed_through = self.store.writes.flushed_through.load(Ordering::Acquire);
        debug_assert!(immutable.last_sequence >= flushed_through, "INV-6: flushed through {flushed_through} already");
        let mut edit = Edit {
            arenas_removed: immutable.arenas_removed(),
            flushed_through: Some(immutable.last_sequence),
            ..Edit::default()
        };
        let mut job = None;
        if let Some(mut file) = file {
            let span = info_span!("flush_index", file = file.number, ms = Empty);
            let note = |key: &[u8], old: Location, newest: u64| {
                self.state.index.snapshots.note_replaced(key, old, file.older.replaced_at(key, newest));
            };
            let swing = || self.state.index.keys.insert(&mut file.job, &note);
            let live_changes = timed(&*self.store.context.env, span, || self.store.space.until_there_is_space(swing))?;
            let replaced = live_changes.values().sum::<i64>().unsigned_abs();
            let (entries, file_bytes) = (file.record.entries, file.record.length_bytes);
            self.store.writes.pacing.debt_made(replaced, entries, file_bytes, self.store.context.env.monotonic_ns());
            edit.live_changes = live_changes.into_iter().collect();
            edit.files_added = vec![(file.number, file.record)];
            job = Some(file.job);
        }
        // One record adds the file and gives up the arena.
        let span = info_span!("flush_commit", generation = immutable.memtable.generation(), ms = Empty);
        let commit = || self.store.catalog.commit(|state| numbered(state, edit.clone()));
        timed(&*self.store.context.env, span, || self.store.space.until_there_is_space(commit))?;
        *index_is_ahead = false;
        drop(index_is_ahead);
        job.map_or(Ok(()), |job| self.state.index.keys.end(job))?;
        let file = edit.files_added.first().map(|(number, record)| FlushedFile {
            number: *number,
            entries: record.entries,
            bytes: record.length_bytes,
        });
        self.state.checkpoints.flushed(file.map_or(0, |file| file.entries));
        self.store.flush_ends(immutable, began_ns, file)?;
        self.pace.set();
        self.state.compactions.wake();
        Ok(())
    }
}
