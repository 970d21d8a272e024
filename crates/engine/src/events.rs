//! What a store tells of itself as it happens: [`Event`]s, to an [`EventListener`].
//!
//! A listener is the user's code, and nothing of the store may rest on it. So it is called on a thread of its own, with no
//! lock held: whoever has something to tell puts it into a queue, in passing. A listener that takes long makes nobody wait,
//! one that waits for the store (or calls it) can't be what the store waits for, and one that panics is caught. The queue is
//! bounded; what does not fit is counted and told as [`Event::Lost`]. Without a listener there is neither thread nor queue,
//! and no event is even made.
//!
//! Events come one at a time, in the order in which they happened. They may come a little later than what they tell: a
//! [`Event::FlushEnded`] after the `flush` that waited for it has returned. Closing delivers all that is left.

pub mod delivery;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use slmdb_env::Error;

use crate::StallCause;

/// Who is told what a store does.
///
/// Any `Fn(&Event)` that is `Send + Sync + 'static` is one. It is called on a thread of its own; what it does holds nothing
/// up, but closing the store waits until it has been told everything. It may use the store; a handle that it keeps
/// keeps the store open. A panic in it is caught and logged, and the next event is told all the same.
pub trait EventListener: Send + Sync + 'static {
    /// Something has happened.
    fn on_event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync + 'static> EventListener for F {
    fn on_event(&self, event: &Event) {
        self(event);
    }
}

/// The listener that a store is opened with, if any.
#[derive(Clone, Default)]
pub struct Listener(pub Option<Arc<dyn EventListener>>);

impl fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Listener" } else { "no Listener" })
    }
}

/// What wants space that there is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpaceFor {
    /// A write: for its flush nothing could be set aside. It was refused.
    Write,
    /// A MemTable, which writes wait for. They were refused.
    MemTable,
    /// A job in the background: a flush, say. It goes on trying, and writes are refused once they have to wait for it.
    Job,
}

/// Something that happened in a store. Files are named by their numbers, bytes are of files as they are on the disk.
///
/// There will be more variants, and more fields: match them with `..`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The flush of an Immutable MemTable has begun.
    FlushBegan {
        /// The generation of its arena, which names it.
        generation: u64,
        /// Entries in it, superseded ones included.
        entries: u64,
        /// Bytes of its arena that are used.
        memtable_bytes: u64,
    },
    /// A flush is committed, and its MemTable gone. (One that a failure or the end of the store cuts short never ends.)
    FlushEnded {
        /// The generation of the arena.
        generation: u64,
        /// The table file; `None`: the MemTable had nothing in it.
        file: Option<u32>,
        /// Entries in the table file.
        entries: u64,
        /// Its length, in bytes.
        bytes: u64,
        /// How long it took, waits for space included.
        duration: Duration,
    },
    /// A compaction has begun.
    CompactionBegan {
        /// Which one, of those since this opening.
        number: u64,
        /// What chose it.
        chosen_by: &'static str,
        /// The table files that it reads.
        inputs: Vec<u32>,
        /// Their length, in bytes.
        input_bytes: u64,
    },
    /// A compaction is committed.
    CompactionEnded {
        /// Which one.
        number: u64,
        /// The table files that it has read.
        inputs: Vec<u32>,
        /// Those it has made.
        outputs: Vec<u32>,
        /// Bytes it has read.
        bytes_read: u64,
        /// Bytes it has written.
        bytes_written: u64,
        /// How long it took.
        duration: Duration,
    },
    /// A compaction ended early: there was no space for it, an input can't be read, or the store closes or has failed. Nothing
    /// has changed but what is in its outputs already. An input that can't be read is left alone until the next opening;
    /// `verify` tells what is wrong with it.
    CompactionGivenUp {
        /// Which one.
        number: u64,
        /// The table files that it was to read.
        inputs: Vec<u32>,
        /// What is full, or can't be read; or why nothing is written any more.
        cause: Error,
    },
    /// From now on writers wait, or, with [`StallCause::Pace`] and [`StallCause::Compaction`], are slowed. Told once, however many
    /// they are.
    WriteStallBegan {
        /// What they wait for.
        waits_for: StallCause,
    },
    /// No writer waits for that any more, be it that it came or that they gave up.
    WriteStallEnded {
        /// What they waited for.
        waits_for: StallCause,
        /// Since the first of them did.
        duration: Duration,
    },
    /// A failure that must not be tried again: from now on the store is read-only, and reopening it recovers.
    Failed {
        /// What failed.
        cause: Error,
    },
    /// Something could not be had for want of space, for the first time since it could.
    SpaceRefused {
        /// What for.
        needed_by: SpaceFor,
        /// What is full.
        cause: Error,
    },
    /// There is space again for something of that kind.
    SpaceFound {
        /// For what.
        needed_by: SpaceFor,
    },
    /// An index checkpoint has been taken.
    IndexCheckpointTaken {
        /// Every flush up to this sequence number is in it.
        sequence_number: u64,
        /// Keys in it.
        keys: u64,
        /// The length of its file, in bytes.
        bytes: u64,
        /// How long it took.
        duration: Duration,
    },
    /// The listener was too slow: so many events were not told, here.
    Lost {
        /// How many.
        events: u64,
    },
}
