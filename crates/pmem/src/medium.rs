//! The medium: every store, flush and fence to the fast tier.
//!
//! The fast tier may be plain DRAM, persistent memory, an emulation of it, or a recording for crash tests. What differs
//! between them is only how a store becomes durable, so that is all a [`Medium`] says: how to store a word, how to copy
//! bytes, how to write cache lines back and how to order the write-backs. It is a type parameter of the pool and of
//! everything built on it. Engines are built on [`AnyMedium`](crate::AnyMedium), which is one of several, so that they are compiled
//! once.
//!
//! What every layer above may assume, and nothing more (section 2.1 of the SLM-DB paper, section 3 of FAST and FAIR):
//!
//! * An aligned 8-byte store is atomic: after a crash the word is the old or the new one.
//! * Stores of one thread to one 64-byte cache line become durable in program order (x86-TSO: the line leaves the cache
//!   whole). Stores to different lines may become durable in any order, at any time, flushed or not.
//! * What was flushed before a fence of the same thread is durable when the fence is over. A fence says nothing about
//!   what other threads flushed.
//! * A copy of many bytes is *not* ordered within itself, not even within a line.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_sync::mapped::AtomicU64;

/// Bytes that travel together between cache and medium.
pub const CACHE_LINE_BYTES: u64 = 64;

/// What a medium was made to do, since it was made. Three counts of bytes lie in these numbers, each at least as large as
/// the one before: what was asked for, what was flushed (64 for each line), and what the medium had to write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlushCounters {
    /// Fences that ordered at least one flush: the times somebody waited for the medium.
    pub persists: u64,
    /// Cache lines written back; where that needs no instruction (persistent caches), those that it would take.
    pub lines_flushed: u64,
    /// Bytes that the medium itself wrote, in whole write units (256 bytes on Optane, 64 over CXL). A unit counts once
    /// while consecutive flushes of one thread stay in it, until its fence; what else a module may gather is not known.
    pub media_bytes: u64,
    /// Bytes that flushes were asked for, before they were rounded to lines.
    pub bytes_asked: u64,
    /// Reads that somebody waited for ([`Medium::note_read`]). Counted only while latencies are emulated, else 0.
    pub reads: u64,
}

/// Notes reads of a medium for who doesn't know its type. By default of none, and then it notes nothing.
#[derive(Clone, Default)]
pub struct Reads(Option<Arc<dyn Medium>>);

impl Reads {
    /// Those of this medium.
    pub fn of(medium: impl Medium) -> Reads {
        Reads(Some(Arc::new(medium)))
    }

    /// As [`Medium::note_read`].
    #[inline]
    pub fn note(&self) {
        if let Some(medium) = &self.0 {
            medium.note_read();
        }
    }
}

impl fmt::Debug for Reads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Reads({})", if self.0.is_some() { "noted" } else { "not noted" })
    }
}

/// Every store, flush and fence to the fast tier. See the module's essay for what a store promises.
pub trait Medium: Send + Sync + 'static {
    /// Whether flushes and fences do anything. `false`: what is stored is gone with the process, or the file system
    /// looks after it.
    fn is_persistent(&self) -> bool;

    /// Whether what was flushed and fenced survives a power cut: it is persistent memory, and a pool's file on it has to be
    /// mapped so that the file system can't lose it either.
    fn survives_power_cut(&self) -> bool {
        false
    }

    /// Whether a pool's file has to be mapped so that the file system can't lose what was stored there.
    fn needs_direct_mapping(&self) -> bool {
        self.survives_power_cut()
    }

    /// Stores a word (Release).
    fn store(&self, word: &AtomicU64, value: u64) {
        word.store(value, Ordering::Release);
    }

    /// Stores `new` if the word is `current` (AcqRel); gives what was there, as `Err` if nothing was stored.
    fn compare_exchange(&self, word: &AtomicU64, current: u64, new: u64) -> Result<u64, u64> {
        word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Copies bytes in, in no particular order.
    ///
    /// # Safety
    /// `to..to + from.len()` is writable, does not overlap `from`, and nobody else reads or writes it during the call.
    unsafe fn copy(&self, to: *mut u8, from: &[u8]) {
        // SAFETY: the caller's promise, word for word.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
    }

    /// Fills with zeros, in no particular order.
    ///
    /// # Safety
    /// `to..to + length_bytes` is writable, and nobody else reads or writes it during the call.
    unsafe fn zero(&self, to: *mut u8, length_bytes: usize) {
        // SAFETY: the caller's promise, word for word.
        unsafe { std::ptr::write_bytes(to, 0, length_bytes) }
    }

    /// Copies bytes in and begins to write them back: as [`Medium::copy`] and then [`Medium::flush`], in whatever way is the
    /// fastest for so many bytes. Like any copy it happens before what this thread stores later.
    ///
    /// # Safety
    /// As for [`Medium::copy`].
    unsafe fn copy_durably(&self, to: *mut u8, from: &[u8]) {
        // SAFETY: the caller's promise, word for word.
        unsafe { self.copy(to, from) };
        self.flush(to, from.len());
    }

    /// Begins to write back every cache line that `start..start + length_bytes` touches. The memory is not
    /// read, but it has to be mapped.
    fn flush(&self, start: *const u8, length_bytes: usize);

    /// Everything this thread flushed before is durable after.
    fn fence(&self);

    /// Somebody waits for a read of the pool: a node on the way down, a record whose key is compared, a value. Called once
    /// for each such read, before it. What is asked for together, and waited for together, is one read. Here an
    /// emulation counts, and takes its time; on other media it is nothing.
    #[inline(always)]
    fn note_read(&self) {}

    /// Notes reads of this medium, for who doesn't know its type. By default nothing is noted.
    fn reads(&self) -> Reads {
        Reads::default()
    }

    /// What was flushed so far.
    fn counters(&self) -> FlushCounters;

    /// Tells the medium that the pool which is attached next is a new one, in memory that was no pool's before. Only a medium that
    /// records cares.
    fn begin_new(&self) {}

    /// Tells the medium that a pool lives at `base..base + length_bytes`; once more, with a larger length, whenever the
    /// pool has grown. Only a medium that records cares.
    ///
    /// # Safety
    /// The range is readable until [`Medium::detach`], and nobody writes it during the call.
    unsafe fn attach(&self, base: *const u8, length_bytes: usize) {
        let _ = (base, length_bytes);
    }

    /// The pool is about to be unmapped.
    fn detach(&self) {}
}

/// Plain memory: stores are stores, a flush and a fence are nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dram;

impl Medium for Dram {
    #[inline(always)]
    fn is_persistent(&self) -> bool {
        false
    }

    #[inline(always)]
    fn flush(&self, _start: *const u8, _length_bytes: usize) {}

    #[inline(always)]
    fn fence(&self) {}

    fn counters(&self) -> FlushCounters {
        FlushCounters::default()
    }
}
