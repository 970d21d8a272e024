//! [`Reserve`]: the disk space that leads out of a full disk (INV-32).
//!
//! It is one file, and full before a put is admitted. It has two parts:
//!
//! 1. The output of a compaction for space. With as much as the largest table file takes, all garbage can be compacted
//!    away, one file at a time. Without it, no garbage ever could be. It is a quarter of all files if that is more, but
//!    at most a usual file: so small files can become larger ones.
//! 2. Table files of deletes, which are the way out, and records of the MANIFEST beyond those that have [space of their
//!    own](slmdb_manifest::Manifest::reserve). These leave the output its part.
//!
//! A new MANIFEST is written while the old one is there. It may take all of the reserve: the old one gives as much back.
//! So the first part is at least as long as a new MANIFEST. Otherwise a store that was killed could not be opened for
//! writing until the disk has space.
//!
//! A put never uses the reserve. A part is used by giving it back to the file system and taking it from there at once,
//! so another process that fills the same disk may be faster. A compaction [takes the file itself](Reserve::take), and
//! no other can be faster than that.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_env::{Env, Error, File, Result};
use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::atomic::AtomicU64;

use super::reserved_file::ReservedFile;
use crate::files::file_names::RESERVE;
use crate::{Options, lock_order};

/// Part of a MemTable that is reserved for deletes, within these limits in bytes.
const PART_FOR_DELETES: u64 = 8;
const FOR_DELETES_BYTES_MIN: u64 = 16 << 10;
const FOR_DELETES_BYTES_MAX: u64 = 1 << 20;
/// A part is given back to the file system in pieces of this many bytes. What is left of a piece is free for any use.
const STEP_BYTES: u64 = 4 << 10;
/// A file that is longer than a usual one by more than this part and these bytes comes from a large batch, and does not
/// count.
const LARGER_PART: u64 = 4;
const LARGER_BYTES: u64 = 64 << 10;
/// An output may have this part of all table files, but no more than a usual one.
const PART_OF_ALL: u64 = 4;
/// The same where several outputs are written.
const PART_OF_ALL_OUTPUTS: u64 = 32;
/// With this many times the need free, and these bytes more, no request waits for a compaction that has taken the
/// reserve.
const PLENTY_TIMES: u64 = 8;
const PLENTY_BYTES: u64 = 16 << 20;

/// What a part of the reserve is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A record of the MANIFEST that is being written, or a new MANIFEST: it must not fail, or gives the space back.
    Manifest,
    /// Records of the MANIFEST to come.
    Records,
    /// A table file of deletes.
    Deletes,
}

/// Where a compaction writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputSpace {
    /// In free space, as many files as it takes.
    Free,
    /// In the reserve, as one file.
    Reserve,
}

/// Disk space that leads out of a full disk.
pub struct Reserve {
    env: Arc<dyn Env>,
    directory: PathBuf,
    table_file_bytes: u64,
    memtable_bytes: u64,
    for_deletes_bytes: u64,
    /// The most bytes that a new MANIFEST takes, with the records to come.
    manifest_bytes: AtomicU64,
    /// Bytes of all table files; of the largest, among those that count; and the most that one may have that is to come
    /// from a MemTable.
    all_bytes: AtomicU64,
    largest_bytes: AtomicU64,
    coming_bytes: AtomicU64,
    /// How many outputs of the usual length a compaction for space writes at most; 1: one as long as a file that is there.
    outputs: AtomicU64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// `None` before it is first made, and while a compaction has it.
    file: Option<ReservedFile>,
    /// A compaction has it, and gives back the file, or what its inputs took.
    is_taken: bool,
}

impl Reserve {
    /// The reserve of the store in this directory, with no file yet.
    pub fn new(options: &Options, directory: &Path) -> Reserve {
        let for_deletes_bytes = options.memtable_bytes / PART_FOR_DELETES;
        Reserve {
            env: options.env.clone(),
            directory: directory.into(),
            table_file_bytes: options.compaction.table_file_bytes,
            memtable_bytes: options.memtable_bytes,
            for_deletes_bytes: for_deletes_bytes.clamp(FOR_DELETES_BYTES_MIN, FOR_DELETES_BYTES_MAX),
            manifest_bytes: AtomicU64::new(0),
            all_bytes: AtomicU64::new(0),
            largest_bytes: AtomicU64::new(0),
            coming_bytes: AtomicU64::new(0),
            outputs: AtomicU64::new(1),
            held: Mutex::ranked(lock_order::RESERVE, Held::default()),
        }
    }

    /// Sets the most bytes that a new MANIFEST takes, with the records to come.
    pub fn set_manifest_bytes(&self, bytes: u64) {
        self.manifest_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Sets how many outputs of the usual length a compaction for space writes at most. Unless an engine says this, it is
    /// one, no longer than the table files that there are.
    pub fn set_outputs(&self, outputs: u64) {
        self.outputs.store(outputs, Ordering::Relaxed);
    }

    /// Sets the lengths of all table files, in bytes.
    pub fn set_files(&self, lengths: impl Iterator<Item = u64>) {
        let (mut all_bytes, mut largest_bytes) = (0_u64, 0);
        for bytes in lengths {
            all_bytes = all_bytes.saturating_add(bytes);
            largest_bytes = if self.counts(bytes) { bytes.max(largest_bytes) } else { largest_bytes };
        }
        self.all_bytes.store(all_bytes, Ordering::Relaxed);
        self.largest_bytes.store(largest_bytes, Ordering::Relaxed);
    }

    /// Counts a new table file.
    pub fn add_file(&self, bytes: u64) {
        self.all_bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.counts(bytes) {
            self.largest_bytes.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// Whether a table file of this length counts. That of a large batch does not, or a small store would reserve much.
    pub fn counts(&self, bytes: u64) -> bool {
        let usual_bytes = self.table_file_bytes.max(self.memtable_bytes);
        bytes <= usual_bytes + usual_bytes / LARGER_PART + LARGER_BYTES
    }

    /// The length of a table file, if it counts; else 0.
    fn counted(&self, bytes: u64) -> u64 {
        if self.counts(bytes) { bytes } else { 0 }
    }

    /// Expects a table file of this length from a MemTable. Returns what was expected before.
    pub fn expect_file(&self, bytes: u64) -> u64 {
        self.coming_bytes.fetch_max(self.counted(bytes), Ordering::Relaxed)
    }

    /// Expects no longer file than this one. REQUIRES: no MemTable waits for its flush.
    pub fn expect_only(&self, bytes: u64) {
        self.coming_bytes.store(self.counted(bytes), Ordering::Relaxed);
    }

    /// Takes back the last expectation: `bytes` is expected, as before.
    pub fn expect_again(&self, bytes: u64) {
        self.coming_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The most bytes that the outputs of a compaction for space take.
    pub fn output_bytes(&self) -> u64 {
        let one_bytes = self.largest_bytes.load(Ordering::Relaxed).max(self.coming_bytes.load(Ordering::Relaxed));
        match self.outputs.load(Ordering::Relaxed) {
            1 => one_bytes,
            outputs => {
                // What is to come must not make the reserve too small.
                let usual_bytes = self.usual_output_bytes().min(self.all_bytes.load(Ordering::Relaxed));
                one_bytes.max(usual_bytes + usual_bytes / LARGER_PART).saturating_mul(outputs)
            }
        }
    }

    /// What there should be beyond the outputs where several are written: they may take a little more than their inputs.
    /// Deletes need not leave it.
    fn margin_bytes(&self) -> u64 {
        match self.outputs.load(Ordering::Relaxed) {
            1 => 0,
            outputs => self.output_bytes() / outputs,
        }
    }

    /// How long outputs of compactions should be where several are written: as a MemTable's file, or as a part of all
    /// files. Longer ones would need so large a reserve that they come only when there is much else.
    pub fn usual_output_bytes(&self) -> u64 {
        let part_bytes = self.all_bytes.load(Ordering::Relaxed) / PART_OF_ALL_OUTPUTS;
        self.table_file_bytes.min(self.memtable_bytes.max(part_bytes))
    }

    /// The bytes that an output may take of the reserve and of free space: what leaves the deletes their part, but in
    /// any case what one file takes. (Not what one takes that is to come, where one output is written: it may not come, and
    /// deletes must leave from now on what this output takes. There may never be as much.)
    pub fn output_bytes_max(&self) -> u64 {
        let there_bytes = self.length_bytes().saturating_add(self.free_bytes(0));
        let file_bytes = match self.outputs.load(Ordering::Relaxed) {
            1 => self.largest_bytes.load(Ordering::Relaxed),
            _ => self.output_bytes(),
        };
        let most_bytes = there_bytes.saturating_sub(self.for_deletes_bytes).max(there_bytes.min(file_bytes));
        most_bytes.min(file_bytes.max(self.table_file_bytes))
    }

    /// How many bytes there should be.
    pub fn wanted_bytes(&self) -> u64 {
        let merged_bytes = self.table_file_bytes.min(self.all_bytes.load(Ordering::Relaxed) / PART_OF_ALL);
        let output_bytes = self.output_bytes().max(merged_bytes).saturating_add(self.margin_bytes());
        output_bytes.max(self.manifest_bytes.load(Ordering::Relaxed)).saturating_add(self.for_deletes_bytes)
    }

    /// How many bytes there are.
    /// LOCKS: reserve
    pub fn length_bytes(&self) -> u64 {
        self.held.lock().file.as_ref().map_or(0, ReservedFile::length_bytes)
    }

    /// The bytes that this purpose must leave.
    fn kept_from(&self, purpose: Purpose) -> u64 {
        match purpose {
            Purpose::Manifest => 0,
            Purpose::Records | Purpose::Deletes => self.output_bytes().max(self.manifest_bytes.load(Ordering::Relaxed)),
        }
    }

    fn free_bytes(&self, unknown: u64) -> u64 {
        self.env.available_bytes(&self.directory).unwrap_or(unknown)
    }

    /// Makes the reserve as long as it should be. [`Error::Full`]: there is only a part, or a compaction has it.
    /// LOCKS: reserve, reserved file
    pub fn fill(&self) -> Result<()> {
        self.while_whole(|| Ok(()))
    }

    /// Fills the reserve, and runs this while it stays as long as it should be. Where a compaction has it, this runs only
    /// if there is plenty of space besides. [`Error::Full`]: there is only a part of it, or no plenty.
    /// LOCKS: reserve, reserved file
    pub fn while_whole<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut held = self.held.lock();
        if held.is_taken {
            self.check_plenty(self.wanted_bytes())?;
        } else {
            self.fill_held(&mut held)?;
        }
        run()
    }

    /// See [`Reserve::fill`].
    /// LOCKS: reserve (held), reserved file
    fn fill_held(&self, held: &mut Held) -> Result<()> {
        let wanted = self.wanted_bytes();
        let file = match &mut held.file {
            Some(file) => file,
            none => none.insert(ReservedFile::new(&*self.env, &self.directory, RESERVE)?),
        };
        let length_bytes = file.length_bytes();
        if length_bytes / 2 > wanted {
            return file.lower_by(length_bytes - wanted).map(drop);
        }
        let full = match file.raise(wanted) {
            Err(full @ Error::Full { .. }) => full,
            done => return done,
        };
        // As much as there is. Other processes may take of it meanwhile.
        let mut more_bytes = self.free_bytes(wanted).min(wanted - length_bytes);
        while more_bytes >= STEP_BYTES {
            match file.raise(length_bytes + more_bytes) {
                Err(Error::Full { .. }) => more_bytes /= 2,
                done => return done.and(Err(full)),
            }
        }
        Err(full)
    }

    /// Gives back what exceeds the wanted length, which was filled for a request that did not come true. Returns
    /// whether there was any.
    /// LOCKS: reserve, reserved file
    pub fn trim(&self) -> Result<bool> {
        let wanted_bytes = self.wanted_bytes();
        let held = self.held.lock();
        let surplus = |file: &ReservedFile| file.length_bytes().saturating_sub(wanted_bytes);
        match held.file.as_ref().map(|file| (file, surplus(file))) {
            Some((file, surplus_bytes)) if surplus_bytes > 0 => file.lower_by(surplus_bytes).map(|_| true),
            _ => Ok(false),
        }
    }

    /// [`Error::Full`] if a compaction has the reserve, and taking `more_bytes` now might take what must be there again
    /// after it.
    /// LOCKS: reserve
    pub fn check_not_taken(&self, more_bytes: u64) -> Result<()> {
        if self.held.lock().is_taken {
            self.check_plenty(more_bytes.saturating_add(self.wanted_bytes()))
        } else {
            Ok(())
        }
    }

    /// Whether there is certainly plenty of free space: all of the reserve, and `more_bytes`, could be had several times
    /// again.
    pub fn has_plenty_besides(&self, more_bytes: u64) -> bool {
        self.free_bytes(0) >= plenty_bytes(more_bytes.saturating_add(self.wanted_bytes()))
    }

    /// Whether a compaction has the reserve.
    /// LOCKS: reserve
    pub fn is_taken(&self) -> bool {
        self.held.lock().is_taken
    }

    /// With plenty of free space it makes no difference that the reserve is taken.
    fn check_plenty(&self, needed_bytes: u64) -> Result<()> {
        if self.free_bytes(u64::MAX) >= plenty_bytes(needed_bytes) {
            return Ok(());
        }
        Err(Error::Full { path: self.directory.clone(), what: "keep back what a compaction has".into() })
    }

    /// Gives up to `bytes` back to the file system, from which the caller takes them at once. Returns how many.
    /// LOCKS: reserve, reserved file
    pub fn give(&self, bytes: u64, purpose: Purpose) -> Result<u64> {
        let held = self.held.lock();
        let Some(file) = &held.file else { return Ok(0) };
        let given_bytes = file.length_bytes().saturating_sub(self.kept_from(purpose)).min(bytes);
        if given_bytes > 0 { file.lower_by(given_bytes).map(|_| given_bytes) } else { Ok(0) }
    }

    /// Runs an attempt that takes `bytes`, and gives it the reserve's space piece by piece while it finds the disk
    /// full. [`Error::Full`]: even that was not enough.
    /// LOCKS: reserve, reserved file
    pub fn give_while_full<T>(
        &self,
        bytes: u64,
        purpose: Purpose,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let mut left_bytes = bytes.next_multiple_of(STEP_BYTES);
        loop {
            match attempt() {
                Err(full @ Error::Full { .. }) => {
                    let given_bytes = self.give(left_bytes.min(STEP_BYTES), purpose)?;
                    if given_bytes == 0 {
                        return Err(full);
                    }
                    left_bytes -= given_bytes;
                }
                done => return done,
            }
        }
    }

    /// Begins disk space for the table file of this MemTable, with no bytes yet.
    pub fn begin_file(&self, generation: u64) -> Result<Arc<ReservedFile>> {
        ReservedFile::new(&*self.env, &self.directory, generation).map(Arc::new)
    }

    /// Whether a table file of deletes can grow by `more_bytes`, in free space and in what is for deletes.
    /// LOCKS: reserve
    pub fn has_for_deletes(&self, more_bytes: u64) -> bool {
        let kept_bytes = self.kept_from(Purpose::Deletes);
        let there_bytes = self.length_bytes().saturating_add(self.free_bytes(u64::MAX));
        there_bytes.saturating_sub(kept_bytes) >= more_bytes
    }

    /// Turns the reserve into a file at `path`, for the output of a compaction. `None` if another compaction has it.
    /// LOCKS: reserve, reserved file
    pub fn take(&self, path: &Path) -> Result<Option<(ReservedFile, Arc<dyn File>)>> {
        let mut held = self.held.lock();
        let Some(space) = held.file.take() else { return Ok(None) };
        let taken = match space.take(&*self.env, path) {
            Err(lack) if lack.is_passing_lack() => {
                held.file = Some(space);
                return Err(lack);
            }
            taken => taken?,
        };
        held.is_taken = taken.is_some();
        Ok(taken.map(|file| (space, file)))
    }

    /// Turns an unfinished file into the reserve again. Returns whether it did; if not, the file is in the way.
    /// LOCKS: reserve, reserved file
    pub fn put_back(&self, space: ReservedFile, path: &Path) -> Result<bool> {
        let mut held = self.held.lock();
        held.is_taken = false;
        let is_back = held.file.is_none() && space.put_back(&*self.env, path)?;
        if is_back {
            held.file = Some(space);
        }
        Ok(is_back)
    }

    /// Lends the reserve to a compaction that writes several files: all but the part for deletes goes back to the file
    /// system. Until the end of [the loan](Reserve::take_back) nobody fills it again. `false`: another compaction has it.
    /// LOCKS: reserve, reserved file
    pub fn lend(&self) -> Result<bool> {
        let mut held = self.held.lock();
        if held.is_taken {
            return Ok(false);
        }
        if let Some(file) = &held.file {
            let lent_bytes = file.length_bytes().saturating_sub(self.for_deletes_bytes);
            if lent_bytes > 0 {
                file.lower_by(lent_bytes)?;
            }
        }
        held.is_taken = true;
        Ok(true)
    }

    /// Ends a [loan](Reserve::lend), and fills the reserve again before anybody else can take what came back.
    /// [`Error::Full`]: there is only a part.
    /// LOCKS: reserve, reserved file
    pub fn take_back(&self) -> Result<()> {
        let mut held = self.held.lock();
        held.is_taken = false;
        self.fill_held(&mut held)
    }

    /// Notes that the compaction that had the reserve has ended.
    /// LOCKS: reserve
    pub fn release(&self) {
        self.held.lock().is_taken = false;
    }

    /// Gives all of it back to the file system.
    /// LOCKS: reserve, reserved file
    pub fn discard(&self) -> Result<()> {
        self.held.lock().file.take().map_or(Ok(()), |file| file.discard(&*self.env))
    }
}

/// So much free space is plenty for somebody who needs this.
fn plenty_bytes(needed_bytes: u64) -> u64 {
    needed_bytes.saturating_mul(PLENTY_TIMES).saturating_add(PLENTY_BYTES)
}
