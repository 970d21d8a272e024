//! What a store reports as it happens: [`Event`]s, to an [`EventListener`].
//!
//! A listener is the user's code, and nothing in the store may depend on it. So it is called on a thread of its own,
//! with no lock held; the store only puts events into a queue. A slow listener delays no thread, one that waits for the
//! store (or calls it) can't be what the store waits for, and one that panics is caught. The queue is bounded; events
//! that do not fit are counted and reported as [`Event::Lost`]. Without a listener there is neither thread nor queue,
//! and no event is made.
//!
//! Events come one at a time, in the order in which they happened. They may come a little late: a [`Event::FlushEnded`]
//! after the `flush` that waited for it has returned. Closing delivers all that are left.

pub mod delivery;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use slmdb_env::Error;

use crate::StallCause;

/// A receiver of a store's events.
///
/// Any `Fn(&Event)` that is `Send + Sync + 'static` is one. It is called on a thread of its own and delays nothing, but
/// closing the store waits until every event is delivered. It may use the store; a handle that it keeps keeps the store
/// open. A panic in it is caught and logged, and the next event is delivered all the same.
pub trait EventListener: Send + Sync + 'static {
    /// Receives an event.
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

/// What needs space that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpaceFor {
    /// A write: no MemTable could be made for it, or nothing be set aside for its flush. It was refused.
    Write,
    /// A background job, such as a flush. It goes on trying, and writes are refused once they have to wait for it.
    Job,
}

/// Something that happened in a store. Files are named by their numbers; bytes are those of files on the disk.
///
/// More variants and fields will come: match them with `..`.
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
    /// A flush is committed, and its MemTable gone. One that a failure or the end of the store cuts short has no such
    /// event.
    FlushEnded {
        /// The generation of the arena.
        generation: u64,
        /// The table file. `None`: the MemTable was empty.
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
        /// Its number among the compactions since this opening.
        number: u64,
        /// Why these files were chosen.
        chosen_by: &'static str,
        /// The table files that it reads.
        inputs: Vec<u32>,
        /// Their length, in bytes.
        input_bytes: u64,
    },
    /// A compaction is committed. Its inputs are removed, unless it was for order and gave way to writers: then they
    /// stay, without the keys that it has moved, and are merged another time.
    CompactionEnded {
        /// Its number.
        number: u64,
        /// The table files that it has read.
        inputs: Vec<u32>,
        /// The table files that it has made.
        outputs: Vec<u32>,
        /// Bytes that it has read.
        bytes_read: u64,
        /// Bytes that it has written.
        bytes_written: u64,
        /// How long it took.
        duration: Duration,
    },
    /// A compaction ended early: there was no space for it, an input can't be read, or the store closes or has failed.
    /// Only its finished outputs have changed anything. An input that can't be read is left alone until the next
    /// opening; `verify` reports what is wrong with it.
    CompactionGivenUp {
        /// Its number.
        number: u64,
        /// The table files that it was to read.
        inputs: Vec<u32>,
        /// What is full, or can't be read, or why nothing is written any more.
        cause: Error,
    },
    /// From now on writers wait or, with [`StallCause::Pace`] and [`StallCause::Compaction`], are slowed. Reported
    /// once, for any number of writers.
    WriteStallBegan {
        /// What they wait for.
        waits_for: StallCause,
    },
    /// No writer waits for that any more: it came, or they gave up.
    WriteStallEnded {
        /// What they waited for.
        waits_for: StallCause,
        /// The time since the first of them began to wait.
        duration: Duration,
    },
    /// A failure after which nothing may be tried again. From now on the store is read-only; reopening it recovers.
    Failed {
        /// What failed.
        cause: Error,
    },
    /// Something found no space, for the first time since it last found some.
    SpaceRefused {
        /// What needed it.
        needed_by: SpaceFor,
        /// What is full.
        cause: Error,
    },
    /// Something of that kind finds space again.
    SpaceFound {
        /// What needed it.
        needed_by: SpaceFor,
    },
    /// An index checkpoint has been taken.
    IndexCheckpointTaken {
        /// It covers every flush up to this sequence number.
        sequence_number: u64,
        /// Keys in it.
        keys: u64,
        /// The length of its file, in bytes.
        bytes: u64,
        /// How long it took.
        duration: Duration,
    },
    /// The listener was too slow: events are missing here.
    Lost {
        /// How many.
        events: u64,
    },
}
