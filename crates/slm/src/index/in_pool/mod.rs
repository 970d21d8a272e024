//! [`PoolIndex`]: the paper's index, a FAST and FAIR tree in the pool whose entries lead to key records. Those of a table file lie in
//! its key segment, and a job record says how far each file has come. On `Dram` the pool is plain memory, and there are no job records.

pub(crate) mod compaction_log;
pub(crate) mod insertion;
mod key_segments;
mod load;
pub(crate) mod location;
pub(crate) mod open;
pub(crate) mod reserve;
pub(crate) mod retired_segments;
mod verify;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use slmdb_engine::VerifyReport;
use slmdb_engine::files::location::Location;
use slmdb_engine::space::allowance::Grant;
use slmdb_env::{Env, Error, Result};
use slmdb_manifest::FileRecord;
use slmdb_order::{Direction, KeyOrder};
use slmdb_pmem::pool::ImageBinding;
use slmdb_pmem::{AnyMedium, Claim, ExtentKind, Medium, Pool};
use slmdb_structures::KeyLengths;
use slmdb_structures::fast_fair::{Segment, SegmentSize, Tree, key_lengths_in_segments};
use slmdb_sync::epoch;
use slmdb_table::KeySection;

use self::compaction_log::{CompactionLog, Job, Phase, Slot};
use self::insertion::{insert_segment, repoint_to};
use self::key_segments::segment_of;
use self::location::location;
use self::retired_segments::RetiredSegments;
use super::key_index::{Flush, IndexEntry, IndexJob, IndexRead, IndexSample, KeyIndex, LeftJob, LoadEntry, Rest};

/// Where the keys of one reading are longer together, in bytes, room for more is made as they come.
pub(crate) const KEYS_BYTES_MAX: usize = 16 << 10;

/// A table file on its way into the index.
#[derive(Debug)]
pub(crate) struct PoolJob {
    file: u32,
    /// The file's key segment. `None`: it is not durable yet, or not needed.
    segment: Option<Segment>,
    /// Its job record, where the medium is persistent.
    slot: Option<(Slot, Job)>,
}

/// See the module.
pub(crate) struct PoolIndex {
    pool: Arc<Pool<AnyMedium>>,
    tree: Tree<AnyMedium>,
    jobs: CompactionLog,
    retired: RetiredSegments,
}

impl PoolIndex {
    /// The index that this tree in this pool is.
    pub(crate) fn new(pool: Arc<Pool<AnyMedium>>, tree: Tree<AnyMedium>) -> PoolIndex {
        PoolIndex { retired: RetiredSegments::new(&pool), jobs: CompactionLog::default(), pool, tree }
    }

    fn record(&self, job: Job) -> Result<Option<(Slot, Job)>> {
        if !self.pool.medium().is_persistent() {
            return Ok(None);
        }
        Ok(Some((self.jobs.record(&self.pool, &job)?, job)))
    }

    fn clear(&self, slot: Option<(Slot, Job)>) -> Result<()> {
        slot.map_or(Ok(()), |(slot, _)| self.jobs.clear(&self.pool, slot))
    }
}

/// The job of this index that a job is.
fn own(job: &mut IndexJob) -> Result<&mut PoolJob> {
    match job {
        IndexJob::Pool(job) => Ok(job),
        IndexJob::Memory(_) => Err(Error::invalid("a job of an index in memory")),
    }
}

/// The key segment of a job that has come so far.
fn segment(job: &mut IndexJob) -> Result<&Segment> {
    own(job)?.segment.as_ref().ok_or_else(|| Error::invalid("the key segment of a table file is not durable yet"))
}

/// Whether keys follow each other, and are within the range that was read. Nothing else shows that in an index whose bytes were forged.
fn is_in_order(read: &IndexRead, from: Bound<&[u8]>, direction: Direction, order: &KeyOrder) -> bool {
    let key = |entry: &IndexEntry| read.key(entry);
    let (Some(first), Some(last)) = (read.entries.first(), read.entries.last()) else { return true };
    let (follows, begins_within) = match direction {
        Direction::Forward => (Ordering::Less, order.is_from(key(first), from)),
        Direction::Backward => (Ordering::Greater, order.is_up_to(key(first), from)),
    };
    let ends_within = match &read.next {
        None | Some(Bound::Unbounded) => true,
        Some(Bound::Included(next)) => order.compare(key(last), next) == follows,
        Some(Bound::Excluded(next)) => order.compare(key(last), next) != follows.reverse(),
    };
    let follow = |pair: &[IndexEntry]| order.compare(key(&pair[0]), key(&pair[1])) == follows;
    begins_within && ends_within && read.entries.windows(2).all(follow)
}

impl KeyIndex for PoolIndex {
    fn order(&self) -> &KeyOrder {
        self.tree.order()
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Location>> {
        let guard = epoch::pin();
        Ok(self.tree.get(key, &guard)?.map(|record| location(&record)))
    }

    fn get_each(&self, keys: &[&[u8]], found: &mut dyn FnMut(Option<Location>)) -> Result<()> {
        let guard = epoch::pin();
        self.tree.get_each(keys, &guard, |_, record| {
            found(record.map(|record| location(&record)));
            Ok(())
        })
    }

    fn read(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        at_least: usize,
        moment: u64,
        into: &mut IndexRead,
    ) -> Result<()> {
        into.clear();
        let mut leaf = std::mem::take(&mut into.leaf);
        let guard = epoch::pin();
        let read = self.tree.read_leaves(from, direction, at_least, &guard, &mut leaf).and_then(|()| {
            let records = leaf.records();
            self.tree.prefetch_records(records);
            into.entries.reserve(records.len());
            for &offset in records {
                let record = self.tree.record_at_hand(offset, &guard)?;
                if record.sequence() <= moment {
                    if into.keys.is_empty() {
                        // Most keys of a store are about as long.
                        into.keys.reserve((record.key().len() * records.len()).min(KEYS_BYTES_MAX));
                    }
                    into.add(record.key(), location(&record));
                }
            }
            into.next = leaf.next().map(|bound| bound.map(<[u8]>::to_vec));
            if is_in_order(into, from, direction, self.tree.order()) {
                Ok(())
            } else {
                Err(Error::corruption(self.pool.path(), 0, "the keys of the index do not ascend"))
            }
        });
        into.leaf = leaf;
        if read.is_err() {
            into.clear();
        }
        read
    }

    fn sample(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Vec<IndexSample>> {
        let guard = epoch::pin();
        let samples = self.tree.sample(range, &guard)?.into_iter();
        let of_record = |sample: slmdb_structures::fast_fair::Sample| {
            let record = self.tree.record(sample.record, &guard)?;
            let (key_bytes, location) = (record.key().len(), location(&record));
            Ok(IndexSample { key_bytes, location, weight: sample.weight })
        };
        samples.map(of_record).collect()
    }

    fn count(&self) -> Result<u64> {
        self.tree.count()
    }

    fn height(&self) -> Result<u32> {
        self.tree.height()
    }

    fn memory_bytes(&self) -> u64 {
        self.tree.memory_bytes()
    }

    fn fast_tier_bytes(&self) -> (u64, u64) {
        let extents = self.pool.extents();
        let taken_by =
            |kind| extents.iter().filter(|extent| extent.kind == kind).map(|extent| extent.length_bytes).sum();
        (taken_by(ExtentKind::Blocks), taken_by(ExtentKind::KeySegment))
    }

    /// LOCKS: jobs
    fn begin_flush(&self, Flush { generation, file, last_sequence }: Flush) -> Result<IndexJob> {
        let job = Job { phase: Phase::Building, generation, file, last_sequence, order: last_sequence };
        Ok(IndexJob::Pool(PoolJob { file, segment: None, slot: self.record(job)? }))
    }

    fn flush_is_durable(&self, job: &mut IndexJob, keys: &KeySection) -> Result<()> {
        let job = own(job)?;
        job.segment = Some(segment_of(&self.pool, job.file, keys, Claim::Privileged)?);
        if let Some((slot, job)) = &mut job.slot {
            job.phase = Phase::Indexing;
            self.jobs.advance(&self.pool, slot, job)?;
        }
        Ok(())
    }

    /// LOCKS: jobs
    fn output_is_durable(&self, file: u32, keys: &KeySection, claim: Claim) -> Result<IndexJob> {
        let segment = Some(segment_of(&self.pool, file, keys, claim)?);
        Ok(IndexJob::Pool(PoolJob { file, segment, slot: self.record(Job::moving(file))? }))
    }

    /// LOCKS: jobs
    fn give_up(&self, mut job: IndexJob) -> Result<()> {
        let job = own(&mut job)?;
        // The job record goes first: the next opening would take it for a file to which keys may have moved.
        self.clear(job.slot.take())?;
        job.segment.as_ref().map_or(Ok(()), |segment| segment.free(&self.pool))
    }

    fn insert(&self, job: &mut IndexJob, note: &dyn Fn(&[u8], Location, u64)) -> Result<BTreeMap<u32, i64>> {
        insert_segment(&self.tree, &self.pool, segment(job)?, note)
    }

    fn repoint(&self, job: &mut IndexJob) -> Result<BTreeMap<u32, u64>> {
        repoint_to(&self.tree, &self.pool, segment(job)?)
    }

    /// LOCKS: jobs
    fn end(&self, mut job: IndexJob) -> Result<()> {
        self.clear(own(&mut job)?.slot.take())
    }

    fn forget(&self, files: &[u32]) {
        self.retired.retire(files);
    }

    fn lingers(&self, file: u32) -> bool {
        self.retired.linger(file)
    }

    fn awaits_readers(&self) -> bool {
        self.retired.awaits_readers()
    }

    fn returned_by_readers(&self) -> u64 {
        self.retired.returned()
    }

    fn reserve(&self, grant: &Grant, indexed: KeyLengths, kept_back_bytes: u64) -> Result<()> {
        reserve::reserve(&self.pool, &self.tree, grant, indexed, kept_back_bytes)
    }

    fn sizes_of_files(&self) -> BTreeMap<u32, SegmentSize> {
        SegmentSize::of_files(&self.pool)
    }

    fn key_lengths(&self, is_there: &dyn Fn(u32) -> bool) -> KeyLengths {
        key_lengths_in_segments(&self.pool, is_there)
    }

    fn left_jobs(&self, is_committed: &dyn Fn(u32) -> bool) -> Result<Vec<LeftJob>> {
        if !self.pool.medium().is_persistent() {
            return Ok(Vec::new());
        }
        let left = self.jobs.left(&self.pool)?.into_iter();
        let carried_on = left.map(|(job, slot)| {
            let Job { phase, generation, file, last_sequence, .. } = job;
            let rest = match phase {
                _ if is_committed(file) => Rest::Nothing,
                Phase::Building => Rest::Nothing,
                Phase::Indexing => Rest::Insertion { generation, last_sequence },
                Phase::Repointing => Rest::Repointing,
            };
            let segment = if rest == Rest::Nothing { None } else { Some(Segment::of_file(&self.pool, file)?) };
            let job = PoolJob { file, segment, slot: Some((slot, job)) };
            Ok(LeftJob { job: IndexJob::Pool(job), file, rest })
        });
        carried_on.collect()
    }

    fn free_all_but(&self, is_there: &dyn Fn(u32) -> bool) -> Result<()> {
        for extent in self.pool.extents() {
            if extent.kind == ExtentKind::KeySegment && !is_there(extent.owner) {
                self.pool.free_extent(extent.offset)?;
            }
        }
        Ok(())
    }

    fn load(
        &self,
        bounds: &[Vec<u8>],
        files: &[(u32, u64)],
        fill: &(dyn Fn(usize, LoadEntry<'_>) -> Result<()> + Sync),
    ) -> Result<()> {
        load::load(&self.pool, &self.tree, bounds, files, fill)
    }

    fn write_image(&self, env: &dyn Env, path: &Path, _uuid: [u8; 16], binding: &ImageBinding) -> Result<u64> {
        // (The pool has the store's identity itself.)
        self.pool.write_image(env, path, binding)
    }

    fn verify(&self) -> Vec<Error> {
        self.tree.verify()
    }

    fn verify_files(
        &self,
        files: &BTreeMap<u32, FileRecord>,
        keys_of: &dyn Fn(u32) -> Option<u64>,
        is_stray: &dyn Fn(u32) -> bool,
        report: &mut VerifyReport,
    ) {
        verify::verify_segments(&self.pool, files, keys_of, is_stray, report);
    }
}
