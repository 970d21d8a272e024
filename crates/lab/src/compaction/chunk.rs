//! [`Chunk`]: what a compaction takes out of the immutable tree (paper, sections 3.2 and 3.3).
//!
//! - *Leaf scan*: whole leaves from the left end, until their values have as many bytes as a MemTable.
//! - *File scan*: keys whose values lie in one run file, in order, so that this file can go soon.
//!
//! What the mutable tree has newer, and no moment sees, is left out: the paper writes that to level 1 all the same.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::read::merge::Source;
use slmdb_env::Result;
use slmdb_levels::EntrySource;
use slmdb_pmem::Medium;
use slmdb_structures::EntryKind;
use slmdb_structures::hybrid_tree::{LeafCopy, Place, Version};
use slmdb_table::{KeySection, Slice};

use crate::level_zero::{LevelZero, location};

/// Entries that leave the immutable tree.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// Those that go to level 1, in order.
    pub(crate) entries: Vec<(Box<[u8]>, Version)>,
    /// The largest key that leaves the tree.
    pub(crate) last: Vec<u8>,
    /// How many records leave the tree, for each run file.
    pub(crate) leaving: BTreeMap<u32, u64>,
    /// The keys that leave the tree, with their numbers, if it is not all of them up to `last`.
    pub(crate) scattered: Option<Vec<(Box<[u8]>, u64)>>,
}

impl Chunk {
    /// Takes leaves until their values have `bytes_max` bytes, but one leaf at least. Keys up to `end` at most, that one
    /// not included. Changes nothing. `None`: there is nothing.
    pub(crate) fn of_leaves<M: Medium>(
        level_zero: &LevelZero<M>,
        bytes_max: u64,
        end: Option<&[u8]>,
    ) -> Result<Option<Chunk>> {
        let (tree, order) = (level_zero.immutable(), level_zero.immutable().order());
        let (mut chunk, mut copy, mut bytes) = (Chunk::default(), LeafCopy::default(), 0);
        let mut next: Option<Vec<u8>> = None;
        loop {
            if !tree.copy_leaf(next.as_deref().map_or(Place::First, Place::At), &mut copy)? {
                break;
            }
            for (key, version) in copy.iter() {
                let is_behind = end.is_some_and(|end| order.compare(key, end) != Ordering::Less);
                let is_passed = next.as_deref().is_some_and(|next| order.compare(key, next) == Ordering::Less);
                if is_behind || is_passed {
                    continue;
                }
                chunk.take(level_zero, key, version)?;
                bytes += u64::from(version.length_bytes);
            }
            next = copy.high().map(<[u8]>::to_vec);
            let is_at_end = match (&next, end) {
                (Some(next), Some(end)) => order.compare(next, end).is_ge(),
                (next, _) => next.is_none(),
            };
            if is_at_end || (bytes >= bytes_max && !chunk.leaving.is_empty()) {
                break;
            }
        }
        Ok((!chunk.leaving.is_empty()).then_some(chunk))
    }

    /// Takes keys that the tree still has in this run file, until their values have `bytes_max` bytes, but one at least.
    /// All of them come between the same two keys that `bound` says for the first. Changes nothing. `None`: there is
    /// nothing.
    pub(crate) fn of_file<M: Medium>(
        level_zero: &LevelZero<M>,
        file: u32,
        keys: &KeySection,
        bytes_max: u64,
        bound: impl Fn(&[u8]) -> Bound<Vec<u8>>,
    ) -> Result<Option<Chunk>> {
        let (tree, order) = (level_zero.immutable(), level_zero.immutable().order());
        let (mut chunk, mut scattered, mut bytes) = (Chunk::default(), Vec::new(), 0);
        let mut end = Bound::Unbounded;
        for entry in keys.newest_entries() {
            let entry = entry?;
            let Some(version) = tree.get(entry.key)?.filter(|version| version.file == file) else { continue };
            if scattered.is_empty() {
                end = bound(entry.key);
            } else if bytes >= bytes_max || !order.is_up_to(entry.key, end.as_ref().map(Vec::as_slice)) {
                break;
            }
            chunk.take(level_zero, entry.key, version)?;
            scattered.push((entry.key.into(), version.sequence));
            bytes += u64::from(version.length_bytes);
        }
        let has_some = !scattered.is_empty();
        chunk.scattered = Some(scattered);
        Ok(has_some.then_some(chunk))
    }

    /// Bytes of all values that go to level 1.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.entries.iter().map(|(_, version)| u64::from(version.length_bytes)).sum()
    }

    /// Takes the chunk's keys out of the tree. REQUIRES: the levels have what it had to give.
    pub(crate) fn leave<M: Medium>(&self, level_zero: &LevelZero<M>) -> Result<()> {
        match &self.scattered {
            None => level_zero.immutable().cut_through(&self.last),
            Some(keys) => level_zero.immutable().remove(keys.iter().map(|(key, sequence)| (&key[..], *sequence))),
        }
    }

    fn take<M: Medium>(&mut self, level_zero: &LevelZero<M>, key: &[u8], version: Version) -> Result<()> {
        *self.leaving.entry(version.file).or_default() += 1;
        self.last.clear();
        self.last.extend_from_slice(key);
        let newer = level_zero.mutable().get(key)?;
        let is_hidden = newer.is_some_and(|newer| !level_zero.snapshots.sees(version.sequence, newer.sequence));
        if !is_hidden {
            self.entries.push((key.into(), version));
        }
        Ok(())
    }
}

/// The entries of a chunk, for a merge.
pub(crate) struct ChunkSource {
    chunk: Arc<Chunk>,
    tables: Arc<Tables>,
    /// One behind the current entry.
    next: usize,
    value: Slice,
}

impl ChunkSource {
    /// Before the first entry.
    pub(crate) fn new(chunk: Arc<Chunk>, tables: Arc<Tables>) -> ChunkSource {
        ChunkSource { chunk, tables, next: 0, value: Slice::default() }
    }

    fn current(&self) -> Option<&(Box<[u8]>, Version)> {
        self.chunk.entries.get(self.next.checked_sub(1)?)
    }
}

impl Source for ChunkSource {
    fn advance(&mut self) -> Result<bool> {
        self.next += 1;
        Ok(self.next <= self.chunk.entries.len())
    }

    fn key(&self) -> &[u8] {
        self.current().map_or(&[], |(key, _)| key)
    }

    fn sequence(&self) -> u64 {
        self.current().map_or(0, |(_, version)| version.sequence)
    }
}

impl EntrySource for ChunkSource {
    fn kind(&self) -> slmdb_table::EntryKind {
        match self.current() {
            Some((_, version)) if version.kind == EntryKind::Delete => slmdb_table::EntryKind::Delete,
            _ => slmdb_table::EntryKind::Put,
        }
    }

    fn value_bytes(&self) -> u64 {
        self.current().map_or(0, |(_, version)| u64::from(version.length_bytes))
    }

    fn value(&mut self) -> Result<&[u8]> {
        self.value = match self.current() {
            Some((key, version)) if version.kind == EntryKind::Put => self.tables.value(key, location(version))?,
            _ => Slice::default(),
        };
        Ok(&self.value)
    }
}
