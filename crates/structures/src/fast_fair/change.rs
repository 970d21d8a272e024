//! Changing a node in place: its lock, and inserting, removing and swapping entries so that readers and crashes see
//! nothing half done.
//!
//! This is FAST, section 3 of the FAST and FAIR paper, without its gaps. The discipline is:
//!
//! * A slot whose pointer is neither 0 nor [`HOLE`] always has the head that belongs to it (INV-22). So it is changed by three
//!   stores, `HOLE`, head, pointer; they are in one cache line, which keeps their order on its way to the medium too.
//! * Inserting shifts to the right from the right end, removing shifts to the left from the gap. Every entry is in its new
//!   slot before the old one is overwritten: across lines that means flushed and fenced. After a crash in mid-shift a
//!   node therefore has all its entries in order, and besides at most one hole or one entry twice in a row.
//! * Such a leftover is taken out before anything else is done to the node (*repair*): else a later removal would take only
//!   one of the two, and the key would come back. A writer that locks a node knows from the lock word whether anybody has had it
//!   in this opening; the first one repairs. Nothing has to be searched when the tree is opened.
//! * A change of a pointer alone is one store, and so is freeing the last slot.
//! * Before the first store the counter is increased, see [`node`](super::node).
//!
//! Each change is durable when its method returns (where the name ends in `flushed`: after this thread's next fence), and what
//! was flushed before it (a key record, its note of the replaced file) is durable before it becomes visible (INV-8, INV-21).

use std::cmp::Ordering;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_sync::mapped::AtomicU64;
use slmdb_sync::modelled::{spin_loop, yield_now};

use super::node::{Entry, HOLE, Node, SLOTS_PER_LINE, Slot};

/// The direction bit of the counter.
#[derive(Clone, Copy)]
enum Direction {
    Right = 0,
    Left = 1,
}

/// What locks and unlocks the nodes of one opening of a tree.
///
/// A lock word is `session` if free and `session | 1` if held. The session has the number of the opening in its upper
/// half, so that no word from the past, durable in whatever state, is ever taken for one of now. The 31 bits below are
/// random, so that hostile bytes can't make anybody wait for a lock that nobody holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Session(u64);

impl Session {
    pub fn new(open_count: u32, random: u64) -> Session {
        Session(u64::from(open_count) << 32 | random & 0xffff_fffe)
    }

    /// The word of a lock that is held.
    pub fn held(self) -> u64 {
        self.0 | 1
    }
}

/// Where a key is in a locked node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Slots in use.
    pub used: usize,
    /// The slot of the entry, or else where it would go.
    pub at: Result<usize, usize>,
}

/// A node whose lock this thread holds, repaired. Dropping it unlocks.
pub(super) struct Locked<'t, M: Medium> {
    pub node: Node<'t>,
    medium: &'t M,
    session: Session,
}

impl<M: Medium> Drop for Locked<'_, M> {
    fn drop(&mut self) {
        self.medium.store(&self.node.header.lock, self.session.0);
    }
}

impl<'t, M: Medium> Locked<'t, M> {
    /// Waits for the lock. The first one in this session repairs the node.
    pub fn lock(node: Node<'t>, medium: &'t M, session: Session) -> Locked<'t, M> {
        let lock = &node.header.lock;
        let mut waits = 0_u32;
        loop {
            let word = lock.load(Relaxed);
            if word == session.held() {
                waits += 1;
                if waits.is_multiple_of(64) {
                    yield_now()
                } else {
                    spin_loop()
                }
                continue;
            }
            if medium.compare_exchange(lock, word, session.held()).is_ok() {
                let locked = Locked { node, medium, session };
                if word != session.0 {
                    locked.repair();
                }
                return locked;
            }
        }
    }

    /// Takes over a node that was built with its lock held.
    pub fn adopt(node: Node<'t>, medium: &'t M, session: Session) -> Locked<'t, M> {
        debug_assert_eq!(node.header.lock.load(Relaxed), session.held());
        Locked { node, medium, session }
    }

    /// Slots in use.
    pub fn used(&self) -> usize {
        self.node.slots.iter().take_while(|slot| slot.pointer.load(Relaxed) != 0).count()
    }

    /// The entry in a slot.
    pub fn entry(&self, index: usize) -> Entry {
        let slot = &self.node.slots[index];
        Entry { head: slot.head.load(Relaxed), pointer: slot.pointer.load(Relaxed) }
    }

    /// All entries in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        (0..self.used()).map(|index| self.entry(index))
    }

    /// Finds an entry by its head and, among entries with an equal head, by `order`, as in [`Node::search`].
    pub fn find(&self, head: u64, mut order: impl FnMut(u64) -> Result<Ordering>) -> Result<Place> {
        let (mut used, mut before) = (0, 0);
        for slot in self.node.slots {
            if slot.pointer.load(Relaxed) == 0 {
                break;
            }
            used += 1;
            before += usize::from(slot.head.load(Relaxed) < head);
        }
        // By halves: under a comparator all heads are equal.
        let mut end =
            before + self.node.slots[before..used].iter().take_while(|slot| slot.head.load(Relaxed) == head).count();
        while before < end {
            let middle = before + (end - before) / 2;
            match order(self.entry(middle).pointer)? {
                Ordering::Less => before = middle + 1,
                Ordering::Equal => return Ok(Place { used, at: Ok(middle) }),
                Ordering::Greater => end = middle,
            }
        }
        Ok(Place { used, at: Err(before) })
    }

    /// Inserts an entry at a slot, of `used` slots. There must be room.
    pub fn insert(&self, used: usize, at: usize, entry: Entry) {
        self.insert_flushed(used, at, entry);
        self.medium.fence();
    }

    /// The same, durable after the next fence.
    pub fn insert_flushed(&self, used: usize, at: usize, entry: Entry) {
        debug_assert!(at <= used && used < self.node.slots.len());
        self.begin(Direction::Right);
        for to in (at..=used).rev() {
            if to < used && is_last_of_line(to) {
                self.persist_slot(to + 1);
            }
            self.write(to, if to == at { entry } else { self.entry(to - 1) });
        }
        self.flush_slot(at);
    }

    /// Removes the entry in a slot, or a hole, of `used` slots.
    pub fn remove(&self, used: usize, at: usize) {
        self.remove_flushed(used, at);
        self.medium.fence();
    }

    /// The same, durable after the next fence.
    pub fn remove_flushed(&self, used: usize, at: usize) {
        debug_assert!(at < used);
        self.begin(Direction::Left);
        for to in at..used - 1 {
            if to > at && is_first_of_line(to) {
                self.persist_slot(to - 1);
            }
            self.write(to, self.entry(to + 1));
        }
        let last = used - 1;
        if last > at && is_first_of_line(last) {
            self.persist_slot(last - 1);
        }
        self.store(&self.node.slots[last].pointer, 0);
        self.flush_slot(last);
    }

    /// Gives slots new pointers. Each is swapped by itself; all are durable on return.
    pub fn swap(&self, swaps: impl Iterator<Item = (usize, u64)> + Clone) {
        self.swap_flushed(swaps);
        self.medium.fence();
    }

    /// The same, durable after the next fence.
    pub fn swap_flushed(&self, swaps: impl Iterator<Item = (usize, u64)> + Clone) {
        self.begin(Direction::Right);
        for (at, pointer) in swaps.clone() {
            self.store(&self.node.slots[at].pointer, pointer);
        }
        if self.medium.is_persistent() {
            let mut line_flushed = None;
            for (at, _) in swaps {
                let line = at / SLOTS_PER_LINE;
                if line_flushed != Some(line) {
                    self.flush_slot(at);
                    line_flushed = Some(line);
                }
            }
        }
    }

    /// Takes out what a change that was cut short has left: holes, and entries twice in a row. Itself cut short, it leaves
    /// the same kind of thing.
    fn repair(&self) {
        let slots = self.node.slots;
        let mut at = 0;
        loop {
            let used = self.used();
            let leftover = (at..used).find(|&index| {
                let pointer = slots[index].pointer.load(Acquire);
                pointer == HOLE || (index > 0 && pointer == slots[index - 1].pointer.load(Acquire))
            });
            let Some(found) = leftover else { return };
            self.remove(used, found);
            at = found;
        }
    }

    /// Everything before is durable, and readers know that a change begins.
    fn begin(&self, direction: Direction) {
        self.medium.fence();
        let counter = &self.node.header.counter;
        let number = (counter.load(Relaxed) >> 1).wrapping_add(1);
        self.store(counter, number << 1 | direction as u64);
    }

    fn write(&self, at: usize, entry: Entry) {
        let Slot { head, pointer } = &self.node.slots[at];
        self.store(pointer, HOLE);
        self.store(head, entry.head);
        self.store(pointer, entry.pointer);
    }

    fn store(&self, word: &AtomicU64, value: u64) {
        self.medium.store(word, value);
    }

    /// Stores one of the header's words, durably. What was flushed before is durable before.
    pub fn store_durably(&self, word: &AtomicU64, value: u64) {
        self.medium.fence();
        self.store(word, value);
        self.medium.flush(std::ptr::from_ref(word).cast(), size_of::<u64>());
        self.medium.fence();
    }

    fn flush_slot(&self, at: usize) {
        self.medium.flush(std::ptr::from_ref(&self.node.slots[at]).cast(), size_of::<Slot>());
    }

    fn persist_slot(&self, at: usize) {
        self.flush_slot(at);
        self.medium.fence();
    }
}

fn is_first_of_line(slot: usize) -> bool {
    slot.is_multiple_of(SLOTS_PER_LINE)
}

fn is_last_of_line(slot: usize) -> bool {
    is_first_of_line(slot + 1)
}
