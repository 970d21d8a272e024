//! The script of a [`MemoryEnv`](super::MemoryEnv): what was done, and what is to go wrong.

use std::io;

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
            Failure::Io | Failure::ShortWrite | Failure::FailedSync => io::Error::other("input/output error"),
        }
    }

    fn can_strike(self, effect: Effect) -> bool {
        match self {
            Failure::Io => true,
            Failure::Full => matches!(effect, Effect::TakesSpace | Effect::Writes),
            Failure::ShortWrite => effect == Effect::Writes,
            Failure::FailedSync => effect == Effect::Syncs,
        }
    }
}

/// What an operation does to the disk, as far as failures care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    TakesSpace,
    Writes,
    Syncs,
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
    /// What the operation's line begins with.
    what: String,
    failure: Failure,
    repeat: Repeat,
}

impl Script {
    pub(super) fn arm(&mut self, from: u64, what: &str, failure: Failure, repeat: Repeat) {
        self.armed.push(Armed { from, what: what.to_string(), failure, repeat });
    }

    pub(super) fn disarm(&mut self) {
        self.armed.clear();
    }

    /// Numbers an operation and says how it is to fail. Of several failures that could strike it the first armed does.
    pub(super) fn begin(&mut self, effect: Effect, mut line: String) -> Option<Failure> {
        let number = self.log.len() as u64;
        let found = self.armed.iter().position(|armed| {
            armed.from <= number && armed.failure.can_strike(effect) && line.starts_with(&armed.what)
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
        failure
    }
}
