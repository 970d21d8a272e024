//! The record of a simulated medium.

use std::ops::Range;
use std::sync::Arc;

use crate::Step;

/// One thing that the medium was asked for. Offsets are the pool's.
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// The pool's memory begins, or has become longer by this.
    Grow { content: Arc<[u8]> },
    /// A word was stored.
    Store { offset: u64, value: u64 },
    /// Bytes were copied in.
    Copy { offset: u64, bytes: Arc<[u8]> },
    /// A cache line is in the processor's caches, all of it at once: its stores were made before the record begins.
    Cached { offset: u64, line: Arc<[u8]> },
    /// A range was zeroed.
    Zero { offset: u64, length_bytes: u64 },
    /// These cache lines were flushed.
    Flush { thread: u32, lines: Range<u64> },
    /// A thread waited for its flushes.
    Fence { thread: u32 },
    /// These cache lines were to be flushed, and were not.
    FlushLeftOut { thread: u32, lines: Range<u64> },
    /// A thread was to wait for its flushes, and did not.
    FenceLeftOut { thread: u32 },
}

/// A place of the record that a crash simulator looks at: what is about to happen there, and from where in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// The number, in the [`Recording`](crate::Recording), of the event that is about to happen.
    pub moment: u64,
    /// What it is: a fence, a compare-exchange that succeeds, or a flush that is left out.
    pub step: Step,
    /// Whether it is done, as the recording's watcher said.
    pub done: bool,
    /// From where it comes, as the recording's watcher said.
    pub call_path: u32,
}

/// Everything that a [`Simulated`](super::Simulated) medium was asked for since a pool was put on it.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Each with its number in the recording, which rises.
    events: Vec<(u64, Event)>,
    stops: Vec<Stop>,
    /// The number that the next event in the recording had when this was taken.
    end: u64,
}

impl History {
    /// The moment after the last event.
    pub fn moment(&self) -> u64 {
        self.end
    }

    /// The moment at which the pool was attached first; `None`: it never was.
    pub fn begin(&self) -> Option<u64> {
        // (A reader of a pool that was opened for reading fences, too.)
        self.events.iter().find(|(_, event)| matches!(event, Event::Grow { .. })).map(|(moment, _)| *moment)
    }

    /// How many fences there are.
    pub fn fences(&self) -> u64 {
        self.events.iter().filter(|(_, event)| matches!(event, Event::Fence { .. })).count() as u64
    }

    /// Where a crash is worth looking at, in order.
    pub fn stops(&self) -> &[Stop] {
        &self.stops
    }

    pub(super) fn push(&mut self, moment: u64, event: Event) {
        self.events.push((moment, event));
    }

    pub(super) fn push_stop(&mut self, stop: Stop) {
        self.stops.push(stop);
    }

    /// The same record, ending now.
    pub(super) fn until(&self, end: u64) -> History {
        History { end, ..self.clone() }
    }

    /// The event at an index, with its moment.
    pub(super) fn event(&self, index: usize) -> Option<&(u64, Event)> {
        self.events.get(index)
    }
}
