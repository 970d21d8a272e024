//! A chunk of level 0 is merged into level 1 (paper, section 3.2, Figure 8).
//!
//! 1. Entries are taken from the left end of the immutable tree. The tree is not changed.
//! 2. They are merged with what level 1 has in their range. Outputs are durable.
//! 3. Under the lock of indexing one record of the MANIFEST adds the outputs, removes the inputs, says how far the tree is
//!    compacted, and gives up run files to which no record leads, oldest first. Whatever flush made step 1 leave an entry
//!    out has committed by then.
//! 4. The new version of the levels is published, and only then the chunk leaves the tree: readers look in that order.
//!
//! A crash before step 3 leaves outputs that nobody knows. One between 3 and 4 leaves entries in the tree that are in
//! level 1, too. The next opening takes them out.

use std::collections::BTreeMap;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_levels::{EntrySource, Run};
use slmdb_manifest::Edit;
use slmdb_pmem::Medium;

use super::chunk::{Chunk, ChunkSource};
use super::compactor::Compactor;
use crate::level_zero::run_files_done;
use crate::level_zero::state::LevelZeroState;

impl<M: Medium + Clone> Compactor<M> {
    /// Moves the next chunk of level 0 to level 1. Returns whether there was one.
    /// LOCKS: level 0 compaction (held); those of [`Compactor::merge`]; indexing, catalog
    pub(super) fn compact_chunk(&self) -> Result<bool> {
        let chunk_bytes = self.context.options.memtable_bytes;
        let Some(mut chunk) = Chunk::of_leaves(&self.level_zero, chunk_bytes, None)? else { return Ok(false) };
        let plan = loop {
            let first = self.first_key()?;
            let smallest = chunk.entries.first().map_or_else(|| first.clone(), |(key, _)| key.to_vec());
            match self.levels.plan_inflow(1, &smallest, &chunk.last) {
                Ok(plan) => break plan,
                Err(busy) => match Chunk::of_leaves(&self.level_zero, chunk_bytes, Some(&busy.from))? {
                    Some(shorter) if shorter.last != chunk.last => chunk = shorter,
                    // Another compaction has all of it.
                    _ => return Ok(false),
                },
            }
        };
        let chunk = Arc::new(chunk);
        let mut sources: Vec<Box<dyn EntrySource>> =
            vec![Box::new(ChunkSource::new(chunk.clone(), self.tables.clone()))];
        for run in plan.inputs() {
            sources.push(Box::new(run.source()?));
        }
        let outputs = self.merge(&plan, sources)?;
        let change = plan.change(outputs.iter().cloned());
        let committed = self.commit_chunk(&chunk, slmdb_levels::edit_of(&change), &outputs);
        let run_files = committed?;
        self.levels.apply(&change).map_err(|what| Error::invalid(format!("levels: {what}")))?;
        self.level_zero.immutable().cut_through(&chunk.last)?;
        let removed: Vec<u32> = change.removed.iter().map(|run| run.number()).chain(run_files).collect();
        drop((plan, change));
        self.retire(&removed);
        Ok(true)
    }

    /// Step 3. Returns the run files that the MANIFEST has given up.
    /// LOCKS: indexing, catalog
    fn commit_chunk(&self, chunk: &Chunk, edit: Edit, outputs: &[Arc<slmdb_levels::TableRun>]) -> Result<Vec<u32>> {
        let indexing = self.level_zero.indexing.lock();
        if *indexing {
            self.give_up(outputs);
            return Err(Error::ReadOnly { cause: "a flush was given up".into() });
        }
        let live = self.live_without(&chunk.leaving);
        let mut run_files = Vec::new();
        let committed = self.commit(edit, outputs, |state, edit| {
            run_files = run_files_done(state, &live);
            edit.files_removed.extend(&run_files);
            let level_zero = LevelZeroState::of(state).unwrap_or_default();
            let level_zero = LevelZeroState { compacted_through: Some(chunk.last.clone()), ..level_zero };
            edit.engine_section = Some(level_zero.section());
        });
        committed.map(|()| run_files)
    }

    /// How many records lead to each run file once the chunk has left the tree.
    fn live_without(&self, leaving: &BTreeMap<u32, u64>) -> BTreeMap<u32, u64> {
        let mut live = self.level_zero.live();
        for (file, records) in leaving {
            if let Some(left) = live.get_mut(file) {
                *left = left.saturating_sub(*records);
            }
        }
        live.retain(|_, records| *records > 0);
        live
    }

    /// The smallest key of the immutable tree.
    fn first_key(&self) -> Result<Vec<u8>> {
        let mut copy = slmdb_structures::hybrid_tree::LeafCopy::default();
        self.level_zero.immutable().copy_leaf(slmdb_structures::hybrid_tree::Place::First, &mut copy)?;
        Ok(copy.entry(0).map_or_else(Vec::new, |(key, _)| key.to_vec()))
    }
}
