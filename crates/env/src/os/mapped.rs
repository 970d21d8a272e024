//! Files that are mapped for reading.
//!
//! A read of what is in the page cache costs more for the call than for the copy. So a file is mapped and copied from. Three things
//! make a mapping dangerous, and each is dealt with here:
//!
//! - **Bytes change.** Another process may write to the file. So nobody ever gets a reference into a mapping: bytes are copied out,
//!   and who wants to believe them checks the copy.
//! - **A fault is a signal.** A page that can't be read (the device has an error, somebody has cut the file short, the memory is
//!   broken) is a `SIGBUS` to whoever touches it, which kills. So a copy says beforehand which bytes it will touch, in a
//!   thread-local, and a handler of that signal puts a page of zeros there and marks the mapping broken
//!   ([`bus_error`]). The copy ends, sees the mark, and the file is read instead, which has the true error.
//! - **A fault waits.** What is not in memory comes page by page, each time with a whole round to the device, where one read brings all at
//!   once. So only **warm** chunks are copied from: those that were wholly in the page cache when they were looked at (`mincore`).
//!   Of others the file is read, as without a mapping, until they have become warm. Looking takes as long as a read from memory: it
//!   is done once for a chunk that is warm, until somebody [doubts](Mapped::doubt) it, and of a file whose chunks are not, seldom. What
//!   leaves the page cache meanwhile comes back by a fault, which takes as long as a read of a page.
//!
//! Mappings are advised to be random, or each fault would read megabytes ahead. They are few enough to leave others room
//! ([`MAPPINGS_MAX`]); where the system has no addresses left there is no mapping, and no error.

#![allow(unsafe_code)]

mod bus_error;

use std::ffi::c_void;
use std::fs::File as StdFile;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::{Mapped, Result};

/// What becomes warm together, in bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// Pages are at least so long, in bytes.
const PAGE_BYTES_MIN: usize = 4096;
/// After a chunk was found cold, so many reads of chunks that are not warm go by before one is looked at again.
const READS_PER_LOOK: u32 = 32;
/// How many mappings a process has of these at most: systems allow 65,530 for everything.
const MAPPINGS_MAX: usize = 16_384;

/// How many there are.
static MAPPINGS: AtomicUsize = AtomicUsize::new(0);

/// A mapping of the beginning of a file; see the module.
#[derive(Debug)]
pub(super) struct OsMapped {
    start: NonNull<u8>,
    length_bytes: usize,
    /// A page of it could not be read.
    is_broken: AtomicBool,
    /// A bit for each chunk.
    warm: Box<[AtomicU64]>,
    /// How many reads of cold chunks are still to go by before one is looked at.
    reads_to_pass: AtomicU32,
}

// SAFETY: the mapping belongs to this object alone, nobody writes through it, and it is read by copies of raw bytes only.
unsafe impl Send for OsMapped {}
// SAFETY: as above; what changes is atomic.
unsafe impl Sync for OsMapped {}

impl OsMapped {
    /// Maps the first bytes of a file, if that can be.
    pub(super) fn new(file: &StdFile, length_bytes: u64) -> Option<OsMapped> {
        let length_bytes =
            usize::try_from(length_bytes).ok().filter(|&bytes| bytes > 0 && bytes <= isize::MAX as usize)?;
        if !bus_error::is_caught() {
            return None;
        }
        if MAPPINGS.fetch_add(1, Ordering::Relaxed) >= MAPPINGS_MAX {
            MAPPINGS.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        // SAFETY: a new mapping, where the system finds room for it.
        let mapped =
            unsafe { rustix::mm::mmap(ptr::null_mut(), length_bytes, ProtFlags::READ, MapFlags::SHARED, file, 0) };
        let Some(start) = mapped.ok().and_then(NonNull::new) else {
            MAPPINGS.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        // SAFETY: the mapping is ours; advice that is not taken costs time.
        let _ = unsafe { rustix::mm::madvise(start.as_ptr(), length_bytes, Advice::Random) };
        let words = length_bytes.div_ceil(CHUNK_BYTES).div_ceil(64);
        Some(OsMapped {
            start: start.cast(),
            length_bytes,
            is_broken: AtomicBool::new(false),
            warm: (0..words).map(|_| AtomicU64::new(0)).collect(),
            reads_to_pass: AtomicU32::new(0),
        })
    }

    /// Where in the mapping these bytes begin, if all of them are in it, and can be had at once.
    #[inline]
    fn warm_offset(&self, offset_bytes: u64, length_bytes: usize) -> Option<usize> {
        let offset = usize::try_from(offset_bytes).ok()?;
        let end = offset.checked_add(length_bytes).filter(|&end| end <= self.length_bytes && length_bytes > 0)?;
        if self.is_broken.load(Ordering::Relaxed) {
            return None;
        }
        let mut chunks = offset / CHUNK_BYTES..=(end - 1) / CHUNK_BYTES;
        chunks.all(|chunk| self.is_warm(chunk) || self.has_become_warm(chunk)).then_some(offset)
    }

    #[inline]
    fn is_warm(&self, chunk: usize) -> bool {
        self.warm[chunk / 64].load(Ordering::Relaxed) & 1 << (chunk % 64) != 0
    }

    /// Looks whether all pages of a chunk are in memory, now and then.
    #[cold]
    fn has_become_warm(&self, chunk: usize) -> bool {
        let passing = self.reads_to_pass.load(Ordering::Relaxed);
        if passing > 0 {
            // Reads that meet here may count as one.
            self.reads_to_pass.store(passing - 1, Ordering::Relaxed);
            return false;
        }
        let (from, mut resident) = (chunk * CHUNK_BYTES, [0; CHUNK_BYTES / PAGE_BYTES_MIN]);
        let length_bytes = CHUNK_BYTES.min(self.length_bytes - from);
        // SAFETY: the chunk is within the mapping.
        let start = unsafe { self.start.as_ptr().add(from) }.cast::<c_void>();
        // SAFETY: the chunk begins a page, and there is a byte for each page of it, however short pages are.
        let looked = unsafe { libc::mincore(start, length_bytes, resident.as_mut_ptr()) };
        let pages = length_bytes.div_ceil(rustix::param::page_size());
        if looked != 0 || !resident.iter().take(pages).all(|page| page & 1 == 1) {
            self.reads_to_pass.store(READS_PER_LOOK, Ordering::Relaxed);
            return false;
        }
        // Spares a fault for every few pages. SAFETY: as above; nothing is changed, and what can't be had is no signal here.
        let _ = unsafe { rustix::mm::madvise(start, length_bytes, Advice::LinuxPopulateRead) };
        self.warm[chunk / 64].fetch_or(1 << (chunk % 64), Ordering::Relaxed);
        true
    }

    /// Copies bytes out, if all could be read.
    ///
    /// # Safety
    /// All of them are in the mapping, and `into` has room for them.
    #[inline]
    unsafe fn copy(&self, into: *mut u8, offset: usize, length_bytes: usize) -> bool {
        // SAFETY: the offset is within the mapping.
        let from = unsafe { self.start.as_ptr().add(offset) };
        bus_error::catching(from as usize, length_bytes, &self.is_broken, || {
            // SAFETY: the mapping is readable as long as this object lives, `into` is writable, and they are apart: memory that
            // Rust has given out lies in no mapping of ours. Others may change the bytes meanwhile, so this is no copy of Rust's
            // but one of the C library's, of memory that Rust knows nothing of.
            unsafe { libc::memcpy(into.cast(), from.cast(), length_bytes) };
        });
        // Whoever has read zeros in the place of a page that another thread failed to read sees that thread's mark.
        fence(Ordering::Acquire);
        !self.is_broken.load(Ordering::Relaxed)
    }
}

impl Mapped for OsMapped {
    fn length_bytes(&self) -> u64 {
        self.length_bytes as u64
    }

    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> Result<bool> {
        let Some(offset) = self.warm_offset(offset_bytes, into.len()) else { return Ok(false) };
        // SAFETY: `warm_offset` has checked the range.
        Ok(unsafe { self.copy(into.as_mut_ptr(), offset, into.len()) })
    }

    fn read_shared(&self, length_bytes: usize, offset_bytes: u64) -> Result<Option<Arc<[u8]>>> {
        let Some(offset) = self.warm_offset(offset_bytes, length_bytes) else { return Ok(None) };
        let mut bytes: Arc<[MaybeUninit<u8>]> = Arc::new_uninit_slice(length_bytes);
        let Some(into) = Arc::get_mut(&mut bytes) else { return Ok(None) };
        // SAFETY: `warm_offset` has checked the range.
        let is_read = unsafe { self.copy(into.as_mut_ptr().cast(), offset, length_bytes) };
        // SAFETY: the copy has written all bytes, even where it met a fault.
        Ok(is_read.then(|| unsafe { bytes.assume_init() }))
    }

    #[inline]
    fn prefetch(&self, offset_bytes: u64, length_bytes: usize) {
        // Of what is longer the beginning: the processor goes on by itself.
        const PREFETCHED_BYTES_MAX: usize = 2048;
        #[cfg(target_arch = "x86_64")]
        for line in (0..length_bytes.min(PREFETCHED_BYTES_MAX)).step_by(64) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let address = self.start.as_ptr().wrapping_add(offset_bytes as usize).wrapping_add(line);
            // SAFETY: a prefetch never faults and changes nothing but caches, whatever the address is.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast_const().cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (offset_bytes, length_bytes);
    }

    fn doubt(&self) {
        self.warm.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

impl Drop for OsMapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole but for pages that the handler has replaced, and nobody has a pointer into it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length_bytes) };
        MAPPINGS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
