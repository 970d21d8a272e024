//! Deletes that hide nothing any more.
//!
//! A delete stays in a table file because another one may have an older version of its key, which would come back when
//! the index is rebuilt. Two index checkpoints end that (INV-18). But one is due only after millions of entries or when a
//! compaction is requested, and it takes space itself. On a full disk that is too late: a delete of a tiny value takes as
//! much as it frees, and deletes are the way out.
//!
//! There is another end. When all puts in all table files are live, no file has an older version of any key. Then no
//! delete that is flushed hides anything, and none ever will: what is flushed later is newer, and what compactions write
//! they copy from these files. So it may be dropped like one that checkpoints cover.
//!
//! An index checkpoint from before that moment may have such a key at its old place, and a rebuild would take the key for
//! lost. So checkpoints go that don't reach as far. They can't go where deletes were dropped that they cover.

use std::sync::atomic::Ordering;

use slmdb_env::Result;
use slmdb_manifest::{Edit, StoreState};

use crate::manifest_section::{CheckpointRecord, Section, checkpoints_part};
use crate::recovery::index_checkpoint::{IndexCheckpointer, remove_checkpoint};
use crate::selection::live_key_ratio::has_superseded_puts;

impl IndexCheckpointer {
    /// Looks whether deletes hide nothing any more. Returns whether more of them may be dropped than before.
    /// `checkpoints_may_go`: it is worth the index checkpoints, without which the next opening on `Dram` takes longer.
    /// LOCKS: index checkpoint, memtables, indexing (tried); indexing, catalog; compactions
    pub(crate) fn note_needless_deletes(&self, checkpoints_may_go: bool) -> Result<bool> {
        // No checkpoint is under way that was begun before this moment.
        let taking = self.state.checkpoints.hold();
        // No job is between its first move in the index and its record, and none is committed before this is noted.
        let indexing = || Ok(self.state.index.indexing.try_lock());
        let index_is_ahead = match self.store.writes.take_from_jobs(indexing) {
            // A flush waits for space, and may do so without end.
            Err(error) if error.may_be_tried_again() => return Ok(false),
            taken => taken?,
        };
        if *index_is_ahead || self.store.context.has_failed() {
            return Ok(false);
        }
        let droppable_through = self.state.checkpoints.deletes_droppable_through();
        let found = {
            let catalog = self.store.catalog.lock();
            let through = self.store.writes.complete_through(catalog.state().flushed_through);
            needless_deletes(catalog.state(), through, droppable_through)?
        };
        let Some(Needless { through, kept, stale }) = found else { return Ok(false) };
        if !stale.is_empty() {
            if !checkpoints_may_go {
                return Ok(false);
            }
            let engine_section = [checkpoints_part(&kept)].into();
            match self.store.catalog.commit(|_| Edit { engine_section, ..Edit::default() }) {
                Err(error) if error.may_be_tried_again() => return Ok(false),
                committed => committed?,
            }
        }
        self.state.checkpoints.needless_through.store(through, Ordering::Release);
        drop(index_is_ahead);
        for checkpoint in stale {
            remove_checkpoint(&self.store.context, checkpoint.number)?;
        }
        drop(taking);
        tracing::info!(through, "deletes hide nothing any more");
        self.state.compactions.wake();
        Ok(true)
    }
}

/// What [`needless_deletes`] finds.
#[derive(Debug, PartialEq, Eq)]
struct Needless {
    /// Deletes up to this sequence number hide nothing.
    through: u64,
    /// Index checkpoints that know as much.
    kept: Vec<CheckpointRecord>,
    /// Those that don't.
    stale: Vec<CheckpointRecord>,
}

/// Whether deletes hide nothing any more, and some of them may not be dropped yet: those above `droppable_through`.
fn needless_deletes(state: &StoreState, through: u64, droppable_through: u64) -> Result<Option<Needless>> {
    let is_new = state.files.values().any(|file| file.deletes > 0 && file.highest_sequence > droppable_through);
    if !is_new || through <= droppable_through || state.files.values().any(has_superseded_puts) {
        return Ok(None);
    }
    let section = Section::of(state)?;
    let (kept, stale): (Vec<_>, Vec<_>) =
        section.checkpoints.iter().partition(|checkpoint| checkpoint.through >= through);
    let is_safe = section.deletes_dropped_through == 0 || !kept.is_empty();
    Ok(is_safe.then_some(Needless { through, kept, stale }))
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;
    use std::path::Path;
    use std::sync::Arc;

    use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, Options, WriteBatch};
    use slmdb_env::Env;
    use slmdb_manifest::{FileRecord, MediumKind, MediumRecord};
    use slmdb_testkit::MemoryEnv;

    use super::*;
    use crate::recovery::open;
    use crate::tier::Slm;

    const THROUGH: u64 = 100;

    fn file(entries: u64, live_keys: u64, deletes: u64) -> FileRecord {
        FileRecord {
            length_bytes: 1000,
            entries,
            live_keys,
            deletes,
            smallest_key: b"a".to_vec(),
            largest_key: b"z".to_vec(),
            lowest_sequence: 1,
            highest_sequence: 90,
            created_unix_ns: 0,
            level: 0,
        }
    }

    fn state(files: &[FileRecord], checkpoints: &[u64], dropped_through: u64) -> StoreState {
        let checkpoint = |(number, &through)| CheckpointRecord { number, through, entries: 1, length_bytes: 1 };
        let files = (1..).zip(files.iter().cloned()).collect();
        let mut state = StoreState { files, flushed_through: THROUGH, ..empty() };
        let checkpoints = (1..).zip(checkpoints).map(checkpoint).collect();
        Section { checkpoints, deletes_dropped_through: dropped_through, ..Section::default() }.write_to(&mut state);
        state
    }

    fn empty() -> StoreState {
        let medium = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id: [0; 16] };
        StoreState::new([1; 16], "slm", "bytes", medium)
    }

    /// The sequence number, and which checkpoints stay and go.
    fn found(state: &StoreState, droppable_through: u64) -> Option<(u64, Vec<u64>, Vec<u64>)> {
        let throughs =
            |checkpoints: &[CheckpointRecord]| checkpoints.iter().map(|checkpoint| checkpoint.through).collect();
        let needless = needless_deletes(state, state.flushed_through, droppable_through).unwrap()?;
        Some((needless.through, throughs(&needless.kept), throughs(&needless.stale)))
    }

    #[test]
    fn deletes_are_needless_when_all_puts_are_live() {
        assert_eq!(found(&state(&[file(10, 10, 0), file(10, 4, 6)], &[], 0), 0), Some((THROUGH, vec![], vec![])));
        assert_eq!(found(&state(&[file(10, 9, 0), file(10, 4, 6)], &[], 0), 0), None, "one hides a put");
        assert_eq!(found(&state(&[file(10, 10, 0)], &[], 0), 0), None, "there are none");
        assert_eq!(found(&state(&[file(10, 4, 6)], &[], 0), 90), None, "they may be dropped already");
    }

    /// They would take a key for lost whose delete is dropped.
    #[test]
    fn checkpoints_go_that_know_less() {
        let files = [file(10, 4, 6)];
        assert_eq!(found(&state(&files, &[40, 60], 0), 0), Some((THROUGH, vec![], vec![40, 60])));
        assert_eq!(found(&state(&files, &[40, THROUGH], 0), 0), Some((THROUGH, vec![THROUGH], vec![40])));
        assert_eq!(found(&state(&files, &[40, 60], 40), 0), None, "an opening needs one of them");
        assert_eq!(found(&state(&files, &[40, THROUGH], 40), 40), Some((THROUGH, vec![THROUGH], vec![40])));
    }

    const KEYS: u8 = 20;
    const DELETED: u8 = 5;

    fn options(env: &MemoryEnv) -> Options {
        let compaction = CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() };
        Options { env: Arc::new(env.clone()), compaction, checkpoint_entries: 10, ..Options::default() }
    }

    fn write(store: &Slm, fill: impl FnOnce(&mut WriteBatch)) {
        let mut batch = WriteBatch::new();
        fill(&mut batch);
        store.write(&batch, true).unwrap();
        store.flush().unwrap();
    }

    /// How many deletes are in table files, and how many checkpoints there are.
    fn deletes_and_checkpoints(store: &Slm) -> (u64, usize) {
        let catalog = store.shared.parts.catalog.lock();
        let state = catalog.state();
        (state.files.values().map(|file| file.deletes).sum(), Section::of(state).unwrap().checkpoints.len())
    }

    #[test]
    fn what_needless_deletes_have_deleted_does_not_come_back() {
        let env = MemoryEnv::new();
        let store = open::on_dram(&options(&env), Path::new("/db")).unwrap();
        write(&store, |batch| (0..KEYS).for_each(|key| batch.put([key], b"value").unwrap()));
        // The range that is compacted has fewer entries than the store has keys, so no checkpoint is taken for it.
        write(&store, |batch| (100..200_u8).for_each(|key| batch.put([key], b"value").unwrap()));
        store.shared.tier.checkpointer.take_due(&|| false).unwrap();
        write(&store, |batch| (0..DELETED).for_each(|key| batch.delete([key]).unwrap()));
        assert!(!store.shared.tier.checkpointer.note_needless_deletes(true).unwrap(), "they hide puts");
        store.compact_range(Bound::Unbounded, Bound::Included(&[KEYS])).unwrap();
        assert_eq!(
            deletes_and_checkpoints(&store),
            (u64::from(DELETED), 1),
            "they are still there, and the checkpoint"
        );
        assert!(!store.shared.tier.checkpointer.note_needless_deletes(false).unwrap(), "that costs the checkpoint");
        assert!(store.shared.tier.checkpointer.note_needless_deletes(true).unwrap());
        assert!(!store.shared.tier.checkpointer.note_needless_deletes(true).unwrap(), "there are no more");
        store.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
        assert_eq!(deletes_and_checkpoints(&store), (0, 0));
        assert_eq!(
            Section::of(store.shared.parts.catalog.lock().state()).unwrap().deletes_dropped_through,
            0,
            "a rebuild needs no checkpoint"
        );
        let names = env.list_directory(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name);
        assert!(!names.into_iter().any(|name| name.ends_with(".checkpoint")));
        // Of what is there now, as after a kill.
        store.checkpoint(Path::new("/copy")).unwrap();
        store.close().unwrap();
        drop(store);
        for directory in ["/copy", "/db"] {
            let store = open::on_dram(&options(&env), Path::new(directory)).unwrap();
            for key in 0..KEYS {
                assert_eq!(store.get(&[key]).unwrap().is_some(), key >= DELETED, "{directory}: key {key}");
            }
            let report = store.verify(&mut |_| ()).unwrap();
            assert!(report.is_clean(), "{directory}: {:#?}", report.findings);
            store.close().unwrap();
        }
    }
}
