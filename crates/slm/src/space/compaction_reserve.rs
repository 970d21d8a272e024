//! Room: space kept back so that compaction can give back what garbage takes, and compactions made for that alone.
//!
//! A compaction writes new files beside the old ones, which go at its end. On a disk, or in a pool, filled to the last
//! byte it could never begin, and the garbage would stay for ever. So before a put is admitted, space for *one output* is kept
//! back: on the disk a file of the size of the largest table file, in the pool a part of the reserve as large as the largest
//! key segment. (Of files that are not much larger than a compaction makes them; so a small store keeps back little.)
//! A compaction *for room* writes one file, into the space kept back: of one file or of several that become one
//! ([`picker::room`]). What its inputs give back is kept back again, and the rest is for others.
//!
//! A write is refused only when there is nothing more to gain: who finds no space asks for room, waits for the
//! compaction that is made for it, and tries again ([`Store::may_make_room`]). Every such compaction leaves less garbage or
//! fewer files, and one that finds no space itself is not tried again before something has changed; so this ends.
//!
//! Beside it a little is kept back for deletes, which are the way out. They never use what is for the output: their garbage may have to
//! wait until a snapshot is gone, or until somebody asks for a compaction, and could not be compacted away any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_env::{Env, Error, File, Result};
use slmdb_manifest::StoreState;
use slmdb_pmem::{Medium, Pool, UNIT_BYTES};
use slmdb_structures::fast_fair::{Segment, SegmentSize};
use slmdb_sync::epoch;
use slmdb_sync::scheduled::{
    Mutex,
    atomic::{AtomicBool, AtomicU64},
    thread,
};

use crate::compaction::plan::{CompactionReason, In, Plan};
use crate::compaction::requests::Inner;
use crate::selection as picker;
use crate::selection::low_space_policy as room;
use crate::selection::low_space_policy::{Candidate, Limits};
use crate::space::ballast::BALLAST_STEP_BYTES;
use crate::store::Store;
use slmdb_engine::lock_order;
use slmdb_engine::space::reserved_file::{FOR_COMPACTION, SetAside};
use slmdb_engine::{CompactionPolicy, Options};

/// A file is compacted for a put if less than this is needed of it. (With more, ever more would be rewritten for ever less. For
/// deletes, which are the way out, it is.)
const NEEDED_PART_MAX: f64 = 15.0 / 16.0;
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
    lacking: Lacking,
    /// By something that must not be stuck: the least garbage is worth it.
    pub(crate) at_any_cost: bool,
}

/// Space kept back for an output.
pub(crate) struct KeptBack {
    /// How much is to be kept back for an output on the disk, and in the pool.
    file_bytes: AtomicU64,
    segment_bytes: AtomicU64,
    /// What the largest table file has, of those that count; and what one may have at most that is to come of a MemTable.
    largest_bytes: AtomicU64,
    coming_bytes: AtomicU64,
    /// That on the disk; `None` before it was first there, and while a compaction has it.
    file: Mutex<Option<SetAside>>,
    /// A compaction has it, and gives it back, or what its inputs took.
    is_in_use: AtomicBool,
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
    fn wanted_bytes(&self) -> u64 {
        self.least_bytes().max(self.file_bytes.load(Ordering::Relaxed))
    }

    /// What of it is there on the disk.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.file.lock().as_ref().map_or(0, SetAside::length_bytes)
    }

    /// Sees to it that it is there, on the disk; with `all`, and not just the least. [`Error::Full`]: only a part is, or a compaction has it.
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

    /// [`Error::Full`]: a compaction has it, and who takes so much now may take what is to be kept back after it. (Where there is plenty
    /// it makes no difference.)
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
    pub(crate) fn take(&self, env: &dyn Env, path: &std::path::Path) -> Result<Option<(SetAside, Arc<dyn File>)>> {
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
    pub(crate) fn put_back(&self, space: SetAside, env: &dyn Env, path: &std::path::Path) -> Result<bool> {
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
fn space_in<'a>(file: &'a mut Option<SetAside>, env: &dyn Env, directory: &std::path::Path) -> Result<&'a SetAside> {
    Ok(match file {
        Some(space) => space,
        none => none.insert(SetAside::new(env, directory, FOR_COMPACTION)?),
    })
}

/// How long a table file may be that counts. (Those of large batches don't.)
fn counted_bytes_max(options: &Options) -> u64 {
    let usual_bytes = options.compaction.table_file_bytes.max(options.memtable_bytes);
    usual_bytes + usual_bytes / 4 + (64 << 10)
}

impl<M: Medium + Clone> Store<M> {
    /// What an error says there is too little of.
    pub(crate) fn lacking(&self, full: &Error) -> Lacking {
        match full {
            Error::Full { path, .. } if path == self.pool.path() => Lacking::Pool,
            _ => Lacking::Disk,
        }
    }

    /// Whether a compaction may bring space: one is under way, or one for room, which then begins. The caller waits for
    /// [`Store::work`], and tries again.
    pub(crate) fn may_make_room(&self, full: &Error, at_any_cost: bool) -> bool {
        let is_manual = self.options.compaction.policy == CompactionPolicy::Manual;
        let mut inner = self.compactions.inner.lock();
        if self.compactions.is_stopping() {
            return false;
        }
        if !inner.busy.is_empty() {
            return true;
        }
        if is_manual || inner.no_room[usize::from(at_any_cost)] {
            return false;
        }
        inner.room_wanted = Some(RoomWanted { lacking: self.lacking(full), at_any_cost });
        inner.changes += 1;
        self.compactions.changed.notify_all();
        true
    }

    /// The next compaction for room; `wanted` is `None` if nobody waits for it.
    pub(crate) fn plan_for_room(&self, inner: &Inner, state: &StoreState, wanted: Option<RoomWanted>) -> Option<Plan> {
        let is_free = |number: u32| {
            let is_taken = inner.busy.contains(&number) || inner.unfit.contains(&number);
            !is_taken && !inner.no_space_for.contains(&number)
        };
        let candidates = self.candidates_for_room(state, is_free);
        let limits = self.limits_for_room(inner.one_by_one);
        let threshold = match wanted {
            None => self.options.compaction.live_key_threshold,
            Some(wanted) if wanted.at_any_cost => f64::INFINITY,
            Some(_) => NEEDED_PART_MAX,
        };
        let pooled = if wanted.is_some_and(|wanted| wanted.lacking == Lacking::Pool) {
            room::in_pool(&candidates, &limits)
        } else {
            None
        };
        let inputs = pooled.or_else(|| room::on_disk(&candidates, threshold, &limits))?;
        Some(Plan { inputs, reason: CompactionReason::Space })
    }

    /// The next of these files that a compaction for room takes garbage from, however little it is; `one_by_one` if several don't fit.
    pub(crate) fn plan_of_garbage(&self, is_free: impl Fn(u32) -> bool, one_by_one: bool) -> Option<Plan> {
        let candidates = self.candidates_for_room(self.catalog.lock().state(), is_free);
        let inputs = room::on_disk(&candidates, f64::INFINITY, &self.limits_for_room(one_by_one))?;
        Some(Plan { inputs, reason: CompactionReason::CompactRange })
    }

    /// The next of these files that take less of the pool together.
    pub(crate) fn plan_in_pool(&self, is_free: impl Fn(u32) -> bool) -> Option<Plan> {
        let candidates = self.candidates_for_room(self.catalog.lock().state(), is_free);
        let inputs = room::in_pool(&candidates, &self.limits_for_room(false))?;
        Some(Plan { inputs, reason: CompactionReason::CompactRange })
    }

    fn limits_for_room(&self, one_by_one: bool) -> Limits {
        let wanted_bytes = self.kept_back.wanted_bytes();
        let free_bytes = self.env.available_bytes(&self.directory).unwrap_or(0);
        let there_bytes = self.kept_back.length_bytes().saturating_add(free_bytes);
        Limits {
            // What makes the largest file larger has to leave as much for the next one, and for deletes.
            file_bytes: there_bytes
                .saturating_sub(self.kept_back.for_deletes_bytes())
                .max(there_bytes.min(self.kept_back.for_one_file_bytes()))
                .min(wanted_bytes.max(self.options.compaction.table_file_bytes)),
            segment_bytes: self.kept_back.segment_bytes(),
            files: if one_by_one { 1 } else { self.options.compaction.files_merged_max },
        }
    }

    /// Files that would give back space at once: nobody sees an old version in them.
    fn candidates_for_room(&self, state: &StoreState, is_free: impl Fn(u32) -> bool) -> Vec<Candidate> {
        let numbers = state.files.keys().copied();
        let sizes = SegmentSize::of_files(&self.pool);
        self.candidates_among(state, &sizes, numbers.filter(|&number| is_free(number) && !self.snapshots.pins(number)))
    }

    fn candidates_among(
        &self,
        state: &StoreState,
        sizes: &BTreeMap<u32, SegmentSize>,
        numbers: impl Iterator<Item = u32>,
    ) -> Vec<Candidate> {
        let droppable_through = self.checkpoints.deletes_droppable_through();
        let files = numbers.filter_map(|number| state.files.get(&number).map(|file| (number, file)));
        let candidates = files.map(|(number, file)| {
            let size = sizes.get(&number).copied().unwrap_or_default();
            Candidate {
                number,
                entries: file.entries,
                garbage: picker::garbage(file, droppable_through),
                length_bytes: file.length_bytes,
                segment_bytes: size.extent_bytes,
                segment_filled_bytes: size.filled_bytes,
            }
        });
        candidates.collect()
    }

    /// Whether disk and pool seem to have space for what a compaction writes. What has to be given up half done has been written for
    /// nothing, and leaves its deletes in two files. (Who does not know says yes.)
    pub(crate) fn seems_to_have_space_for(&self, plan: &Plan) -> bool {
        let available_bytes = self.env.available_bytes(&self.directory).unwrap_or(u64::MAX);
        let sizes = SegmentSize::of_files(&self.pool);
        // Last, and not for long: readers that name candidates don't wait for it, but pass by.
        let inputs = self.candidates_among(self.catalog.lock().state(), &sizes, plan.inputs.iter().copied());
        let needed_bytes: u64 = inputs.iter().map(Candidate::needed_bytes).sum();
        let needed_segment_bytes: u64 = inputs.iter().map(Candidate::needed_segment_bytes).sum();
        let outputs = needed_bytes.div_ceil(self.options.compaction.table_file_bytes);
        let in_pool = self.pool.free_bytes().saturating_sub(self.pool.reserve_bytes());
        let in_pool = in_pool + self.pool.maximum_bytes().saturating_sub(self.pool.length_bytes());
        needed_bytes <= available_bytes && needed_segment_bytes + outputs * UNIT_BYTES <= in_pool
    }

    /// A compaction has ended, and its inputs have gone: what is to be kept back comes first, then those who wait.
    pub(crate) fn compaction_gave_space_back(&self, space: In) -> Result<()> {
        if space == In::KeptBack {
            self.kept_back.release();
            // Somebody waits for it.
            while self.retired.awaits_readers() && !self.compactions.is_stopping() {
                thread::sleep(READERS_PAUSE);
                epoch::pin().flush();
            }
        }
        let sizes = SegmentSize::of_files(&self.pool);
        self.kept_back.settle(&self.options, &sizes, self.catalog.lock().state());
        for filled in [self.fill_ballast(), self.reserve_again()] {
            match filled {
                Err(error) if !error.may_be_tried_again() => return Err(error),
                _ => {}
            }
        }
        self.space_came_back();
        Ok(())
    }

    /// A compaction has ended, or there will be none.
    pub(crate) fn tell_who_waits_for_space(&self) {
        let _traffic = self.writes.traffic.lock();
        self.writes.work.notify_all();
    }
}
