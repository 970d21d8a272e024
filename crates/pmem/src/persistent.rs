//! The medium that does what persistent memory needs, on any memory: real write-backs and fences, counted.
//!
//! One type serves real persistent memory ([`Persistent::dax`]) and its emulation by any file ([`Persistent::new`]),
//! because the processor does the same for both. What differs is what a pool on it may be trusted with after a power cut,
//! and the pool asks for that: [`Medium::survives_power_cut`].
//!
//! Added latency is a type parameter, [`Delay`]. With [`Undelayed`] nothing of it is left in the program: a persist is the
//! write-back, the fence, and the counting in thread-local memory. `scripts/machine-code-check` shows it.
//!
//! Read on in `instruction` (what the processor offers), `counting` and `emulation`.

mod clock;
mod counting;
mod emulation;
mod instruction;

pub use emulation::{Delay, Delayed, Emulation, LatencyModel, Undelayed};

use std::fmt;

use slmdb_env::{Error, Result};

use crate::medium::{CACHE_LINE_BYTES, FlushCounters, Medium, Reads};
use counting::{Counters, flushed};
use instruction::{Instruction, store_fence, stream};

const LINE: usize = CACHE_LINE_BYTES as usize;

/// The write unit of a medium where nobody says otherwise: 256 bytes, that of Optane modules.
pub const MEDIA_UNIT_BYTES: u64 = 256;

/// Copies from this length on take [`Medium::copy_durably`]'s way past the caches. Measured (`docs/measured/fast-tier.md`): where the
/// place begins with a cache line that way is the faster one from 64 bytes on, where it does not only from some 8 KiB.
pub const STREAM_BYTES_MIN: usize = 8192;

/// Persistent memory, or a file that stands in for it. Clones count together. A flush is counted by the fence that orders
/// it, on the medium that fence was asked of.
#[derive(Clone)]
pub struct Persistent<D: Delay = Undelayed> {
    instruction: Instruction,
    /// Its write unit has `1 << unit_shift` bytes.
    unit_shift: u32,
    survives_power_cut: bool,
    counters: Counters,
    delay: D,
}

/// The emulation that adds no time. What is stored survives a killed process; over a power cut nothing is promised.
pub type Emulated = Persistent<Undelayed>;

impl Persistent<Undelayed> {
    /// An emulation, with the best write-back instruction that the processor has, and with all counters at 0.
    pub fn new() -> Persistent<Undelayed> {
        Persistent::with_delay(Undelayed)
    }

    /// Real persistent memory: a pool on it has to map with `MAP_SYNC`. `caches_are_persistent`: the machine sees to it
    /// that its caches reach the memory when the power goes (eADR, CXL with global persistent flush), so that a fence
    /// alone makes stores durable. [`Error::Unsupported`] on a processor whose write-back instruction this build does not
    /// know, unless its caches are persistent.
    pub fn dax(caches_are_persistent: bool) -> Result<Persistent<Undelayed>> {
        let mut medium = Persistent::new();
        medium.survives_power_cut = true;
        if caches_are_persistent {
            medium.instruction = Instruction::FenceOnly;
        } else if medium.instruction == Instruction::FenceOnly {
            let what = "cache lines can't be written back to persistent memory on this kind of processor".into();
            return Err(Error::Unsupported { what, file: None });
        }
        Ok(medium)
    }
}

impl Persistent<Delayed> {
    /// An emulation that takes its time.
    pub fn emulating(emulation: &Emulation) -> Persistent<Delayed> {
        Persistent::with_delay(Delayed::new(emulation))
    }
}

impl<D: Delay> Persistent<D> {
    fn with_delay(delay: D) -> Persistent<D> {
        Persistent {
            instruction: Instruction::detect(),
            unit_shift: MEDIA_UNIT_BYTES.trailing_zeros(),
            survives_power_cut: false,
            counters: Counters::new(),
            delay,
        }
    }

    /// The same medium with another write unit: a power of two from 64 to 4096 bytes ([`Error::Invalid`]). What is written
    /// to the medium is counted in it.
    pub fn with_unit(mut self, unit_bytes: u64) -> Result<Persistent<D>> {
        if !unit_bytes.is_power_of_two() || !(CACHE_LINE_BYTES..=4096).contains(&unit_bytes) {
            return Err(Error::invalid("a medium's write unit is a power of two from 64 to 4096 bytes"));
        }
        self.unit_shift = unit_bytes.trailing_zeros();
        Ok(self)
    }

    /// The write-back instruction in use: `clwb`, `clflushopt`, `clflush` or `none`.
    pub fn instruction(&self) -> &'static str {
        self.instruction.name()
    }

    /// Counts lines that began to be written back, and takes the time for it.
    #[inline(always)]
    fn began(&self, start: *const u8, length_bytes: usize) {
        let flushed = flushed(start.addr(), length_bytes, self.unit_shift);
        self.delay.after_flush(flushed.lines, flushed.media_units << self.unit_shift);
    }
}

impl Default for Persistent<Undelayed> {
    fn default() -> Persistent<Undelayed> {
        Persistent::new()
    }
}

impl<D: Delay> fmt::Debug for Persistent<D> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Persistent")
            .field("instruction", &self.instruction())
            .field("unit_bytes", &(1_u64 << self.unit_shift))
            .field("survives_power_cut", &self.survives_power_cut)
            .field("delay", &self.delay)
            .field("counters", &self.counters())
            .finish()
    }
}

impl<D: Delay> Medium for Persistent<D> {
    #[inline(always)]
    fn is_persistent(&self) -> bool {
        true
    }

    fn survives_power_cut(&self) -> bool {
        self.survives_power_cut
    }

    #[inline]
    fn flush(&self, start: *const u8, length_bytes: usize) {
        if length_bytes == 0 {
            return;
        }
        let into_line = start.addr() % LINE;
        self.instruction.write_back(start.wrapping_sub(into_line), (into_line + length_bytes).div_ceil(LINE));
        self.began(start, length_bytes);
    }

    /// Long copies bypass the caches: the lines are written once instead of being read, changed and written back, and
    /// nothing is evicted for them. Head and tail, which share their lines with neighbours, are plain stores.
    unsafe fn copy_durably(&self, to: *mut u8, from: &[u8]) {
        let head = to.align_offset(LINE);
        if from.len() < STREAM_BYTES_MIN || from.len() < head + LINE {
            // SAFETY: the caller's promise, word for word.
            unsafe { self.copy(to, from) };
            self.flush(to, from.len());
            return;
        }
        let lines = (from.len() - head) / LINE;
        let tail = head + lines * LINE;
        // SAFETY: three parts of what the caller promises for the whole; the middle one begins with a line, and the fence
        // behind it orders it before everything that this thread stores later.
        unsafe {
            self.copy(to, &from[..head]);
            stream(to.add(head), from[head..].as_ptr(), lines);
            self.copy(to.add(tail), &from[tail..]);
        }
        if head > 0 {
            self.instruction.write_back(to.wrapping_sub(to.addr() % LINE), 1);
        }
        if tail < from.len() {
            self.instruction.write_back(to.wrapping_add(tail), 1);
        }
        store_fence();
        self.began(to, from.len());
    }

    #[inline]
    fn fence(&self) {
        store_fence();
        if self.counters.fenced(self.unit_shift) {
            self.delay.after_fence();
        }
    }

    #[inline(always)]
    fn note_read(&self) {
        if D::TAKES_TIME {
            self.counters.count_read();
            self.delay.before_read();
        }
    }

    fn reads(&self) -> Reads {
        if D::TAKES_TIME { Reads::of(self.clone()) } else { Reads::default() }
    }

    fn counters(&self) -> FlushCounters {
        self.counters.sums()
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::instruction::noted::{Done, taken};
    use super::*;

    #[repr(align(64))]
    struct Lines([u8; 3 * STREAM_BYTES_MIN]);

    #[test]
    fn every_line_that_a_range_touches_is_written_back_and_no_other() {
        let (medium, memory) = (Emulated::new(), Lines([0; 3 * STREAM_BYTES_MIN]));
        let first = memory.0.as_ptr().addr();
        for (from, length, line, lines) in [
            (0, 1, 0, 1),
            (0, 64, 0, 1),
            (63, 1, 0, 1),
            (63, 2, 0, 2),
            (64, 64, 1, 1),
            (70, 122, 1, 2),
            (70, 123, 1, 3),
        ] {
            taken();
            medium.flush(memory.0[from..].as_ptr(), length);
            assert_eq!(taken(), [Done::WriteBack(first + line * LINE, lines)], "{length} bytes at {from}");
        }
        medium.flush(memory.0.as_ptr(), 0);
        assert_eq!(taken(), []);
        medium.fence();
        assert_eq!(taken(), [Done::Fence]);
    }

    #[test]
    fn a_long_copy_writes_back_its_ends_streams_the_rest_and_fences() {
        let (medium, from) = (Emulated::new(), vec![7; 2 * STREAM_BYTES_MIN]);
        let mut memory = Lines([0; 3 * STREAM_BYTES_MIN]);
        let to = memory.0.as_mut_ptr();
        let first = to.addr();
        let copied = |offset: usize, length: usize| {
            taken();
            // SAFETY: within `memory`, which nobody else knows.
            unsafe { medium.copy_durably(to.wrapping_add(offset), &from[..length]) };
            taken()
        };
        let lines = STREAM_BYTES_MIN / LINE;
        assert_eq!(copied(0, STREAM_BYTES_MIN), [Done::Stream(first, lines), Done::Fence]);
        let ends = [Done::WriteBack(first, 1), Done::WriteBack(first + LINE + lines * LINE, 1)];
        assert_eq!(
            copied(60, 4 + STREAM_BYTES_MIN + 5),
            [Done::Stream(first + LINE, lines), ends[0], ends[1], Done::Fence]
        );
        assert_eq!(copied(60, 5), [Done::WriteBack(first, 2)], "a short one is flushed, and fenced by who asks for it");
    }
}
