//! The leaf node scan (paper, section 3.3): after each compaction a part of the B+-tree's leaves is looked through, one part after
//! the other, round and round; where neighbouring keys are in too many table files, these are candidates.
//!
//! A scan goes over as many keys as `leaf_node_scan_files` table files have **on average**. (A fixed number of keys, as in
//! the authors' published code, is far more files' worth when values are large: then any part of even a perfectly ordered
//! store is in more files than the threshold, and the whole of it is rewritten, again and again.) It ends at the last
//! leaf at the latest; the next begins with the first.
//!
//! Where it stands is known in memory only. A few leaves are read at a time, under an epoch guard of their own, so that no
//! space in the fast tier waits for it.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::Ordering;

use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_structures::fast_fair::{Direction, LeafRead};
use slmdb_sync::epoch;
use std::sync::Arc;

use crate::index::Index;
use crate::selection::candidate_source::Source;
use crate::selection::naming::CandidateNaming;

/// So many keys, or a leaf's more, are read under one epoch guard.
const KEYS_UNDER_ONE_GUARD: usize = 512;

/// See the module.
pub(crate) struct LeafNodeScan<M: Medium> {
    pub(crate) naming: Arc<CandidateNaming>,
    pub(crate) index: Arc<Index<M>>,
}

impl<M: Medium + Clone> LeafNodeScan<M> {
    /// Looks through the next part of the leaves. What can't be read there is for `verify` to report.
    pub(crate) fn scan(&self) {
        if self.naming.candidates.scans_leaves() {
            let scanned = self.scan_next_leaves();
            let _ = scanned.inspect_err(|error| tracing::warn!(%error, "a leaf node scan was given up"));
        }
    }

    fn scan_next_leaves(&self) -> Result<()> {
        let scan = &self.naming.candidates.leaf_scan;
        // One at a time: a compaction that ends meanwhile goes without.
        let Some(mut from) = scan.from.try_lock() else { return Ok(()) };
        let mut left = self.keys_of_table_files(self.naming.context.options.compaction.leaf_node_scan_files);
        let (mut files, mut leaves) = (BTreeSet::new(), LeafRead::new());
        while left > 0 && !self.naming.compactions.is_stopping() {
            let (keys, next) = {
                let guard = epoch::pin();
                let keys_min = left.min(KEYS_UNDER_ONE_GUARD as u64) as usize;
                let near = from.as_ref().map(Vec::as_slice);
                self.index.tree.read_leaves(near, Direction::Forward, keys_min, &guard, &mut leaves)?;
                // Not a key more than wanted: with the largest values, a leaf's keys are in as many files.
                let read = leaves.records();
                let wanted = &read[..read.len().min(left as usize)];
                let mut last: &[u8] = &[];
                for &offset in wanted {
                    let record = self.index.tree.record(offset, &guard)?;
                    files.insert(record.file());
                    last = record.key();
                }
                let is_part = wanted.len() < read.len();
                let next = if is_part { Some(Bound::Excluded(last)) } else { leaves.next() };
                (wanted.len() as u64, next.map(|bound| bound.map(<[u8]>::to_vec)))
            };
            scan.keys.fetch_add(keys, Ordering::Relaxed);
            left -= keys;
            let is_end = next.is_none();
            *from = next.unwrap_or(Bound::Unbounded);
            if is_end {
                break;
            }
        }
        scan.scans.fetch_add(1, Ordering::Relaxed);
        if files.len() > self.naming.context.options.compaction.leaf_node_threshold {
            self.naming.name_candidates(files, Source::LeafNodeScan);
        }
        Ok(())
    }

    /// How many keys so many table files have on average.
    fn keys_of_table_files(&self, files: usize) -> u64 {
        let catalog = self.naming.catalog.lock();
        let entries: u64 = catalog.state().files.values().map(|file| file.entries).sum();
        let all = catalog.state().files.len().max(1) as u64;
        entries.saturating_mul(files as u64) / all
    }
}
