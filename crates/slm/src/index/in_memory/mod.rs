//! [`MemoryIndex`]: the index of a store on `Dram`, a tree made for plain memory ([`slmdb_structures::memory_tree`]). Nothing of it
//! outlives the process: an opening makes it from the table files ([`rebuild`](crate::recovery::rebuild)). So there are no job records,
//! and the key section of a table file is in memory for as long as its job lasts.

pub(crate) mod image;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use slmdb_engine::VerifyReport;
use slmdb_engine::files::location::Location;
use slmdb_engine::space::allowance::Grant;
use slmdb_env::{Env, Error, Result};
use slmdb_manifest::FileRecord;
use slmdb_order::{Direction, KeyOrder};
use slmdb_pmem::Claim;
use slmdb_pmem::pool::ImageBinding;
use slmdb_structures::fast_fair::SegmentSize;
use slmdb_structures::memory_tree::{BulkPart, Decision, Found, MemoryTree, Place, Settings, SystemMemory};
use slmdb_structures::{EntryKind, KeyLengths};
use slmdb_sync::epoch;
use slmdb_sync::scheduled::atomic::AtomicU64;
use slmdb_table::{KeyEntry, KeySection};

use super::key_index::{Flush, IndexEntry, IndexJob, IndexRead, IndexSample, KeyIndex, LeftJob, LoadEntry};
use super::side_by_side;

/// See the module.
pub(crate) struct MemoryIndex {
    tree: MemoryTree,
    /// The length of the longest key that it was loaded with.
    longest_loaded_bytes: AtomicU64,
}

/// A table file on its way into the index.
#[derive(Debug)]
pub(crate) struct MemoryJob {
    file: u32,
    /// Its keys. `None`: it is not durable yet.
    keys: Option<KeySection>,
    /// How many entries of other files have been replaced already, or pointed to this one.
    replaced: BTreeMap<u32, u64>,
}

impl MemoryJob {
    fn new(file: u32, keys: Option<KeySection>) -> MemoryJob {
        MemoryJob { file, keys, replaced: BTreeMap::new() }
    }

    /// The newest entry of each key.
    fn entries(&self) -> Result<Vec<KeyEntry<'_>>> {
        let keys = self.keys.as_ref();
        keys.ok_or_else(|| Error::invalid("a table file is not durable yet"))?.newest_entries().collect()
    }
}

/// The job of this index that a job is.
fn own(job: &mut IndexJob) -> Result<&mut MemoryJob> {
    match job {
        IndexJob::Memory(job) => Ok(job),
        IndexJob::Pool(_) => Err(Error::invalid("a job of an index in a pool")),
    }
}

impl MemoryIndex {
    /// An empty index.
    pub(crate) fn new() -> Result<MemoryIndex> {
        let tree = MemoryTree::new(Arc::new(SystemMemory), Settings::default())?;
        Ok(MemoryIndex { tree, longest_loaded_bytes: AtomicU64::new(0) })
    }

    /// Ends a load, of these parts.
    fn finish_load(&self, parts: Vec<BulkPart>) -> Result<()> {
        let longest_bytes = parts.iter().map(BulkPart::longest_key_bytes).max().unwrap_or(0);
        self.longest_loaded_bytes.store(longest_bytes as u64, Relaxed);
        self.tree.finish_bulk_load(parts)
    }

    /// Under the guard that it was found under.
    #[inline]
    fn location(&self, found: Found) -> Location {
        let Place { slot, offset, length_bytes } = found.place;
        let place = slmdb_table::Place { offset, length: length_bytes };
        Location { file: self.tree.files().file(slot), place, sequence: found.sequence }
    }
}

/// What the index has of an entry in the file of this slot.
fn found(slot: u32, place: slmdb_table::Place, sequence: u64) -> Found {
    Found { place: Place { slot, offset: place.offset, length_bytes: place.length }, sequence }
}

impl KeyIndex for MemoryIndex {
    fn order(&self) -> &KeyOrder {
        &KeyOrder::Bytewise
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Location>> {
        let guard = epoch::pin();
        Ok(self.tree.get(key, &guard).map(|found| self.location(found)))
    }

    fn get_each(&self, keys: &[&[u8]], found: &mut dyn FnMut(Option<Location>)) -> Result<()> {
        let guard = epoch::pin();
        self.tree.get_each(keys, &guard, |_, entry| {
            found(entry.map(|entry| self.location(entry)));
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
        let mut read = std::mem::take(&mut into.range);
        let guard = epoch::pin();
        self.tree.read(from, direction, at_least, &guard, &mut read);
        read.swap_keys(&mut into.keys);
        into.entries.reserve(read.ends().len());
        let mut start = 0;
        for (end, found) in read.ends() {
            if found.sequence <= moment {
                into.entries.push(IndexEntry { key: start..end, location: self.location(found) });
            }
            start = end;
        }
        into.next = read.next().map(|bound| bound.map(<[u8]>::to_vec));
        into.range = read;
        Ok(())
    }

    fn sample(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Vec<IndexSample>> {
        let guard = epoch::pin();
        let samples = self.tree.sample(range, &guard).into_iter();
        let located = samples.map(|sample| {
            let location = self.location(Found { place: sample.place, sequence: 0 });
            IndexSample { key_bytes: sample.key_bytes, location, weight: sample.weight }
        });
        Ok(located.collect())
    }

    fn count(&self) -> Result<u64> {
        Ok(self.tree.count(&epoch::pin()))
    }

    fn height(&self) -> Result<u32> {
        Ok(self.tree.height(&epoch::pin()))
    }

    fn memory_bytes(&self) -> u64 {
        self.tree.memory_bytes()
    }

    fn fast_tier_bytes(&self) -> (u64, u64) {
        (self.tree.memory_bytes(), 0)
    }

    fn begin_flush(&self, flush: Flush) -> Result<IndexJob> {
        Ok(IndexJob::Memory(MemoryJob::new(flush.file, None)))
    }

    fn flush_is_durable(&self, job: &mut IndexJob, keys: &KeySection) -> Result<()> {
        own(job)?.keys = Some(keys.clone());
        Ok(())
    }

    fn output_is_durable(&self, file: u32, keys: &KeySection, _claim: Claim) -> Result<IndexJob> {
        Ok(IndexJob::Memory(MemoryJob::new(file, Some(keys.clone()))))
    }

    fn give_up(&self, _job: IndexJob) -> Result<()> {
        Ok(())
    }

    /// LOCKS: snapshots
    fn insert(&self, job: &mut IndexJob, note: &dyn Fn(&[u8], Location, u64)) -> Result<BTreeMap<u32, i64>> {
        let job = own(job)?;
        let slot = self.tree.files().slot(job.file)?;
        let mut replaced = std::mem::take(&mut job.replaced);
        let entries = job.entries()?;
        let keys: Vec<&[u8]> = entries.iter().map(|entry| entry.key).collect();
        let inserted = self.tree.update_sorted(
            &keys,
            |index, current| {
                let entry = &entries[index];
                if let Some(current) = current {
                    let current = self.location(current);
                    // One version in two files: a compaction has copied it. The file with the larger number has it
                    // (INV-17).
                    if (current.sequence, current.file) >= (entry.sequence, job.file) {
                        return Ok(Decision::Keep);
                    }
                    note(entry.key, current, entry.sequence);
                }
                Ok(match entry.kind {
                    EntryKind::Put => Decision::Put(found(slot, entry.place, entry.sequence)),
                    EntryKind::Delete => Decision::Remove,
                })
            },
            |_, before| {
                if let Some(before) = before {
                    *replaced.entry(self.location(before).file).or_insert(0) += 1;
                }
            },
        );
        job.replaced = replaced;
        inserted?;
        Ok(job.replaced.iter().map(|(&file, &count)| (file, -(count as i64))).collect())
    }

    fn repoint(&self, job: &mut IndexJob) -> Result<BTreeMap<u32, u64>> {
        let job = own(job)?;
        let slot = self.tree.files().slot(job.file)?;
        let mut moved = std::mem::take(&mut job.replaced);
        let mut entries = job.entries()?;
        entries.retain(|entry| entry.kind == EntryKind::Put);
        let keys: Vec<&[u8]> = entries.iter().map(|entry| entry.key).collect();
        // This thread alone changes the index.
        let mut current = Vec::with_capacity(keys.len());
        self.tree.get_each(&keys, &epoch::pin(), |_, found| {
            current.push(found);
            Ok(())
        })?;
        let mut movable = Vec::new();
        for (entry, current) in entries.iter().zip(current) {
            let Some(current) = current else { continue };
            let from = self.location(current);
            // One version in two outputs: an earlier compaction was given up on the way. The later output has it
            // (INV-17).
            if from.sequence == entry.sequence && from.file < job.file {
                let to = found(slot, entry.place, entry.sequence).place;
                movable.push((entry.key, current.place, to, from.file));
            }
        }
        let keys: Vec<&[u8]> = movable.iter().map(|(key, ..)| *key).collect();
        let places = |index: usize| (movable[index].1, movable[index].2);
        let repointed = self.tree.repoint(&keys, places, |index| *moved.entry(movable[index].3).or_insert(0) += 1);
        job.replaced = moved;
        repointed?;
        Ok(job.replaced.clone())
    }

    fn end(&self, _job: IndexJob) -> Result<()> {
        Ok(())
    }

    fn forget(&self, files: &[u32]) {
        files.iter().for_each(|&file| self.tree.files().forget(file));
    }

    fn lingers(&self, _file: u32) -> bool {
        false
    }

    fn awaits_readers(&self) -> bool {
        false
    }

    fn returned_by_readers(&self) -> u64 {
        0
    }

    fn reserve(&self, _grant: &Grant, _indexed: KeyLengths, _kept_back_bytes: u64) -> Result<()> {
        Ok(())
    }

    fn sizes_of_files(&self) -> BTreeMap<u32, SegmentSize> {
        BTreeMap::new()
    }

    fn key_lengths(&self, _is_there: &dyn Fn(u32) -> bool) -> KeyLengths {
        KeyLengths { longest_bytes: self.longest_loaded_bytes.load(Relaxed) as u32, long_bytes: 0 }
    }

    fn left_jobs(&self, _is_committed: &dyn Fn(u32) -> bool) -> Result<Vec<LeftJob>> {
        Ok(Vec::new())
    }

    fn free_all_but(&self, _is_there: &dyn Fn(u32) -> bool) -> Result<()> {
        Ok(())
    }

    fn load(
        &self,
        bounds: &[Vec<u8>],
        files: &[(u32, u64)],
        fill: &(dyn Fn(usize, LoadEntry<'_>) -> Result<()> + Sync),
    ) -> Result<()> {
        let slots: Vec<u32> = files.iter().map(|&(file, _)| self.tree.files().slot(file)).collect::<Result<_>>()?;
        let fill_part = |number: usize| -> Result<BulkPart> {
            let mut part = self.tree.bulk_part();
            fill(number, &mut |key: &[u8], sequence, place: slmdb_table::Place, file: usize| {
                part.add(key, found(slots[file], place, sequence))
            })?;
            Ok(part)
        };
        self.finish_load(side_by_side(0..=bounds.len(), fill_part)?)
    }

    fn write_image(&self, env: &dyn Env, path: &Path, uuid: [u8; 16], binding: &ImageBinding) -> Result<u64> {
        self.write_pages(env, path, image::seed(uuid, binding))
    }

    fn verify(&self) -> Vec<Error> {
        self.tree.verify(&epoch::pin())
    }

    fn verify_files(
        &self,
        _files: &BTreeMap<u32, FileRecord>,
        _keys_of: &dyn Fn(u32) -> Option<u64>,
        is_stray: &dyn Fn(u32) -> bool,
        report: &mut VerifyReport,
    ) {
        let has_slot = |file: u32| self.tree.files().files().iter().any(|&(other, _)| other == file);
        for (file, _) in self.tree.files().files() {
            // (One that a compaction has just removed may have lost its slot meanwhile.)
            if is_stray(file) && has_slot(file) {
                let what = format!("the index has a slot for table file {file}, which the MANIFEST does not know");
                report.findings.push(Error::corruption("index", 0, what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(index: &MemoryIndex, is_stray: &dyn Fn(u32) -> bool) -> usize {
        let mut report = VerifyReport::default();
        index.verify_files(&BTreeMap::new(), &|_| None, is_stray, &mut report);
        report.findings.len()
    }

    /// A verification found a slot of a file that a compaction removed at that moment.
    #[test]
    fn a_slot_that_goes_while_it_is_verified_is_none_too_many() {
        let index = MemoryIndex::new().unwrap();
        index.tree.files().slot(7).unwrap();
        assert_eq!(findings(&index, &|_| false), 0);
        assert_eq!(findings(&index, &|_| true), 1);
        let goes = |file: u32| {
            index.forget(&[file]);
            true
        };
        assert_eq!(findings(&index, &goes), 0);
    }
}
