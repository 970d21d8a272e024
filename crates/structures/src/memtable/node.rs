//! A node of the skiplist, with its tower of links behind it, and the memory for nodes.
//!
//! That memory is handed out front to back, and given back all at once. A MemTable only ever grows and then goes away
//! whole, so its nodes need no free list and no header of their own: a pointer is bumped with one atomic addition. Chunks
//! double in size, so that a small MemTable stays small, and a large one takes the lock that adds a chunk only a few dozen
//! times.
//!
//! A `*mut Node` or `*const Node` is null or a node of the list at hand (its front included), and so lives as long as the
//! list: that is what the SAFETY lines of `node`, `key_heads` and `skiplist` rest on.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use slmdb_sync::mapped;
use slmdb_sync::scheduled::Mutex;

use crate::EntryKind;

/// One entry of the list. Its tower, `height` links, follows directly; then, where the lowest level's links are persisted, the
/// offset of the entry's slot.
///
/// The head comes last: a search reads it and a link, and then both are mostly in one cache line.
#[repr(C)]
pub(super) struct Node {
    pub sequence: u64,
    /// Where the key is; the value follows it.
    pub key: *const u8,
    pub value_length: u32,
    pub key_length: u16,
    pub kind: EntryKind,
    pub height: u8,
    pub head: u64,
}

pub(super) const NODE_BYTES: usize = size_of::<Node>();
pub(super) const LINK_BYTES: usize = size_of::<mapped::AtomicPtr<Node>>();
const _: () = assert!(
    NODE_BYTES == 24 + size_of::<*const u8>() && NODE_BYTES.is_multiple_of(align_of::<mapped::AtomicPtr<Node>>())
);
const _: () = assert!(align_of::<Node>() <= 8, "towers are aligned to 8 bytes");

/// An entry to be inserted.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewEntry<'a> {
    /// The key, for comparing.
    pub key: &'a [u8],
    /// Where the list finds the same key, and the value right behind it, for as long as it lives.
    pub stored_key: *const u8,
    pub value_length: u32,
    pub kind: EntryKind,
    pub sequence: u64,
    /// Where the entry's slot is in the arena; 0 in a list without slots.
    pub slot: u64,
}

/// A node with an uninitialised tower, linked nowhere. `with_slot`: the list has slots.
#[inline]
pub(super) fn new_node(towers: &Towers, entry: &NewEntry<'_>, head: u64, height: usize, with_slot: bool) -> *mut Node {
    let tower_bytes = height * LINK_BYTES;
    let slot_bytes = if with_slot { size_of::<u64>() } else { 0 };
    let node = towers.allocate(NODE_BYTES + tower_bytes + slot_bytes).cast::<Node>();
    let content = Node {
        sequence: entry.sequence,
        key: entry.stored_key,
        value_length: entry.value_length,
        key_length: entry.key.len() as u16,
        kind: entry.kind,
        height: height as u8,
        head,
    };
    // SAFETY: the memory is ours, large enough for the node, its tower and the slot, and aligned to 8 bytes.
    unsafe {
        node.write(content);
        if with_slot {
            node.cast::<u8>().add(NODE_BYTES + tower_bytes).cast::<u64>().write(entry.slot);
        }
    }
    node
}

/// Where the slot of a node's entry is in the arena.
///
/// # Safety
/// `node` is a live node of a list with slots.
pub(super) unsafe fn slot_of(node: *const Node) -> u64 {
    // SAFETY: by the contract, the word behind the tower belongs to the node and was written when it was made.
    unsafe { *node.cast::<u8>().add(NODE_BYTES + usize::from((*node).height) * LINK_BYTES).cast::<u64>() }
}

/// The link of a node at a level. Reaches behind the node itself, so it takes a pointer to the whole allocation.
///
/// # Safety
/// `node` is a live node (for `'a`) with more than `level` levels. Its link there is initialised, or the caller is the
/// only one who knows of it and stores to it first.
#[inline]
pub(super) unsafe fn link<'a>(node: *const Node, level: usize) -> &'a mapped::AtomicPtr<Node> {
    // SAFETY: by the contract the node lives and its tower has this level, inside the same allocation.
    unsafe {
        debug_assert!(level < usize::from((*node).height));
        &*node.cast::<u8>().add(NODE_BYTES + level * LINK_BYTES).cast::<mapped::AtomicPtr<Node>>()
    }
}

/// The key of a node.
///
/// # Safety
/// `node` lives for `'a`, and so does its key.
#[inline]
pub(super) unsafe fn key_of<'a>(node: *const Node) -> &'a [u8] {
    // SAFETY: by the contract, and that of `SkipList::insert`.
    unsafe { std::slice::from_raw_parts((*node).key, usize::from((*node).key_length)) }
}

/// Alignment of every allocation, in bytes.
const ALIGNMENT_BYTES: usize = 8;
const SMALLEST_CHUNK_BYTES: usize = 16 << 10;
const LARGEST_CHUNK_BYTES: usize = 1 << 20;

/// The front of a chunk; its space follows.
#[repr(C)]
struct Chunk {
    previous: *mut Chunk,
    space_bytes: usize,
    /// How much was asked for; may run past `space_bytes` when the chunk is full.
    asked_bytes: AtomicUsize,
}

const CHUNK_HEADER_BYTES: usize = size_of::<Chunk>();
const _: () = assert!(CHUNK_HEADER_BYTES.is_multiple_of(ALIGNMENT_BYTES) && align_of::<Chunk>() <= ALIGNMENT_BYTES);

/// Memory for the nodes of a list: a growing set of chunks.
#[derive(Debug)]
pub(super) struct Towers {
    /// The newest chunk, from which all allocations come; null at first.
    newest: AtomicPtr<Chunk>,
    /// Held while a chunk is added.
    adding: Mutex<()>,
    total_bytes: AtomicU64,
}

impl Towers {
    pub fn new() -> Towers {
        Towers { newest: AtomicPtr::new(ptr::null_mut()), adding: Mutex::new(()), total_bytes: AtomicU64::new(0) }
    }

    /// Bytes taken from the system.
    pub fn memory_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    /// `length_bytes` (a multiple of [`ALIGNMENT_BYTES`], well below a chunk) of uninitialised memory that belongs to
    /// the caller alone and lives as long as `self`.
    pub fn allocate(&self, length_bytes: usize) -> *mut u8 {
        debug_assert!(length_bytes.is_multiple_of(ALIGNMENT_BYTES) && length_bytes <= SMALLEST_CHUNK_BYTES / 2);
        loop {
            let chunk = self.newest.load(Ordering::Acquire);
            if !chunk.is_null() {
                // SAFETY: chunks are freed by drop alone, and the Acquire load saw this one's header written.
                let (asked, space_bytes) = unsafe { (&(*chunk).asked_bytes, (*chunk).space_bytes) };
                // Relaxed: the addition alone makes the range ours; linking publishes its content.
                let start = asked.fetch_add(length_bytes, Ordering::Relaxed);
                if start + length_bytes <= space_bytes {
                    // SAFETY: the range is inside the chunk's allocation, as just checked.
                    return unsafe { chunk.cast::<u8>().add(CHUNK_HEADER_BYTES + start) };
                }
            }
            self.add_chunk(chunk);
        }
    }

    /// Adds a chunk unless somebody else has done so since `seen` was the newest.
    #[cold]
    fn add_chunk(&self, seen: *mut Chunk) {
        let _adding = self.adding.lock();
        if self.newest.load(Ordering::Acquire) != seen {
            return;
        }
        let whole_bytes = if seen.is_null() {
            SMALLEST_CHUNK_BYTES
        } else {
            // SAFETY: chunks are freed by drop alone.
            let last_bytes = unsafe { (*seen).space_bytes } + CHUNK_HEADER_BYTES;
            (last_bytes * 2).min(LARGEST_CHUNK_BYTES)
        };
        let layout = chunk_layout(whole_bytes);
        // SAFETY: the layout's size is not zero.
        let chunk = unsafe { alloc(layout) }.cast::<Chunk>();
        if chunk.is_null() {
            handle_alloc_error(layout);
        }
        let header =
            Chunk { previous: seen, space_bytes: whole_bytes - CHUNK_HEADER_BYTES, asked_bytes: AtomicUsize::new(0) };
        // SAFETY: the memory was just allocated, is large enough and aligned for the header, and nobody else knows it.
        unsafe { chunk.write(header) };
        self.total_bytes.fetch_add(whole_bytes as u64, Ordering::Relaxed);
        self.newest.store(chunk, Ordering::Release);
    }
}

impl Drop for Towers {
    fn drop(&mut self) {
        let mut chunk = *self.newest.get_mut();
        while !chunk.is_null() {
            // SAFETY: `&mut self`: nobody uses a chunk any more, and each is in the chain once, allocated with the
            // layout that its length gives.
            unsafe {
                let previous = (*chunk).previous;
                let layout = chunk_layout((*chunk).space_bytes + CHUNK_HEADER_BYTES);
                dealloc(chunk.cast(), layout);
                chunk = previous;
            }
        }
    }
}

/// Chunk sizes are powers of two between the smallest and the largest, for which a layout always exists.
fn chunk_layout(whole_bytes: usize) -> Layout {
    Layout::from_size_align(whole_bytes, ALIGNMENT_BYTES).expect("a chunk's size is far below the limit of a layout")
}

// SAFETY: the chunks belong to `Towers` alone, and every access to the shared fields is atomic or under the lock.
unsafe impl Send for Towers {}
// SAFETY: as above.
unsafe impl Sync for Towers {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_of_several_threads_never_overlap() {
        let towers = Towers::new();
        let mut ranges: Vec<(usize, usize)> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4_usize)
                .map(|worker| {
                    let towers = &towers;
                    scope.spawn(move || {
                        (0..20_000_usize)
                            .map(|i| {
                                let length_bytes = 8 * (1 + (i * 7 + worker) % 17);
                                let start = towers.allocate(length_bytes);
                                // SAFETY: the range is ours.
                                unsafe { start.write_bytes(worker as u8, length_bytes) };
                                (start as usize, length_bytes)
                            })
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        ranges.sort_unstable();
        assert!(ranges.iter().all(|(start, _)| start % ALIGNMENT_BYTES == 0));
        assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        let used: usize = ranges.iter().map(|(_, length_bytes)| length_bytes).sum();
        assert!(towers.memory_bytes() >= used as u64);
        assert!(towers.memory_bytes() < 2 * used as u64 + LARGEST_CHUNK_BYTES as u64);
    }
}
