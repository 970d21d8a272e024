//! Publication: which sequence numbers readers may see.
//!
//! Writers run in parallel. Each reserves its place in the log and its sequence numbers, fills the place, and is done
//! when the medium has it. They finish in any order. The *published* sequence number moves only over a gapless prefix of
//! finished writes, and a write returns once the prefix covers it (INV-1). So no acknowledged record stands behind a
//! hole, where replay would end, and no reader sees what a crash could take back.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use slmdb_sync::modelled::{AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, spin_loop, yield_now};

use crate::lock_order;

/// How often a waiting writer looks before it gives its processor to others,
const SPINS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 64 };
/// and how often it does that before it sleeps. Whom it waits for is done within microseconds, and waking a thread takes
/// fifty of them.
const YIELDS: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 64 };

/// A write under way: given by [`Publication::begin`], handed back to [`Publication::complete`].
#[derive(Debug, Clone, Copy)]
pub struct Ticket(u64);

/// How far writes are published, and the window of those that are not.
#[derive(Debug)]
pub struct Publication {
    published: AtomicU64,
    waiting: AtomicUsize,
    window: Mutex<Window>,
    moved: Condvar,
}

/// Writes that are running or wait for an earlier one, in order of their sequence numbers.
#[derive(Debug)]
struct Window {
    /// The ticket of `slots[0]`.
    first_ticket: u64,
    slots: VecDeque<Slot>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    last_sequence: u64,
    done: bool,
}

impl Publication {
    /// With everything up to `sequence` published.
    pub fn new(sequence: u64) -> Publication {
        Publication {
            published: AtomicU64::new(sequence),
            waiting: AtomicUsize::new(0),
            window: Mutex::ranked(lock_order::PUBLICATION, Window { first_ticket: 0, slots: VecDeque::new() }),
            moved: Condvar::new(),
        }
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock()
    }

    /// The newest sequence number that readers may see.
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// The last sequence number of the last write that was announced.
    /// LOCKS: publication
    pub fn begun(&self) -> u64 {
        let window = self.window();
        window.slots.back().map_or_else(|| self.published(), |last| last.last_sequence)
    }

    /// Announces a write whose last sequence number is `last_sequence`. REQUIRES: calls come in the order of the
    /// sequence numbers (under the lock that hands them out), and [`Publication::complete`] follows without fail
    /// (INV-2).
    /// LOCKS: publication
    pub fn begin(&self, last_sequence: u64) -> Ticket {
        let mut window = self.window();
        window.slots.push_back(Slot { last_sequence, done: false });
        Ticket(window.first_ticket + window.slots.len() as u64 - 1)
    }

    /// Marks a write as being on the medium. Publishes it, and finished writes behind it, unless an earlier one is not
    /// done.
    /// LOCKS: publication
    pub fn complete(&self, ticket: Ticket) {
        let mut window = self.window();
        let index = (ticket.0 - window.first_ticket) as usize;
        window.slots[index].done = true;
        if index != 0 {
            return;
        }
        let mut last_sequence = 0;
        while let Some(&Slot { last_sequence: sequence, done: true }) = window.slots.front() {
            last_sequence = sequence;
            window.slots.pop_front();
            window.first_ticket += 1;
        }
        self.published.store(last_sequence, Ordering::Release);
        drop(window);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // Taking the lock orders this behind a waiter that has looked and does not sleep yet.
            drop(self.window());
            self.moved.notify_all();
        }
    }

    /// Returns once `sequence` is published.
    pub fn wait_for(&self, sequence: u64) {
        for _ in 0..SPINS {
            if self.published() >= sequence {
                return;
            }
            spin_loop();
        }
        for _ in 0..YIELDS {
            yield_now();
            if self.published() >= sequence {
                return;
            }
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut window = self.window();
        while self.published() < sequence {
            window = self.moved.wait(window);
        }
        drop(window);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn publishes_only_a_prefix_without_a_gap() {
        let publication = Publication::new(7);
        let first = publication.begin(10);
        let second = publication.begin(11);
        let third = publication.begin(20);
        publication.complete(second);
        assert_eq!(publication.published(), 7);
        publication.complete(first);
        assert_eq!(publication.published(), 11);
        publication.complete(third);
        assert_eq!(publication.published(), 20);
        publication.wait_for(20);
    }

    #[test]
    fn every_writer_is_woken() {
        let publication = Arc::new(Publication::new(0));
        let next = Arc::new(Mutex::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (publication, next) = (publication.clone(), next.clone());
                std::thread::spawn(move || {
                    for _ in 0..2000 {
                        let (sequence, ticket) = {
                            let mut next = next.lock();
                            *next += 1;
                            (*next, publication.begin(*next))
                        };
                        if sequence % 7 == 0 {
                            std::thread::yield_now();
                        }
                        publication.complete(ticket);
                        publication.wait_for(sequence);
                        assert!(publication.published() >= sequence);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(publication.published(), 8000);
    }
}
