//! [`MemoryTree`]: root, descent, look-ups; and what the writer has.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{
    self,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;

use slmdb_env::Result;
use slmdb_sync::epoch::Guard;
use slmdb_sync::modelled::{AtomicU64, Mutex};

use super::build::build;
use super::chunks::ChunkSource;
use super::file_slots::FileSlots;
use super::garbage::Garbage;
use super::keys::{Keys, Limits};
use super::node::{Node, Reference};
use super::pending::Pending;
use super::place::Found;
use super::slab::Slab;

/// The longest key, in bytes.
pub const MAXIMUM_KEY_BYTES: usize = u16::MAX as usize;

/// A tree is no higher.
pub(super) const LEVELS_MAX: usize = 32;
/// So many keys are looked up side by side: more than the processor can fetch at once, and few enough to stay in its cache.
const SIDE_BY_SIDE: usize = 16;
/// This part of the index may wait for readers before the writer does.
const GARBAGE_PART: usize = 16;

/// How large nodes are, and how long the writer waits for readers. The defaults were measured; others are for tests.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Most keys of a leaf, 1 to 8,192.
    pub leaf_keys: usize,
    /// Most bytes of a leaf that has more than one key, about.
    pub leaf_bytes: usize,
    /// Most children of an inner node, 3 to 8,192.
    pub inner_children: usize,
    /// Most bytes of an inner node that has more than two children, about.
    pub inner_bytes: usize,
    /// If a sixteenth of the index waits until no reader can be there, and more bytes than this, the writer waits, too.
    pub garbage_bytes_min: usize,
    /// So long at most, each time.
    pub readers_patience: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            leaf_keys: 64,
            leaf_bytes: 3 << 10,
            inner_children: 128,
            inner_bytes: 8 << 10,
            garbage_bytes_min: 16 << 20,
            readers_patience: Duration::from_millis(250),
        }
    }
}

impl Settings {
    fn within_bounds(self) -> Settings {
        Settings {
            leaf_keys: self.leaf_keys.clamp(1, 8192),
            leaf_bytes: self.leaf_bytes.clamp(64, 1 << 20),
            inner_children: self.inner_children.clamp(3, 8192),
            inner_bytes: self.inner_bytes.clamp(64, 1 << 20),
            ..self
        }
    }

    /// How nodes of a level are cut.
    pub(super) fn limits(&self, level: u8) -> Limits {
        match level {
            0 => Limits { count_max: self.leaf_keys, bytes_max: self.leaf_bytes, count_min: 1 },
            _ => Limits { count_max: self.inner_children, bytes_max: self.inner_bytes, count_min: 2 },
        }
    }
}

/// An ordered index in plain memory, for any number of readers and one writer at a time. See the [module](super).
pub struct MemoryTree {
    pub(super) root: AtomicU64,
    pub(super) files: FileSlots,
    pub(super) writer: Mutex<Writer>,
    pub(super) settings: Settings,
    /// As the writer has left it.
    memory_bytes: atomic::AtomicU64,
}

/// What the writer has.
#[derive(Debug)]
pub(super) struct Writer {
    pub slab: Slab,
    pub garbage: Garbage,
    pub pending: Pending,
    pub scratch: Keys,
}

impl MemoryTree {
    /// An empty tree. An error that [may be tried again](slmdb_env::Error::may_be_tried_again) if there is no memory.
    pub fn new(source: Arc<dyn ChunkSource>, settings: Settings) -> Result<MemoryTree> {
        let mut slab = Slab::new(source);
        let root = Reference::to(build(&mut slab, 0, &Keys::default(), 0..0, &[])?);
        let writer =
            Writer { slab, garbage: Garbage::default(), pending: Pending::default(), scratch: Keys::default() };
        let tree = MemoryTree {
            root: AtomicU64::new(root.0),
            files: FileSlots::new(),
            settings: settings.within_bounds(),
            memory_bytes: atomic::AtomicU64::new(0),
            writer: Mutex::new(writer),
        };
        tree.note_memory(&tree.writer.lock());
        Ok(tree)
    }

    /// Which slot each table file has.
    pub fn files(&self) -> &FileSlots {
        &self.files
    }

    /// What the index takes of memory, in bytes: all chunks of nodes, with what waits for readers, and the table of file slots.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Relaxed) + self.files.memory_bytes()
    }

    /// How much of that nodes have, in bytes, with what waits for readers. Waits for the writer.
    pub fn live_bytes(&self) -> u64 {
        self.writer.lock().slab.live_bytes() as u64
    }

    pub(super) fn note_memory(&self, writer: &Writer) {
        self.memory_bytes.store(writer.slab.chunk_bytes() as u64, Relaxed);
    }

    /// The root, for as long as the guard lasts.
    #[inline(always)]
    pub(super) fn root<'g>(&self, _guard: &'g Guard) -> Node<'g> {
        // SAFETY: the root word leads to a whole node, published with Release, and a node is freed only when all guards are gone that
        // were there when it was unlinked.
        unsafe { Reference(self.root.load(Acquire)).node() }
    }

    /// Publishes a new root.
    pub(super) fn store_root(&self, root: Reference) {
        self.root.store(root.0, Release);
    }

    /// The leaf that has a key, if any has.
    #[inline(always)]
    fn leaf<'g>(&self, key: &[u8], guard: &'g Guard) -> Node<'g> {
        let mut node = self.root(guard);
        while node.level() > 0 {
            let index = node.child_of(key);
            // (What lies higher is in the processor's cache.)
            if node.level() <= 2 {
                node.reference(index).prefetch();
            }
            node = node.child(index);
        }
        node
    }

    /// What the index has of a key at one moment within the call. Takes no lock, and never tries again.
    #[inline]
    pub fn get(&self, key: &[u8], guard: &Guard) -> Option<Found> {
        let leaf = self.leaf(key, guard);
        leaf.find(key).ok().map(|index| leaf.found(index))
    }

    /// As [`MemoryTree::get`] for many keys: `found` gets the number of the key, from 0, and what the index has. Any order of keys gives
    /// right answers; ascending ones are fast. Each answer is of a moment of its own. An error of `found` ends it.
    pub fn get_each<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        guard: &Guard,
        mut found: impl FnMut(usize, Option<Found>) -> Result<()>,
    ) -> Result<()> {
        let mut leaves = [self.root(guard); SIDE_BY_SIDE];
        for (part, keys) in keys.chunks(SIDE_BY_SIDE).enumerate() {
            // All leaves are waited for at once.
            for (key, leaf) in keys.iter().zip(&mut leaves) {
                *leaf = self.leaf_ahead(key.as_ref(), guard);
            }
            for (index, (key, leaf)) in keys.iter().zip(&leaves).enumerate() {
                let entry = leaf.find(key.as_ref()).ok().map(|index| leaf.found(index));
                found(part * SIDE_BY_SIDE + index, entry)?;
            }
        }
        Ok(())
    }

    /// As [`MemoryTree::leaf`], without a look at the leaf, which may still be on its way.
    #[inline(always)]
    pub(super) fn leaf_ahead<'g>(&self, key: &[u8], guard: &'g Guard) -> Node<'g> {
        let mut node = self.root(guard);
        let mut level = node.level();
        while level > 0 {
            let index = node.child_of(key);
            node.reference(index).prefetch();
            node = node.child(index);
            level -= 1;
        }
        node
    }

    /// How many keys the index has. Reads the headers of all leaves.
    pub fn count(&self, guard: &Guard) -> u64 {
        fn below(node: Node<'_>) -> u64 {
            match node.level() {
                0 => node.keys() as u64,
                _ => (0..node.values()).map(|index| below(node.child(index))).sum(),
            }
        }
        below(self.root(guard))
    }

    /// How many levels the tree has, 1 at least.
    pub fn height(&self, guard: &Guard) -> u32 {
        u32::from(self.root(guard).level()) + 1
    }
}

impl Writer {
    /// Ends a turn: what was unlinked is put off, what is free comes back, and if too much waits, so does the writer.
    /// REQUIRES: nothing is pending.
    pub fn end_turn(&mut self, settings: &Settings) {
        self.garbage.close();
        self.garbage.collect(&mut self.slab);
        let part = self.slab.live_bytes().saturating_sub(self.garbage.bytes()) / GARBAGE_PART;
        self.garbage.wait(&mut self.slab, part.max(settings.garbage_bytes_min), settings.readers_patience);
    }
}

impl fmt::Debug for MemoryTree {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("MemoryTree");
        debug.field("memory_bytes", &self.memory_bytes()).field("files", &self.files).finish_non_exhaustive()
    }
}
