//! Address space: the only place that maps memory.
//!
//! A [`Mapping`] reserves its whole address range at once and unreachable, and then makes parts of it usable, as memory
//! of its own or as a window on a file, at addresses that never change. That is how a pool grows while pointers into it
//! are in use.
//!
//! **How many addresses a pool reserves.** A process has 2^47 of them on most machines, and fewer under `ulimit -v`. All its
//! stores and its allocator share them. So a pool reserves its length, and *room* to grow by ([`Mapping::with_room`]):
//!
//! 1. No more room than it could ever fill: in memory what the machine has, swap included; in a file what the file system
//!    has that holds the file. Nor more than its options allow.
//! 2. Of `n` pools in a process the last has no more room than an eighth of all addresses divided by `n`, or 16 MiB. So the
//!    first has much, and a thousand have less than 15/16 of the addresses, in whatever order they were opened and closed.
//! 3. No room that leaves less than a quarter of all addresses, or a GiB, free behind it in one piece. It is halved until that
//!    holds, down to 16 MiB. Where it does not even then, the opening fails, and the stores that are open have what they need.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap};
use rustix::process::{Resource, getrlimit};
use slmdb_env::{Error, Result};

use crate::layout::UNIT_BYTES;
use crate::medium::Medium;

/// Kept unreachable behind every mapping: an access that runs over its end faults instead of meeting a neighbour.
const GUARD_BYTES: usize = 65_536;
/// Mappings begin at a multiple of this, so that large pages fit.
const ALIGNMENT_BYTES: usize = 2 << 20;
/// The first pool of a process has at most this part of all addresses as room.
const ROOM_PART: u64 = 8;
/// Less room than this is no help.
const ROOM_BYTES_MIN: u64 = 16 << 20;
/// A pool leaves at least this part of all addresses free, or these bytes.
const KEPT_PART: u64 = 4;
const KEPT_BYTES_MAX: u64 = 1 << 30;

/// How many mappings with room there are in this process.
static WITH_ROOM: AtomicU64 = AtomicU64::new(0);

/// A reserved address range, given back when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    reserved: *mut c_void,
    reserved_bytes: usize,
    base: NonNull<u8>,
    length_bytes: usize,
    counted: Option<Counted>,
}

/// Counts a mapping with room until it is dropped.
#[derive(Debug)]
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        WITH_ROOM.fetch_sub(1, Ordering::Relaxed);
    }
}

// SAFETY: a mapping is a range of addresses that belongs to the process, not to a thread; what is stored there, and who
// may touch it when, is up to those who hand out references into it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// What a file's bytes in memory are to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Stores reach the file.
    Shared,
    /// Stores reach persistent memory with no file system in between (`MAP_SYNC`): what is written back and fenced is
    /// durable, and so is all that the file system needs to find it again. [`Error::Unsupported`] where that can't be had.
    Direct,
    /// Stores stay in this process; the descriptor needs no write permission.
    Private,
    /// There are no stores: the mapping can only be read, and the descriptor needs no write permission.
    Readable,
}

/// How a pool on this medium is mapped.
pub(crate) fn sharing<M: Medium>(medium: &M) -> Sharing {
    if medium.needs_direct_mapping() { Sharing::Direct } else { Sharing::Shared }
}

impl Mapping {
    /// Reserves addresses for `length_bytes` (a multiple of 64 KiB for [`Mapping::file`]) and nothing else: no memory,
    /// and every access faults. `path` is for the error.
    pub fn reserve(length_bytes: u64, path: &Path) -> Result<Mapping> {
        Mapping::reserve_aligned(length_bytes, ALIGNMENT_BYTES, path)
    }

    /// As [`Mapping::reserve`], with a beginning at a multiple of `alignment_bytes`, a power of two, for devices that want
    /// that.
    pub fn reserve_aligned(length_bytes: u64, alignment_bytes: usize, path: &Path) -> Result<Mapping> {
        let alignment_bytes = alignment_bytes.max(ALIGNMENT_BYTES);
        let failed = |source: std::io::Error| Error::io("reserve addresses", path, source);
        let too_long = || failed(std::io::ErrorKind::OutOfMemory.into());
        let length_bytes = usize::try_from(length_bytes).map_err(|_| too_long())?;
        let reserved_bytes = length_bytes
            .checked_add(GUARD_BYTES)
            .and_then(|bytes| bytes.checked_add(alignment_bytes))
            .ok_or_else(too_long)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the place, so nothing that exists is replaced.
        let reserved = unsafe { mmap_anonymous(std::ptr::null_mut(), reserved_bytes, ProtFlags::empty(), flags) }
            .map_err(|errno| failed(errno.into()))?;
        let gap = reserved.cast::<u8>().align_offset(alignment_bytes);
        let base = NonNull::new(reserved.cast::<u8>().wrapping_add(gap)).ok_or_else(too_long)?;
        Ok(Mapping { reserved, reserved_bytes, base, length_bytes, counted: None })
    }

    /// As [`Mapping::reserve`], with up to `room_bytes` behind, as the module says; both are whole units.
    pub fn with_room(length_bytes: u64, room_bytes: u64, path: &Path) -> Result<Mapping> {
        let (number, counted) = (WITH_ROOM.fetch_add(1, Ordering::Relaxed) + 1, Counted);
        let addresses = addresses(path)?;
        let kept_bytes = whole_units((addresses / KEPT_PART).min(KEPT_BYTES_MAX));
        let least_bytes = whole_units(room_bytes.min(ROOM_BYTES_MIN));
        let mut room_bytes = whole_units(room_bytes.min(addresses / ROOM_PART / number)).max(least_bytes);
        loop {
            match Mapping::reserve(length_bytes.saturating_add(room_bytes).saturating_add(kept_bytes), path) {
                Err(lack) if lack.is_passing_lack() && room_bytes > least_bytes => {
                    room_bytes = whole_units(room_bytes / 2).max(least_bytes);
                }
                reserved => {
                    let mut mapping = reserved?;
                    mapping.give_back(kept_bytes as usize);
                    mapping.counted = Some(counted);
                    return Ok(mapping);
                }
            }
        }
    }

    /// Makes the range shorter. Nothing of its end may be in use.
    fn give_back(&mut self, bytes: usize) {
        self.length_bytes -= bytes;
        let end = self.reserved.cast::<u8>().wrapping_add(self.reserved_bytes - bytes);
        // SAFETY: the end of a range that is ours, and that nobody has been told of.
        if unsafe { munmap(end.cast(), bytes) }.is_ok() {
            self.reserved_bytes -= bytes;
        }
    }

    /// Memory of its own, zero, for anything that is not a pool or an arena.
    pub fn zeroed(length_bytes: u64, path: &Path) -> Result<Mapping> {
        let mapping = Mapping::reserve(length_bytes, path)?;
        mapping.memory(0, length_bytes, path)?;
        Ok(mapping)
    }

    /// Where the range begins.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Bytes reserved, without the guard.
    pub fn length_bytes(&self) -> usize {
        self.length_bytes
    }

    /// Makes `[from, to)` usable: zero, and of this process alone. Nothing of it may be in use. After a failure all is as before: a
    /// mapping in the place of another could leave neither, and the next one there would meet what somebody else has put into the gap.
    pub fn memory(&self, from_bytes: u64, to_bytes: u64, path: &Path) -> Result<()> {
        let (address, length) = self.range(from_bytes, to_bytes);
        if length == 0 {
            return Ok(());
        }
        // SAFETY: the range lies within the reservation (`range` checks), which is private memory that nobody has touched.
        unsafe { mprotect(address, length, MprotectFlags::READ | MprotectFlags::WRITE) }
            .map_err(|errno| Error::io("map memory", path, errno.into()))
    }

    /// Asks for large pages under `[from, to)`. Random look-ups in a large index miss the TLB less then: in 250 MiB of
    /// blocks a load that depends on the one before took 157 ns instead of 510 to 680. A wish, which may be refused.
    pub fn prefer_large_pages(&self, from_bytes: u64, to_bytes: u64) {
        let (address, length) = self.range(from_bytes, to_bytes);
        // SAFETY: the advice changes no content, and the range is part of our reservation.
        let _ = unsafe { madvise(address, length, Advice::LinuxHugepage) };
    }

    /// Says that pages are not used one behind the other: what is missing then comes alone, without what lies around it. A
    /// wish, which may be refused.
    pub fn expect_random_use(&self) {
        let (address, length) = self.range(0, self.length_bytes as u64);
        // SAFETY: the advice changes no content, and the range is part of our reservation.
        let _ = unsafe { madvise(address, length, Advice::Random) };
    }

    /// Has the pages of `[from, to)`, of a file that is mapped shared, written by the file's next sync, as they are then. Threads
    /// may store there meanwhile. A wish, which may be refused.
    pub fn have_written(&self, from_bytes: u64, to_bytes: u64) {
        let (address, length) = self.range(from_bytes, to_bytes);
        if length > 0 {
            // SAFETY: the advice brings pages in as a store would and stores nothing, and the range is part of our reservation.
            let _ = unsafe { madvise(address, length, Advice::LinuxPopulateWrite) };
        }
    }

    /// Puts `[from, to)` of a file at the same offsets of the range; both are multiples of the page size, or of what a device
    /// wants. Nothing of it may be in use.
    pub fn file(
        &self,
        file: BorrowedFd<'_>,
        from_bytes: u64,
        to_bytes: u64,
        sharing: Sharing,
        path: &Path,
    ) -> Result<()> {
        let (address, length) = self.range(from_bytes, to_bytes);
        if length == 0 {
            return Ok(());
        }
        let access = match sharing {
            Sharing::Readable => ProtFlags::READ,
            Sharing::Shared | Sharing::Direct | Sharing::Private => ProtFlags::READ | ProtFlags::WRITE,
        };
        let flags = match sharing {
            Sharing::Shared | Sharing::Readable => MapFlags::SHARED,
            // A kernel that does not know MAP_SYNC ignores it in a mapping that is merely shared.
            Sharing::Direct => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            Sharing::Private => MapFlags::PRIVATE | MapFlags::NORESERVE,
        };
        // SAFETY: the range lies within the reservation (`range` checks), which nobody else maps into, and the caller does not
        // use it yet.
        let mapped = unsafe { mmap(address, length, access, flags | MapFlags::FIXED, file, from_bytes) };
        match mapped {
            Ok(_) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::INVAL) if sharing == Sharing::Direct => Err(not_direct(path)),
            Err(errno) => Err(Error::io("map", path, errno.into())),
        }
    }

    fn range(&self, from_bytes: u64, to_bytes: u64) -> (*mut c_void, usize) {
        assert!(from_bytes <= to_bytes && to_bytes <= self.length_bytes as u64, "mapped outside the reserved range");
        (self.base().wrapping_add(from_bytes as usize).cast(), (to_bytes - from_bytes) as usize)
    }
}

/// Memory for large pages, at a multiple of 2 MiB: zero, outside of the allocator's, so that what is given back has left the process.
/// `None`: there is none.
pub fn take_large_pages(length_bytes: usize) -> Option<NonNull<u8>> {
    let mapped_bytes = length_bytes.checked_add(ALIGNMENT_BYTES)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the place, so nothing that exists is replaced.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped_bytes, access, MapFlags::PRIVATE) }.ok()?;
    let gap_bytes = mapped.cast::<u8>().align_offset(ALIGNMENT_BYTES);
    let base = mapped.wrapping_byte_add(gap_bytes);
    let ends = [(mapped, gap_bytes), (base.wrapping_byte_add(length_bytes), ALIGNMENT_BYTES - gap_bytes)];
    for (end, end_bytes) in ends.into_iter().filter(|(_, end_bytes)| *end_bytes > 0) {
        // SAFETY: an end of a range that is ours, and that nobody has been told of. If it stays, it is addresses alone.
        let _ = unsafe { munmap(end, end_bytes) };
    }
    // SAFETY: the advice changes no content, and the range is ours. A wish, which may be refused.
    let _ = unsafe { madvise(base, length_bytes, Advice::LinuxHugepage) };
    NonNull::new(base.cast())
}

/// Gives memory for large pages back.
///
/// # Safety
///
/// [`take_large_pages`] gave it for this length, and nobody uses it any more.
pub unsafe fn give_large_pages_back(base: NonNull<u8>, length_bytes: usize) {
    // SAFETY: the caller says that the range is one of ours, without references into it.
    let unmapped = unsafe { munmap(base.as_ptr().cast(), length_bytes) };
    debug_assert!(unmapped.is_ok(), "munmap of a range of our own failed");
}

/// How many addresses this process may have: as its limit says, or about as many as lie below what is mapped, which begins at
/// the top.
fn addresses(path: &Path) -> Result<u64> {
    let top = Mapping::reserve(UNIT_BYTES, path)?.base().addr().next_power_of_two() as u64;
    Ok(getrlimit(Resource::As).current.map_or(top, |limit_bytes| limit_bytes.min(top)))
}

fn whole_units(bytes: u64) -> u64 {
    bytes / UNIT_BYTES * UNIT_BYTES
}

fn not_direct(path: &Path) -> Error {
    let what = format!(
        "it can't be mapped with MAP_SYNC, so it is not on persistent memory (a file system mounted with `-o dax`); a \
         new store can emulate that with emulated:{}",
        path.display()
    );
    Error::Unsupported { what, file: Some(path.to_path_buf()) }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and all references into it borrowed from the owner that is being dropped.
        let unmapped = unsafe { munmap(self.reserved, self.reserved_bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of a range of our own failed");
    }
}
