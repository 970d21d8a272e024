//! [`ChunkSource`]: where the memory of nodes comes from.

use std::alloc::{Layout, alloc, dealloc};
use std::fmt;
use std::ptr::NonNull;

/// Bytes of a chunk. (A node above 16 KiB has a chunk of its own, as long as it needs.)
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

/// The memory of the process's allocator.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemMemory;

fn layout(length_bytes: usize) -> Option<Layout> {
    let alignment_bytes = if length_bytes == CHUNK_BYTES { CHUNK_BYTES } else { CHUNK_ALIGNMENT_BYTES };
    Layout::from_size_align(length_bytes.max(1), alignment_bytes).ok()
}

// SAFETY: the allocator's promises are those, and a chunk that begins too high is not passed on.
unsafe impl ChunkSource for SystemMemory {
    fn take(&self, length_bytes: usize) -> Option<NonNull<u8>> {
        let layout = layout(length_bytes)?;
        // SAFETY: the length is not 0.
        let chunk = NonNull::new(unsafe { alloc(layout) })?;
        if chunk.addr().get() as u64 >> 48 != 0 {
            // SAFETY: it was allocated right now.
            unsafe { dealloc(chunk.as_ptr(), layout) };
            return None;
        }
        Some(chunk)
    }

    unsafe fn give_back(&self, chunk: NonNull<u8>, length_bytes: usize) {
        if let Some(layout) = layout(length_bytes) {
            // SAFETY: the caller says that it was allocated so.
            unsafe { dealloc(chunk.as_ptr(), layout) };
        }
    }
}
