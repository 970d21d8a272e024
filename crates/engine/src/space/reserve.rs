//! [`Reserve`]: the disk space that leads out of a full disk.
//!
//! It is one file, and full before a put is admitted. Two parts make it up:
//!
//! 1. The output of a compaction that is made for space. With as much as the largest table file takes, all garbage can be
//!    compacted away, one file at a time; without it, no garbage ever could be. There is a quarter of all files if that is
//!    more, but no more than a usual file has: so small files can become larger ones.
//! 2. The table files of deletes, the way out, and records of the MANIFEST beyond those that have
//!    [space of their own](slmdb_manifest::Manifest::reserve). They leave the output its part.
//!
//! A new MANIFEST is written while the old one is there. It may take all of the reserve, which is at least as long as it: the old one
//! gives as much back.
//!
//! A put never uses it. What takes a part of it gives that back to the file system and takes it from there at once, so others
//! who fill the same disk may be faster. A compaction [takes the file itself](Reserve::take), and nobody is faster than that.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_env::{Env, Error, File, Result};
use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::atomic::AtomicU64;

use super::reserved_file::{RESERVE, ReservedFile};
use crate::{Options, lock_order};

/// What deletes have of it: this part of a MemTable, within these limits in bytes.
const PART_FOR_DELETES: u64 = 8;
const FOR_DELETES_BYTES_MIN: u64 = 16 << 10;
const FOR_DELETES_BYTES_MAX: u64 = 1 << 20;
/// Part of it goes back to the file system in pieces of so many bytes. (What the taker does not need of one anybody may take.)
const STEP_BYTES: u64 = 4 << 10;
/// A file that is longer than a usual one by more than this, in parts and in bytes, is of a large batch, and does not count.
const LARGER_PART: u64 = 4;
const LARGER_BYTES: u64 = 64 << 10;
/// An output may have as much as this part of all table files, but no more than a usual one.
const PART_OF_ALL: u64 = 4;
/// With so many times what is needed free, and so many bytes more, nobody has to wait for a compaction that has taken it.
const PLENTY_TIMES: u64 = 8;
const PLENTY_BYTES: u64 = 16 << 20;

/// Who takes a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A record of the MANIFEST that is being written, or a new MANIFEST: what must not fail, or gives it back.
    Manifest,
    /// Records of the MANIFEST to come.
    Records,
    /// A table file of deletes.
    Deletes,
}

/// Where a compaction writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputSpace {
    /// Whatever is free, as many files as it takes.
    Free,
    /// What is in the reserve for one file, and all becomes one.
    Reserve,
}

/// Disk space that leads out of a full disk.
pub struct Reserve {
    env: Arc<dyn Env>,
    directory: PathBuf,
    table_file_bytes: u64,
    memtable_bytes: u64,
    for_deletes_bytes: u64,
    /// What a new MANIFEST takes, at most.
    manifest_bytes: AtomicU64,
    /// What all table files have, and the largest, of those that count; and what one may have at most that is to come of a
    /// MemTable.
    all_bytes: AtomicU64,
    largest_bytes: AtomicU64,
    coming_bytes: AtomicU64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// `None` before it was first there, and while a compaction has it.
    file: Option<ReservedFile>,
    /// A compaction has it, and gives it back, or what its inputs took.
    is_taken: bool,
}

impl Reserve {
    /// None yet, of a store in this directory.
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
            held: Mutex::ranked(lock_order::RESERVE, Held::default()),
        }
    }

    /// A new MANIFEST takes so many bytes at most.
    pub fn set_manifest_bytes(&self, bytes: u64) {
        self.manifest_bytes.store(bytes, Ordering::Relaxed);
    }

    /// These are the lengths of all table files, in bytes.
    pub fn set_files(&self, lengths: impl Iterator<Item = u64>) {
        let (mut all_bytes, mut largest_bytes) = (0_u64, 0);
        for bytes in lengths {
            all_bytes = all_bytes.saturating_add(bytes);
            largest_bytes = if self.counts(bytes) { bytes.max(largest_bytes) } else { largest_bytes };
        }
        self.all_bytes.store(all_bytes, Ordering::Relaxed);
        self.largest_bytes.store(largest_bytes, Ordering::Relaxed);
    }

    /// A table file of so many bytes has come.
    pub fn add_file(&self, bytes: u64) {
        self.all_bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.counts(bytes) {
            self.largest_bytes.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// Whether a table file of so many bytes counts. (That of a large batch does not: else a small store would keep back much.)
    pub fn counts(&self, bytes: u64) -> bool {
        let usual_bytes = self.table_file_bytes.max(self.memtable_bytes);
        bytes <= usual_bytes + usual_bytes / LARGER_PART + LARGER_BYTES
    }

    /// A table file of so many bytes may come of a MemTable. Returns what was expected before.
    pub fn expect_file(&self, bytes: u64) -> u64 {
        self.coming_bytes.fetch_max(if self.counts(bytes) { bytes } else { 0 }, Ordering::Relaxed)
    }

    /// It will not come: this is expected, as before.
    pub fn expect_again(&self, bytes: u64) {
        self.coming_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What one output of a compaction takes at most, in bytes.
    pub fn output_bytes(&self) -> u64 {
        self.largest_bytes.load(Ordering::Relaxed).max(self.coming_bytes.load(Ordering::Relaxed))
    }

    /// What an output may take of what is there and free, in bytes: as much as leaves the others theirs, but what one file takes in
    /// any case.
    pub fn output_bytes_max(&self) -> u64 {
        let there_bytes = self.length_bytes().saturating_add(self.free_bytes(0));
        let most_bytes = there_bytes.saturating_sub(self.for_deletes_bytes).max(there_bytes.min(self.output_bytes()));
        most_bytes.min(self.output_bytes().max(self.table_file_bytes))
    }

    /// How many bytes there should be.
    pub fn wanted_bytes(&self) -> u64 {
        let merged_bytes = self.table_file_bytes.min(self.all_bytes.load(Ordering::Relaxed) / PART_OF_ALL);
        let output_bytes = self.output_bytes().max(merged_bytes);
        (output_bytes + self.for_deletes_bytes).max(self.manifest_bytes.load(Ordering::Relaxed))
    }

    /// How many bytes there are.
    pub fn length_bytes(&self) -> u64 {
        self.held.lock().file.as_ref().map_or(0, ReservedFile::length_bytes)
    }

    /// What this purpose leaves alone, in bytes.
    fn kept_from(&self, purpose: Purpose) -> u64 {
        match purpose {
            Purpose::Manifest => 0,
            Purpose::Records | Purpose::Deletes => self.output_bytes(),
        }
    }

    fn free_bytes(&self, unknown: u64) -> u64 {
        self.env.available_bytes(&self.directory).unwrap_or(unknown)
    }

    /// Sees to it that all of it is there. [`Error::Full`]: only a part is, or a compaction has it.
    pub fn fill(&self) -> Result<()> {
        let wanted = self.wanted_bytes();
        let mut held = self.held.lock();
        if held.is_taken {
            return self.check_plenty(wanted);
        }
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
        // As much as there is. (Somebody else may take of it meanwhile.)
        let mut more_bytes = self.free_bytes(wanted).min(wanted - length_bytes);
        while more_bytes >= STEP_BYTES {
            match file.raise(length_bytes + more_bytes) {
                Err(Error::Full { .. }) => more_bytes /= 2,
                done => return done.and(Err(full)),
            }
        }
        Err(full)
    }

    /// Gives back what is there beyond what there should be. (It was filled for what did not come to be.) Says whether it was anything.
    pub fn trim(&self) -> Result<bool> {
        let wanted_bytes = self.wanted_bytes();
        let held = self.held.lock();
        let surplus = |file: &ReservedFile| file.length_bytes().saturating_sub(wanted_bytes);
        match held.file.as_ref().map(|file| (file, surplus(file))) {
            Some((file, surplus_bytes)) if surplus_bytes > 0 => file.lower_by(surplus_bytes).map(|_| true),
            _ => Ok(false),
        }
    }

    /// [`Error::Full`]: a compaction has it, and whoever takes so many bytes now may take what is to be there again after it.
    pub fn check_not_taken(&self, more_bytes: u64) -> Result<()> {
        if self.held.lock().is_taken {
            self.check_plenty(more_bytes.saturating_add(self.wanted_bytes()))
        } else {
            Ok(())
        }
    }

    /// Where there is plenty it makes no difference that it is taken.
    fn check_plenty(&self, needed_bytes: u64) -> Result<()> {
        let plenty_bytes = needed_bytes.saturating_mul(PLENTY_TIMES).saturating_add(PLENTY_BYTES);
        if self.free_bytes(u64::MAX) >= plenty_bytes {
            return Ok(());
        }
        Err(Error::Full { path: self.directory.clone(), what: "keep back what a compaction has".into() })
    }

    /// Gives so many bytes of it to the file system for this purpose, which takes them from there at once. Says how many there were.
    pub fn give(&self, bytes: u64, purpose: Purpose) -> Result<u64> {
        let held = self.held.lock();
        let Some(file) = &held.file else { return Ok(0) };
        let given_bytes = file.length_bytes().saturating_sub(self.kept_from(purpose)).min(bytes);
        if given_bytes > 0 { file.lower_by(given_bytes).map(|_| given_bytes) } else { Ok(0) }
    }

    /// Does what takes so many bytes, in its space as well if there is no other. [`Error::Full`]: not even there.
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

    /// Disk space for the table file of this MemTable, none of it yet.
    pub fn begin_file(&self, generation: u64) -> Result<Arc<ReservedFile>> {
        ReservedFile::new(&*self.env, &self.directory, generation).map(Arc::new)
    }

    /// Whether a table file of deletes can become longer by so many bytes, in what is free and what is for deletes.
    pub fn has_for_deletes(&self, more_bytes: u64) -> bool {
        let kept_bytes = self.kept_from(Purpose::Deletes);
        let there_bytes = self.length_bytes().saturating_add(self.free_bytes(u64::MAX));
        there_bytes.saturating_sub(kept_bytes) >= more_bytes
    }

    /// Turns it into a file to be written, for the output of a compaction; `None` if another compaction has it.
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

    /// The file was not finished: it is the reserve again. Says whether it is; else it is a file in the way.
    pub fn put_back(&self, space: ReservedFile, path: &Path) -> Result<bool> {
        let mut held = self.held.lock();
        held.is_taken = false;
        let is_back = held.file.is_none() && space.put_back(&*self.env, path)?;
        if is_back {
            held.file = Some(space);
        }
        Ok(is_back)
    }

    /// The compaction that had it has ended.
    pub fn release(&self) {
        self.held.lock().is_taken = false;
    }

    /// Gives all of it to the file system.
    pub fn discard(&self) -> Result<()> {
        self.held.lock().file.take().map_or(Ok(()), |file| file.discard(&*self.env))
    }
}
