//! The leaf node scan (paper, section 3.3): each compaction is followed by a look at the next part of the B+-tree's
//! leaves, round and round. Where neighbouring keys are in too many table files, these files are candidates.
//!
//! A scan covers as many keys as `leaf_node_scan_files` table files have **on average**. The authors' published code
//! covers a fixed number of keys. With large values these are far more files' worth: then any part even of a perfectly
//! ordered store is in more files than the threshold, and all of it is rewritten again and again. A scan ends at the
//! last leaf at the latest; the next one begins with the first.
//!
//! The position is in memory only. A few leaves are read at a time, under an epoch guard of their own, so that no space
//! in the fast tier waits for it.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::Ordering;

use slmdb_env::Result;
use slmdb_order::Direction;
use slmdb_structures::fast_fair::LeafRead;
use slmdb_sync::epoch;
use std::sync::Arc;

use crate::selection::candidate_source::Source;
use crate::selection::naming::CandidateNaming;
use crate::state::SlmState;

/// Keys, or those of one leaf if more, that are read under one epoch guard.
const KEYS_UNDER_ONE_GUARD: usize = 512;

/// Makes leaf node scans.
pub(crate) struct LeafNodeScan {
    pub(crate) naming: Arc<CandidateNaming>,
    pub(crate) state: Arc<SlmState>,
}

impl LeafNodeScan {
    /// Scans the next part of the leaves. What can't be read there is for `verify` to report.
    /// LOCKS: leaf node scan (tried), catalog; compaction candidates; compactions
    pub(crate) fn scan(&self) {
        if self.naming.candidates.scans_leaves() {
            let scanned = self.scan_next_leaves();
            let _ = scanned.inspect_err(|error| tracing::warn!(%error, "a leaf node scan was given up"));
        }
    }

    fn scan_next_leaves(&self) -> Result<()> {
        let scan = &self.naming.candidates.leaf_scan;
        // One at a time: a compaction that ends meanwhile goes without a scan.
        let Some(mut from) = scan.from.try_lock() else { return Ok(()) };
        let mut left = self.keys_of_table_files(self.naming.context.options.compaction.leaf_node_scan_files);
        let (mut files, mut leaves) = (BTreeSet::new(), LeafRead::new());
        while left > 0 && !self.naming.compactions.is_stopping() {
            let (keys, next) = {
                let guard = epoch::pin();
                let keys_min = left.min(KEYS_UNDER_ONE_GUARD as u64) as usize;
                let near = from.as_ref().map(Vec::as_slice);
                self.state.index.tree.read_leaves(near, Direction::Forward, keys_min, &guard, &mut leaves)?;
                // Not one key more than wanted: with the largest values, a leaf's keys are in as many files.
                let read = leaves.records();
                let wanted = &read[..read.len().min(left as usize)];
                let mut last: &[u8] = &[];
                for &offset in wanted {
                    let record = self.state.index.tree.record(offset, &guard)?;
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

    /// Number of keys that `files` table files have on average.
    /// LOCKS: catalog
    fn keys_of_table_files(&self, files: usize) -> u64 {
        let catalog = self.naming.catalog.lock();
        let entries: u64 = catalog.state().files.values().map(|file| file.entries).sum();
        let all = catalog.state().files.len().max(1) as u64;
        entries.saturating_mul(files as u64) / all
    }
}
