//! [`ChunkSource`]: where the memory of nodes comes from.

use std::alloc::{Layout, alloc, dealloc};
use std::fmt;
use std::ptr::NonNull;

use slmdb_pmem::{give_large_pages_back, take_large_pages};

/// Bytes of a chunk, a large page; the first ones are shorter, so that a small index takes little. (A node above 16 KiB has a chunk of its
/// own, as long as it needs.)
pub const CHUNK_BYTES: usize = 2 << 20;

/// What a chunk begins at a multiple of.
pub const CHUNK_ALIGNMENT_BYTES: usize = 64 << 10;

/// Where the memory of nodes comes from.
///
/// # Safety
///
/// What [`ChunkSource::take`] gives can be read and written by any thread, has the length that was asked for, begins at a
/// multiple of [`CHUNK_ALIGNMENT_BYTES`] below 2^48, and is nobody else's until it is given back.
pub unsafe trait ChunkSource: Send + Sync + fmt::Debug {
    /// Memory of so many bytes, whatever is in it. `None`: there is none.
    fn take(&self, length_bytes: usize) -> Option<NonNull<u8>>;

    /// Takes memory back.
    ///
    /// # Safety
    ///
    /// [`ChunkSource::take`] of the same source gave it for this length, and nobody uses it any more.
    unsafe fn give_back(&self, chunk: NonNull<u8>, length_bytes: usize);
}

/// Large pages for chunks, and the memory of the process's allocator for all that is shorter.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemMemory;

fn layout(length_bytes: usize) -> Option<Layout> {
    Layout::from_size_align(length_bytes.max(1), CHUNK_ALIGNMENT_BYTES).ok()
}

// SAFETY: the allocator's promises are those, and those of memory for large pages; a chunk that begins too high is not passed on.
unsafe impl ChunkSource for SystemMemory {
    fn take(&self, length_bytes: usize) -> Option<NonNull<u8>> {
        let chunk = if length_bytes == CHUNK_BYTES {
            take_large_pages(length_bytes)?
        } else {
            // SAFETY: the length is not 0.
            NonNull::new(unsafe { alloc(layout(length_bytes)?) })?
        };
        if chunk.addr().get() as u64 >> 48 != 0 {
            // SAFETY: it was taken right now.
            unsafe { self.give_back(chunk, length_bytes) };
            return None;
        }
        Some(chunk)
    }

    unsafe fn give_back(&self, chunk: NonNull<u8>, length_bytes: usize) {
        if length_bytes == CHUNK_BYTES {
            // SAFETY: the caller says that it was taken so.
            unsafe { give_large_pages_back(chunk, length_bytes) };
        } else if let Some(layout) = layout(length_bytes) {
            // SAFETY: the caller says that it was allocated so.
            unsafe { dealloc(chunk.as_ptr(), layout) };
        }
    }
}
