//! A skiplist that several threads insert into at once, while others read, without a lock.
//!
//! The paper's MemTable is a skiplist whose lowest level is linked in persistent memory (section 3.1, Algorithm 1) and
//! whose higher levels "can be reconstructed easily". Here the whole list can be: every record in the arena carries its
//! CRCs and sequence numbers, so all links live in DRAM, and unless told otherwise a write needs one fence instead of two.
//! Keys and values stay in the arena; a node points there.
//!
//! - **Order**: key ascending, then sequence number descending, so that a search for (key, s) ends at the newest version
//!   not above s.
//! - **Insert only.** A node is never unlinked, moved or changed, so a pointer to one is good as long as the list, a
//!   compare-and-swap can meet no A-B-A, and a reader needs no epoch. A node is linked from the lowest level up, each
//!   level with one compare-and-swap; the loser of the race walks on from where it stood.
//! - **Heads.** A node keeps 8 key bytes as a big-endian number beside its tower: the first 8, or, when the list was told
//!   a prefix that most keys will share (`user…`, zero-padded numbers), the 8 behind it. Unequal heads decide a comparison
//!   without a look into the arena. A wrong guess at the prefix costs time and nothing else.
//! - **Height** is drawn (1 in 4 goes one higher) from the entry's sequence number, mixed with a seed: no shared state,
//!   and the same entries give the same towers, in whatever order the threads come.
//! - **Hints.** A [`Splice`] remembers where the last entry of a batch went, so that a sorted batch does not search from
//!   the top again; and the list remembers the last node of each level, so that an ascending load does not search at all.
//! - **All at once.** After a crash the entries are sorted first, and [`SkipList::build`] links them in one pass, with no
//!   searching and the nodes side by side in memory.
//!
//! Under the paper's own policy the lowest level is persisted besides, as a chain of slots in the arena
//! ([`chain`](super::chain)); a node then knows the slot of its entry, and everything in this list is in the chain already.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::Ordering;

use slmdb_order::KeyOrder;
use slmdb_pmem::Reads;
use slmdb_sync::modelled::{AtomicPtr, AtomicUsize};

use super::key_heads::{Heads, Target};
pub(super) use super::node::NewEntry;
use super::node::{LINK_BYTES, NODE_BYTES, Node, Towers, key_of, link, new_node, slot_of};
use crate::EntryKind;
use crate::log::FRONT_SLOT;
use crate::prefetch::prefetch_range;

/// Levels that a list can have: with one node in four going higher, enough for 4^14 entries.
const MAXIMUM_HEIGHT: usize = 14;
/// One node in so many goes one level higher.
pub(super) const BRANCHING: usize = 4;

/// Where the last entry of a batch went: for each level the nodes it was put between. Only for the list it was used
/// with first.
pub(super) struct Splice {
    /// Levels that are filled in; 0 when nothing is known.
    levels: usize,
    before: [*mut Node; MAXIMUM_HEIGHT],
    after: [*mut Node; MAXIMUM_HEIGHT],
}

impl Splice {
    #[inline]
    pub fn new() -> Splice {
        Splice { levels: 0, before: [ptr::null_mut(); MAXIMUM_HEIGHT], after: [ptr::null_mut(); MAXIMUM_HEIGHT] }
    }
}

/// The list; see the module.
#[derive(Debug)]
pub(super) struct SkipList {
    towers: Towers,
    heads: Heads,
    /// A node of full height and without a key, before all others.
    front: *mut Node,
    /// Levels in use, 1 at least.
    height: AtomicUsize,
    /// For each level a node on it, nearly always the last one; null before there is one.
    tails: [AtomicPtr<Node>; MAXIMUM_HEIGHT],
    seed: u64,
    /// Whether nodes know the slots of their entries.
    with_slots: bool,
}

// SAFETY: nodes are immutable once linked but for their links, which are atomics; what they point to outside lives and
// stays unchanged as long as the list (contract of `insert`). `Towers` frees them when the list is dropped.
unsafe impl Send for SkipList {}
// SAFETY: as above.
unsafe impl Sync for SkipList {}

impl SkipList {
    /// An empty list in this order. The seed makes heights unpredictable to callers that choose keys; the prefix is what most
    /// keys are expected to begin with; `with_slots`: entries have slots in the arena, which the nodes are to know.
    pub fn new(seed: u64, order: &KeyOrder, expected_prefix: &[u8], with_slots: bool) -> SkipList {
        let towers = Towers::new();
        let entry = NewEntry {
            key: &[],
            stored_key: ptr::dangling(),
            value_length: 0,
            kind: EntryKind::Put,
            sequence: 0,
            slot: FRONT_SLOT,
        };
        let front = new_node(&towers, &entry, 0, MAXIMUM_HEIGHT, with_slots);
        for level in 0..MAXIMUM_HEIGHT {
            // SAFETY: the node has that many levels and is known to nobody else.
            unsafe { link(front, level) }.store(ptr::null_mut(), Ordering::Relaxed);
        }
        let heads = Heads::new(order, expected_prefix);
        let tails = std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        SkipList { towers, heads, front, height: AtomicUsize::new(1), tails, seed: mix(seed), with_slots }
    }

    /// The same list, which notes when it waits for a key in the arena.
    pub fn noting(mut self, reads: Reads) -> SkipList {
        self.heads.reads = reads;
        self
    }

    /// Its heads, and so its order.
    #[inline]
    pub fn heads(&self) -> &Heads {
        &self.heads
    }

    /// Links entries that come in the list's order, each with its head. REQUIRES: the list is empty.
    ///
    /// # Safety
    /// As for [`insert`](SkipList::insert), of each entry.
    pub unsafe fn build<'a>(&mut self, entries: impl Iterator<Item = (u64, NewEntry<'a>)>) {
        assert!(self.first().is_none(), "only an empty list can be built");
        let mut last = [self.front; MAXIMUM_HEIGHT];
        let mut list_height = 1;
        for (head, entry) in entries {
            let height = self.height_for(entry.sequence);
            let node = new_node(&self.towers, &entry, head, height, self.with_slots);
            for (level, before) in last[..height].iter_mut().enumerate() {
                // SAFETY: `before` is on this level. Relaxed: nobody else knows the list.
                unsafe { link(*before, level) }.store(node, Ordering::Relaxed);
                *before = node;
            }
            list_height = list_height.max(height);
        }
        self.height.store(list_height, Ordering::Relaxed);
        for (level, node) in last.into_iter().enumerate() {
            // SAFETY: the node is on this level.
            unsafe { link(node, level) }.store(ptr::null_mut(), Ordering::Relaxed);
            let tail = if node == self.front { ptr::null_mut() } else { node };
            self.tails[level].store(tail, Ordering::Relaxed);
        }
    }

    /// DRAM taken by nodes and towers, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.towers.memory_bytes() + size_of::<SkipList>() as u64
    }

    /// Inserts an entry; returns when every reader that starts now finds it.
    ///
    /// # Safety
    /// `entry.stored_key` points to the key's bytes with the value's right behind them, and these bytes are readable and
    /// unchanged as long as the list lives. `splice` is new or was used with this list only.
    pub unsafe fn insert(&self, splice: &mut Splice, entry: &NewEntry<'_>) {
        let target = self.heads.target(entry.key, entry.sequence);
        let height = self.height_for(entry.sequence);
        let node = new_node(&self.towers, entry, target.head, height, self.with_slots);
        let list_height = self.height.fetch_max(height, Ordering::Relaxed).max(height);
        if !self.splice_at_the_end(splice, &target, height) {
            self.splice_by_search(splice, &target, height, list_height);
        }
        for level in 0..height {
            let (mut before, mut after) = (splice.before[level], splice.after[level]);
            // SAFETY: `node` has `height` levels; `before` is on this level, so it has it too.
            let (own_link, mut link_before) = unsafe { (link(node, level), link(before, level)) };
            loop {
                // Relaxed: the compare-and-swap below publishes it, with the node and the entry's bytes.
                own_link.store(after, Ordering::Relaxed);
                match link_before.compare_exchange(after, node, Ordering::Release, Ordering::Acquire) {
                    Ok(_) => break,
                    Err(found) => {
                        // Somebody put a node in between (or the hint was old): walk on along this level.
                        after = found;
                        while self.heads.is_before(after, &target) {
                            before = after;
                            // SAFETY: as above.
                            link_before = unsafe { link(before, level) };
                            after = link_before.load(Ordering::Acquire);
                        }
                    }
                }
            }
            if after.is_null() {
                self.tails[level].store(node, Ordering::Release);
            }
            splice.before[level] = node;
            splice.after[level] = after;
        }
    }

    /// Fills in the splice's first `height` levels if the target belongs behind everything there is.
    fn splice_at_the_end(&self, splice: &mut Splice, target: &Target<'_>, height: usize) -> bool {
        let last = self.tails[0].load(Ordering::Acquire);
        // SAFETY: a tail of level 0 is on level 0.
        if !self.heads.is_before(last, target) || !unsafe { link(last, 0) }.load(Ordering::Relaxed).is_null() {
            return false;
        }
        // Levels above `height` are left as they are, so nothing may be concluded from one level for the next.
        splice.levels = 0;
        for level in 0..height {
            let tail = self.tails[level].load(Ordering::Acquire);
            splice.before[level] = match tail.is_null() {
                true => self.front,
                false if self.heads.is_before(tail, target) => tail,
                false => return false,
            };
            splice.after[level] = ptr::null_mut();
        }
        true
    }

    /// Finds for every level the nodes around the target. Starts at the lowest level on which the splice still has the
    /// target in between: at each level the distance grows fourfold, so this takes as many steps as the last entry is
    /// far away, and a level that has it in between implies that all higher ones do.
    fn splice_by_search(&self, splice: &mut Splice, target: &Target<'_>, height: usize, list_height: usize) {
        let mut level = list_height;
        let mut before = self.front;
        let mut after = ptr::null_mut();
        if height <= splice.levels {
            for known in 0..splice.levels {
                let node = splice.before[known];
                if (node == self.front || self.heads.is_before(node, target))
                    && !self.heads.is_before(splice.after[known], target)
                {
                    (level, before, after) = (known, node, splice.after[known]);
                    break;
                }
            }
        }
        if level == list_height {
            splice.levels = list_height;
        }
        while level > 0 {
            level -= 1;
            (before, after) = self.walk(level, before, after, target);
            splice.before[level] = before;
            splice.after[level] = after;
        }
    }

    /// Goes along a level from `before` to the last node before the target; returns it and its successor. `known_after`
    /// is a node known not to be before the target: meeting it again saves a comparison.
    #[inline]
    fn walk(
        &self,
        level: usize,
        mut before: *mut Node,
        known_after: *mut Node,
        target: &Target<'_>,
    ) -> (*mut Node, *mut Node) {
        loop {
            // SAFETY: `before` was found on this level or on a higher one (or is the front), so it has this level.
            let after = unsafe { link(before, level) }.load(Ordering::Acquire);
            if level > 0 {
                // If the search goes down here, this node is next: its line comes while the one of `after` is waited for.
                // SAFETY: what has a level has all below it.
                let below = unsafe { link(before, level - 1) }.load(Ordering::Relaxed);
                prefetch_range(below.cast_const().cast(), 1);
            }
            if after == known_after || !self.heads.is_before(after, target) {
                return (before, after);
            }
            before = after;
        }
    }

    /// The last node before the target (maybe the front) and its successor (maybe null).
    #[inline]
    fn search(&self, target: &Target<'_>) -> (*mut Node, *mut Node) {
        let mut level = self.height.load(Ordering::Relaxed);
        let (mut before, mut after) = (self.front, ptr::null_mut());
        while level > 0 {
            level -= 1;
            (before, after) = self.walk(level, before, after, target);
        }
        (before, after)
    }

    /// The first entry with this key and a sequence number not above `sequence`, or else the first one with a larger key.
    pub fn first_from(&self, key: &[u8], sequence: u64) -> Option<EntryRef<'_>> {
        self.entry_at(self.search(&self.heads.target(key, sequence)).1)
    }

    /// The slot of the last entry before that place, maybe the front's. Only for lists with slots.
    pub fn slot_before(&self, key: &[u8], sequence: u64) -> u64 {
        debug_assert!(self.with_slots);
        // SAFETY: a node of this list, which has slots.
        unsafe { slot_of(self.search(&self.heads.target(key, sequence)).0) }
    }

    /// The last entry before that place.
    pub fn last_before(&self, key: &[u8], sequence: u64) -> Option<EntryRef<'_>> {
        self.entry_at(self.search(&self.heads.target(key, sequence)).0)
    }

    /// The first entry of all.
    pub fn first(&self) -> Option<EntryRef<'_>> {
        // SAFETY: every node has level 0.
        self.entry_at(unsafe { link(self.front, 0) }.load(Ordering::Acquire))
    }

    /// Levels in use.
    pub fn height(&self) -> usize {
        self.height.load(Ordering::Relaxed)
    }

    /// The entries of a level, from a key's newest version on or from the first.
    pub fn level_from(&self, level: usize, key: Option<&[u8]>) -> impl Iterator<Item = EntryRef<'_>> {
        assert!(level < MAXIMUM_HEIGHT, "there is no such level");
        let mut before = self.front;
        if let Some(key) = key {
            let target = self.heads.target(key, u64::MAX);
            let mut after = ptr::null_mut();
            for level in (level..self.height()).rev() {
                (before, after) = self.walk(level, before, after, &target);
            }
        }
        // SAFETY: `before` was found on this level or on a higher one (or is the front), and what follows it on this level
        // is on it, too; so each has this level.
        let next = move |before: *mut Node| unsafe { link(before, level) }.load(Ordering::Acquire);
        std::iter::successors(Some(next(before)).filter(|node| !node.is_null()), move |&node| {
            Some(next(node)).filter(|node| !node.is_null())
        })
        .filter_map(|node| self.entry_at(node))
    }

    /// The last entry of all.
    pub fn last(&self) -> Option<EntryRef<'_>> {
        let mut node = self.front;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            loop {
                // SAFETY: `node` was found on this level or on a higher one (or is the front), so it has this level.
                let next = unsafe { link(node, level) }.load(Ordering::Acquire);
                if next.is_null() {
                    break;
                }
                node = next;
            }
        }
        self.entry_at(node)
    }

    #[inline]
    fn entry_at(&self, node: *const Node) -> Option<EntryRef<'_>> {
        (!node.is_null() && node != self.front).then_some(EntryRef { node, list: PhantomData })
    }

    fn height_for(&self, sequence: u64) -> usize {
        height(self.seed, sequence)
    }
}

/// The height of the entry with this sequence number, given the list's own seed.
fn height(seed: u64, sequence: u64) -> usize {
    let fourths = mix(seed ^ sequence).trailing_zeros() as usize / 2;
    (1 + fourths).min(MAXIMUM_HEIGHT)
}

/// An entry in the list, good as long as the list is borrowed.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryRef<'a> {
    node: *const Node,
    list: PhantomData<&'a SkipList>,
}

// SAFETY: stands for a shared borrow of a `SkipList`, which is Sync.
unsafe impl Send for EntryRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for EntryRef<'_> {}

impl<'a> EntryRef<'a> {
    #[inline]
    pub fn key(self) -> &'a [u8] {
        // SAFETY: the list is borrowed, so the node lives.
        unsafe { key_of(self.node) }
    }

    #[inline]
    pub fn value(self) -> &'a [u8] {
        // SAFETY: the list is borrowed, so the node lives; and by the contract of `insert` the value follows the key and
        // lives as long as the list.
        unsafe {
            let node = self.node;
            std::slice::from_raw_parts((*node).key.add(usize::from((*node).key_length)), (*node).value_length as usize)
        }
    }

    #[inline]
    pub fn sequence(self) -> u64 {
        // SAFETY: the list is borrowed, so the node lives.
        unsafe { (*self.node).sequence }
    }

    #[inline]
    pub fn kind(self) -> EntryKind {
        // SAFETY: the list is borrowed, so the node lives.
        unsafe { (*self.node).kind }
    }

    /// The entry that follows now.
    #[inline]
    pub fn next(self) -> Option<EntryRef<'a>> {
        // SAFETY: the list is borrowed, so the node lives; every node has level 0.
        let node = unsafe { link(self.node, 0) }.load(Ordering::Acquire);
        (!node.is_null()).then_some(EntryRef { node, list: PhantomData })
    }

    /// Whether `other` is a version of the same key. Both are in the same list.
    #[inline]
    pub fn is_of_same_key(self, other: EntryRef<'_>) -> bool {
        // SAFETY: the lists are borrowed, so the nodes live.
        let have_same_head = unsafe { (*self.node).head == (*other.node).head };
        have_same_head && self.key() == other.key()
    }

    /// Asks the processor for the entry, up to so many bytes of it, and for the node that follows.
    #[inline]
    pub fn prefetch(self, length_bytes_max: usize) {
        // SAFETY: the list is borrowed, so the node lives; every node has level 0.
        let (node, following) = unsafe { (&*self.node, link(self.node, 0).load(Ordering::Relaxed)) };
        prefetch_range(following.cast_const().cast(), NODE_BYTES + LINK_BYTES);
        let length_bytes = usize::from(node.key_length) + node.value_length as usize;
        prefetch_range(node.key, length_bytes.min(length_bytes_max));
    }

    /// The same entry without the borrow, for a cursor that keeps the list alive by other means.
    #[inline]
    pub fn detach(self) -> DetachedEntry {
        DetachedEntry(self.node)
    }
}

/// An entry that has forgotten which list it is in.
#[derive(Debug, Clone, Copy)]
pub(super) struct DetachedEntry(*const Node);

// SAFETY: nothing can be done with it but `attach`, whose caller vouches for the list.
unsafe impl Send for DetachedEntry {}
// SAFETY: as above.
unsafe impl Sync for DetachedEntry {}

impl DetachedEntry {
    /// # Safety
    /// The entry came from this list.
    #[inline]
    pub unsafe fn attach(self, _list: &SkipList) -> EntryRef<'_> {
        EntryRef { node: self.0, list: PhantomData }
    }
}

/// Spreads a number over all 64 bits: one step of the SplitMix64 generator.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(all(test, loom))]
mod models;
#[cfg(test)]
mod tests;
