//! A skiplist that several threads insert into at once, while others read, without a lock.
//!
//! The paper's MemTable is a skiplist whose lowest level is linked in persistent memory (section 3.1, Algorithm 1) and
//! whose higher levels "can be reconstructed easily". Here the whole list can be: every record in the arena carries its
//! CRCs and sequence numbers, so all links live in DRAM and a write needs one fence instead of two. Keys and values stay
//! in the arena; a node points there.
//!
//! - **Order**: key ascending, then sequence number descending, so that a search for (key, s) ends at the newest version
//!   not above s.
//! - **Insert only.** A node is never unlinked, moved or changed, so a pointer to one is good as long as the list, a
//!   compare-and-swap can meet no A-B-A, and a reader needs no epoch. A node is linked from the lowest level up, each
//!   level with one compare-and-swap; whoever loses the race walks on from where it stood.
//! - **Heads.** A node keeps 8 key bytes as a big-endian number beside its tower: the first 8, or, when the list was told
//!   a prefix that most keys will share (`user…`, zero-padded numbers), the 8 behind it. Unequal heads decide a comparison
//!   without a look into the arena. A wrong guess at the prefix costs time and nothing else.
//! - **Height** is drawn (1 in 4 goes one higher) from the entry's sequence number, mixed with a seed: no shared state,
//!   and the same entries give the same towers, in whatever order the threads come.
//! - **Hints.** A [`Splice`] remembers where the last entry of a batch went, so that a sorted batch does not search from
//!   the top again; and the list remembers the last node of each level, so that an ascending load does not search at all.
//!
//! In this file a `*mut Node` or `*const Node` is null or a node of the list at hand (its front included), and so lives
//! as long as the list: that is what the SAFETY lines rest on.
//!
//! Room for the paper's own policy (persisted lowest-level links): it would keep a link word in the arena beside each
//! entry, written and flushed between "the node is complete" and the compare-and-swap at level 0 in
//! [`SkipList::insert`]; the levels above stay as they are.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::towers::Towers;
use crate::EntryKind;

/// Levels that a list can have: with one node in four going higher, enough for 4^14 entries.
const MAXIMUM_HEIGHT: usize = 14;

/// One entry of the list. Its tower, `height` links, follows directly.
///
/// The head comes last: a search reads it and a link, and then both are mostly in one cache line.
#[repr(C)]
struct Node {
    sequence: u64,
    /// Where the key is; the value follows it.
    key: *const u8,
    value_length: u32,
    key_length: u16,
    kind: EntryKind,
    height: u8,
    head: u64,
}

const NODE_BYTES: usize = size_of::<Node>();
const LINK_BYTES: usize = size_of::<AtomicPtr<Node>>();
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
}

/// A place in the order: before all versions of `key` that are not above `sequence`.
struct Target<'a> {
    head: u64,
    key: &'a [u8],
    sequence: u64,
}

/// The first 8 bytes, zero-padded, as a number: `head_of(a) < head_of(b)` implies `a < b`.
fn head_of(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(head)
        }
    }
}

/// Which 8 bytes of a key are its head.
#[derive(Debug)]
struct Heads {
    /// What most keys begin with; may be empty.
    prefix: Box<[u8]>,
}

impl Heads {
    /// Heads never contradict the order of keys: what sorts before the keys with the prefix gets the smallest head, what
    /// sorts behind them the largest.
    #[inline]
    fn head_of(&self, key: &[u8]) -> u64 {
        // Comparing nothing at the address of nothing takes 50 ns on some processors: a masked load that faults, unseen.
        if self.prefix.is_empty() {
            return head_of(key);
        }
        match key.strip_prefix(&*self.prefix) {
            Some(rest) => head_of(rest),
            None if *key < *self.prefix => 0,
            None => u64::MAX,
        }
    }

    #[inline]
    fn target<'a>(&self, key: &'a [u8], sequence: u64) -> Target<'a> {
        Target { head: self.head_of(key), key, sequence }
    }

    /// Whether `node`, one of the list's but not its front, comes before the target. Null stands for the end: it does
    /// not.
    #[inline]
    fn is_before(&self, node: *const Node, target: &Target<'_>) -> bool {
        if node.is_null() {
            return false;
        }
        // SAFETY: nodes live as long as their list.
        let head = unsafe { (*node).head };
        head < target.head || (head == target.head && self.is_before_by_the_rest(node, target))
    }

    /// [`Heads::is_before`] for equal heads.
    #[inline(never)]
    fn is_before_by_the_rest(&self, node: *const Node, target: &Target<'_>) -> bool {
        // SAFETY: nodes live as long as their list.
        let (length_bytes, sequence) = unsafe { (usize::from((*node).key_length), (*node).sequence) };
        let compared = self.prefix.len() + 8;
        let order = if target.head == 0 || target.head == u64::MAX {
            // One of the two may be without the prefix.
            // SAFETY: as above.
            unsafe { key_of(node) }.cmp(target.key)
        } else if length_bytes <= compared || target.key.len() <= compared {
            // The shorter key, padded with zeros, equals the longer one as far as that goes: it is a prefix of it.
            length_bytes.cmp(&target.key.len())
        } else {
            // SAFETY: as above.
            let key = unsafe { key_of(node) };
            key[compared..].cmp(&target.key[compared..])
        };
        order.then(target.sequence.cmp(&sequence)).is_lt()
    }
}

/// Where the last entry of a batch went: for each level the nodes it was put between. Only for the list it was used
/// with first.
pub(super) struct Splice {
    /// Levels that are filled in; 0 when nothing is known.
    levels: usize,
    before: [*mut Node; MAXIMUM_HEIGHT],
    after: [*mut Node; MAXIMUM_HEIGHT],
}

impl Splice {
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
}

// SAFETY: nodes are immutable once linked but for their links, which are atomics; what they point to outside lives and
// stays unchanged as long as the list (contract of `insert`). `Towers` frees them when the list is dropped.
unsafe impl Send for SkipList {}
// SAFETY: as above.
unsafe impl Sync for SkipList {}

impl SkipList {
    /// An empty list. The seed makes heights unpredictable to whoever chooses the keys; the prefix is what most keys are
    /// expected to begin with.
    pub fn new(seed: u64, expected_prefix: &[u8]) -> SkipList {
        let towers = Towers::new();
        let front = new_node(
            &towers,
            &NewEntry { key: &[], stored_key: ptr::dangling(), value_length: 0, kind: EntryKind::Put, sequence: 0 },
            0,
            MAXIMUM_HEIGHT,
        );
        for level in 0..MAXIMUM_HEIGHT {
            // SAFETY: the node has that many levels and is known to nobody else.
            unsafe { link(front, level) }.store(ptr::null_mut(), Ordering::Relaxed);
        }
        let heads = Heads { prefix: expected_prefix.into() };
        let tails = std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        SkipList { towers, heads, front, height: AtomicUsize::new(1), tails, seed: mix(seed) }
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
        let node = new_node(&self.towers, entry, target.head, height);
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

    /// The last entry before that place.
    pub fn last_before(&self, key: &[u8], sequence: u64) -> Option<EntryRef<'_>> {
        self.entry_at(self.search(&self.heads.target(key, sequence)).0)
    }

    /// The first entry of all.
    pub fn first(&self) -> Option<EntryRef<'_>> {
        // SAFETY: every node has level 0.
        self.entry_at(unsafe { link(self.front, 0) }.load(Ordering::Acquire))
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

    fn entry_at(&self, node: *const Node) -> Option<EntryRef<'_>> {
        (!node.is_null() && node != self.front).then_some(EntryRef { node, list: PhantomData })
    }

    fn height_for(&self, sequence: u64) -> usize {
        let fourths = mix(self.seed ^ sequence).trailing_zeros() as usize / 2;
        (1 + fourths).min(MAXIMUM_HEIGHT)
    }
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
    pub fn key(self) -> &'a [u8] {
        // SAFETY: the list is borrowed, so the node lives.
        unsafe { key_of(self.node) }
    }

    pub fn value(self) -> &'a [u8] {
        // SAFETY: the list is borrowed, so the node lives; and by the contract of `insert` the value follows the key and
        // lives as long as the list.
        unsafe {
            let node = self.node;
            std::slice::from_raw_parts((*node).key.add(usize::from((*node).key_length)), (*node).value_length as usize)
        }
    }

    pub fn sequence(self) -> u64 {
        // SAFETY: the list is borrowed, so the node lives.
        unsafe { (*self.node).sequence }
    }

    pub fn kind(self) -> EntryKind {
        // SAFETY: the list is borrowed, so the node lives.
        unsafe { (*self.node).kind }
    }

    /// The entry that follows now.
    pub fn next(self) -> Option<EntryRef<'a>> {
        // SAFETY: the list is borrowed, so the node lives; every node has level 0.
        let node = unsafe { link(self.node, 0) }.load(Ordering::Acquire);
        (!node.is_null()).then_some(EntryRef { node, list: PhantomData })
    }

    /// The same entry without the borrow, for a cursor that keeps the list alive by other means.
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
    pub unsafe fn attach(self, _list: &SkipList) -> EntryRef<'_> {
        EntryRef { node: self.0, list: PhantomData }
    }
}

/// A node with an uninitialised tower, linked nowhere.
fn new_node(towers: &Towers, entry: &NewEntry<'_>, head: u64, height: usize) -> *mut Node {
    let node = towers.allocate(NODE_BYTES + height * LINK_BYTES).cast::<Node>();
    let content = Node {
        sequence: entry.sequence,
        key: entry.stored_key,
        value_length: entry.value_length,
        key_length: entry.key.len() as u16,
        kind: entry.kind,
        height: height as u8,
        head,
    };
    // SAFETY: the memory is ours, large enough and aligned to 8 bytes.
    unsafe { node.write(content) };
    node
}

/// The link of a node at a level. Reaches behind the node itself, so it takes a pointer to the whole allocation.
///
/// # Safety
/// `node` is a live node (for `'a`) with more than `level` levels. Its link there is initialised, or the caller is the
/// only one who knows of it and stores to it first.
#[inline]
unsafe fn link<'a>(node: *const Node, level: usize) -> &'a AtomicPtr<Node> {
    // SAFETY: by the contract the node lives and its tower has this level, inside the same allocation.
    unsafe {
        debug_assert!(level < usize::from((*node).height));
        &*node.cast::<u8>().add(NODE_BYTES + level * LINK_BYTES).cast::<AtomicPtr<Node>>()
    }
}

/// # Safety
/// `node` lives for `'a`, and so does its key.
unsafe fn key_of<'a>(node: *const Node) -> &'a [u8] {
    // SAFETY: by the contract, and that of `SkipList::insert`.
    unsafe { std::slice::from_raw_parts((*node).key, usize::from((*node).key_length)) }
}

/// Spreads a number over all 64 bits: one step of the SplitMix64 generator.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests;
