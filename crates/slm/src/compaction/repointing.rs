//! The index thread's part of a compaction: it moves keys to the new file, and commits that to the MANIFEST.

use std::collections::BTreeMap;
use std::sync::Arc;

use slmdb_engine::files::file_records::numbered;
use slmdb_engine::space::reserve::OutputSpace;
use slmdb_engine::store::parts::Parts;
use slmdb_env::Result;
use slmdb_manifest::{Edit, FileRecord};

use crate::compaction::outputs::OutputFiles;
use crate::flush::finished::Output;
use crate::manifest_section::{Section, deletes_dropped_part};
use crate::state::SlmState;

/// The index thread's part of compactions.
pub(crate) struct Repointing {
    pub(crate) state: Arc<SlmState>,
    pub(crate) store: Arc<Parts>,
    pub(crate) files: Arc<OutputFiles>,
}

impl Repointing {
    /// Moves the keys to an output, and commits. Once a key has moved there is no way back, and flushes wait behind it.
    /// So it first makes sure that the MANIFEST has space (INV-34). If it has not, this output is given up, and all
    /// later ones of its compaction.
    /// LOCKS: indexing, catalog
    pub(crate) fn index_output(&self, output: Output) -> Result<()> {
        let mut index_is_ahead = self.state.index.indexing.lock();
        let Output { file, origin, removed, deletes_dropped_through, done } = output;
        if origin.refused.get().is_none() {
            match self.store.catalog.provide_for_compaction(origin.inputs, OutputSpace::Reserve) {
                Err(error) if error.may_be_tried_again() => drop(origin.refused.set(error)),
                looked => looked?,
            }
        }
        if origin.refused.get().is_some() {
            file.map_or(Ok(()), |file| self.files.give_up(file))?;
            let _ = done.send(());
            return Ok(());
        }
        let mut edit = Edit { files_removed: removed, ..Edit::default() };
        // The indexing lock is held, so nobody else raises it.
        let recorded = Section::of(self.store.catalog.lock().state())?.deletes_dropped_through;
        let dropped_through = Some(self.state.checkpoints.dropped_through(deletes_dropped_through));
        edit.engine_section.extend(dropped_through.filter(|&dropped| dropped > recorded).map(deletes_dropped_part));
        // From the first move to the commit the index is ahead of the MANIFEST (INV-16).
        *index_is_ahead = true;
        self.store.obsolete.announce(&edit.files_removed);
        let mut job = None;
        if let Some(mut file) = file {
            let is_newest = edit.files_removed.iter().all(|&input| input < file.number);
            debug_assert!(is_newest, "INV-17: {:?} become {}", edit.files_removed, file.number);
            let moved = self.state.index.keys.repoint(&mut file.job)?;
            add_output(&mut edit, file.number, file.record, &moved);
            job = Some(file.job);
        }
        self.store.space.until_there_is_space(|| self.store.catalog.commit(|state| numbered(state, edit.clone())))?;
        *index_is_ahead = false;
        drop(index_is_ahead);
        job.map_or(Ok(()), |job| self.state.index.keys.end(job))?;
        // The compaction thread may have gone, and then needs no receipt.
        let _ = done.send(());
        Ok(())
    }
}

/// Adds to an edit what moving keys to an output changes. `moved`: number of keys by the file they came from.
pub(crate) fn add_output(edit: &mut Edit, number: u32, record: FileRecord, moved: &BTreeMap<u32, u64>) {
    edit.files_added.push((number, FileRecord { live_keys: moved.values().sum(), ..record }));
    edit.live_changes.extend(moved.iter().map(|(&from, &count)| (from, -(count as i64))));
}
