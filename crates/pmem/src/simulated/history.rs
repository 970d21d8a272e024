//! The record of a simulated medium.

use std::ops::Range;
use std::sync::Arc;

use super::Replay;

/// One thing that the medium was asked for. Offsets are the pool's.
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// The pool's memory begins, or has become longer by this.
    Grow { content: Arc<[u8]> },
    /// A word was stored.
    Store { offset: u64, value: u64 },
    /// Bytes were copied in.
    Copy { offset: u64, bytes: Arc<[u8]> },
    /// A range was zeroed.
    Zero { offset: u64, length_bytes: u64 },
    /// These cache lines were flushed.
    Flush { thread: u32, lines: Range<u64> },
    /// A thread waited for its flushes.
    Fence { thread: u32 },
}

/// Everything that a [`Simulated`](super::Simulated) medium was asked for since a pool was put on it.
#[derive(Debug, Clone, Default)]
pub struct History {
    events: Vec<Event>,
}

impl History {
    /// How many events there are: the moment after the last.
    pub fn moment(&self) -> u64 {
        self.events.len() as u64
    }

    /// How many fences there are.
    pub fn fences(&self) -> u64 {
        self.events.iter().filter(|event| matches!(event, Event::Fence { .. })).count() as u64
    }

    /// Goes through it from the beginning.
    pub fn replay(self) -> Replay {
        Replay::new(self)
    }

    pub(super) fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    pub(super) fn event(&self, moment: u64) -> Option<&Event> {
        self.events.get(usize::try_from(moment).ok()?)
    }
}
