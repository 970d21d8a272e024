//! [`KeptBack`]: space for the output of a compaction, and for deletes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_engine::space::reserved_file::{FOR_COMPACTION, ReservedFile};
use slmdb_engine::{Options, lock_order};
use slmdb_env::{Env, Error, File, Result};
use slmdb_manifest::StoreState;
use slmdb_pmem::{Medium, Pool};
use slmdb_structures::fast_fair::{Segment, SegmentSize};
use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::atomic::{AtomicBool, AtomicU64};

/// What a MANIFEST record gets of it at a time. (What it does not need of that anybody may take.)
pub(crate) const BALLAST_STEP_BYTES: u64 = 4 << 10;
/// As much is kept back as this part of all table files, even if each of them is smaller; but not more than a compaction's
/// files have. (So small files can be merged, until there are few.)
const PART_KEPT_BACK: u64 = 4;
/// So much is kept back on the disk for table files of deletes; else only a MANIFEST record takes it that finds no other.
pub(crate) const FOR_DELETES_BYTES: u64 = 3 * BALLAST_STEP_BYTES;
/// With so many times what is needed free, and so much more, nobody has to wait for a compaction that has what is kept back.
const PLENTY_TIMES: u64 = 8;
const PLENTY_BYTES: u64 = 16 << 20;
/// Who waits for readers of key segments looks so often whether they have gone.
pub(crate) const READERS_PAUSE: Duration = Duration::from_millis(1);

/// What there is too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lacking {
    Disk,
    Pool,
}

/// What room is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoomWanted {
    pub(crate) lacking: Lacking,
    /// By something that must not be stuck: the least garbage is worth it.
    pub(crate) at_any_cost: bool,
}

/// Space kept back for an output.
pub(crate) struct KeptBack {
    /// How much is to be kept back for an output on the disk, and in the pool.
    pub(crate) file_bytes: AtomicU64,
    pub(crate) segment_bytes: AtomicU64,
    /// What the largest table file has, of those that count; and what one may have at most that is to come of a MemTable.
    pub(crate) largest_bytes: AtomicU64,
    pub(crate) coming_bytes: AtomicU64,
    /// That on the disk; `None` before it was first there, and while a compaction has it.
    pub(crate) file: Mutex<Option<ReservedFile>>,
    /// A compaction has it, and gives it back, or what its inputs took.
    pub(crate) is_in_use: AtomicBool,
}

impl Default for KeptBack {
    fn default() -> KeptBack {
        KeptBack {
            file_bytes: AtomicU64::new(0),
            segment_bytes: AtomicU64::new(0),
            largest_bytes: AtomicU64::new(0),
            coming_bytes: AtomicU64::new(0),
            file: Mutex::ranked(lock_order::KEPT_BACK, None),
            is_in_use: AtomicBool::new(false),
        }
    }
}

impl KeptBack {
    /// What is to be kept back in the pool.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.load(Ordering::Relaxed)
    }

    /// Settles how much is to be kept back, by all table files that there are and the sizes of their key segments.
    pub(crate) fn settle(&self, options: &Options, sizes: &BTreeMap<u32, SegmentSize>, state: &StoreState) {
        let all_bytes: u64 = state.files.values().map(|file| file.length_bytes).sum();
        let part_bytes = options.compaction.table_file_bytes.min(all_bytes / PART_KEPT_BACK);
        let (mut largest_bytes, mut segment_bytes) = (0, 0);
        for (number, file) in state.files.iter().filter(|(_, file)| file.length_bytes <= counted_bytes_max(options)) {
            largest_bytes = file.length_bytes.max(largest_bytes);
            segment_bytes = sizes.get(number).map_or(0, |size| size.extent_bytes).max(segment_bytes);
        }
        self.file_bytes.store(part_bytes.max(largest_bytes), Ordering::Relaxed);
        self.largest_bytes.store(largest_bytes, Ordering::Relaxed);
        self.segment_bytes.store(segment_bytes, Ordering::Relaxed);
    }

    /// The same when a file has come.
    pub(crate) fn settle_with<M: Medium>(&self, options: &Options, pool: &Pool<M>, file_bytes: u64, segment: &Segment) {
        if file_bytes <= counted_bytes_max(options) {
            let extents = segment.parts().iter().filter_map(|part| pool.extent_at(part.offset));
            self.file_bytes.fetch_max(file_bytes, Ordering::Relaxed);
            self.largest_bytes.fetch_max(file_bytes, Ordering::Relaxed);
            self.segment_bytes.fetch_max(extents.map(|extent| extent.length_bytes).sum(), Ordering::Relaxed);
        }
    }

    /// A table file of so many bytes may come of a MemTable. Returns what was expected before.
    pub(crate) fn expect(&self, options: &Options, file_bytes: u64) -> u64 {
        let counted_bytes = if file_bytes <= counted_bytes_max(options) { file_bytes } else { 0 };
        self.coming_bytes.fetch_max(counted_bytes, Ordering::Relaxed)
    }

    /// It will not come: this is expected, as before.
    pub(crate) fn expect_again(&self, file_bytes: u64) {
        self.coming_bytes.store(file_bytes, Ordering::Relaxed);
    }

    /// How much of it the output of a single file takes at most, on the disk. Nobody else takes that, but a MANIFEST record that finds
    /// no other: with as much, all garbage can be compacted away, a file at a time.
    pub(crate) fn for_one_file_bytes(&self) -> u64 {
        self.largest_bytes.load(Ordering::Relaxed).max(self.coming_bytes.load(Ordering::Relaxed))
    }

    /// How much of it is for deletes beside that: neither the ballast nor those with long keys take it.
    pub(crate) fn for_deletes_bytes(&self) -> u64 {
        self.for_one_file_bytes().min(FOR_DELETES_BYTES)
    }

    /// Both.
    pub(crate) fn least_bytes(&self) -> u64 {
        self.for_one_file_bytes() + self.for_deletes_bytes()
    }

    /// How much there should be, on the disk.
    pub(crate) fn wanted_bytes(&self) -> u64 {
        self.least_bytes().max(self.file_bytes.load(Ordering::Relaxed))
    }

    /// What of it is there on the disk.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.file.lock().as_ref().map_or(0, ReservedFile::length_bytes)
    }

    /// Sees to it that it is there, on the disk; with `all`, and not just the least. [`Error::Full`]: only a part is, or a
    /// compaction has it.
    pub(crate) fn fill(&self, env: &dyn Env, directory: &std::path::Path, all: bool) -> Result<()> {
        let wanted = if all { self.wanted_bytes() } else { self.least_bytes() };
        let mut file = self.file.lock();
        if self.is_in_use.load(Ordering::Acquire) {
            return self.check_not_needed(env, directory, 0);
        }
        if wanted == 0 && file.is_none() {
            return Ok(());
        }
        let space = space_in(&mut file, env, directory)?;
        let length_bytes = space.length_bytes();
        if all && length_bytes / 2 > wanted {
            return space.lower_by(length_bytes - wanted).map(|_| ());
        }
        let full = match space.raise(wanted) {
            Err(full @ Error::Full { .. }) => full,
            done => return done,
        };
        let all_bytes = length_bytes.saturating_add(env.available_bytes(directory).unwrap_or(0));
        for less in [all_bytes, wanted / 2, wanted / 4, wanted / 8, wanted / 16] {
            match space.raise(less) {
                Err(Error::Full { .. }) => {}
                Ok(()) => break,
                Err(error) => return Err(error),
            }
        }
        Err(full)
    }

    /// [`Error::Full`]: a compaction has it, and who takes so much now may take what is to be kept back after it. (Where
    /// there is plenty it makes no difference.)
    pub(crate) fn check_not_needed(&self, env: &dyn Env, directory: &std::path::Path, more_bytes: u64) -> Result<()> {
        let needed_bytes = more_bytes.saturating_add(self.wanted_bytes());
        let plenty_bytes = needed_bytes.saturating_mul(PLENTY_TIMES).saturating_add(PLENTY_BYTES);
        let is_scarce = || env.available_bytes(directory).is_ok_and(|free_bytes| free_bytes < plenty_bytes);
        if self.is_in_use.load(Ordering::Acquire) && is_scarce() {
            let what = "keep back what a compaction has".into();
            return Err(Error::Full { path: directory.into(), what });
        }
        Ok(())
    }

    /// Sees to it that what is for deletes is there. [`Error::Full`]: it is not.
    pub(crate) fn fill_for_deletes(&self, env: &dyn Env, directory: &std::path::Path) -> Result<()> {
        let mut file = self.file.lock();
        let wanted = self.for_deletes_bytes();
        if self.is_in_use.load(Ordering::Acquire) || wanted == 0 {
            return Ok(());
        }
        space_in(&mut file, env, directory)?.raise(wanted)
    }

    /// Gives so much of it back to a full disk. Says whether there was any.
    pub(crate) fn lower_by(&self, bytes: u64) -> Result<bool> {
        self.file.lock().as_ref().map_or(Ok(false), |space| space.lower_by(bytes))
    }

    /// Turns it into a file to be written; `None` if another compaction has it.
    pub(crate) fn take(&self, env: &dyn Env, path: &std::path::Path) -> Result<Option<(ReservedFile, Arc<dyn File>)>> {
        let mut file = self.file.lock();
        let Some(space) = file.take() else { return Ok(None) };
        let taken = match space.take(env, path) {
            Err(lack) if lack.is_passing_lack() => {
                *file = Some(space);
                return Err(lack);
            }
            taken => taken?,
        };
        self.is_in_use.store(taken.is_some(), Ordering::Release);
        Ok(taken.map(|file| (space, file)))
    }

    /// The file was not finished: it is space again. Says whether it is; else it is a file in the way.
    pub(crate) fn put_back(&self, space: ReservedFile, env: &dyn Env, path: &std::path::Path) -> Result<bool> {
        let mut file = self.file.lock();
        self.is_in_use.store(false, Ordering::Release);
        let is_back = file.is_none() && space.put_back(env, path)?;
        if is_back {
            *file = Some(space);
        }
        Ok(is_back)
    }

    /// The compaction that had it has ended.
    pub(crate) fn release(&self) {
        self.is_in_use.store(false, Ordering::Release);
    }

    /// Gives it to the file system.
    pub(crate) fn discard(&self, env: &dyn Env) -> Result<()> {
        self.file.lock().take().map_or(Ok(()), |space| space.discard(env))
    }
}

/// What is there, or nothing yet.
pub(crate) fn space_in<'a>(
    file: &'a mut Option<ReservedFile>,
    env: &dyn Env,
    directory: &std::path::Path,
) -> Result<&'a ReservedFile> {
    Ok(match file {
        Some(space) => space,
        none => none.insert(ReservedFile::new(env, directory, FOR_COMPACTION)?),
    })
}

/// How long a table file may be that counts. (Those of large batches don't.)
pub(crate) fn counted_bytes_max(options: &Options) -> u64 {
    let usual_bytes = options.compaction.table_file_bytes.max(options.memtable_bytes);
    usual_bytes + usual_bytes / 4 + (64 << 10)
}
