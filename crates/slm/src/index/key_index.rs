//! [`KeyIndex`]: what SLM-DB asks of its index, wherever that lies.
//!
//! The index knows each key that has a value in a table file, and where the newest version of it is. One thread changes it, the index
//! thread (INV-6), or an opening before there are any. Readers ask at any time, and wait for nobody.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::path::Path;

use slmdb_engine::VerifyReport;
use slmdb_engine::files::location::Location;
use slmdb_engine::space::allowance::Grant;
use slmdb_env::{Env, Error, Result};
use slmdb_manifest::FileRecord;
use slmdb_order::{Direction, KeyOrder};
use slmdb_pmem::Claim;
use slmdb_pmem::pool::ImageBinding;
use slmdb_structures::KeyLengths;
use slmdb_structures::fast_fair::{LeafRead, SegmentSize};
use slmdb_structures::memory_tree::RangeRead;
use slmdb_table::{KeySection, Place};

use super::in_memory::MemoryJob;
use super::in_pool::PoolJob;

/// Takes one live entry of a load: key, sequence number, place, and the position of its file among those that are loaded.
pub(crate) type LoadEntry<'l> = &'l mut dyn FnMut(&[u8], u64, Place, usize) -> Result<()>;

/// See the module.
pub(crate) trait KeyIndex: Send + Sync {
    /// The order of its keys.
    fn order(&self) -> &KeyOrder;

    /// Where the newest version of a key is.
    fn get(&self, key: &[u8]) -> Result<Option<Location>>;

    /// The same of many keys, which ascend; tells of each in turn.
    fn get_each(&self, keys: &[&[u8]], found: &mut dyn FnMut(Option<Location>)) -> Result<()>;

    /// Copies out what a moment sees in so many entries, or in one leaf if that has more, from a bound on in a direction. There may be
    /// nothing although more follows. What was replaced since that moment is not there ([`super::Snapshots`]).
    fn read(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        at_least: usize,
        moment: u64,
        into: &mut IndexRead,
    ) -> Result<()>;

    /// Entries from a range of keys. Their weights add up to about the number of keys in it.
    fn sample(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Vec<IndexSample>>;

    /// Number of keys. Reads all of the index.
    fn count(&self) -> Result<u64>;

    /// Number of levels.
    fn height(&self) -> Result<u32>;

    /// What it takes of plain memory beside the pool, in bytes.
    fn memory_bytes(&self) -> u64;

    /// What nodes, and what key segments take of the fast tier, in bytes.
    fn fast_tier_bytes(&self) -> (u64, u64);

    /// Notes that a flush begins to make a table file. What survives a crash knows of it on return.
    fn begin_flush(&self, flush: Flush) -> Result<IndexJob>;

    /// Notes that the table file of the flush is durable, with these keys. On return nothing but [`KeyIndex::insert`] is missing.
    fn flush_is_durable(&self, job: &mut IndexJob, keys: &KeySection) -> Result<()>;

    /// Notes that an output of a compaction is durable, with these keys. On return nothing but [`KeyIndex::repoint`] is missing.
    fn output_is_durable(&self, file: u32, keys: &KeySection, claim: Claim) -> Result<IndexJob>;

    /// Ends a job whose table file nothing in the index points to, and never will.
    fn give_up(&self, job: IndexJob) -> Result<()>;

    /// Points all keys of a flush to its file: a put replaces what is older, a delete removes it. `note` is called before an entry is
    /// replaced, with its key, its location, and the sequence number that takes its place. Returns how the live counts of other files
    /// change.
    ///
    /// May be called again after an error, and does only what is missing.
    fn insert(&self, job: &mut IndexJob, note: &dyn Fn(&[u8], Location, u64)) -> Result<BTreeMap<u32, i64>>;

    /// Points keys to the output of a compaction where the index has the same versions elsewhere (INV-15). Returns the number of keys by
    /// the file they came from. May be called again likewise.
    fn repoint(&self, job: &mut IndexJob) -> Result<BTreeMap<u32, u64>>;

    /// Ends a job that the MANIFEST has.
    fn end(&self, job: IndexJob) -> Result<()>;

    /// Frees what it keeps for these table files, which nothing points to, once no reader can be there.
    /// LOCKS: retired key segments
    fn forget(&self, files: &[u32]);

    /// Whether something of a file that it was told to forget may still be there.
    fn lingers(&self, file: u32) -> bool;

    /// Whether space will come soon, once the last readers have gone. They don't signal it.
    fn awaits_readers(&self) -> bool;

    /// How often space came so. A change is a reason to look for space again.
    fn returned_by_readers(&self) -> u64;

    /// Sets aside in the pool what flushing a grant takes at most, and `kept_back_bytes` for a compaction. `indexed`: the long keys of
    /// the store. [`Error::Full`] if it is not there.
    fn reserve(&self, grant: &Grant, indexed: KeyLengths, kept_back_bytes: u64) -> Result<()>;

    /// What each table file takes in the pool.
    fn sizes_of_files(&self) -> BTreeMap<u32, SegmentSize>;

    /// The long keys of the table files that are there.
    fn key_lengths(&self, is_there: &dyn Fn(u32) -> bool) -> KeyLengths;

    /// The jobs that an earlier opening left, in the order in which they must be carried on. `is_committed`: the MANIFEST has the file.
    fn left_jobs(&self, is_committed: &dyn Fn(u32) -> bool) -> Result<Vec<LeftJob>>;

    /// Frees what it keeps for table files that are not there.
    fn free_all_but(&self, is_there: &dyn Fn(u32) -> bool) -> Result<()>;

    /// Fills an empty index: the parts between these bounds, each on a thread of its own. `files`: numbers, and about how long their
    /// keys are together. `fill` gives the entries of a part, in order. An error means that the index is empty still.
    fn load(
        &self,
        bounds: &[Vec<u8>],
        files: &[(u32, u64)],
        fill: &(dyn Fn(usize, LoadEntry<'_>) -> Result<()> + Sync),
    ) -> Result<()>;

    /// Leaves an image for the next opening in a file, bound to its store and what it belongs to. Returns its length in bytes. The index is not used
    /// any more.
    fn write_image(&self, env: &dyn Env, path: &Path, uuid: [u8; 16], binding: &ImageBinding) -> Result<u64>;

    /// What is wrong with its structure.
    fn verify(&self) -> Vec<Error>;

    /// Tells what it keeps for files that are not there, and what is wrong with that for those that are. `keys_of`: how many keys a file
    /// has, if they can be read.
    fn verify_files(
        &self,
        files: &BTreeMap<u32, FileRecord>,
        keys_of: &dyn Fn(u32) -> Option<u64>,
        is_stray: &dyn Fn(u32) -> bool,
        report: &mut VerifyReport,
    );
}

/// A table file on its way into the index, as the index has it.
#[derive(Debug)]
pub(crate) enum IndexJob {
    Pool(PoolJob),
    Memory(MemoryJob),
}

/// A flush, as its job record names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flush {
    /// That of the MemTable's arena.
    pub(crate) generation: u64,
    /// The number of the table file.
    pub(crate) file: u32,
    /// The last sequence number in the MemTable.
    pub(crate) last_sequence: u64,
}

/// A job that an earlier opening left.
pub(crate) struct LeftJob {
    pub(crate) job: IndexJob,
    /// The number of the table file.
    pub(crate) file: u32,
    pub(crate) rest: Rest,
}

/// What is left of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing: the MANIFEST has it, or its MemTable is flushed again.
    Nothing,
    /// A flush is to be inserted: that of this arena, with this last sequence number.
    Insertion { generation: u64, last_sequence: u64 },
    /// Keys are to be pointed to an output of a compaction.
    Repointing,
}

/// An entry of the index: a key that is in some [`IndexRead`], and where its newest version is.
pub(crate) struct IndexEntry {
    pub(crate) key: Range<usize>,
    pub(crate) location: Location,
}

/// What was copied out of the index.
#[derive(Default)]
pub(crate) struct IndexRead {
    /// The keys of `entries`, concatenated.
    pub(crate) keys: Vec<u8>,
    /// In the order of reading.
    pub(crate) entries: Vec<IndexEntry>,
    /// Where to go on reading in the same direction: all keys up to there have been covered. `None`: there are no more.
    pub(crate) next: Option<Bound<Vec<u8>>>,
    /// Buffers for an index in the pool, and for one in memory.
    pub(super) leaf: LeafRead,
    pub(super) range: RangeRead,
}

impl IndexRead {
    /// The key of an entry.
    pub(crate) fn key(&self, entry: &IndexEntry) -> &[u8] {
        &self.keys[entry.key.clone()]
    }

    /// Adds an entry.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], location: Location) {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.entries.push(IndexEntry { key: start..self.keys.len(), location });
    }

    /// Makes buffers ready for another cursor. Those for an index in the pool are given up: they know where they were.
    pub(crate) fn reset(&mut self) {
        self.clear();
        self.range.clear();
        self.leaf = LeafRead::new();
    }

    /// What the buffers take after [`IndexRead::reset`], in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.keys.capacity() + self.entries.capacity() * size_of::<IndexEntry>()) as u64 + self.range.memory_bytes()
    }

    /// Forgets what was read, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.entries.clear();
        self.next = None;
    }
}

/// One of some entries that stand for all of a range.
pub(crate) struct IndexSample {
    pub(crate) key_bytes: usize,
    pub(crate) location: Location,
    /// How many keys it stands for.
    pub(crate) weight: f64,
}
