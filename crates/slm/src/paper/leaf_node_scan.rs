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

use slmdb_engine::files::catalog::Catalog;
use slmdb_env::Result;
use slmdb_order::Direction;

use crate::compaction::queue::CompactionQueue;
use crate::index::Index;
use crate::index::key_index::IndexRead;

/// Keys, or those of one leaf if more, that are read under one epoch guard.
const KEYS_UNDER_ONE_GUARD: usize = 512;

/// Scans the next part of the leaves: as many keys as `files` table files have on average. Returns the files that these
/// keys are in, and their number. `from`: where it begins, and then where the next one does.
/// LOCKS: catalog
pub(super) fn scan(
    from: &mut Bound<Vec<u8>>,
    files: usize,
    catalog: &Catalog,
    index: &Index,
    compactions: &CompactionQueue,
) -> Result<(BTreeSet<u32>, u64)> {
    let keys_max = {
        let catalog = catalog.lock();
        let all = &catalog.state().files;
        let entries: u64 = all.values().map(|file| file.entries).sum();
        entries.saturating_mul(files as u64) / all.len().max(1) as u64
    };
    let (mut found, mut keys, mut read) = (BTreeSet::new(), 0, IndexRead::default());
    while keys < keys_max && !compactions.is_stopping() {
        let left = keys_max - keys;
        let keys_min = left.min(KEYS_UNDER_ONE_GUARD as u64) as usize;
        let near = from.as_ref().map(Vec::as_slice);
        index.keys.read(near, Direction::Forward, keys_min, u64::MAX, &mut read)?;
        // Not one key more than wanted: with the largest values, a leaf's keys are in as many files.
        let wanted = &read.entries[..read.entries.len().min(left as usize)];
        found.extend(wanted.iter().map(|entry| entry.location.file));
        keys += wanted.len() as u64;
        let next = match wanted.last() {
            Some(last) if wanted.len() < read.entries.len() => Some(Bound::Excluded(read.key(last).to_vec())),
            _ => read.next.take(),
        };
        let is_end = next.is_none();
        *from = next.unwrap_or(Bound::Unbounded);
        if is_end {
            break;
        }
    }
    Ok((found, keys))
}
