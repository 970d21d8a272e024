//! The script of a [`MemoryEnv`](super::MemoryEnv): what was done, and what is to go wrong.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use slmdb_env::{Error, Result};

/// The operations that take a descriptor.
const OPENING: [&str; 6] = ["create", "list directory", "lock", "open", "open directory", "sync directory"];

/// How an operation goes wrong, and which operations can go wrong that way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Any operation: nothing is done, input/output error. (A sync then loses what [`Failure::FailedSync`] loses.)
    Io,
    /// An operation that may need space (a write, an allocation, a new length, a new name): nothing is done, no space
    /// left.
    Full,
    /// A write: the first half of the bytes is written, then an input/output error.
    ShortWrite,
    /// A sync of a file or directory: input/output error. The file's content written since its last sync is still
    /// read, but never becomes durable unless it is written again.
    FailedSync,
    /// Any operation that changes something: it is done, and an input/output error all the same. (The answer got lost on its
    /// way: a network file system, a device that was reset.)
    ArrivedYetFailed,
    /// An operation that opens something (a file, a directory that is listed or synced, a lock): nothing is done, too many open
    /// files.
    NoDescriptor,
    /// A read that gets any bytes: one bit of them is not what was written; which one follows from the seed and the operation's
    /// number. The disk has it right: read again, it may be.
    FlippedBit {
        /// Which bit.
        seed: u64,
    },
}

/// For how long a [`Failure`] strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Once; the same operation then works.
    Once,
    /// Every operation it can strike, from there on.
    ForGood,
}

impl Failure {
    pub(super) fn cause(self) -> io::Error {
        match self {
            Failure::Full => io::ErrorKind::StorageFull.into(),
            Failure::NoDescriptor => Errno::MFILE.into(),
            _ => io::Error::other("input/output error"),
        }
    }

    fn can_strike(self, effect: Effect, operation: &str) -> bool {
        match self {
            Failure::Io => true,
            Failure::Full => matches!(effect, Effect::TakesSpace | Effect::Writes),
            Failure::ShortWrite => effect == Effect::Writes,
            Failure::FailedSync => effect == Effect::Syncs,
            Failure::ArrivedYetFailed => !matches!(effect, Effect::LooksUp | Effect::Reads),
            Failure::NoDescriptor => OPENING.contains(&operation),
            Failure::FlippedBit { .. } => effect == Effect::Reads,
        }
    }
}

/// What an operation does to the disk, as far as failures care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    LooksUp,
    Reads,
    Removes,
    TakesSpace,
    Writes,
    Syncs,
}

/// What becomes of an operation that is done, at least in part.
#[derive(Debug)]
#[must_use]
pub(super) struct Outcome {
    failure: Option<Failure>,
    operation: &'static str,
    operation_number: u64,
}

impl Outcome {
    /// What is written of these bytes.
    pub(super) fn written<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        if self.failure == Some(Failure::ShortWrite) { &bytes[..bytes.len() / 2] } else { bytes }
    }

    /// Does to bytes that were read what is to happen to them.
    pub(super) fn flip(&self, read: &mut [u8]) {
        if let (Some(Failure::FlippedBit { seed }), false) = (self.failure, read.is_empty()) {
            let drawn = (seed ^ self.operation_number).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let bit = (drawn ^ drawn >> 29) % (8 * read.len() as u64);
            read[bit as usize / 8] ^= 1 << (bit % 8);
        }
    }

    /// What the caller is told once all is done.
    pub(super) fn end<T>(self, path: &Path, done: T) -> Result<T> {
        match self.failure {
            Some(failure @ (Failure::ShortWrite | Failure::ArrivedYetFailed)) => {
                Err(Error::io(self.operation, path, failure.cause()))
            }
            _ => Ok(done),
        }
    }
}

/// The log of operations and the failures still to come.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) log: Vec<String>,
    pub(super) struck: u64,
    armed: Vec<Armed>,
}

/// A failure still to come.
#[derive(Debug)]
struct Armed {
    from: u64,
    /// How many operations that it could strike are let by before.
    passed: u64,
    /// What the operation's line begins with.
    what: String,
    failure: Failure,
    repeat: Repeat,
}

impl Script {
    pub(super) fn arm(&mut self, (from, passed): (u64, u64), what: &str, failure: Failure, repeat: Repeat) {
        self.armed.push(Armed { from, passed, what: what.to_string(), failure, repeat });
    }

    pub(super) fn disarm(&mut self) {
        self.armed.clear();
    }

    /// Numbers an operation and logs it; an error if it is to fail before anything is done. Of several failures that could strike
    /// it the first armed does.
    pub(super) fn begin(
        &mut self,
        effect: Effect,
        operation: &'static str,
        path: &Path,
        detail: &str,
    ) -> Result<Outcome> {
        let mut line = format!("{operation} {}{detail}", path.display());
        let number = self.log.len() as u64;
        let found = self.armed.iter_mut().position(|armed| {
            let could =
                armed.from <= number && armed.failure.can_strike(effect, operation) && line.starts_with(&armed.what);
            let strikes = could && armed.passed == 0;
            armed.passed -= u64::from(could && !strikes);
            strikes
        });
        let failure = found.map(|index| {
            let Armed { failure, repeat, .. } = self.armed[index];
            if repeat == Repeat::Once {
                self.armed.remove(index);
            }
            self.struck += 1;
            line.push_str(&format!(" -> made to fail: {failure:?}"));
            failure
        });
        self.log.push(line);
        match failure {
            Some(failure @ (Failure::Io | Failure::Full | Failure::FailedSync | Failure::NoDescriptor)) => {
                Err(Error::io(operation, path, failure.cause()))
            }
            failure => Ok(Outcome { failure, operation, operation_number: number }),
        }
    }
}
