//! The tree: where it begins in the pool, how it is descended, and `get`.
//!
//! The pool's root area holds, in its first 1024 bytes:
//!
//! ```text
//!  0  u64  magic "FASTFAIR", written last
//!  8  u32  format version, u32 size of a node in bytes
//! 16  u64  offset of the intent slots, a block
//! 24  u64  order of the keys: 0 by bytes; else 1 << 32 | crc32c of the comparator's name, and nodes have no heads
//! 32  u64  crc32c of bytes 0..32
//! 64  u64  the root node; its level is the height, so the two can't disagree
//! ```
//!
//! A descent goes from the root to the node that covers the key at the level wanted. At every node it follows `forward`
//! if the node was replaced, and the sibling if the key is beyond the high fence: the parent need not know of a split for
//! the tree to be right, only to be quick. Offsets, levels and fences are checked on the way, and the number of steps is
//! bounded, so that a damaged pool gives an error.
//!
//! A node that was replaced stays as it is until no reader can be there. A reader that was there before may therefore
//! finish: what it finds was so at some moment after it came.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;
use slmdb_pmem::{Blocks, Medium, Pool};
use slmdb_sync::epoch::{self, Guard};
use slmdb_sync::modelled::{Mutex, MutexGuard};
use slmdb_sync::scheduled::RandomState;

use super::build::{NewNode, slots_of};
use super::change::{Locked, Session};
use super::fences::{Shape, Side, Target};
use super::intent::INTENTS_BYTES;
use super::key_record::{KeyRecord, SMALLEST_RECORD_BYTES, damaged};
use super::node::{LEVEL_MAX, Node, prefetch_range};
use super::shortcuts::ShortcutCache;
use crate::EntryKind;

/// The sizes that a node can have are the powers of two from here...
pub const SMALLEST_NODE_BYTES: u32 = 256;
/// ...to here.
pub const LARGEST_NODE_BYTES: u32 = 4096;

const MAGIC: u64 = u64::from_le_bytes(*b"FASTFAIR");
const VERSION: u32 = 1;
const MAGIC_OFFSET: u64 = 0;
const SETTINGS_OFFSET: u64 = 8;
const INTENTS_OFFSET: u64 = 16;
const ORDER_OFFSET: u64 = 24;
const CHECK_OFFSET: u64 = 32;
const ROOT_OFFSET: u64 = 64;

/// Steps that a descent takes, down and to the side and however often it begins anew, before the tree counts as damaged: more
/// than any reader meets that was not stopped for long.
const STEPS_MAX: u32 = 4096;
/// How often a descent begins anew before the tree counts as damaged.
const RESTARTS_MAX: u32 = 64;
/// What may be wrong when the tree's keys don't stand to each other as its order says.
const LEADS_NOWHERE: &str = "the tree leads nowhere";
pub(super) const OUT_OF_ORDER: &str = "the keys of the tree are out of order (or its comparator is no total order)";

/// A FAST and FAIR B+-tree in a pool. `Send` and `Sync`; any number of readers and writers at once.
pub struct Tree<M: Medium> {
    pub(super) pool: Arc<Pool<M>>,
    pub(super) blocks: Arc<Blocks<M>>,
    pub(super) node_bytes: u32,
    pub(super) order: KeyOrder,
    /// Where the intent slots are.
    pub(super) intents: u64,
    pub(super) session: Session,
    pub(super) shortcuts: ShortcutCache,
    structure: Mutex<Structure>,
}

/// Held while the shape of the tree is changed: nodes replaced, the root moved. Changes within a leaf don't need it.
#[derive(Debug)]
pub(super) struct Structure {
    /// Number of the last intent.
    number: u64,
    /// An intent could not be completed (the pool was full): that comes first now.
    pub unfinished: bool,
    /// Blocks taken ahead for inner nodes.
    pub stock: Vec<u64>,
}

impl Structure {
    /// The number for the next intent.
    pub fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

impl<M: Medium> Tree<M> {
    /// Makes an empty tree in a pool that has none. `node_bytes` is a power of two from [`SMALLEST_NODE_BYTES`] to
    /// [`LARGEST_NODE_BYTES`]. What a crash has left of an earlier attempt is taken back first.
    pub fn create(pool: Arc<Pool<M>>, blocks: Arc<Blocks<M>>, node_bytes: u32, order: KeyOrder) -> Result<Tree<M>> {
        if !node_bytes.is_power_of_two() || !(SMALLEST_NODE_BYTES..=LARGEST_NODE_BYTES).contains(&node_bytes) {
            return Err(Error::invalid(format!("{node_bytes} is no size for a node")));
        }
        let area = pool.root_offset();
        if pool.load(area + MAGIC_OFFSET)? != 0 {
            return Err(Error::invalid("the pool has a tree already"));
        }
        for place in [area + INTENTS_OFFSET, area + ROOT_OFFSET] {
            let block = pool.load(place)?;
            if block != 0 && blocks.is_used(block)? {
                blocks.mark_free(block)?;
                pool.fence();
                blocks.recycle(block);
            }
        }
        let intents = blocks.take(INTENTS_BYTES)?;
        let root = blocks.take(node_bytes)?;
        pool.store(area + INTENTS_OFFSET, intents)?;
        pool.store(area + ROOT_OFFSET, root)?;
        pool.store(area + SETTINGS_OFFSET, u64::from(node_bytes) << 32 | u64::from(VERSION))?;
        pool.store(area + ORDER_OFFSET, order_word(&order))?;
        pool.persist(area, ROOT_OFFSET + 8);

        blocks.mark_used(intents)?;
        blocks.mark_used(root)?;
        // SAFETY: the block was just taken, nobody else knows of it.
        unsafe { pool.zero(intents, u64::from(INTENTS_BYTES))? };
        pool.flush(intents, u64::from(INTENTS_BYTES));
        let shape = Shape::new(0, None, None, &order);
        let leaf =
            NewNode { block: root, fence_block: None, shape, low: None, high: None, sibling: 0, lock: 0, entries: &[] };
        leaf.write(&pool, node_bytes)?;
        pool.fence();

        // One cache line: the magic is not durable before the checksum.
        pool.store(area + CHECK_OFFSET, check(&pool, MAGIC)?)?;
        pool.store(area + MAGIC_OFFSET, MAGIC)?;
        pool.persist(area, 8);
        Tree::open(pool, blocks, order)
    }

    /// Whether a pool has a tree: whether [`Tree::create`] came to its end.
    pub fn exists(pool: &Pool<M>) -> Result<bool> {
        Ok(pool.load(pool.root_offset() + MAGIC_OFFSET)? != 0)
    }

    /// Opens the tree of a pool. Completes or undoes what the intent slots name; reads nothing else, however large the
    /// tree is. [`Error::Unsupported`] if it was made under another order.
    pub fn open(pool: Arc<Pool<M>>, blocks: Arc<Blocks<M>>, order: KeyOrder) -> Result<Tree<M>> {
        let area = pool.root_offset();
        let magic = pool.load(area + MAGIC_OFFSET)?;
        if magic != MAGIC || pool.load(area + CHECK_OFFSET)? != check(&pool, magic)? {
            return Err(damaged(&pool, area, "there is no tree in the pool, or its root area is damaged"));
        }
        let settings = pool.load(area + SETTINGS_OFFSET)?;
        let (node_bytes, version) = ((settings >> 32) as u32, settings as u32);
        if version != VERSION {
            let file = Some(pool.path().to_path_buf());
            return Err(Error::Unsupported { what: format!("a tree of format version {version}"), file });
        }
        if !node_bytes.is_power_of_two() || !(SMALLEST_NODE_BYTES..=LARGEST_NODE_BYTES).contains(&node_bytes) {
            return Err(damaged(&pool, area, "the nodes of the tree have an impossible size"));
        }
        if pool.load(area + ORDER_OFFSET)? != order_word(&order) {
            let what = format!("a tree whose keys are not in the order {:?}", order.name());
            return Err(Error::Unsupported { what, file: Some(pool.path().to_path_buf()) });
        }
        let intents = pool.load(area + INTENTS_OFFSET)?;
        if blocks.block_size(intents)? < INTENTS_BYTES {
            return Err(damaged(&pool, area, "the intent slots of the tree have an impossible place"));
        }
        let random = RandomState::new().build_hasher().finish();
        let session = Session::new(pool.open_count(), random);
        let structure = Mutex::new(Structure { number: 0, unfinished: true, stock: Vec::new() });
        let shortcuts = ShortcutCache::default();
        let tree = Tree { pool, blocks, node_bytes, order, intents, session, shortcuts, structure };
        match tree.settle(&mut tree.structure(), &epoch::pin()) {
            // A full pool can be read, and what needs no new node can be changed. The rest waits until there is room.
            Ok(()) | Err(Error::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(tree)
    }

    /// Takes the lock of the tree's shape.
    pub(super) fn structure(&self) -> MutexGuard<'_, Structure> {
        // A panic under this lock (in a caller's `decide`) leaves nothing half done that an intent doesn't name.
        self.structure.lock()
    }

    /// As [`Tree::structure`] if it can be had at once.
    pub(super) fn try_structure(&self) -> Option<MutexGuard<'_, Structure>> {
        self.structure.try_lock()
    }

    /// As [`Tree::structure`] if it can be had at once, and nothing is left to be completed.
    pub(super) fn try_settled_structure(&self, guard: &Guard) -> Option<MutexGuard<'_, Structure>> {
        let mut structure = self.try_structure()?;
        self.settle(&mut structure, guard).ok()?;
        Some(structure)
    }

    /// Completes what an intent names. [`Error::Full`] means that nothing may be replaced until there is room; what needs
    /// no replacement can go on.
    pub(super) fn settle(&self, structure: &mut Structure, guard: &Guard) -> Result<()> {
        if !std::mem::take(&mut structure.unfinished) {
            return Ok(());
        }
        self.recover(structure, guard).inspect_err(|_| structure.unfinished = true)
    }

    /// The pool that the tree is in.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    /// The order of its keys.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// Bytes of a node.
    pub fn node_bytes(&self) -> u32 {
        self.node_bytes
    }

    /// Slots of a node.
    pub(super) fn slots(&self) -> usize {
        slots_of(self.node_bytes)
    }

    /// Levels of the tree: 1 for a single leaf.
    pub fn height(&self) -> Result<u32> {
        let _guard = epoch::pin();
        Ok(u32::from(self.root()?.level()) + 1)
    }

    /// Bytes of all blocks in use: nodes, long fences and the intent slots. Walks the block bitmaps.
    pub fn node_bytes_used(&self) -> Result<u64> {
        self.blocks.used().into_iter().map(|block| Ok(u64::from(self.blocks.block_size(block)?))).sum()
    }

    /// Plain memory of the tree in bytes: its shortcuts.
    pub fn memory_bytes(&self) -> u64 {
        self.shortcuts.memory_bytes() as u64
    }

    /// Looks a key up. Takes no lock and waits for nobody.
    pub fn get<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Result<Option<KeyRecord<'g>>> {
        let (leaf, head) = self.descend(Target::At(key), 0)?;
        self.find_in(&leaf, head, key, guard, false)
    }

    /// The record of a key in the leaf that covers it, given the key's head there. `at_hand`: records were asked for.
    #[inline(always)]
    pub(super) fn find_in<'g>(
        &'g self,
        leaf: &Node<'_>,
        head: u64,
        key: &[u8],
        guard: &'g Guard,
        at_hand: bool,
    ) -> Result<Option<KeyRecord<'g>>> {
        let mut found = None;
        leaf.search(head, |pointer| {
            let record = if at_hand { self.record_at_hand(pointer, guard) } else { self.record(pointer, guard) }?;
            let order = self.order.compare(record.key(), key);
            if order == Ordering::Equal {
                found = Some(record);
            }
            Ok(order)
        })?;
        Ok(found)
    }

    /// Asks the processor to fetch key records that will be looked at in a moment, with [`Tree::record_at_hand`]. Offsets
    /// that are none do no harm.
    pub fn prefetch_records(&self, offsets: &[u64]) {
        if !offsets.is_empty() {
            self.pool.note_read();
        }
        for &offset in offsets {
            if let Ok(record) = self.pool.pointer(offset, SMALLEST_RECORD_BYTES) {
                prefetch_range(record, SMALLEST_RECORD_BYTES as usize);
            }
        }
    }

    /// The key record at an offset that came from this tree ([`LeafRead`](super::LeafRead) has such) while this guard was
    /// held. [`Error::Corruption`] if none is there, or one of a delete.
    #[inline]
    pub fn record<'g>(&'g self, offset: u64, guard: &'g Guard) -> Result<KeyRecord<'g>> {
        self.pool.note_read();
        self.record_at_hand(offset, guard)
    }

    /// As [`Tree::record`] for one that was asked for before, or looked at: nobody waits for it, and no read is noted.
    #[inline]
    pub fn record_at_hand<'g>(&'g self, offset: u64, guard: &'g Guard) -> Result<KeyRecord<'g>> {
        let record = KeyRecord::at(&*self.pool, offset, guard)?;
        if record.kind() != EntryKind::Put {
            return Err(self.damaged(offset, "the tree points to the key record of a delete"));
        }
        Ok(record)
    }

    /// A node of a level.
    #[inline]
    pub(super) fn node(&self, offset: u64, level: u8) -> Result<Node<'_>> {
        self.pool.note_read();
        Node::at_level(&self.pool, offset, self.node_bytes, level)
    }

    /// Where the root word is.
    pub(super) fn root_word(&self) -> u64 {
        self.pool.root_offset() + ROOT_OFFSET
    }

    #[inline]
    pub(super) fn root(&self) -> Result<Node<'_>> {
        self.pool.note_read();
        let root = Node::at(&self.pool, self.pool.load(self.root_word())?, self.node_bytes)?;
        if root.level() > LEVEL_MAX {
            return Err(self.damaged(root.offset, "the root of the tree is of an impossible level"));
        }
        Ok(root)
    }

    /// The node of a level that covers the target, and the target's head in it. It was not replaced yet when it was
    /// looked at; a writer has to look again under its lock. REQUIRES: the caller is pinned, and the tree has that level
    /// and keeps it: the level is 0, or the lock of the structure is held.
    #[inline(always)]
    pub(super) fn descend(&self, target: Target, level: u8) -> Result<(Node<'_>, u64)> {
        match self.descend_if_so_high(target, level)? {
            Some(found) => Ok(found),
            None => Err(self.damaged(self.root_word(), LEADS_NOWHERE)),
        }
    }

    /// The same in a tree that others may lower meanwhile. `None`: it does not have that level. REQUIRES: the caller is
    /// pinned.
    #[inline(always)]
    pub(super) fn descend_if_so_high(&self, target: Target, level: u8) -> Result<Option<(Node<'_>, u64)>> {
        if let Some(node) = self.shortcut(&target, level)?
            && let Some(found) = self.descend_from(node, &target, level)?
        {
            return Ok(Some(found));
        }
        self.descend_from_root(&target, level)
    }

    /// The same by the whole way.
    fn descend_from_root(&self, target: &Target, level: u8) -> Result<Option<(Node<'_>, u64)>> {
        let mut steps = STEPS_MAX;
        for _ in 0..RESTARTS_MAX {
            let root = self.root()?;
            if root.level() < level {
                return Ok(None);
            }
            if let Some(found) = self.descend_within(&mut steps, root, target, level)? {
                return Ok(Some(found));
            }
        }
        Err(self.damaged(self.root_word(), LEADS_NOWHERE))
    }

    /// Descends from a node that is not to the right of the target. `None`: it has to be tried again from the root.
    #[inline(always)]
    pub(super) fn descend_from<'t>(
        &'t self,
        node: Node<'t>,
        target: &Target,
        level: u8,
    ) -> Result<Option<(Node<'t>, u64)>> {
        self.descend_within(&mut { STEPS_MAX }, node, target, level)
    }

    /// The same in so many steps at most.
    #[inline(always)]
    fn descend_within<'t>(
        &'t self,
        steps: &mut u32,
        mut node: Node<'t>,
        target: &Target,
        level: u8,
    ) -> Result<Option<(Node<'t>, u64)>> {
        let mut at_level = node.level();
        while *steps > 0 {
            *steps -= 1;
            let forward = node.forward();
            if forward != 0 {
                node = self.node(forward, at_level)?;
                continue;
            }
            match node.side(&self.pool, target, &self.order)? {
                Side::Inside(head) if at_level == level => return Ok(Some((node, head))),
                Side::Inside(head) => {
                    let Some(child) = self.child(&node, target, head)? else { return Ok(None) };
                    at_level -= 1;
                    node = self.node_ahead(child, at_level)?;
                }
                Side::Right => node = self.node(node.sibling(), at_level)?,
                Side::Left => return Ok(None),
            }
        }
        Ok(None)
    }

    /// A node that will be searched: its lines are asked for all at once, before the first is looked at.
    #[inline(always)]
    pub(super) fn node_ahead(&self, offset: u64, level: u8) -> Result<Node<'_>> {
        let node = Node::at(&self.pool, offset, self.node_bytes)?;
        node.prefetch();
        self.pool.note_read();
        if node.level() != level {
            return Err(self.damaged(offset, "a node is not of the level that its parent says"));
        }
        Ok(node)
    }

    /// The child of an inner node to go on with: the last one whose separator is not behind the target.
    #[inline(always)]
    pub(super) fn child(&self, node: &Node<'_>, target: &Target, head: u64) -> Result<Option<u64>> {
        let level = node.level() - 1;
        let found = node.search(head, |pointer| {
            let child = self.node(pointer, level)?;
            Ok(target.compare_low(child.fences(&self.pool)?.low(), &self.order))
        })?;
        Ok(found.map(|(pointer, _)| pointer))
    }

    /// Locks a node. Since it may be written then, it has to be a block of the right size, and not something else in such
    /// an extent.
    pub(super) fn lock<'t>(&'t self, node: Node<'t>) -> Result<Locked<'t, M>> {
        if self.blocks.block_size(node.offset)? != self.node_bytes {
            return Err(self.damaged(node.offset, "a node is in a block of another size"));
        }
        Ok(Locked::lock(node, self.pool.medium(), self.session))
    }

    /// Finds and locks the node of a level that covers a target. Whether it still does is looked at again under the lock:
    /// it may have been replaced while the lock was waited for.
    pub(super) fn lock_covering<'t>(&'t self, target: Target<'_>, level: u8) -> Result<(Locked<'t, M>, u64)> {
        self.lock_covering_from(None, target, level)
    }

    /// As [`Tree::lock_covering`], but goes down from a node, first.
    pub(super) fn lock_covering_from<'t>(
        &'t self,
        mut from: Option<Node<'t>>,
        target: Target<'_>,
        level: u8,
    ) -> Result<(Locked<'t, M>, u64)> {
        loop {
            let known = from.take().map(|from| self.descend_from(from, &target, level)).transpose()?.flatten();
            let (node, _) = known.map_or_else(|| self.descend(target, level), Ok)?;
            let locked = self.lock(node)?;
            if node.forward() == 0 {
                // Fences never change: it is the one that the descent has found inside them.
                return match node.side(&self.pool, &target, &self.order)? {
                    Side::Inside(head) => Ok((locked, head)),
                    Side::Left | Side::Right => Err(self.damaged(node.offset, OUT_OF_ORDER)),
                };
            }
        }
    }

    pub(super) fn full(&self, what: &str) -> Error {
        Error::Full { path: self.pool.path().to_path_buf(), what: what.into() }
    }

    #[cold]
    pub(super) fn damaged(&self, offset: u64, what: &str) -> Error {
        damaged(&self.pool, offset, what)
    }
}

impl<M: Medium> std::fmt::Debug for Tree<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Tree")
            .field("node_bytes", &self.node_bytes)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

/// How the root area says what order the keys are in.
fn order_word(order: &KeyOrder) -> u64 {
    if order.is_bytewise() { 0 } else { 1 << 32 | u64::from(slmdb_checksum::crc32c(order.name().as_bytes())) }
}

/// The checksum of the root area's constant words, for a magic that may not be written yet.
fn check<M: Medium>(pool: &Pool<M>, magic: u64) -> Result<u64> {
    let area = pool.root_offset();
    let mut crc = slmdb_checksum::crc32c(&magic.to_le_bytes());
    for place in [SETTINGS_OFFSET, INTENTS_OFFSET, ORDER_OFFSET] {
        crc = slmdb_checksum::crc32c_append(crc, &pool.load(area + place)?.to_le_bytes());
    }
    Ok(u64::from(crc))
}
