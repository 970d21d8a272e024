//! [`Chunk`]: what a compaction takes out of the immutable tree (paper, sections 3.2 and 3.3).
//!
//! - *Leaf scan*: whole leaves from the left end, until their values have as many bytes as a MemTable.
//! - *File scan*: keys whose values lie in one run file, in order, so that this file can go soon.
//!
//! What the mutable tree has newer, and no moment sees, is left out: the paper writes that to level 1 all the same.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::read::merge::Source;
use slmdb_env::Result;
use slmdb_levels::EntrySource;
use slmdb_pmem::Medium;
use slmdb_structures::EntryKind;
use slmdb_structures::hybrid_tree::{LeafCopy, Place, Version};
use slmdb_sync::scheduled::Mutex;
use slmdb_table::{KeySection, Slice};

use super::unreadable::PassedOver;
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
    pub(crate) scattered: Option<Vec<(Box<[u8]>, Version)>>,
    /// Keys before `last` stay in the tree.
    pub(crate) has_gaps: bool,
}

/// What becomes of a key that a chunk comes to.
enum Taken {
    /// It leaves the tree.
    Yes,
    /// It is passed over.
    PassedOver,
    /// A file of level 1 that can't be read is between the chunk and this key, or has it: the chunk ends before it.
    EndsChunk,
}

impl Chunk {
    /// Takes leaves until their values have `bytes_max` bytes, but one leaf at least. Keys up to `end` at most, that one
    /// not included. Changes nothing. `None`: there is nothing but what is passed over.
    pub(crate) fn of_leaves<M: Medium>(
        level_zero: &LevelZero<M>,
        bytes_max: u64,
        end: Option<&[u8]>,
        passed: &PassedOver,
    ) -> Result<Option<Chunk>> {
        let (tree, order) = (level_zero.immutable(), level_zero.immutable().order());
        let (mut chunk, mut copy, mut bytes) = (Chunk::default(), LeafCopy::default(), 0);
        let mut next: Option<Vec<u8>> = None;
        // With what is passed over, others may be left behind before the chunk's end, too.
        chunk.scattered = passed.has_some().then(Vec::new);
        'leaves: loop {
            if !tree.copy_leaf(next.as_deref().map_or(Place::First, Place::At), &mut copy)? {
                break;
            }
            for (key, version) in copy.iter() {
                let is_behind = end.is_some_and(|end| order.compare(key, end) != Ordering::Less);
                let is_passed = next.as_deref().is_some_and(|next| order.compare(key, next) == Ordering::Less);
                if is_behind || is_passed {
                    continue;
                }
                match chunk.take(level_zero, key, version, passed)? {
                    Taken::Yes => bytes += u64::from(version.length_bytes),
                    Taken::PassedOver => chunk.has_gaps = true,
                    Taken::EndsChunk => break 'leaves,
                }
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
        passed: &PassedOver,
    ) -> Result<Option<Chunk>> {
        let (tree, order) = (level_zero.immutable(), level_zero.immutable().order());
        let (mut chunk, mut bytes) = (Chunk { scattered: Some(Vec::new()), has_gaps: true, ..Chunk::default() }, 0);
        let mut end = Bound::Unbounded;
        for entry in keys.newest_entries() {
            let entry = entry?;
            let Some(version) = tree.get(entry.key)?.filter(|version| version.file == file) else { continue };
            if chunk.leaving.is_empty() {
                end = bound(entry.key);
            } else if bytes >= bytes_max || !order.is_up_to(entry.key, end.as_ref().map(Vec::as_slice)) {
                break;
            }
            match chunk.take(level_zero, entry.key, version, passed)? {
                Taken::Yes => bytes += u64::from(version.length_bytes),
                Taken::PassedOver => {}
                Taken::EndsChunk => break,
            }
        }
        Ok((!chunk.leaving.is_empty()).then_some(chunk))
    }

    /// The chunk without these entries, by their positions.
    pub(crate) fn without(mut self, positions: &[usize]) -> Chunk {
        if !self.has_gaps && positions.is_empty() {
            self.scattered = None;
        }
        let left_out = positions.iter().filter_map(|&position| self.entries.get(position));
        let left_out: HashMap<&[u8], Version> = left_out.map(|(key, version)| (&key[..], *version)).collect();
        for version in left_out.values() {
            if let Some(records) = self.leaving.get_mut(&version.file) {
                *records -= 1;
            }
        }
        if let Some(scattered) = &mut self.scattered {
            scattered.retain(|(key, _)| !left_out.contains_key(&key[..]));
        }
        self.leaving.retain(|_, records| *records > 0);
        self
    }

    /// Bytes of all values that go to level 1.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.entries.iter().map(|(_, version)| u64::from(version.length_bytes)).sum()
    }

    /// Takes the chunk's keys out of the tree. REQUIRES: the levels have what it had to give.
    pub(crate) fn leave<M: Medium>(&self, level_zero: &LevelZero<M>) -> Result<()> {
        match &self.scattered {
            None => level_zero.immutable().cut_through(&self.last),
            Some(keys) => level_zero.immutable().remove(keys.iter().map(|(key, version)| (&key[..], version.sequence))),
        }
    }

    fn take<M: Medium>(
        &mut self,
        level_zero: &LevelZero<M>,
        key: &[u8],
        version: Version,
        passed: &PassedOver,
    ) -> Result<Taken> {
        let newer = level_zero.mutable().get(key)?;
        let is_hidden = newer.is_some_and(|newer| !level_zero.snapshots.sees(version.sequence, newer.sequence));
        let order = level_zero.immutable().order();
        let first = self.entries.first().map(|(first, _)| &first[..]);
        if !is_hidden && first.is_some_and(|first| passed.has_range_within(order, first, key)) {
            return Ok(Taken::EndsChunk);
        }
        if !is_hidden && passed.has_range_within(order, key, key) {
            return Ok(Taken::PassedOver);
        }
        if !is_hidden && passed.has_entry(key, version.sequence) {
            return Ok(Taken::PassedOver);
        }
        *self.leaving.entry(version.file).or_default() += 1;
        self.last.clear();
        self.last.extend_from_slice(key);
        if let Some(scattered) = &mut self.scattered {
            scattered.push((key.into(), version));
        }
        if !is_hidden {
            self.entries.push((key.into(), version));
        }
        Ok(Taken::Yes)
    }
}

/// What a chunk's source can't read.
pub(crate) struct Found {
    /// The run file of the entry that ended it; 0: none did.
    pub(crate) ended_by: AtomicU32,
    /// The positions of entries that it left out.
    pub(crate) left_out: Mutex<Vec<usize>>,
}

impl Default for Found {
    fn default() -> Found {
        Found { ended_by: AtomicU32::new(0), left_out: Mutex::new(Vec::new()) }
    }
}

/// The entries of a chunk, for a merge. An entry that can't be read ends it, unless that is known of its run file: then
/// the entry is left out.
pub(crate) struct ChunkSource {
    chunk: Arc<Chunk>,
    tables: Arc<Tables>,
    passed: PassedOver,
    found: Arc<Found>,
    /// One behind the current entry.
    next: usize,
    value: Slice,
    /// The current value was read already.
    is_read: bool,
}

impl ChunkSource {
    /// Before the first entry.
    pub(crate) fn new(chunk: Arc<Chunk>, tables: Arc<Tables>, passed: PassedOver, found: Arc<Found>) -> ChunkSource {
        ChunkSource { chunk, tables, passed, found, next: 0, value: Slice::default(), is_read: false }
    }

    fn read(&mut self) -> Result<()> {
        self.value = match self.current() {
            Some((key, version)) if version.kind == EntryKind::Put => self.tables.value(key, location(version))?,
            _ => Slice::default(),
        };
        Ok(())
    }

    fn current(&self) -> Option<&(Box<[u8]>, Version)> {
        self.chunk.entries.get(self.next.checked_sub(1)?)
    }
}

impl Source for ChunkSource {
    fn advance(&mut self) -> Result<bool> {
        loop {
            self.next += 1;
            self.is_read = false;
            let Some((_, version)) = self.current() else { return Ok(false) };
            if !self.passed.run_files.contains(&version.file) {
                return Ok(true);
            }
            match self.read() {
                Ok(()) => {
                    self.is_read = true;
                    return Ok(true);
                }
                Err(error) if error.may_be_tried_again() => return Err(error),
                Err(_) => self.found.left_out.lock().push(self.next - 1),
            }
        }
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
        if !self.is_read {
            let file = self.current().map_or(0, |(_, version)| version.file);
            self.read().inspect_err(|_| self.found.ended_by.store(file, Relaxed))?;
        }
        Ok(&self.value)
    }
}
