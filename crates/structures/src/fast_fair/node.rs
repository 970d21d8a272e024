//! A node of the tree: its layout, and how it is read without a lock. What it covers is in [`fences`](super::fences).
//!
//! ```text
//!  0  u64  lock      number of the opening << 32 | random << 1 | 1 if held; any other opening's word counts as free
//!  8  u64  counter   number of the last begun change << 1 | its direction (0 right, 1 left)
//! 16  u64  forward   0, or the node that replaces this one
//! 24  u64  sibling   the right neighbour at the same level, 0 if there is none
//! 32  u64  shape     level u8, flags u8, then u16 each: bytes of the prefix, of the rest of the low and of the high fence
//! 40  ...  fences    24 bytes: prefix, rest of low, rest of high; or the offset of a block that has them
//! 64  ...  slots     16 bytes each: head u64, pointer u64
//! ```
//!
//! All keys k of a node have low <= k < high. So they all begin with the common prefix of low and high, and a slot's
//! *head* is the 8 bytes that follow the prefix, big-endian, zeros behind a key that ends earlier: if heads differ, keys
//! differ in the same direction. If heads are equal, whole keys decide: in a leaf that of the key record which the slot
//! points to, in an inner node the low fence of the child. Shape and fences never change once the node is built.
//!
//! All this is so under the order by bytes. Under a comparator nothing follows from a part of a key: there is no prefix, all
//! heads are 0, and so whole keys decide always; a flag of the shape says so. Nor is the empty key the smallest then: that
//! there is no low fence, or no high one, are flags too (a node without a low fence is the first of its level).
//!
//! # Reading while somebody writes
//!
//! This is section 3 of the FAST and FAIR paper, made strict. A slot's pointer is 0 (free), [`HOLE`], or something, and
//! while it is something the slot's head belongs to it (INV-22): writers change a slot by storing `HOLE`, head and pointer in this
//! order ([`change`](super::change)). So a reader that finds the same pointer before and after it read the head has a pair.
//! Pairs move by one slot at a time and are in the new slot before they leave the old one; a reader that scans in the direction
//! of the shift meets each pair at least once, and twice only in a row. The counter says which direction that is. It is
//! increased before the first store of every change, so if it is the same after the scan as before, at most one change
//! went on meanwhile, in the direction that the scan allowed for. Nobody ever waits for a writer, wherever it stands still.

use std::cmp::Ordering;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use slmdb_env::Result;
use slmdb_order::KeyOrder;
use slmdb_pmem::{ExtentKind, Medium, Pool};
use slmdb_sync::mapped::AtomicU64;

pub(super) use crate::prefetch::prefetch_range;

use super::fences::{FENCE_BYTES_INLINE, Fences, Shape, Side, Target, head_of};
use super::key_record::damaged;

pub(super) const HEADER_BYTES: usize = 64;
pub(super) const SLOT_BYTES: usize = 16;
pub(super) const SLOTS_PER_LINE: usize = 4;
/// Slots that are skipped at once in a first look for the right one.
const STRIDE: usize = 8;
/// The pointer of a slot that is being changed. Not a valid offset.
pub(super) const HOLE: u64 = 1;
/// The highest level that a tree can have.
pub(super) const LEVEL_MAX: u8 = 31;

/// The first cache line of a node.
#[repr(C)]
pub(super) struct Header {
    pub lock: AtomicU64,
    pub counter: AtomicU64,
    pub forward: AtomicU64,
    pub sibling: AtomicU64,
    pub shape: AtomicU64,
    pub fences: [AtomicU64; 3],
}

/// One entry, or room for one.
#[repr(C)]
pub(super) struct Slot {
    pub head: AtomicU64,
    pub pointer: AtomicU64,
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES && size_of::<Slot>() == SLOT_BYTES);
const _: () = assert!(HEADER_BYTES.is_multiple_of(64) && SLOT_BYTES * SLOTS_PER_LINE == 64);

/// What a slot holds, in DRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub head: u64,
    pub pointer: u64,
}

impl Slot {
    /// The slot's pointer and, if that is something, its head.
    #[inline]
    pub fn read(&self) -> Entry {
        pause();
        let mut pointer = self.pointer.load(Acquire);
        loop {
            if pointer <= HOLE {
                return Entry { head: 0, pointer };
            }
            pause();
            let head = self.head.load(Acquire);
            let again = self.pointer.load(Acquire);
            if again == pointer {
                return Entry { head, pointer };
            }
            pointer = again;
        }
    }
}

/// A head of which only the first so many bytes count.
#[inline]
fn cut(head: u64, bytes: usize) -> u64 {
    if bytes >= 8 { head } else { head & !(u64::MAX >> (8 * bytes)) }
}

/// What [`Node::bisect`] has found.
enum Bisected {
    /// The pointer of an entry that is equal to the target.
    Equal(u64),
    /// None.
    Between {
        /// One behind a slot whose entry is before the target, and that entry; or the first slot.
        before: (usize, Option<(u64, bool)>),
        /// A slot that is free or whose entry is behind the target; or one behind the last.
        behind: usize,
    },
}

/// A node in the pool. Copying it copies the reference.
#[derive(Clone, Copy)]
pub(super) struct Node<'p> {
    pub offset: u64,
    pub header: &'p Header,
    pub slots: &'p [Slot],
}

impl<'p> Node<'p> {
    /// The node at an offset, which may come from anywhere. Checks that a node's worth of block memory is there, so
    /// that all its words can be read.
    #[inline]
    pub fn at<M: Medium>(pool: &'p Pool<M>, offset: u64, node_bytes: u32) -> Result<Node<'p>> {
        // Aligned to its size, it does not reach beyond its unit of the pool, whose kind is then that of all its bytes.
        if offset & (u64::from(node_bytes) - 1) != 0 || pool.kind_at(offset) != Some(ExtentKind::Blocks) {
            return Err(damaged(pool, offset, "the tree refers to a node where none can be"));
        }
        let pointer = pool.pointer(offset, u64::from(node_bytes))?;
        let slots = (node_bytes as usize - HEADER_BYTES) / SLOT_BYTES;
        // SAFETY: `node_bytes` mapped bytes, aligned because mapping and offset are, which stay mapped while the pool
        // lives. They are read as atomics only; a published node is written by atomic stores only, and a block becomes
        // another node only when no reader can be left here.
        unsafe {
            let header = &*pointer.cast::<Header>();
            let slots = std::slice::from_raw_parts(pointer.add(HEADER_BYTES).cast::<Slot>(), slots);
            Ok(Node { offset, header, slots })
        }
    }

    /// As [`Node::at`], and it must be of this level.
    #[inline]
    pub fn at_level<M: Medium>(pool: &'p Pool<M>, offset: u64, node_bytes: u32, level: u8) -> Result<Node<'p>> {
        let node = Node::at(pool, offset, node_bytes)?;
        if node.level() != level {
            return Err(damaged(pool, offset, "a node is not of the level that the tree says"));
        }
        Ok(node)
    }

    #[inline]
    pub fn shape(&self) -> Shape {
        Shape::from_word(self.header.shape.load(Relaxed))
    }

    #[inline]
    pub fn level(&self) -> u8 {
        self.shape().level
    }

    #[inline]
    pub fn forward(&self) -> u64 {
        self.header.forward.load(Acquire)
    }

    #[inline]
    pub fn sibling(&self) -> u64 {
        self.header.sibling.load(Acquire)
    }

    /// The block that holds the fences, if they are not in the node.
    pub fn fence_block(&self) -> Option<u64> {
        self.shape().fences_outside().then(|| self.header.fences[0].load(Relaxed))
    }

    /// Where a target is.
    #[inline(always)]
    pub fn side<M: Medium>(&self, pool: &'p Pool<M>, target: &Target, order: &KeyOrder) -> Result<Side> {
        if let Target::At(key) = target
            && let Some(head) = self.clearly_inside(key)
        {
            return Ok(Side::Inside(head));
        }
        Ok(self.fences(pool)?.side(target, order))
    }

    /// The head of a key, if short fences and the heads of key and fences show that it is within: the common case, without
    /// a copy or a loop.
    #[inline(always)]
    pub fn clearly_inside(&self, key: &[u8]) -> Option<u64> {
        let shape = self.shape();
        let (prefix, low_bytes) = (usize::from(shape.prefix), usize::from(shape.low));
        if !shape.has_heads_and_short_fences() || key.len() < prefix {
            return None;
        }
        let [first, second, third] = &self.header.fences;
        let bytes = |word: &AtomicU64| u64::from_be_bytes(word.load(Relaxed).to_ne_bytes());
        let words = [bytes(first), bytes(second), bytes(third), 0];
        let eight_bytes = |from: usize, count: usize| {
            let (word, bits) = (from / 8, from % 8 * 8);
            let next = if bits == 0 { 0 } else { words[word + 1] >> (64 - bits) };
            cut(words[word] << bits | next, count)
        };
        let has_prefix = |from: usize| cut(head_of(&key[from..]) ^ words[from / 8], prefix - from) == 0;
        if !has_prefix(0) || (prefix > 8 && !has_prefix(8)) || (prefix > 16 && !has_prefix(16)) {
            return None;
        }
        let head = head_of(&key[prefix..]);
        let (low, high) = (eight_bytes(prefix, low_bytes), eight_bytes(prefix + low_bytes, usize::from(shape.high)));
        (head > low && (shape.high_is_infinite() || head < high)).then_some(head)
    }

    /// The node's fences.
    #[inline]
    pub fn fences<M: Medium>(&self, pool: &'p Pool<M>) -> Result<Fences<'p>> {
        let shape = self.shape();
        if shape.fences_outside() {
            return self.fences_outside(pool, shape);
        }
        if shape.fence_bytes() > FENCE_BYTES_INLINE {
            return Err(damaged(pool, self.offset, "the fences of a node are too long for it"));
        }
        let mut inline = [0; FENCE_BYTES_INLINE];
        for (word, bytes) in self.header.fences.iter().zip(inline.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        Ok(Fences { shape, inline, outside: &[] })
    }

    #[cold]
    fn fences_outside<M: Medium>(&self, pool: &'p Pool<M>, shape: Shape) -> Result<Fences<'p>> {
        let block = self.header.fences[0].load(Relaxed);
        let length = shape.fence_bytes() as u64;
        let fits = pool.extent_at(block).is_some_and(|extent| {
            extent.kind == ExtentKind::Blocks && block.is_multiple_of(8) && length <= extent.end() - block
        });
        if !fits {
            return Err(damaged(pool, self.offset, "the fences of a node are not where it says"));
        }
        // SAFETY: a block that belongs to this node, was written before the node was published, is not changed after, and
        // is freed with it.
        let outside = unsafe { pool.bytes(block, length)? };
        Ok(Fences { shape, inline: [0; FENCE_BYTES_INLINE], outside })
    }

    /// Searches without a lock for the last entry that is not behind the target, given the target's head in this node.
    /// `order` compares an entry with an equal head, given its pointer, with the target. The result has the entry's
    /// pointer and whether it is equal to the target; `None`: all entries are behind the target, or there are none.
    #[inline(always)]
    pub fn search(&self, head: u64, mut order: impl FnMut(u64) -> Result<Ordering>) -> Result<Option<(u64, bool)>> {
        loop {
            let counter = self.header.counter.load(Acquire);
            let found = if counter & 1 == 0 {
                self.search_rightwards(head, &mut order)?
            } else {
                self.search_leftwards(head, &mut order)?
            };
            // An equal entry was here at some moment of the scan, whatever else went on.
            if matches!(found, Some((_, true))) || self.header.counter.load(Acquire) == counter {
                return Ok(found);
            }
        }
    }

    #[inline(always)]
    fn search_rightwards(
        &self,
        head: u64,
        order: &mut impl FnMut(u64) -> Result<Ordering>,
    ) -> Result<Option<(u64, bool)>> {
        // A good guess where to begin. It need not be right: entries move to the right only, so any one that is before
        // the target now has only entries before the target to its left, from now on.
        let guess = self.count(|entry| entry < head);
        let (mut start, mut found) = (0, None);
        if let Some(before) = guess.checked_sub(1) {
            let entry = self.slots[before].read();
            if entry.pointer > HOLE && entry.head < head {
                (start, found) = (guess, Some((entry.pointer, false)));
            }
        }
        if self.has_head(guess, head) && self.has_head(guess + 1, head) {
            match self.bisect((start, found), self.slots.len(), head, order)? {
                Bisected::Equal(pointer) => return Ok(Some((pointer, true))),
                Bisected::Between { before, behind: _ } => (start, found) = before,
            }
        }
        for slot in &self.slots[start..] {
            let entry = slot.read();
            if entry.pointer == 0 {
                break;
            }
            if entry.pointer == HOLE {
                continue;
            }
            match entry.head.cmp(&head) {
                Ordering::Less => found = Some((entry.pointer, false)),
                Ordering::Greater => break,
                Ordering::Equal => match order(entry.pointer)? {
                    Ordering::Less => found = Some((entry.pointer, false)),
                    Ordering::Equal => return Ok(Some((entry.pointer, true))),
                    Ordering::Greater => break,
                },
            }
        }
        Ok(found)
    }

    #[inline]
    fn search_leftwards(
        &self,
        head: u64,
        order: &mut impl FnMut(u64) -> Result<Ordering>,
    ) -> Result<Option<(u64, bool)>> {
        // The mirror image: from any slot that is free or behind the target on, only such slots follow.
        let guess = self.count(|entry| entry <= head);
        let mut end = self.slots.len();
        if let Some(slot) = self.slots.get(guess) {
            let entry = slot.read();
            if entry.pointer == 0 || (entry.pointer > HOLE && entry.head > head) {
                end = guess;
            }
        }
        if guess > 1 && self.has_head(guess - 1, head) && self.has_head(guess - 2, head) {
            match self.bisect((0, None), end, head, order)? {
                Bisected::Equal(pointer) => return Ok(Some((pointer, true))),
                Bisected::Between { before: _, behind } => end = behind,
            }
        }
        for slot in self.slots[..end].iter().rev() {
            let entry = slot.read();
            if entry.pointer <= HOLE {
                continue;
            }
            match entry.head.cmp(&head) {
                Ordering::Less => return Ok(Some((entry.pointer, false))),
                Ordering::Greater => {}
                Ordering::Equal => match order(entry.pointer)? {
                    Ordering::Less => return Ok(Some((entry.pointer, false))),
                    Ordering::Equal => return Ok(Some((entry.pointer, true))),
                    Ordering::Greater => {}
                },
            }
        }
        Ok(None)
    }

    /// Whether a slot has this head; if that is being changed, perhaps.
    #[inline(always)]
    fn has_head(&self, slot: usize, head: u64) -> bool {
        self.slots.get(slot).is_some_and(|slot| slot.head.load(Relaxed) == head && slot.pointer.load(Relaxed) > HOLE)
    }

    /// A better guess, where several entries have the same head, by halves: comparing whole keys costs more than looking at
    /// heads. (Under a comparator all heads are the same.) `before` and `behind` are where to begin, and as sure as what
    /// comes out.
    fn bisect(
        &self,
        mut before: (usize, Option<(u64, bool)>),
        mut behind: usize,
        head: u64,
        order: &mut impl FnMut(u64) -> Result<Ordering>,
    ) -> Result<Bisected> {
        let mut end = behind;
        while before.0 < end {
            let middle = before.0 + (end - before.0) / 2;
            let entry = self.slots[middle].read();
            if entry.pointer <= HOLE {
                // A hole says nothing, but what is to its left may do as well.
                behind = if entry.pointer == 0 { middle } else { behind };
                end = middle;
                continue;
            }
            let stands = match entry.head.cmp(&head) {
                Ordering::Equal => order(entry.pointer)?,
                different => different,
            };
            match stands {
                Ordering::Less => before = (middle + 1, Some((entry.pointer, false))),
                Ordering::Equal => return Ok(Bisected::Equal(entry.pointer)),
                Ordering::Greater => (behind, end) = (middle, middle),
            }
        }
        Ok(Bisected::Between { before, behind })
    }

    /// How many slots are in use and have a head of which `is` holds (which are the first ones), more or less: nothing is
    /// ordered or re-read. First every eighth slot is looked at and then eight in a row, without branches, so that the
    /// loads go out together.
    #[inline(always)]
    fn count(&self, is: impl Fn(u64) -> bool) -> usize {
        let counts = |slot: &Slot| {
            pause();
            let used = slot.pointer.load(Relaxed) > HOLE;
            usize::from(used & is(slot.head.load(Relaxed)))
        };
        let start = STRIDE * self.slots.chunks_exact(STRIDE).map(|slots| counts(&slots[STRIDE - 1])).sum::<usize>();
        let rest = &self.slots[start..];
        start + rest[..rest.len().min(STRIDE)].iter().map(counts).sum::<usize>()
    }

    /// Copies all entries in order, each once, as they are at one moment. Takes no lock.
    pub fn entries(&self, into: &mut Vec<Entry>) {
        loop {
            let counter = self.header.counter.load(Acquire);
            into.clear();
            let mut take = |entry: Entry| {
                // Next to each other the same pointer means a copy that a shift has made.
                if entry.pointer > HOLE && into.last().is_none_or(|last| last.pointer != entry.pointer) {
                    into.push(entry);
                }
            };
            if counter & 1 == 0 {
                self.slots.iter().map(Slot::read).take_while(|entry| entry.pointer != 0).for_each(&mut take);
            } else {
                self.slots.iter().rev().map(Slot::read).for_each(&mut take);
                into.reverse();
            }
            if self.header.counter.load(Acquire) == counter {
                return;
            }
        }
    }

    /// Asks the processor to fetch the node.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_range(std::ptr::from_ref(self.header).cast(), HEADER_BYTES + self.slots.len() * SLOT_BYTES);
    }
}

/// Where the tests hold a reader up.
#[inline(always)]
fn pause() {
    #[cfg(test)]
    super::tests::pause::before_slot_read();
}
