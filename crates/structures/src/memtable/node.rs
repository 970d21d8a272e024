//! A node of the skiplist, and its tower of links behind it.
//!
//! A `*mut Node` or `*const Node` is null or a node of the list at hand (its front included), and so lives as long as the
//! list: that is what the SAFETY lines of `node`, `heads` and `skiplist` rest on.

use slmdb_sync::mapped::AtomicPtr;

use super::towers::Towers;
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
pub(super) const LINK_BYTES: usize = size_of::<AtomicPtr<Node>>();
const _: () = assert!(NODE_BYTES == 24 + size_of::<*const u8>() && NODE_BYTES % align_of::<AtomicPtr<Node>>() == 0);
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
pub(super) unsafe fn link<'a>(node: *const Node, level: usize) -> &'a AtomicPtr<Node> {
    // SAFETY: by the contract the node lives and its tower has this level, inside the same allocation.
    unsafe {
        debug_assert!(level < usize::from((*node).height));
        &*node.cast::<u8>().add(NODE_BYTES + level * LINK_BYTES).cast::<AtomicPtr<Node>>()
    }
}

/// The key of a node.
///
/// # Safety
/// `node` lives for `'a`, and so does its key.
pub(super) unsafe fn key_of<'a>(node: *const Node) -> &'a [u8] {
    // SAFETY: by the contract, and that of `SkipList::insert`.
    unsafe { std::slice::from_raw_parts((*node).key, usize::from((*node).key_length)) }
}
