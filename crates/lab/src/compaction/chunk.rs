//! [`Chunk`]: what a compaction takes out of the immutable tree (paper, sections 3.2 and 3.3).
//!
//! - *Leaf scan*: whole leaves from the left end, until their entries have enough bytes.
//! - *File scan*: keys whose values lie in the oldest run files, so that these can go soon.
//!
//! What the mutable tree has newer, and no moment sees, is left out: the paper writes that to level 1 all the same.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use slmdb_engine::files::location::Location;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::files::values_in_order::Values;
use slmdb_engine::read::merge::Source;
use slmdb_env::Result;
use slmdb_levels::EntrySource;
use slmdb_manifest::{FileRecord, StoreState};
use slmdb_order::KeyOrder;
use slmdb_structures::EntryKind;
use slmdb_structures::hybrid_tree::{LeafCopy, Version};
use slmdb_sync::scheduled::Mutex;
use slmdb_table::{KeyEntry, KeySection};

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
    /// Nothing is behind `last`.
    pub(crate) is_last: bool,
}

/// What an entry takes of its run file, about. A block has many small ones, and a record tells the block's length.
#[derive(Debug, Default)]
pub(crate) struct EntryBytes {
    /// Of each run file, the mean.
    means: HashMap<u32, u64>,
    /// The mean of all run files; of all files, if there are no run files.
    mean: u64,
    /// An entry with more is alone in its block.
    shared_max: u64,
}

impl EntryBytes {
    /// As the MANIFEST has the run files.
    pub(crate) fn of(state: &StoreState, block_bytes: usize) -> EntryBytes {
        let run_files = state.files.iter().filter(|(_, file)| file.level == 0);
        let mean = |file: &FileRecord| file.length_bytes.div_ceil(file.entries.max(1));
        let has_run_files = run_files.clone().next().is_some();
        let files = state.files.values().filter(|file| file.level == 0 || !has_run_files);
        let (bytes, entries) =
            files.fold((0, 0), |(bytes, entries), file| (bytes + file.length_bytes, entries + file.entries));
        EntryBytes {
            mean: bytes.div_ceil(entries.max(1)),
            means: run_files.map(|(&number, file)| (number, mean(file))).collect(),
            shared_max: 2 * block_bytes as u64,
        }
    }

    /// Of so many entries of usual length.
    pub(crate) fn of_keys(&self, keys: u64) -> u64 {
        keys.saturating_mul(self.mean)
    }

    /// Of this entry.
    pub(crate) fn of_version(&self, version: &Version) -> u64 {
        let block_bytes = u64::from(version.length_bytes);
        if block_bytes > self.shared_max {
            return block_bytes;
        }
        self.means.get(&version.file).map_or(block_bytes, |&mean| mean.min(block_bytes))
    }
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
    /// Takes leaves until their entries have `bytes_max` bytes, but one leaf at least. Keys up to `end` at most, that one
    /// not included. Changes nothing. `None`: there is nothing but what is passed over.
    pub(crate) fn of_leaves(
        level_zero: &LevelZero,
        (bytes_max, of): (u64, &EntryBytes),
        end: Option<&[u8]>,
        passed: &PassedOver,
    ) -> Result<Option<Chunk>> {
        let (tree, order) = (level_zero.immutable(), level_zero.immutable().order());
        let (mut chunk, mut copy, mut bytes) = (Chunk::default(), LeafCopy::default(), 0);
        let mut leaves = tree.leaves();
        // With what is passed over, others may be left behind before the chunk's end, too.
        chunk.scattered = passed.has_some().then(Vec::new);
        'leaves: loop {
            let from = leaves.next_key().map(<[u8]>::to_vec);
            if !leaves.copy_next(&mut copy)? {
                break;
            }
            for (key, version) in copy.iter() {
                let is_behind = end.is_some_and(|end| order.compare(key, end) != Ordering::Less);
                let is_passed = from.as_deref().is_some_and(|from| order.compare(key, from) == Ordering::Less);
                if is_behind || is_passed {
                    continue;
                }
                match chunk.take(level_zero, key, version, passed)? {
                    Taken::Yes => bytes += of.of_version(&version),
                    Taken::PassedOver => chunk.has_gaps = true,
                    Taken::EndsChunk => break 'leaves,
                }
            }
            let next = leaves.next_key();
            let is_at_end = match (next, end) {
                (Some(next), Some(end)) => order.compare(next, end).is_ge(),
                (next, _) => next.is_none(),
            };
            chunk.is_last = next.is_none();
            if is_at_end || (bytes >= bytes_max && !chunk.leaving.is_empty()) {
                break;
            }
        }
        Ok((!chunk.leaving.is_empty()).then_some(chunk))
    }

    /// Takes keys that the tree still has in this run file, until their values have `bytes_max` bytes, but one at least.
    /// All of them come between the same two keys that `bound` says for the first. Changes nothing. `None`: there is
    /// nothing.
    pub(crate) fn of_file(
        level_zero: &LevelZero,
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

    /// Adds what leaves the tree of another run file. Both chunks are by file scan.
    pub(crate) fn join(&mut self, other: Chunk, order: &KeyOrder) {
        let by_key = |left: &(Box<[u8]>, Version), right: &(Box<[u8]>, Version)| order.compare(&left.0, &right.0);
        self.entries.extend(other.entries);
        self.entries.sort_by(by_key);
        let mut scattered = self.scattered.take().unwrap_or_default();
        scattered.extend(other.scattered.into_iter().flatten());
        scattered.sort_by(by_key);
        self.last = scattered.last().map_or_else(Vec::new, |(last, _)| last.to_vec());
        self.scattered = Some(scattered);
        self.has_gaps = true;
        for (file, records) in other.leaving {
            *self.leaving.entry(file).or_default() += records;
        }
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

    /// What its entries take of their run files, about.
    pub(crate) fn bytes(&self, of: &EntryBytes) -> u64 {
        self.entries.iter().map(|(_, version)| of.of_version(version)).sum()
    }

    /// Bytes of all values that go to level 1.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.entries.iter().map(|(_, version)| u64::from(version.length_bytes)).sum()
    }

    /// Takes the chunk's keys out of the tree. REQUIRES: the levels have what it had to give.
    pub(crate) fn leave(&self, level_zero: &LevelZero) -> Result<()> {
        match &self.scattered {
            None => level_zero.immutable().cut_through(&self.last),
            Some(keys) => level_zero.immutable().remove(keys.iter().map(|(key, version)| (&key[..], version.sequence))),
        }
    }

    fn take(&mut self, level_zero: &LevelZero, key: &[u8], version: Version, passed: &PassedOver) -> Result<Taken> {
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
    /// The run file that was read last.
    reads: Arc<AtomicU32>,
    /// The positions of entries that it left out.
    pub(crate) left_out: Mutex<Vec<usize>>,
}

impl Default for Found {
    fn default() -> Found {
        Found { reads: Arc::default(), left_out: Mutex::new(Vec::new()) }
    }
}

/// The entries of a chunk, for a merge. Keys ascend in each run file, too, so each is read from front to back. An entry that
/// can't be read ends it, unless that is known of its run file: then the entry is left out.
pub(crate) struct ChunkSource {
    chunk: Arc<Chunk>,
    tables: Arc<Tables>,
    passed: PassedOver,
    found: Arc<Found>,
    /// One behind the current entry.
    next: usize,
    window_bytes: usize,
    run_files: BTreeMap<u32, Values>,
}

impl ChunkSource {
    /// Before the first entry.
    pub(crate) fn new(chunk: Arc<Chunk>, tables: Arc<Tables>, passed: PassedOver, found: Arc<Found>) -> ChunkSource {
        ChunkSource { chunk, tables, passed, found, next: 0, window_bytes: 0, run_files: BTreeMap::new() }
    }
    /// How many files it reads at once.
    pub(crate) fn windows(&self) -> usize {
        self.chunk.leaving.len()
    }

    /// Reads so many bytes of each file at a time.
    pub(crate) fn with_windows_of(self, window_bytes: usize) -> ChunkSource {
        ChunkSource { window_bytes, ..self }
    }

    /// The number of the run file that is being read.
    pub(crate) fn reads(&self) -> Arc<AtomicU32> {
        self.found.reads.clone()
    }

    fn current(&self) -> Option<&(Box<[u8]>, Version)> {
        self.chunk.entries.get(self.next.checked_sub(1)?)
    }
}

impl Source for ChunkSource {
    fn advance(&mut self) -> Result<bool> {
        loop {
            self.next += 1;
            let Some((_, version)) = self.current() else { return Ok(false) };
            if !self.passed.run_files.contains(&version.file) {
                return Ok(true);
            }
            match self.value() {
                Ok(_) => return Ok(true),
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
    fn kind(&self) -> EntryKind {
        self.current().map_or(EntryKind::Put, |(_, version)| version.kind)
    }

    fn value_bytes(&self) -> u64 {
        self.current().map_or(0, |(_, version)| u64::from(version.length_bytes))
    }

    fn value(&mut self) -> Result<&[u8]> {
        let chunk = &*self.chunk;
        let Some((key, version)) = self.next.checked_sub(1).and_then(|current| chunk.entries.get(current)) else {
            return Ok(&[]);
        };
        if version.kind == EntryKind::Delete {
            return Ok(&[]);
        }
        self.found.reads.store(version.file, Relaxed);
        let values = match self.run_files.entry(version.file) {
            Entry::Occupied(values) => values.into_mut(),
            Entry::Vacant(place) => place.insert(Values::new(&*self.tables.reader(version.file)?, self.window_bytes)),
        };
        let Location { place, sequence, .. } = location(version);
        values.value(&KeyEntry { key, sequence, kind: EntryKind::Put, place })
    }
}
