//! [`HybridTree`]: a tree, and what is counted of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;
use slmdb_pmem::{Medium, Pool, Slots};
use slmdb_sync::epoch::Guard;
use slmdb_sync::scheduled::{Mutex, MutexGuard};

use super::damage::damaged;
use super::directory::Directory;
use super::layout::{
    CHECK_OFFSET, EPOCH_OFFSET, FIRST_OFFSET, LEAF_BYTES, MAGIC, MAGIC_OFFSET, ROOT_STRIDE_BYTES, SETTINGS_OFFSET,
    TREES, VERSION, epoch_word, link,
};
use super::leaf::Leaf;
use crate::published::Published;

/// A hybrid tree in a pool. `Send` and `Sync`; any number of readers, and one writer at a time.
pub struct HybridTree<M: Medium> {
    pub(super) pool: Arc<Pool<M>>,
    pub(super) slots: Arc<Slots<M>>,
    pub(super) order: KeyOrder,
    pub(super) number: u32,
    pub(super) published: Published<State>,
    pub(super) writer: Mutex<Counts>,
    pub(super) size: SizeNow,
}

/// How large a tree is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Keys, those of deletes too.
    pub keys: u64,
    /// Leaves.
    pub leaves: u64,
    /// Bytes of leaves and records, with what slots round up.
    pub bytes: u64,
}

/// The size as the writer last noted it, for those who don't wait for it.
#[derive(Debug, Default)]
pub(super) struct SizeNow {
    keys: AtomicU64,
    leaves: AtomicU64,
    bytes: AtomicU64,
}

impl SizeNow {
    pub(super) fn note(&self, counts: &Counts) {
        self.keys.store(counts.keys, Ordering::Relaxed);
        self.leaves.store(counts.leaves, Ordering::Relaxed);
        self.bytes.store(counts.leaf_bytes + counts.record_bytes, Ordering::Relaxed);
    }
}

/// What readers begin with.
#[derive(Debug)]
pub(super) struct State {
    pub directory: Directory,
    pub epoch: u32,
}

/// What a tree has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys, those of deletes too.
    pub keys: u64,
    /// Leaves.
    pub leaves: u64,
    /// Bytes of the leaves.
    pub leaf_bytes: u64,
    /// Bytes of the records, with what their slots round up.
    pub record_bytes: u64,
    /// How many records lead to each file.
    pub live: BTreeMap<u32, u64>,
}

impl Counts {
    pub(super) fn add(&mut self, file: u32, record_bytes: u32) {
        self.keys += 1;
        self.record_bytes += u64::from(slmdb_pmem::slots::slot_bytes(record_bytes));
        *self.live.entry(file).or_default() += 1;
    }

    pub(super) fn subtract(&mut self, file: u32, record_bytes: u32) {
        self.keys -= 1;
        self.record_bytes -= u64::from(slmdb_pmem::slots::slot_bytes(record_bytes));
        if let Some(live) = self.live.get_mut(&file) {
            *live -= 1;
            if *live == 0 {
                self.live.remove(&file);
            }
        }
    }

    pub(super) fn set_leaves(&mut self, leaves: usize) {
        self.leaves = leaves as u64;
        self.leaf_bytes = self.leaves * LEAF_BYTES;
    }
}

impl<M: Medium> HybridTree<M> {
    /// Makes an empty tree in one of the [`TREES`] places of a pool. [`Error::Invalid`] if there is one already.
    pub fn create(slots: Arc<Slots<M>>, number: u32, epoch: u32, order: KeyOrder) -> Result<HybridTree<M>> {
        let pool = Arc::clone(slots.pool());
        if number >= TREES {
            return Err(Error::invalid(format!("a pool has no tree {number}")));
        }
        if HybridTree::exists(&pool, number)? {
            return Err(Error::invalid(format!("the pool has a tree {number} already")));
        }
        let root = root_of(&pool, number);
        pool.store(root + FIRST_OFFSET, link(root + FIRST_OFFSET, 0))?;
        pool.store(root + EPOCH_OFFSET, epoch_word(root + EPOCH_OFFSET, epoch))?;
        pool.persist(root + FIRST_OFFSET, 16);
        // One cache line: the magic is not durable before the rest.
        pool.store(root + SETTINGS_OFFSET, settings(&order))?;
        pool.store(root + CHECK_OFFSET, check(root, settings(&order)))?;
        pool.store(root + MAGIC_OFFSET, MAGIC)?;
        pool.persist(root, 24);
        let state = State { directory: Directory::default(), epoch };
        Ok(HybridTree::of(slots, number, order, state, Counts::default()))
    }

    /// Whether a pool has this tree: whether [`HybridTree::create`] came to its end.
    pub fn exists(pool: &Pool<M>, number: u32) -> Result<bool> {
        Ok(number < TREES && pool.load(root_of(pool, number) + MAGIC_OFFSET)? != 0)
    }

    pub(super) fn of(
        slots: Arc<Slots<M>>,
        number: u32,
        order: KeyOrder,
        state: State,
        counts: Counts,
    ) -> HybridTree<M> {
        let size = SizeNow::default();
        size.note(&counts);
        let (published, writer) = (Published::from_pointee(state), Mutex::new(counts));
        HybridTree { pool: Arc::clone(slots.pool()), slots, order, number, published, writer, size }
    }

    /// The order of its keys.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// Its place in the pool, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The slots that it shares with the pool's other tree.
    pub fn slots(&self) -> &Arc<Slots<M>> {
        &self.slots
    }

    /// The epoch that it was begun with.
    pub fn epoch(&self) -> u32 {
        self.published.load().epoch
    }

    /// What it has, after the last change. Waits for the writer.
    pub fn counts(&self) -> Counts {
        self.writer().clone()
    }

    /// How large it is. Waits for nobody: it is what the writer noted last, after each group of keys.
    pub fn size(&self) -> Size {
        let SizeNow { keys, leaves, bytes } = &self.size;
        let [keys, leaves, bytes] = [keys, leaves, bytes].map(|count| count.load(Ordering::Relaxed));
        Size { keys, leaves, bytes }
    }

    /// What the directory takes of plain memory, in bytes.
    pub fn directory_bytes(&self) -> u64 {
        self.published.load().directory.memory_bytes()
    }

    pub(super) fn writer(&self) -> MutexGuard<'_, Counts> {
        self.writer.lock()
    }

    pub(super) fn root(&self) -> u64 {
        root_of(&self.pool, self.number)
    }

    #[inline]
    pub(super) fn leaf(&self, offset: u64, epoch: u32) -> Result<Leaf<'_>> {
        Leaf::at(&self.pool, offset, self.number, epoch)
    }

    /// Gives slots back once no reader is left. REQUIRES: their removal is durable, and the directory is published.
    pub(super) fn retire(&self, retired: Vec<u64>, guard: &Guard) {
        if retired.is_empty() {
            return;
        }
        self.slots.count_retired(retired.len());
        // Weak: what is deferred must neither keep a closed pool mapped nor touch one that has been opened again.
        let slots = Arc::downgrade(&self.slots);
        guard.defer(move || {
            if let Some(slots) = slots.upgrade() {
                slots.give_back_retired(&retired);
            }
        });
    }

    #[cold]
    pub(super) fn damaged(&self, offset: u64, what: &str) -> Error {
        damaged(&self.pool, offset, what)
    }
}

impl<M: Medium> std::fmt::Debug for HybridTree<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("HybridTree")
            .field("number", &self.number)
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}

pub(super) fn root_of<M: Medium>(pool: &Pool<M>, number: u32) -> u64 {
    pool.root_offset() + u64::from(number) * ROOT_STRIDE_BYTES
}

/// Format version, and the order: 0 by bytes, else the crc32c of the comparator's name.
pub(super) fn settings(order: &KeyOrder) -> u64 {
    let order = if order.is_bytewise() { 0 } else { slmdb_checksum::crc32c(order.name().as_bytes()).max(1) };
    u64::from(order) << 32 | u64::from(VERSION)
}

pub(super) fn check(root: u64, settings: u64) -> u64 {
    let words = [root, MAGIC, settings];
    u64::from(words.iter().fold(0, |crc, word| slmdb_checksum::crc32c_append(crc, &word.to_le_bytes())))
}
