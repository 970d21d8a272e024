//! The index thread's part of a compaction: it moves keys to the new file, and commits that to the MANIFEST.

use std::collections::BTreeMap;
use std::sync::Arc;

use slmdb_engine::files::file_records::numbered;
use slmdb_engine::space::reserve::OutputSpace;
use slmdb_engine::store::parts::Parts;
use slmdb_env::Result;
use slmdb_manifest::{Edit, FileRecord};
use slmdb_pmem::{AnyMedium, Pool};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::space_bounds::ENTRIES_UNDER_ONE_GUARD;
use slmdb_structures::fast_fair::{KeyRecord, Segment, Tree, set_replaced_file};
use slmdb_sync::epoch;

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
        let mut slot = None;
        if let Some(file) = file {
            let is_newest = edit.files_removed.iter().all(|&input| input < file.number);
            debug_assert!(is_newest, "INV-17: {:?} become {}", edit.files_removed, file.number);
            let moved = repoint_to(&self.state.index.tree, &self.state.index.pool, &file.segment)?;
            add_output(&mut edit, file.number, file.record, &moved);
            slot = file.slot;
        }
        self.store.space.until_there_is_space(|| self.store.catalog.commit(|state| numbered(state, edit.clone())))?;
        *index_is_ahead = false;
        drop(index_is_ahead);
        if let Some(slot) = slot {
            self.state.index.jobs.clear(&self.state.index.pool, slot)?;
        }
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

/// Moves the index to the records of a compaction's output, where it has the same versions elsewhere (INV-15). Returns
/// the number of keys by the file they came from. Doing it again after a crash in the middle does only what is missing,
/// and counts all.
pub(crate) fn repoint_to(
    tree: &Tree<AnyMedium>,
    pool: &Pool<AnyMedium>,
    segment: &Segment,
) -> Result<BTreeMap<u32, u64>> {
    let offsets: Vec<u64> = {
        let guard = epoch::pin();
        let puts = segment
            .records(pool, &guard)
            .filter(|record| record.as_ref().map_or(true, |record| record.kind() == EntryKind::Put));
        puts.map(|record| record.map(|record| record.offset())).collect::<Result<_>>()?
    };
    let mut moved = BTreeMap::new();
    for part in offsets.chunks(ENTRIES_UNDER_ONE_GUARD) {
        let guard = epoch::pin();
        let records: Vec<KeyRecord<'_>> =
            part.iter().map(|&offset| KeyRecord::at(pool, offset, &guard)).collect::<Result<_>>()?;
        tree.swap_sorted(records.iter().map(|record| record.key()), |index, current| {
            let record = &records[index];
            // One version in two outputs: an earlier compaction was given up on the way. The later output has it
            // (INV-17), also when a recovery that was cut short has moved it there and begins anew with the earlier
            // one.
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
