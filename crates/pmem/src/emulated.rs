//! The medium that does what persistent memory needs, on any memory: real write-backs and fences, counted.
//!
//! The instruction is chosen once, by CPUID: `clwb`, which writes a line back and keeps it; else `clflushopt`, which also
//! evicts it; else `clflush`, which is ordered besides and so the slowest. `sfence` makes the thread wait for the
//! write-backs it began. On other processors a fence is a full memory fence and a flush is only counted: nothing is lost
//! by that, because what such a pool survives is a killed process, and stores alone survive that.
//!
//! Counting must not cost what is counted: an atomic addition beside a fence waits until the write-back is over and makes
//! a small persist a third slower. So each thread has counters of its own, which nobody else writes, and adds to them with
//! plain loads and stores.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::medium::{CACHE_LINE_BYTES, FlushCounters, Medium};

/// How many threads at once have counters of their own. The last ones are for all others together.
const OWN_COUNTERS: usize = 63;

/// Real write-backs, counted. What is stored survives a killed process; over a power cut nothing is promised. Clones count
/// together. A flush is counted by the fence that orders it, on the medium that fence was asked of.
#[derive(Clone)]
pub struct Emulated {
    write_back: WriteBack,
    counters: Arc<[Counters]>,
}

/// The instruction that writes a cache line back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteBack {
    #[cfg(target_arch = "x86_64")]
    Clwb,
    #[cfg(target_arch = "x86_64")]
    ClflushOpt,
    #[cfg(target_arch = "x86_64")]
    Clflush,
    #[cfg(not(target_arch = "x86_64"))]
    None,
}

/// Two cache lines long, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    persists: AtomicU64,
    lines_flushed: AtomicU64,
}

/// A number below [`OWN_COUNTERS`] that no other living thread has, or just that number if there are none left.
struct ThreadNumber(usize);

/// The numbers that can be had.
static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { given_back: Vec::new(), next: 0 });

struct Numbers {
    given_back: Vec<usize>,
    next: usize,
}

thread_local! {
    static THREAD_NUMBER: ThreadNumber = ThreadNumber::take();
    /// Lines that this thread has flushed since its last fence.
    static UNFENCED_LINES: Cell<u64> = const { Cell::new(0) };
}

impl ThreadNumber {
    fn take() -> ThreadNumber {
        let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        let number = numbers.given_back.pop().unwrap_or_else(|| {
            numbers.next = (numbers.next + 1).min(OWN_COUNTERS + 1);
            numbers.next - 1
        });
        ThreadNumber(number)
    }
}

impl Drop for ThreadNumber {
    fn drop(&mut self) {
        if self.0 < OWN_COUNTERS {
            NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).given_back.push(self.0);
        }
    }
}

impl Counters {
    /// Counts a persist of so many lines. `own`: nobody else adds to these counters.
    #[inline]
    fn add(&self, lines: u64, own: bool) {
        for (counter, more) in [(&self.persists, 1), (&self.lines_flushed, lines)] {
            if own {
                counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
            } else {
                counter.fetch_add(more, Ordering::Relaxed);
            }
        }
    }
}

impl Emulated {
    /// A medium with the best write-back instruction that the processor has, and with all counters at 0.
    pub fn new() -> Emulated {
        Emulated {
            write_back: WriteBack::detect(),
            counters: (0..=OWN_COUNTERS).map(|_| Counters::default()).collect(),
        }
    }

    /// The write-back instruction in use: `clwb`, `clflushopt`, `clflush` or `none`.
    pub fn instruction(&self) -> &'static str {
        match self.write_back {
            #[cfg(target_arch = "x86_64")]
            WriteBack::Clwb => "clwb",
            #[cfg(target_arch = "x86_64")]
            WriteBack::ClflushOpt => "clflushopt",
            #[cfg(target_arch = "x86_64")]
            WriteBack::Clflush => "clflush",
            #[cfg(not(target_arch = "x86_64"))]
            WriteBack::None => "none",
        }
    }
}

impl Default for Emulated {
    fn default() -> Emulated {
        Emulated::new()
    }
}

impl fmt::Debug for Emulated {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Emulated({}, {:?})", self.instruction(), self.counters())
    }
}

impl Medium for Emulated {
    const PERSISTENT: bool = true;

    #[inline]
    fn flush(&self, start: *const u8, length_bytes: usize) {
        if length_bytes == 0 {
            return;
        }
        let first = start.addr() & !(CACHE_LINE_BYTES as usize - 1);
        let lines = (start.addr() - first + length_bytes).div_ceil(CACHE_LINE_BYTES as usize);
        let line = start.wrapping_sub(start.addr() - first);
        for index in 0..lines {
            self.write_back.line(line.wrapping_add(index * CACHE_LINE_BYTES as usize));
        }
        UNFENCED_LINES.set(UNFENCED_LINES.get() + lines as u64);
    }

    #[inline]
    fn fence(&self) {
        store_fence();
        let lines = UNFENCED_LINES.replace(0);
        if lines > 0 {
            // A thread that is about to end may have given its number back.
            let number = THREAD_NUMBER.try_with(|number| number.0).unwrap_or(OWN_COUNTERS);
            self.counters[number].add(lines, number < OWN_COUNTERS);
        }
    }

    fn counters(&self) -> FlushCounters {
        let sum = |counter: fn(&Counters) -> &AtomicU64| {
            self.counters.iter().map(|counters| counter(counters).load(Ordering::Relaxed)).sum::<u64>()
        };
        let lines_flushed = sum(|counters| &counters.lines_flushed);
        FlushCounters {
            persists: sum(|counters| &counters.persists),
            lines_flushed,
            media_bytes: lines_flushed * CACHE_LINE_BYTES,
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl WriteBack {
    fn detect() -> WriteBack {
        // In newer compilers CPUID is safe to ask.
        #[allow(unused_unsafe)]
        // SAFETY: every x86-64 processor has CPUID; leaf 7 is only asked where leaf 0 says that it exists.
        let features = unsafe {
            use std::arch::x86_64::{__cpuid, __cpuid_count};
            if __cpuid(0).eax < 7 { 0 } else { __cpuid_count(7, 0).ebx }
        };
        if features & 1 << 24 != 0 {
            WriteBack::Clwb
        } else if features & 1 << 23 != 0 {
            WriteBack::ClflushOpt
        } else {
            WriteBack::Clflush
        }
    }

    /// Begins to write back the cache line at an address of the process's own.
    #[inline(always)]
    fn line(self, line: *const u8) {
        use std::arch::asm;
        match self {
            // SAFETY: the processor has it, says `detect`; it changes neither memory nor flags. It would fault only on an
            // address that is not mapped.
            WriteBack::Clwb => unsafe { asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)) },
            // SAFETY: as above.
            WriteBack::ClflushOpt => unsafe {
                asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags))
            },
            // SAFETY: as above; every x86-64 processor has it.
            WriteBack::Clflush => unsafe { asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags)) },
        }
    }
}

/// Waits for the write-backs that this thread began.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn store_fence() {
    // SAFETY: every x86-64 processor has it, and it changes nothing.
    unsafe { std::arch::asm!("sfence", options(nostack, preserves_flags)) };
}

#[cfg(not(target_arch = "x86_64"))]
impl WriteBack {
    fn detect() -> WriteBack {
        WriteBack::None
    }

    fn line(self, _line: *const u8) {}
}

/// Orders everything before against everything after.
#[cfg(not(target_arch = "x86_64"))]
fn store_fence() {
    std::sync::atomic::fence(Ordering::SeqCst);
}
