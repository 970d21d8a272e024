//! An arena: memory for one MemTable, filled from front to back.
//!
//! On persistent memory it is an extent of the pool. On plain DRAM it is a file of the store's directory, mapped shared:
//! a store into it survives the process at once, and [`Arena::sync`] makes it survive a power cut. Mapping was measured
//! against appending with plain writes and won: a record of 1 KiB takes 33 ns into a recycled file (370 ns right after a
//! sync) instead of 580 to 960 ns, and with a sync 97 µs instead of 140 to 158 µs. Recycled files win because their
//! blocks are allocated, so that a sync has no metadata to write.
//!
//! What a sync writes is what is dirty, and the system counts that in folios: where a page is missing, it brings in a folio of up to 2 MiB
//! around it, and then one store dirties all of that. For stores into memory that is best (few faults, few entries of the
//! TLB). Where each KiB is synced, 19 to 80 bytes went to the device for each byte. So there are two [kinds](ArenaKind) of
//! arena: the mapping of one for synced writes says that it is used at random, and then pages come one at a time.
//!
//! A page that is written for the first time costs more than itself: the file system notes in its journal that allocated space is
//! written now, in three or four blocks, and the sync waits for them. So where syncs come often, one of them now and then writes the
//! pages that come next, too, as they are ([`Arena::sync`]): the file system notes them all at once, and later syncs have nothing to
//! note.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_env::{Env, File, OpenMode, Result};
use slmdb_sync::mapped;
use slmdb_sync::scheduled::atomic::AtomicU64;
use slmdb_sync::scheduled::{Mutex, MutexGuard};

use crate::mapping::{Mapping, Sharing};
use crate::medium::{Medium, Reads};
use crate::pool::{Extent, Pool};

/// What an arena is for that is a mapped file. See the module's essay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ArenaKind {
    /// Syncs are rare: what is stored between two of them is much.
    #[default]
    Unsynced,
    /// Little is stored between two syncs.
    Synced,
}

/// What became of an arena's file until it was recycled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArenaPast {
    /// What the arena was for.
    pub kind: ArenaKind,
    /// Up to here the file system knows the file as written.
    pub written_bytes: u64,
}

/// Memory for one MemTable. See the module's essay. Its writers never share a range.
pub struct Arena<M: Medium> {
    base: *mut u8,
    length_bytes: u64,
    kind: ArenaKind,
    home: Home<M>,
}

// SAFETY: `base` points into memory that `home` owns and that may be used from any thread; who may touch which range when is
// what the unsafe functions ask of their callers.
unsafe impl<M: Medium> Send for Arena<M> {}
// SAFETY: as above.
unsafe impl<M: Medium> Sync for Arena<M> {}

/// Where the memory is.
enum Home<M: Medium> {
    Pool {
        pool: Arc<Pool<M>>,
        offset: u64,
    },
    /// A mapped file: what is stored is in the file.
    File {
        file: Arc<dyn File>,
        medium: M,
        mapping: Mapping,
        syncs: Syncs,
    },
    /// Memory that stands for the mapping of a file which can't be mapped. A writer holds the lock, so that the file
    /// gets the stores in their order.
    Copy {
        file: Arc<dyn File>,
        medium: M,
        _mapping: Mapping,
        writing: Mutex<()>,
    },
    /// Bytes that were read from somewhere.
    Bytes {
        path: PathBuf,
        medium: M,
        _bytes: Vec<u8>,
        /// How many of them were read; the others are zeros that nobody has touched.
        read_bytes: u64,
        /// How long the arena was. What is missing is zeros.
        whole_bytes: u64,
    },
}

/// How far syncs of a file have come. Two at the same time may write more ahead than is needed, and that is all.
#[derive(Default)]
struct Syncs {
    /// What was used at the last sync.
    used_bytes: AtomicU64,
    /// Up to here the file was written, or will be by the next sync.
    written_bytes: AtomicU64,
}

/// In what units a mapped file comes into memory.
const PAGE_BYTES: u64 = 4096;
/// How much of what comes next is written ahead at once. Of every such length one sync takes longer by what the device takes for it.
const AHEAD_BYTES: u64 = 256 << 10;
/// Nothing is written ahead if more than this was used since the last sync. The file system's notes take about as much as a few
/// pages, so that pages written twice would cost more than they save.
const BETWEEN_SYNCS_BYTES_MAX: u64 = 16 << 10;

impl<M: Medium> Arena<M> {
    /// The memory of an extent, which the pool gave out. It is not freed with the arena.
    ///
    /// # Panics
    /// If the pool has no such extent.
    pub fn in_pool(pool: Arc<Pool<M>>, extent: Extent) -> Arena<M> {
        assert_eq!(pool.extent_at(extent.offset), Some(extent), "POOL-1: the arena's extent is not in the pool");
        let base = pool.pointer(extent.offset, extent.length_bytes).expect("POOL-2: an extent is within its pool");
        let (length_bytes, kind) = (extent.length_bytes, ArenaKind::default());
        Arena { base, length_bytes, kind, home: Home::Pool { pool, offset: extent.offset } }
    }

    /// A new file of this length, its space allocated, all zero. An existing one is emptied first.
    ///
    /// Where files have no descriptor (in memory, for tests) the arena is private memory, and the file gets every store
    /// ([`File::store_mapped`]).
    pub fn create_file(env: &dyn Env, path: &Path, medium: M, length_bytes: u64) -> Result<Arena<M>> {
        Arena::open_file(env.open_file(path, OpenMode::CreateOrTruncate)?, medium, length_bytes)
    }

    /// An existing file, with what is in it, made longer if it is shorter than this.
    pub fn reuse_file(env: &dyn Env, path: &Path, medium: M, length_bytes: u64) -> Result<Arena<M>> {
        Arena::open_file(env.open_file(path, OpenMode::ReadWrite)?, medium, length_bytes)
    }

    fn open_file(file: Arc<dyn File>, medium: M, length_bytes: u64) -> Result<Arena<M>> {
        let existing = file.length_bytes()?;
        if existing < length_bytes {
            file.allocate(existing, length_bytes - existing)?;
        }
        let mapping = Mapping::reserve(length_bytes, file.path())?;
        let base = mapping.base();
        let home = match file.descriptor() {
            Some(descriptor) => {
                mapping.file(descriptor, 0, length_bytes, Sharing::Shared, file.path())?;
                Home::File { file, medium, mapping, syncs: Syncs::default() }
            }
            None => {
                mapping.memory(0, length_bytes, file.path())?;
                // SAFETY: mapped just now with this length, and still known to nobody else.
                let memory = unsafe { std::slice::from_raw_parts_mut(base, length_bytes as usize) };
                file.read_exact_at(memory, 0)?;
                Home::Copy { file, medium, _mapping: mapping, writing: Mutex::new(()) }
            }
        };
        Ok(Arena { base, length_bytes, kind: ArenaKind::default(), home })
    }

    /// The same arena of [`Arena::create_file`] or [`Arena::reuse_file`], for this use. `past`: of its file, where that is a recycled
    /// one. What the system has cached of it is of the past kind still, so where that was another, its content is given up.
    ///
    /// REQUIRES: nothing of it was touched.
    pub fn of_kind(mut self, kind: ArenaKind, past: Option<ArenaPast>) -> Arena<M> {
        self.kind = kind;
        if let Home::File { file, mapping, syncs, .. } = &self.home {
            match past {
                Some(past) if past.kind == kind => syncs.written_bytes.store(past.written_bytes, Ordering::Relaxed),
                Some(_) => file.give_up_content(),
                None => {}
            }
            if kind == ArenaKind::Synced {
                mapping.expect_random_use();
            }
        }
        self
    }

    /// What will have become of its file, should that be recycled.
    pub fn past(&self) -> ArenaPast {
        let written_bytes = match &self.home {
            Home::File { syncs, .. } => syncs.written_bytes.load(Ordering::Relaxed),
            _ => 0,
        };
        ArenaPast { kind: self.kind, written_bytes }
    }

    /// What it is for.
    pub fn kind(&self) -> ArenaKind {
        self.kind
    }

    /// Bytes that were read from `path`: recovered content. They may be written, which reaches no file.
    pub fn from_bytes(medium: M, path: &Path, mut bytes: Vec<u8>) -> Arena<M> {
        let (base, length_bytes) = (bytes.as_mut_ptr(), bytes.len() as u64);
        Arena {
            base,
            length_bytes,
            kind: ArenaKind::default(),
            home: Home::Bytes {
                path: path.to_path_buf(),
                medium,
                _bytes: bytes,
                read_bytes: length_bytes,
                whole_bytes: length_bytes,
            },
        }
    }

    /// The same arena of [`Arena::from_bytes`], of whose bytes all but the first were zeros to begin with and have not been
    /// touched: they take no memory. It was `arena_bytes` long, and what is not there of it is zeros, too.
    pub fn with_zeros_behind(mut self, content_bytes: u64, arena_bytes: u64) -> Arena<M> {
        if let Home::Bytes { read_bytes, whole_bytes, .. } = &mut self.home {
            (*read_bytes, *whole_bytes) = (content_bytes, arena_bytes);
        }
        self
    }

    /// How long it was where it was read from, which may be longer than what is there of it
    /// ([`Arena::with_zeros_behind`]). Else how long it is.
    pub fn whole_bytes(&self) -> u64 {
        match &self.home {
            Home::Bytes { whole_bytes, .. } => *whole_bytes,
            _ => self.length_bytes,
        }
    }

    /// What it takes of plain memory, in bytes, if so many of its bytes have been written. Of a mapped file that is the pages
    /// in use; in a pool it is nothing of its own: [`Pool::dram_bytes`] has it.
    pub fn dram_bytes(&self, written_bytes: u64) -> u64 {
        match &self.home {
            Home::Pool { .. } => 0,
            Home::File { .. } => written_bytes.next_multiple_of(PAGE_BYTES).min(self.length_bytes),
            Home::Copy { .. } => self.length_bytes,
            Home::Bytes { read_bytes, .. } => {
                written_bytes.max(*read_bytes).next_multiple_of(PAGE_BYTES).min(self.length_bytes)
            }
        }
    }

    /// How long it is.
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// The medium that its stores go through.
    pub fn medium(&self) -> &M {
        match &self.home {
            Home::Pool { pool, .. } => pool.medium(),
            Home::File { medium, .. } | Home::Copy { medium, .. } | Home::Bytes { medium, .. } => medium,
        }
    }

    /// Somebody waits for a read of the arena: see [`Medium::note_read`]. Only what lies in a pool counts.
    #[inline]
    pub fn note_read(&self) {
        if let Home::Pool { pool, .. } = &self.home {
            pool.note_read();
        }
    }

    /// Notes reads of the arena, for who doesn't know the type of its medium.
    pub fn reads(&self) -> Reads {
        match &self.home {
            Home::Pool { pool, .. } => pool.medium().reads(),
            _ => Reads::default(),
        }
    }

    /// Copies bytes in. Durable, as far as the medium goes, once flushed and fenced.
    ///
    /// # Safety
    /// Nobody else reads or writes the range.
    ///
    /// # Panics
    /// If the range is not within the arena: a writer has reserved its place.
    #[inline]
    pub unsafe fn write(&self, offset: u64, bytes: &[u8]) {
        let (to, mirror) = self.place_to_write(offset, bytes.len());
        // SAFETY: within the memory of the arena, which is writable; the range is the caller's alone, so `bytes` is not
        // part of it either.
        unsafe { self.medium().copy(to, bytes) };
        Mirror::store(mirror, offset, bytes);
    }

    /// Copies bytes in and begins to write them back: [`Arena::write`] and [`Arena::flush`] in one, and faster than both
    /// for much at once (see [`Medium::copy_durably`]).
    ///
    /// # Safety
    /// As for [`Arena::write`].
    ///
    /// # Panics
    /// As [`Arena::write`].
    #[inline]
    pub unsafe fn write_durably(&self, offset: u64, bytes: &[u8]) {
        let (to, mirror) = self.place_to_write(offset, bytes.len());
        // SAFETY: as in `write`.
        unsafe { self.medium().copy_durably(to, bytes) };
        Mirror::store(mirror, offset, bytes);
    }

    /// Where a range is in memory, and the mirror that has to get what is written.
    #[inline]
    fn place_to_write(&self, offset: u64, length_bytes: usize) -> (*mut u8, Option<Mirror<'_>>) {
        let end = offset.checked_add(length_bytes as u64).filter(|&end| end <= self.length_bytes);
        end.expect("a write outside the arena");
        (self.base.wrapping_add(offset as usize), self.mirror())
    }

    /// Loads a word (Acquire).
    ///
    /// # Panics
    /// If it is not an aligned word within the arena, as for everything that is done with words.
    #[inline]
    pub fn load_word(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Stores a word (Release).
    #[inline]
    pub fn store_word(&self, offset: u64, value: u64) {
        let mirror = self.mirror();
        self.medium().store(self.word(offset), value);
        Mirror::store(mirror, offset, &value.to_le_bytes());
    }

    /// Stores `new` if the word is `current` (AcqRel); gives what was there, as `Err` if nothing was stored.
    #[inline]
    pub fn compare_exchange_word(&self, offset: u64, current: u64, new: u64) -> std::result::Result<u64, u64> {
        let mirror = self.mirror();
        let exchanged = self.medium().compare_exchange(self.word(offset), current, new);
        if exchanged.is_ok() {
            Mirror::store(mirror, offset, &new.to_le_bytes());
        }
        exchanged
    }

    #[inline]
    fn word(&self, offset: u64) -> &mapped::AtomicU64 {
        let end = offset.checked_add(8).filter(|&end| end <= self.length_bytes);
        end.expect("a word outside the arena");
        let word = self.base.wrapping_add(offset as usize).cast::<mapped::AtomicU64>();
        assert!(word.is_aligned(), "a word at {offset} of the arena");
        // SAFETY: within the memory of the arena, aligned, and words in use as such are touched by atomic operations alone:
        // `bytes` and `write` ask their callers for that.
        unsafe { &*word }
    }

    /// The mirror that has to get a store that is about to happen; nothing else is stored while this is held.
    #[inline]
    fn mirror(&self) -> Option<Mirror<'_>> {
        let Home::Copy { file, writing, .. } = &self.home else { return None };
        Some(Mirror { file: &**file, _writing: writing.lock() })
    }

    /// A range as bytes; `None` if it is not within the arena.
    ///
    /// # Safety
    /// The range was published, so that nobody writes it any more.
    #[inline]
    pub unsafe fn bytes(&self, offset: u64, length_bytes: u64) -> Option<&[u8]> {
        let end = offset.checked_add(length_bytes)?;
        if end > self.length_bytes {
            return None;
        }
        // SAFETY: within the memory of the arena; nobody writes it, as the caller promises.
        Some(unsafe { std::slice::from_raw_parts(self.base.add(offset as usize), length_bytes as usize) })
    }

    /// Begins to write back the cache lines of a range. What of it lies outside the arena is left out.
    #[inline]
    pub fn flush(&self, offset: u64, length_bytes: u64) {
        if self.medium().is_persistent() {
            let end = offset.saturating_add(length_bytes).min(self.length_bytes);
            if offset < end {
                self.medium().flush(self.base.wrapping_add(offset as usize), (end - offset) as usize);
            }
        }
    }

    /// Everything this thread flushed before is durable after.
    #[inline]
    pub fn fence(&self) {
        self.medium().fence();
    }

    /// Makes everything written so far survive a power cut: for a file one fdatasync. In the pool that is done already, as
    /// far as its medium goes. Where writes go next, `used_bytes`, is only for choosing what is written ahead (see the module's
    /// essay).
    pub fn sync(&self, used_bytes: u64) -> Result<()> {
        match &self.home {
            Home::Pool { .. } | Home::Bytes { .. } => Ok(()),
            Home::File { file, mapping, syncs, .. } => {
                if self.kind == ArenaKind::Synced {
                    syncs.write_ahead(mapping, used_bytes, self.length_bytes);
                }
                file.sync_data()
            }
            Home::Copy { file, .. } => file.sync_data(),
        }
    }

    /// File and offset in it of an offset in the arena, for messages.
    pub fn place(&self, offset: u64) -> (PathBuf, u64) {
        match &self.home {
            Home::Pool { pool, offset: extent } => (pool.path().to_path_buf(), extent.saturating_add(offset)),
            Home::File { file, .. } | Home::Copy { file, .. } => (file.path().to_path_buf(), offset),
            Home::Bytes { path, .. } => (path.clone(), offset),
        }
    }
}

impl Syncs {
    /// Has the coming sync write what comes next, if it writes something for the first time anyway, and syncs come often.
    fn write_ahead(&self, mapping: &Mapping, used_bytes: u64, length_bytes: u64) {
        let since_last = used_bytes.saturating_sub(self.used_bytes.swap(used_bytes, Ordering::Relaxed));
        if used_bytes <= self.written_bytes.load(Ordering::Relaxed) {
            return;
        }
        let from = used_bytes.next_multiple_of(PAGE_BYTES).min(length_bytes);
        let to = if since_last <= BETWEEN_SYNCS_BYTES_MAX { (from + AHEAD_BYTES).min(length_bytes) } else { from };
        mapping.have_written(from, to);
        self.written_bytes.store(to, Ordering::Relaxed);
    }
}

/// The file of a [`Home::Copy`], and its lock.
struct Mirror<'a> {
    file: &'a dyn File,
    _writing: MutexGuard<'a, ()>,
}

impl Mirror<'_> {
    #[inline]
    fn store(mirror: Option<Mirror<'_>>, offset: u64, bytes: &[u8]) {
        if let Some(mirror) = mirror {
            mirror.file.store_mapped(bytes, offset);
        }
    }
}

impl<M: Medium> std::fmt::Debug for Arena<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (path, offset) = self.place(0);
        write!(formatter, "Arena({} bytes at {}@{offset})", self.length_bytes, path.display())
    }
}
