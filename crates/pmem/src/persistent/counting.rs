//! Counting what a medium was asked for.
//!
//! Counting must not cost what is counted: an atomic addition beside a fence waits until the write-back is over and makes
//! a small persist a third slower. So each thread adds up what it has flushed in thread-local memory, and its fence adds
//! that to counters which nobody else writes, with plain loads and stores.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::medium::{CACHE_LINE_BYTES, FlushCounters};

/// How many threads at once have counters of their own. The last ones are for all others together.
const OWN_COUNTERS: usize = 63;

/// What has been flushed since the last fence. Units are numbered by address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unfenced {
    lines: u64,
    media_units: u64,
    bytes_asked: u64,
    /// The units of the latest flush and of those before it that overlap with it.
    first_unit: usize,
    last_unit: usize,
}

/// What one flush adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flushed {
    pub lines: u64,
    pub media_units: u64,
}

impl Unfenced {
    pub const NOTHING: Unfenced =
        Unfenced { lines: 0, media_units: 0, bytes_asked: 0, first_unit: usize::MAX, last_unit: 0 };

    /// Adds a flush of `length_bytes` > 0 at `address`, on a medium that writes in units of `1 << unit_shift` bytes. Units
    /// that the flush before this one touched, too, are not counted again.
    #[inline(always)]
    pub fn add(&mut self, address: usize, length_bytes: usize, unit_shift: u32) -> Flushed {
        let end = address + (length_bytes - 1);
        let lines = (end / CACHE_LINE_BYTES as usize - address / CACHE_LINE_BYTES as usize + 1) as u64;
        let (first, last) = (address >> unit_shift, end >> unit_shift);
        let counted = (last.min(self.last_unit) + 1).saturating_sub(first.max(self.first_unit));
        let media_units = (last - first + 1 - counted) as u64;
        if counted > 0 {
            (self.first_unit, self.last_unit) = (first.min(self.first_unit), last.max(self.last_unit));
        } else {
            (self.first_unit, self.last_unit) = (first, last);
        }
        self.lines += lines;
        self.media_units += media_units;
        self.bytes_asked += length_bytes as u64;
        Flushed { lines, media_units }
    }

    /// Whether a fence would order something.
    #[inline(always)]
    pub fn is_nothing(&self) -> bool {
        self.lines == 0
    }
}

thread_local! {
    /// What this thread has flushed since its last fence.
    static UNFENCED: Cell<Unfenced> = const { Cell::new(Unfenced::NOTHING) };
    /// This thread's number plus 1; 0 until it is wanted.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
    /// Gives the number back when the thread ends.
    static GIVER_BACK: GiverBack = const { GiverBack };
}

/// Counts a flush of this thread. The next fence adds it up.
#[inline(always)]
pub(super) fn flushed(address: usize, length_bytes: usize, unit_shift: u32) -> Flushed {
    let mut unfenced = UNFENCED.get();
    let flushed = unfenced.add(address, length_bytes, unit_shift);
    UNFENCED.set(unfenced);
    flushed
}

/// The counters of one medium, for any number of threads. Clones are the same counters.
#[derive(Debug, Clone)]
pub(super) struct Counters(Arc<[Slot; OWN_COUNTERS + 1]>);

/// One thread's. Two cache lines long, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot {
    persists: AtomicU64,
    lines_flushed: AtomicU64,
    media_bytes: AtomicU64,
    bytes_asked: AtomicU64,
    reads: AtomicU64,
}

impl Counters {
    /// All at 0.
    pub fn new() -> Counters {
        // Not an array that is moved: that would lie on the stack, of which the caller may have little.
        let slots: Arc<[Slot]> = (0..=OWN_COUNTERS).map(|_| Slot::default()).collect();
        Counters(slots.try_into().expect("as many slots as there are counters"))
    }

    /// Counts a fence of this thread, and whatever it flushed before; `false` if that was nothing.
    #[inline(always)]
    pub fn fenced(&self, unit_shift: u32) -> bool {
        let unfenced = UNFENCED.get();
        if unfenced.is_nothing() {
            return false;
        }
        UNFENCED.set(Unfenced::NOTHING);
        let (slot, own) = self.slot();
        slot.add(&unfenced, unfenced.media_units << unit_shift, own);
        true
    }

    /// Counts a read of this thread.
    #[inline]
    pub fn count_read(&self) {
        let (slot, own) = self.slot();
        add(&slot.reads, 1, own);
    }

    /// This thread's counters, and whether they are its own.
    #[inline(always)]
    fn slot(&self) -> (&Slot, bool) {
        let number = match NUMBER.get() {
            0 => take_number(),
            taken => taken,
        };
        (&self.0[(number - 1).min(OWN_COUNTERS)], number <= OWN_COUNTERS)
    }

    /// The sums.
    pub fn sums(&self) -> FlushCounters {
        let sum = |counter: fn(&Slot) -> &AtomicU64| {
            self.0.iter().map(|slot| counter(slot).load(Ordering::Relaxed)).sum::<u64>()
        };
        FlushCounters {
            persists: sum(|slot| &slot.persists),
            lines_flushed: sum(|slot| &slot.lines_flushed),
            media_bytes: sum(|slot| &slot.media_bytes),
            bytes_asked: sum(|slot| &slot.bytes_asked),
            reads: sum(|slot| &slot.reads),
        }
    }
}

impl Slot {
    /// Adds a persist. `own`: nobody else adds to these counters.
    #[inline(always)]
    fn add(&self, unfenced: &Unfenced, media_bytes: u64, own: bool) {
        let more = [
            (&self.persists, 1),
            (&self.lines_flushed, unfenced.lines),
            (&self.media_bytes, media_bytes),
            (&self.bytes_asked, unfenced.bytes_asked),
        ];
        for (counter, more) in more {
            add(counter, more, own);
        }
    }
}

/// Adds to a counter. `own`: nobody else adds to it.
#[inline(always)]
fn add(counter: &AtomicU64, more: u64, own: bool) {
    if own {
        counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    } else {
        counter.fetch_add(more, Ordering::Relaxed);
    }
}

/// The numbers that can be had.
static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { given_back: Vec::new(), next: 1 });

struct Numbers {
    given_back: Vec<usize>,
    next: usize,
}

struct GiverBack;

/// A number from 1 that no other living thread has; [`OWN_COUNTERS`] + 1 if there are none left.
#[cold]
#[inline(never)]
fn take_number() -> usize {
    // A thread that is about to end could not give it back any more.
    if GIVER_BACK.try_with(|_| ()).is_err() {
        return OWN_COUNTERS + 1;
    }
    let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let number = numbers.given_back.pop().unwrap_or_else(|| {
        numbers.next = (numbers.next + 1).min(OWN_COUNTERS + 2);
        numbers.next - 1
    });
    NUMBER.set(number);
    number
}

impl Drop for GiverBack {
    fn drop(&mut self) {
        // What the thread still flushes while it ends is counted with the others that have no counters of their own.
        let number = NUMBER.replace(OWN_COUNTERS + 1);
        if (1..=OWN_COUNTERS).contains(&number) {
            NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).given_back.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 256-byte units.
    fn add(unfenced: &mut Unfenced, address: usize, length_bytes: usize) -> (u64, u64) {
        let flushed = unfenced.add(address, length_bytes, 8);
        (flushed.lines, flushed.media_units)
    }

    #[test]
    fn a_unit_counts_once_while_flushes_stay_in_it() {
        let mut unfenced = Unfenced::NOTHING;
        assert!(unfenced.is_nothing());
        assert_eq!(add(&mut unfenced, 1024, 64), (1, 1));
        assert_eq!(add(&mut unfenced, 1024 + 63, 2), (2, 0), "another line of the unit");
        assert_eq!(add(&mut unfenced, 1024 + 255, 2), (2, 1), "on into the next unit");
        assert_eq!(add(&mut unfenced, 1024, 512), (8, 0), "both again");
        assert_eq!(add(&mut unfenced, 0, 2048), (32, 6), "around both");
        assert_eq!(add(&mut unfenced, 4096, 1), (1, 1), "elsewhere");
        assert_eq!(add(&mut unfenced, 1024, 1), (1, 1), "and back, which the medium has forgotten");
        assert_eq!((unfenced.lines, unfenced.media_units), (47, 10));
        assert_eq!(unfenced.bytes_asked, 64 + 2 + 2 + 512 + 2048 + 1 + 1);
    }

    #[test]
    fn units_of_one_line_are_lines() {
        let mut unfenced = Unfenced::NOTHING;
        for (address, length_bytes) in [(0, 64), (60, 8), (128, 4096), (5, 1), (usize::MAX - 3, 4)] {
            let flushed = unfenced.add(address, length_bytes, 6);
            assert!(flushed.media_units <= flushed.lines);
        }
        assert_eq!((unfenced.lines, unfenced.media_units), (1 + 2 + 64 + 1 + 1, 1 + 1 + 64 + 1 + 1));
    }

    #[test]
    fn the_first_unit_of_all_is_counted_too() {
        assert_eq!(add(&mut Unfenced::NOTHING.clone(), 0, 1), (1, 1));
    }
}
