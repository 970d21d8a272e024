//! Shortcuts: where the nodes of one inner level begin, in DRAM, so that a descent need not come from the root.
//!
//! A descent may begin at any node that is not to the right of its target: fences, siblings and `forward` do the rest.
//! So it is enough to know, for each node of a low inner level, its low fence. What counts of each fence are the 8 bytes
//! behind the prefix that all of them share, and they lie in one array, which is searched by halves. Of the levels above
//! nothing is read. Under a comparator nothing follows from 8 bytes of a key, and there are no shortcuts.
//!
//! Shortcuts lead to nodes, and a node's block may become another node. So they count only as long as no inner node was
//! freed since they were made: [`Shortcuts::version`]. Whoever frees one moves the version on before the block is
//! deferred. A reader looks at the version while it is pinned. If it finds the version of its shortcuts, then no block
//! that they name can be taken again before the reader is done.
//!
//! They are made, and followed, in [`shortcut_descent`](super::shortcut_descent).

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

use slmdb_sync::scheduled::ArcSwap;

/// They are made after as many descents without them as they will have nodes, but not after fewer than this.
const MISSES_MIN: u32 = if cfg!(all(test, not(loom))) { 2 } else { 256 };

/// The low fences of a level's nodes.
#[derive(Debug, Default)]
pub(super) struct Shortcuts {
    /// The tree's version when they were made; 0: there are none.
    pub version: u64,
    pub level: u8,
    /// What all low fences begin with.
    pub prefix: Vec<u8>,
    /// The 8 bytes of each low fence that follow. The first node's fence may be missing, and then counts as 0.
    pub heads: Vec<u64>,
    pub nodes: Vec<u64>,
}

/// A tree's shortcuts, and when they are made.
#[derive(Debug)]
pub(super) struct ShortcutCache {
    pub current: ArcSwap<Shortcuts>,
    /// Moved on before an inner node is freed. Begins with 1.
    version: AtomicU64,
    /// Descents without shortcuts since they were made last.
    misses: AtomicU32,
    /// So many of them are a reason to make shortcuts.
    misses_due: AtomicU32,
}

impl Default for ShortcutCache {
    fn default() -> ShortcutCache {
        ShortcutCache {
            current: ArcSwap::from_pointee(Shortcuts::default()),
            version: AtomicU64::new(1),
            misses: AtomicU32::new(0),
            misses_due: AtomicU32::new(MISSES_MIN),
        }
    }
}

impl ShortcutCache {
    /// An inner node will be freed: shortcuts don't count any more.
    pub fn outdate(&self) {
        self.version.fetch_add(1, SeqCst);
    }

    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(SeqCst)
    }

    /// Bytes of DRAM.
    pub fn memory_bytes(&self) -> usize {
        let shortcuts = self.current.load();
        size_of::<ShortcutCache>()
            + shortcuts.prefix.capacity()
            + (shortcuts.heads.capacity() + shortcuts.nodes.capacity()) * size_of::<u64>()
    }

    /// Counts a descent without shortcuts. Returns whether enough were counted to make them.
    #[inline]
    pub fn count_miss(&self) -> bool {
        self.misses.fetch_add(1, Relaxed) + 1 >= self.misses_due.load(Relaxed)
    }

    /// Puts these in place of those before.
    pub fn replace(&self, shortcuts: Shortcuts) {
        let nodes = u32::try_from(shortcuts.nodes.len()).unwrap_or(u32::MAX);
        self.misses_due.store(nodes.max(MISSES_MIN), Relaxed);
        self.misses.store(0, Relaxed);
        self.current.store(Arc::new(shortcuts));
    }
}
