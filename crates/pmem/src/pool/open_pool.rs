//! [`Pool`]: an open pool, and its memory: words, bytes and what makes them durable.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use slmdb_env::{DaxDevice, Error, File, Result};
use slmdb_sync::mapped;
use slmdb_sync::scheduled::Mutex;

use super::growth_guard::GrowthGuard;
use super::space::{Space, UNIT_TABLE_BYTES, UnitTable};
use crate::layout::{Geometry, ROOT_OFFSET, UNIT_BYTES};
use crate::mapping::Mapping;
use crate::medium::Medium;

/// How a pool is made and how it may grow. All sizes are rounded up to whole units of 64 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOptions {
    /// Size of a new pool. At least header and map (128 KiB to 1 MiB) are made in any case.
    pub initial_bytes: u64,
    /// By how much a pool grows at least when it is full, if the file system has as much.
    pub growth_bytes: u64,
    /// The pool never grows beyond. When a pool is made this also settles the size of its regions, see `docs/formats/pool.md`:
    /// no extent of a pool made with less than 4 GiB can be larger than that, even if the limit is raised later.
    pub maximum_bytes: u64,
    /// Which store the pool belongs to. Opening checks it.
    pub uuid: [u8; 16],
}

/// Where a pool's bytes live when the process is gone.
#[derive(Debug)]
pub(super) enum Backing {
    /// Nowhere.
    Memory,
    /// In this file, mapped shared.
    File(Arc<dyn File>),
    /// In this file, which has no descriptor to map: read once, written back by [`Pool::seal`] and when dropped.
    Copy(Arc<dyn File>),
    /// In this device, mapped whole from the beginning.
    Device(Arc<dyn File>, DaxDevice),
    /// In a file that is not to change, mapped privately; or in a device that is not to change, copied.
    ReadOnly,
}

/// The pool. See the essay of [`pool`](super). Shared between threads as `Arc<Pool<M>>`; dropping it without [`Pool::seal`] leaves
/// it as a killed process would.
pub struct Pool<M: Medium> {
    pub(super) medium: M,
    pub(super) mapping: Mapping,
    /// Only grows. What lies below it is mapped.
    pub(super) length_bytes: AtomicU64,
    pub(super) used_bytes: AtomicU64,
    pub(super) geometry: Geometry,
    pub(super) units: UnitTable,
    pub(super) space: Mutex<Space>,
    pub(super) backing: Backing,
    pub(super) path: PathBuf,
    pub(super) uuid: [u8; 16],
    pub(super) growth_bytes: u64,
    pub(super) growth_guard: OnceLock<Arc<dyn GrowthGuard>>,
    pub(super) maximum_bytes: u64,
    /// Its options allow more than that.
    pub(super) ends_early: bool,
    pub(super) was_clean: bool,
    pub(super) open_count: u32,
}

impl<M: Medium> Pool<M> {
    /// Whether the pool had been closed clean when it was opened. A new pool counts as clean.
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }

    /// The number of this opening: above 0, and never used before in this pool. Lock words carry it, so that a lock
    /// held in a past life counts as free.
    pub fn open_count(&self) -> u32 {
        self.open_count
    }

    /// Which store the pool belongs to.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// The pool's file, or `(memory)`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The medium that all stores go through.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// How long the pool is now, in bytes.
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes.load(Ordering::Acquire)
    }

    /// Bytes in extents, the pool's own included.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// What the pool takes of plain memory, in bytes: where it has a file to be in, the tables alone that say what lies
    /// where; else also every unit that was ever given out. (Freed space stays with the process.) Of a pool that was opened
    /// read-only, whose changes stay in memory, what was given out since.
    pub fn dram_bytes(&self) -> u64 {
        let tables_bytes = self.length_bytes() / UNIT_BYTES * UNIT_TABLE_BYTES;
        tables_bytes
            + match &self.backing {
                Backing::File(_) | Backing::Device(..) => 0,
                Backing::Memory | Backing::ReadOnly => self.units.used_once() * UNIT_BYTES,
                Backing::Copy(_) => self.length_bytes(),
            }
    }

    /// How long the pool may become, in bytes: as its options say, or as it has addresses.
    pub fn maximum_bytes(&self) -> u64 {
        self.maximum_bytes
    }

    /// Where the root area begins: [`ROOT_BYTES`](crate::ROOT_BYTES) bytes for the layers above, zero in a new pool.
    pub fn root_offset(&self) -> u64 {
        ROOT_OFFSET
    }

    /// The word at `offset`. [`Error::Corruption`] if it is not aligned or not within the pool.
    #[inline]
    pub fn word(&self, offset: u64) -> Result<&mapped::AtomicU64> {
        if !offset.is_multiple_of(8) {
            return Err(self.misplaced(offset, 8));
        }
        let pointer = self.pointer(offset, 8)?;
        // SAFETY: eight mapped bytes, aligned because the mapping is and the offset is; they stay mapped while the pool,
        // which the reference borrows, lives. Words are only written through atomics, or by `write` and `zero`, whose
        // callers vouch that nobody else has the range.
        Ok(unsafe { &*pointer.cast::<mapped::AtomicU64>() })
    }

    /// Reads a word (Acquire).
    #[inline]
    pub fn load(&self, offset: u64) -> Result<u64> {
        Ok(self.word(offset)?.load(Ordering::Acquire))
    }

    /// Stores a word (Release). Durable once flushed and fenced, and possibly before.
    #[inline]
    pub fn store(&self, offset: u64, value: u64) -> Result<()> {
        self.medium.store(self.word(offset)?, value);
        Ok(())
    }

    /// Stores `new` if the word is `current` (AcqRel). The inner result is what was there, `Err` if nothing was stored.
    #[inline]
    pub fn compare_exchange(&self, offset: u64, current: u64, new: u64) -> Result<Result<u64, u64>> {
        Ok(self.medium.compare_exchange(self.word(offset)?, current, new))
    }

    /// Begins to write back the cache lines of a range. What of it lies outside the pool is left out.
    #[inline]
    pub fn flush(&self, offset: u64, length_bytes: u64) {
        if self.medium.is_persistent() {
            let end = offset.saturating_add(length_bytes).min(self.length_bytes());
            if offset < end {
                self.medium.flush(self.mapping.base().wrapping_add(offset as usize), (end - offset) as usize);
            }
        }
    }

    /// Everything this thread flushed before is durable after.
    #[inline]
    pub fn fence(&self) {
        self.medium.fence();
    }

    /// Flush and fence.
    #[inline]
    pub fn persist(&self, offset: u64, length_bytes: u64) {
        self.flush(offset, length_bytes);
        self.fence();
    }

    /// Somebody waits for a read of the pool: see [`Medium::note_read`].
    #[inline(always)]
    pub fn note_read(&self) {
        self.medium.note_read();
    }

    /// A range as bytes. [`Error::Corruption`] if it is not within the pool.
    ///
    /// # Safety
    /// The range was published, so that nobody writes it any more, and is not freed while the slice lives.
    #[inline]
    pub unsafe fn bytes(&self, offset: u64, length_bytes: u64) -> Result<&[u8]> {
        let pointer = self.pointer(offset, length_bytes)?;
        // SAFETY: mapped and within the pool; nobody writes it, as the caller promises.
        Ok(unsafe { std::slice::from_raw_parts(pointer, length_bytes as usize) })
    }

    /// Copies bytes in. [`Error::Corruption`] if the place is not within the pool.
    ///
    /// # Safety
    /// The range belongs to the caller alone: allocated, and not published yet.
    #[inline]
    pub unsafe fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let pointer = self.pointer(offset, bytes.len() as u64)?;
        // SAFETY: mapped, writable and within the pool; it is the caller's alone, so `bytes` is not part of it either.
        unsafe { self.medium.copy(pointer, bytes) };
        mapped::overwritten(pointer, bytes);
        Ok(())
    }

    /// Copies bytes in and begins to write them back: [`Pool::write`] and [`Pool::flush`] in one, and faster than both for
    /// much at once (see [`Medium::copy_durably`]).
    ///
    /// # Safety
    /// As for [`Pool::write`].
    #[inline]
    pub unsafe fn write_durably(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let pointer = self.pointer(offset, bytes.len() as u64)?;
        // SAFETY: mapped, writable and within the pool; it is the caller's alone, so `bytes` is not part of it either.
        unsafe { self.medium.copy_durably(pointer, bytes) };
        mapped::overwritten(pointer, bytes);
        Ok(())
    }

    /// Fills with zeros. [`Error::Corruption`] if the range is not within the pool.
    ///
    /// # Safety
    /// As for [`Pool::write`].
    pub unsafe fn zero(&self, offset: u64, length_bytes: u64) -> Result<()> {
        let pointer = self.pointer(offset, length_bytes)?;
        // SAFETY: mapped, writable and within the pool; it is the caller's alone.
        unsafe { self.medium.zero(pointer, length_bytes as usize) };
        mapped::zeroed(pointer, length_bytes as usize);
        Ok(())
    }

    /// Where a range is in memory. [`Error::Corruption`] if it is not within the pool; the header before the root area
    /// counts as outside, so that offset 0 and its neighbours are never valid.
    #[inline]
    pub fn pointer(&self, offset: u64, length_bytes: u64) -> Result<*mut u8> {
        match offset.checked_add(length_bytes) {
            Some(end) if end <= self.length_bytes() && offset >= ROOT_OFFSET => {
                Ok(self.mapping.base().wrapping_add(offset as usize))
            }
            _ => Err(self.misplaced(offset, length_bytes)),
        }
    }

    #[cold]
    fn misplaced(&self, offset: u64, length_bytes: u64) -> Error {
        let pool = self.length_bytes();
        let what = format!(
            "a reference to {length_bytes} bytes at offset {offset}, which is no place in a pool of {pool} bytes"
        );
        Error::corruption(&self.path, offset, what)
    }

    pub(super) fn corruption(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::corruption(&self.path, offset, what)
    }
}

impl<M: Medium> Drop for Pool<M> {
    fn drop(&mut self) {
        // Else the file may be somebody else's by now.
        if !self.space().ended {
            self.end();
        }
        // One that was opened for reading alone was never attached, and another may be by now.
        if !matches!(self.backing, Backing::ReadOnly) {
            self.medium.detach();
        }
    }
}

impl<M: Medium> fmt::Debug for Pool<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Pool")
            .field("path", &self.path)
            .field("length_bytes", &self.length_bytes())
            .field("used_bytes", &self.used_bytes())
            .field("was_clean", &self.was_clean)
            .field("open_count", &self.open_count)
            .finish_non_exhaustive()
    }
}
