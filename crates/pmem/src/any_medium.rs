//! [`AnyMedium`]: the medium of an open store, whichever that is.

use std::sync::Arc;

use slmdb_sync::mapped::AtomicU64;

use crate::medium::{Dram, FlushCounters, Medium, Reads};
use crate::persistent::{Delayed, Persistent, Undelayed};

/// One of several media. What is built on it is compiled once for all of them. On [`Dram`] a flush and a fence are one comparison and
/// no call; so is a read that is noted, where no latencies are emulated (`scripts/machine-code-check`).
#[derive(Clone)]
pub enum AnyMedium {
    /// Plain memory.
    Dram(Dram),
    /// Persistent memory, or a file in its place.
    Persistent(Arc<Persistent<Undelayed>>),
    /// An emulation that takes its time.
    Delayed(Arc<Persistent<Delayed>>),
    /// One that records.
    Other(Arc<Box<dyn Medium>>),
}

// It stands in the middle of what readers need of a pool.
const _: () = assert!(size_of::<AnyMedium>() <= 16);

impl AnyMedium {
    /// One that records, or does something else beside.
    pub fn other(medium: impl Medium) -> AnyMedium {
        AnyMedium::Other(Arc::new(Box::new(medium)))
    }

    /// That of a store on `Dram`.
    pub fn dram() -> AnyMedium {
        AnyMedium::Dram(Dram)
    }

    /// Out of the way of readers, who mostly have nothing to note.
    #[cold]
    #[inline(never)]
    fn note_slow_read(&self) {
        self.inner().note_read();
    }

    /// Whichever is not the most usual one.
    #[cold]
    fn inner(&self) -> &dyn Medium {
        match self {
            AnyMedium::Dram(medium) => medium,
            AnyMedium::Persistent(medium) => &**medium,
            AnyMedium::Delayed(medium) => &**medium,
            AnyMedium::Other(medium) => &***medium,
        }
    }
}

impl From<Persistent<Undelayed>> for AnyMedium {
    fn from(medium: Persistent<Undelayed>) -> AnyMedium {
        AnyMedium::Persistent(Arc::new(medium))
    }
}

impl From<Persistent<Delayed>> for AnyMedium {
    fn from(medium: Persistent<Delayed>) -> AnyMedium {
        AnyMedium::Delayed(Arc::new(medium))
    }
}

impl std::fmt::Debug for AnyMedium {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AnyMedium::Dram(medium) => medium.fmt(formatter),
            AnyMedium::Persistent(medium) => medium.fmt(formatter),
            AnyMedium::Delayed(medium) => medium.fmt(formatter),
            AnyMedium::Other(_) => formatter.write_str("Other"),
        }
    }
}

impl Medium for AnyMedium {
    #[inline(always)]
    fn is_persistent(&self) -> bool {
        match self {
            AnyMedium::Dram(_) => false,
            AnyMedium::Persistent(_) | AnyMedium::Delayed(_) => true,
            AnyMedium::Other(medium) => medium.is_persistent(),
        }
    }

    fn survives_power_cut(&self) -> bool {
        self.inner().survives_power_cut()
    }

    fn needs_direct_mapping(&self) -> bool {
        self.inner().needs_direct_mapping()
    }

    #[inline(always)]
    fn store(&self, word: &AtomicU64, value: u64) {
        match self {
            AnyMedium::Other(medium) => medium.store(word, value),
            _ => Dram.store(word, value),
        }
    }

    #[inline(always)]
    fn compare_exchange(&self, word: &AtomicU64, current: u64, new: u64) -> Result<u64, u64> {
        match self {
            AnyMedium::Other(medium) => medium.compare_exchange(word, current, new),
            _ => Dram.compare_exchange(word, current, new),
        }
    }

    #[inline(always)]
    unsafe fn copy(&self, to: *mut u8, from: &[u8]) {
        // SAFETY: the caller's promise, word for word.
        unsafe {
            match self {
                AnyMedium::Other(medium) => medium.copy(to, from),
                _ => Dram.copy(to, from),
            }
        }
    }

    #[inline(always)]
    unsafe fn zero(&self, to: *mut u8, length_bytes: usize) {
        // SAFETY: the caller's promise, word for word.
        unsafe {
            match self {
                AnyMedium::Other(medium) => medium.zero(to, length_bytes),
                _ => Dram.zero(to, length_bytes),
            }
        }
    }

    #[inline(always)]
    unsafe fn copy_durably(&self, to: *mut u8, from: &[u8]) {
        // SAFETY: the caller's promise, word for word.
        unsafe {
            match self {
                AnyMedium::Dram(medium) => medium.copy(to, from),
                AnyMedium::Persistent(medium) => medium.copy_durably(to, from),
                other => other.inner().copy_durably(to, from),
            }
        }
    }

    #[inline(always)]
    fn flush(&self, start: *const u8, length_bytes: usize) {
        match self {
            AnyMedium::Dram(_) => {}
            AnyMedium::Persistent(medium) => medium.flush(start, length_bytes),
            other => other.inner().flush(start, length_bytes),
        }
    }

    #[inline(always)]
    fn fence(&self) {
        match self {
            AnyMedium::Dram(_) => {}
            AnyMedium::Persistent(medium) => medium.fence(),
            other => other.inner().fence(),
        }
    }

    #[inline(always)]
    fn note_read(&self) {
        match self {
            AnyMedium::Dram(_) | AnyMedium::Persistent(_) => {}
            other => other.note_slow_read(),
        }
    }

    fn reads(&self) -> Reads {
        self.inner().reads()
    }

    fn counters(&self) -> FlushCounters {
        self.inner().counters()
    }

    fn begin_new(&self) {
        self.inner().begin_new();
    }

    unsafe fn attach(&self, base: *const u8, length_bytes: usize) {
        // SAFETY: the caller's promise, word for word.
        unsafe { self.inner().attach(base, length_bytes) }
    }

    fn detach(&self) {
        self.inner().detach();
    }
}
