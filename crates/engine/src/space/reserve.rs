//! [`Reserve`]: the disk space that leads out of a full disk (INV-32).
//!
//! It is one file, and full before a MemTable for puts is made. It has two parts:
//!
//! 1. The outputs of a compaction for space: as much as the largest table file, or the one that a MemTable becomes. With
//!    that, all garbage can be compacted away, one file at a time. Without it, no garbage ever could be.
//! 2. A table file of deletes, which are the way out, and records of the MANIFEST beyond those that have [space of their
//!    own](slmdb_manifest::Manifest::reserve). These leave the outputs their part.
//!
//! A new MANIFEST is written while the old one is there. It may take all of the reserve: the old one gives as much back.
//! So the first part is at least as long as a new MANIFEST. Otherwise a store that was killed could not be opened for
//! writing until the disk has space.
//!
//! A put never uses the reserve. It is used by giving it back to the file system and taking it from there, so another process
//! that fills the same disk may be faster. While a compaction [has it](Reserve::lend), no MemTable is made and no other
//! compaction begins, unless there is plenty of space.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_env::{Env, Error, Result};
use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::atomic::AtomicU64;

use super::allowance::{kept_for_deletes, table_bytes};
use super::reserved_file::ReservedFile;
use crate::files::file_names::RESERVE;
use crate::{Options, lock_order};

/// Beside the table file of deletes, so many bytes are for records of the MANIFEST, and for a new one.
const FOR_RECORDS_BYTES: u64 = 32 << 10;
/// The table file of a MemTable is longer than its arena by this part, if values are not very short.
const TABLE_MORE_PART: u64 = 8;
/// A part is given back to the file system in pieces of this many bytes. What is left of a piece is free for any use.
const STEP_BYTES: u64 = 4 << 10;
/// A file that is longer than a usual one by more than this part and these bytes comes from a large batch, and does not
/// count.
const LARGER_PART: u64 = 4;
const LARGER_BYTES: u64 = 64 << 10;
/// With this many times the need free, and these bytes more, it makes no difference that a compaction has the reserve.
const PLENTY_TIMES: u64 = 8;
const PLENTY_BYTES: u64 = 16 << 20;

/// What a part of the reserve is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A record of the MANIFEST that is being written, or a new MANIFEST: it must not fail, or gives the space back.
    Manifest,
    /// Records of the MANIFEST to come, and table files of deletes.
    Others,
}

/// Where a compaction writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputSpace {
    /// In free space, as many files as it takes.
    Free,
    /// In the space that the reserve lends, as one file.
    Reserve,
}

/// Disk space that leads out of a full disk.
pub struct Reserve {
    env: Arc<dyn Env>,
    directory: PathBuf,
    memtable_bytes: u64,
    for_deletes_bytes: u64,
    /// The most bytes that a new MANIFEST takes, with the records to come.
    manifest_bytes: AtomicU64,
    /// How many outputs a compaction for space writes at most, and how long the longest is.
    outputs: AtomicU64,
    output_bytes: AtomicU64,
    /// The most bytes that the table file of a MemTable may have that is to come.
    coming_bytes: AtomicU64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// `None` before it is first made.
    file: Option<ReservedFile>,
    /// A compaction has most of it.
    is_taken: bool,
}

impl Reserve {
    /// The reserve of the store in this directory, with no file yet.
    pub fn new(options: &Options, directory: &Path) -> Reserve {
        Reserve {
            env: options.env.clone(),
            directory: directory.into(),
            memtable_bytes: options.memtable_bytes,
            for_deletes_bytes: table_bytes(options, &kept_for_deletes(options)) + FOR_RECORDS_BYTES,
            coming_bytes: AtomicU64::new(table_bytes_usual(options.memtable_bytes)),
            manifest_bytes: AtomicU64::new(0),
            outputs: AtomicU64::new(1),
            output_bytes: AtomicU64::new(0),
            held: Mutex::ranked(lock_order::RESERVE, Held::default()),
        }
    }

    /// Sets the most bytes that a new MANIFEST takes, with the records to come.
    pub fn set_manifest_bytes(&self, bytes: u64) {
        self.manifest_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Sets how many outputs a compaction for space writes at most, and how long the longest is, or a table file that is to be
    /// compacted, in bytes.
    pub fn set_outputs(&self, outputs: u64, bytes: u64) {
        self.outputs.store(outputs, Ordering::Relaxed);
        self.output_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Expects table files of usual length from MemTables.
    pub fn expect_usual_files(&self) {
        self.coming_bytes.store(table_bytes_usual(self.memtable_bytes), Ordering::Relaxed);
    }

    /// Expects no longer file from a MemTable than this, until more is expected again.
    pub fn expect_only(&self, bytes: u64) {
        self.coming_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The most bytes that the outputs of a compaction for space take.
    pub fn output_bytes(&self) -> u64 {
        self.one_bytes().saturating_mul(self.outputs.load(Ordering::Relaxed))
    }

    fn one_bytes(&self) -> u64 {
        self.output_bytes.load(Ordering::Relaxed).max(self.coming_bytes.load(Ordering::Relaxed))
    }

    /// What there should be beyond the outputs where several are written: they may take a little more than their inputs. Deletes
    /// need not leave it.
    fn margin_bytes(&self) -> u64 {
        self.one_bytes().saturating_mul(self.outputs.load(Ordering::Relaxed) - 1)
    }

    /// The bytes that a compaction for space can take now, if it writes one output.
    /// LOCKS: reserve
    pub fn room_bytes(&self) -> u64 {
        self.length_bytes().saturating_add(self.free_bytes()).min(self.output_bytes())
    }

    /// How many bytes there should be.
    pub fn wanted_bytes(&self) -> u64 {
        let output_bytes = self.output_bytes().saturating_add(self.margin_bytes());
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
            Purpose::Others => self.output_bytes().max(self.manifest_bytes.load(Ordering::Relaxed)),
        }
    }

    /// How many bytes are free; 0 if that is not known.
    fn free_bytes(&self) -> u64 {
        self.env.available_bytes(&self.directory).unwrap_or(0)
    }

    /// Makes the reserve as long as it should be. [`Error::Full`]: there is only a part, or a compaction has it.
    /// LOCKS: reserve, reserved file
    pub fn fill(&self) -> Result<()> {
        self.while_whole(0, || Ok(()))
    }

    /// Fills the reserve, and runs this, which takes `more_bytes`, while it stays as long as it should be. Where a compaction has
    /// it, this runs only if there is plenty of space besides. [`Error::Full`]: there is only a part of it, or no plenty.
    /// LOCKS: reserve, reserved file
    pub fn while_whole<T>(&self, more_bytes: u64, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut held = self.held.lock();
        if !held.is_taken {
            self.fill_held(&mut held)?;
        } else if !self.has_plenty_besides(more_bytes) {
            return Err(self.taken());
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
        if length_bytes > wanted {
            return file.lower_by(length_bytes - wanted).map(drop);
        }
        let full = match file.raise(wanted) {
            Err(full @ Error::Full { .. }) => full,
            done => return done,
        };
        // As much as there is. Other processes may take of it meanwhile.
        let mut more_bytes = self.free_bytes().min(wanted - length_bytes);
        while more_bytes >= STEP_BYTES {
            match file.raise(length_bytes + more_bytes) {
                Err(Error::Full { .. }) => more_bytes /= 2,
                done => return done.and(Err(full)),
            }
        }
        Err(full)
    }

    /// [`Error::Full`] if a compaction has the reserve, and taking `more_bytes` now might take what must be there again
    /// after it.
    /// LOCKS: reserve
    pub fn check_not_taken(&self, more_bytes: u64) -> Result<()> {
        let is_taken = self.held.lock().is_taken;
        if is_taken && !self.has_plenty_besides(more_bytes) { Err(self.taken()) } else { Ok(()) }
    }

    /// Whether there is certainly plenty of free space: all of the reserve, and `more_bytes`, could be had several times
    /// again.
    pub fn has_plenty_besides(&self, more_bytes: u64) -> bool {
        let needed_bytes = more_bytes.saturating_add(self.wanted_bytes());
        self.free_bytes() >= needed_bytes.saturating_mul(PLENTY_TIMES).saturating_add(PLENTY_BYTES)
    }

    /// Whether a compaction has the reserve.
    /// LOCKS: reserve
    pub fn is_taken(&self) -> bool {
        self.held.lock().is_taken
    }

    /// [`Error::Full`]: a compaction has the reserve.
    pub fn taken(&self) -> Error {
        Error::Full { path: self.directory.clone(), what: "keep back what a compaction has".into() }
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

    /// Lends the reserve to a compaction for space: all but the part for deletes goes back to the file system, from which it takes
    /// it. Until the loan is dropped nobody fills it again. `None`: another compaction has it.
    /// LOCKS: reserve, reserved file
    pub fn lend(&self) -> Result<Option<Loan<'_>>> {
        let mut held = self.held.lock();
        if held.is_taken {
            return Ok(None);
        }
        if let Some(file) = &held.file {
            // The outputs come first: what they take, the others have again afterwards.
            let outputs_bytes = self.output_bytes().saturating_add(self.margin_bytes());
            let kept_bytes = file.length_bytes().saturating_sub(outputs_bytes).min(self.for_deletes_bytes);
            file.lower_by(file.length_bytes() - kept_bytes)?;
        }
        held.is_taken = true;
        Ok(Some(Loan { reserve: self }))
    }

    /// Gives all of it back to the file system.
    /// LOCKS: reserve, reserved file
    pub fn discard(&self) -> Result<()> {
        self.held.lock().file.take().map_or(Ok(()), |file| file.discard(&*self.env))
    }
}

/// The length of a usual MemTable's table file.
fn table_bytes_usual(memtable_bytes: u64) -> u64 {
    memtable_bytes + memtable_bytes / TABLE_MORE_PART
}

/// The reserve, while a compaction has it.
pub struct Loan<'r> {
    reserve: &'r Reserve,
}

impl Drop for Loan<'_> {
    /// Fills the reserve again before anybody else can take what came back.
    /// LOCKS: reserve, reserved file
    fn drop(&mut self) {
        let mut held = self.reserve.held.lock();
        held.is_taken = false;
        // A part has to do, if there is no more. What else is wrong, whoever fills it next finds out, too.
        if let Err(error) = self.reserve.fill_held(&mut held) {
            tracing::debug!(%error, "the reserve is not full");
        }
    }
}

/// The length of the longest of these table files, in bytes. That of a large batch does not count, or a small store would reserve
/// much.
pub fn longest_file(options: &Options, lengths: impl Iterator<Item = u64>) -> u64 {
    lengths.filter(|&bytes| is_usual(options, bytes)).max().unwrap_or(0)
}

/// Whether a table file of this length counts.
pub fn is_usual(options: &Options, bytes: u64) -> bool {
    let usual_bytes = options.compaction.table_file_bytes.max(options.memtable_bytes);
    bytes <= usual_bytes + usual_bytes / LARGER_PART + LARGER_BYTES
}
