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
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb_engine::files::catalog::Catalog;
use slmdb_engine::lock_order;
use slmdb_env::Result;
use slmdb_order::Direction;
use slmdb_structures::fast_fair::LeafRead;
use slmdb_sync::epoch;
use slmdb_sync::scheduled::Mutex;

use crate::compaction::queue::CompactionQueue;
use crate::index::Index;

/// Keys, or those of one leaf if more, that are read under one epoch guard.
const KEYS_UNDER_ONE_GUARD: usize = 512;

/// Makes leaf node scans, and counts them.
pub(crate) struct LeafNodeScan {
    /// Where the next scan begins.
    from: Mutex<Bound<Vec<u8>>>,
    scans: AtomicU64,
    keys: AtomicU64,
}

impl Default for LeafNodeScan {
    fn default() -> LeafNodeScan {
        let from = Mutex::ranked(lock_order::LEAF_NODE_SCAN, Bound::Unbounded);
        LeafNodeScan { from, scans: AtomicU64::new(0), keys: AtomicU64::new(0) }
    }
}

impl LeafNodeScan {
    /// Number of scans, and of keys that they covered.
    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.scans.load(Ordering::Relaxed), self.keys.load(Ordering::Relaxed))
    }

    /// Scans the next part of the leaves, which has as many keys as so many table files have on average. Returns the
    /// files that these keys are in.
    /// LOCKS: leaf node scan (tried), catalog
    pub(crate) fn scan(
        &self,
        files: usize,
        catalog: &Catalog,
        index: &Index,
        compactions: &CompactionQueue,
    ) -> Result<BTreeSet<u32>> {
        let (mut found, mut leaves) = (BTreeSet::new(), LeafRead::new());
        // One at a time: a compaction that ends meanwhile goes without a scan.
        let Some(mut from) = self.from.try_lock() else { return Ok(found) };
        let mut left = keys_of_table_files(files, catalog);
        while left > 0 && !compactions.is_stopping() {
            let (keys, next) = {
                let guard = epoch::pin();
                let keys_min = left.min(KEYS_UNDER_ONE_GUARD as u64) as usize;
                let near = from.as_ref().map(Vec::as_slice);
                index.tree.read_leaves(near, Direction::Forward, keys_min, &guard, &mut leaves)?;
                // Not one key more than wanted: with the largest values, a leaf's keys are in as many files.
                let read = leaves.records();
                let wanted = &read[..read.len().min(left as usize)];
                let mut last: &[u8] = &[];
                for &offset in wanted {
                    let record = index.tree.record(offset, &guard)?;
                    found.insert(record.file());
                    last = record.key();
                }
                let is_part = wanted.len() < read.len();
                let next = if is_part { Some(Bound::Excluded(last)) } else { leaves.next() };
                (wanted.len() as u64, next.map(|bound| bound.map(<[u8]>::to_vec)))
            };
            self.keys.fetch_add(keys, Ordering::Relaxed);
            left -= keys;
            let is_end = next.is_none();
            *from = next.unwrap_or(Bound::Unbounded);
            if is_end {
                break;
            }
        }
        self.scans.fetch_add(1, Ordering::Relaxed);
        Ok(found)
    }
}

/// Number of keys that `files` table files have on average.
/// LOCKS: catalog
fn keys_of_table_files(files: usize, catalog: &Catalog) -> u64 {
    let catalog = catalog.lock();
    let entries: u64 = catalog.state().files.values().map(|file| file.entries).sum();
    let all = catalog.state().files.len().max(1) as u64;
    entries.saturating_mul(files as u64) / all
}
