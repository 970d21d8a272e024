//! The node shift under loom: the real code on a small node, one writer and one reader, in every interleaving with a few
//! preemptions, and with everything that weakly ordered memory may show the reader.
//!
//! Two slots and a shift of one entry are what two preemptions can be tried with where a reader searches, three slots and a
//! shift of two where it copies all entries (a search looks at every slot twice).

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use slmdb_pmem::Dram;
use slmdb_sync::mapped::{self, AtomicU64};
use slmdb_sync::model::{check, thread};

use super::super::change::{Locked, Session};
use super::super::node::{Entry, Header, Node, Slot};

const SESSION: u32 = 1;

/// A leaf as it lies in the pool, though a small one.
#[repr(C)]
struct Leaf<const SLOTS: usize> {
    header: Header,
    slots: [Slot; SLOTS],
}

/// How keys are told apart: by their heads, or by looking at whole keys.
#[derive(Clone, Copy, Debug)]
enum Heads {
    Different,
    Equal,
}

impl Heads {
    fn of(self, key: u64) -> u64 {
        match self {
            Heads::Different => key,
            Heads::Equal => 7,
        }
    }
}

/// Where the key record of a key is.
fn pointer_of(key: u64) -> u64 {
    key * 16
}

fn entry_of(key: u64, heads: Heads) -> Entry {
    Entry { head: heads.of(key), pointer: pointer_of(key) }
}

impl<const SLOTS: usize> Leaf<SLOTS> {
    /// With these keys, and watched.
    fn with(keys: &[u64], heads: Heads) -> Arc<Self> {
        let word = || AtomicU64::new(0);
        let header = Header {
            lock: word(),
            counter: word(),
            forward: word(),
            sibling: word(),
            shape: word(),
            fences: [word(), word(), word()],
        };
        let slots = std::array::from_fn(|index| {
            let entry = keys.get(index).map_or(Entry { head: 0, pointer: 0 }, |&key| entry_of(key, heads));
            Slot { head: AtomicU64::new(entry.head), pointer: AtomicU64::new(entry.pointer) }
        });
        let leaf = Arc::new(Leaf { header, slots });
        // The lock is as in use: nobody has to repair.
        drop(leaf.lock());
        let Header { lock, counter, forward, sibling, shape, fences: [first, second, third] } = &leaf.header;
        let header = [lock, counter, forward, sibling, shape, first, second, third];
        let words = header.into_iter().chain(leaf.slots.iter().flat_map(|slot| [&slot.head, &slot.pointer]));
        let bytes: Vec<u8> = words.flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        assert_eq!(bytes.len(), size_of::<Self>());
        mapped::watch(std::ptr::from_ref(leaf.deref()).cast(), &bytes);
        leaf
    }

    fn node(&self) -> Node<'_> {
        Node { offset: 512, header: &self.header, slots: &self.slots }
    }

    fn lock(&self) -> Locked<'_, Dram> {
        Locked::lock(self.node(), &Dram, Session::new(SESSION, 0))
    }

    fn change(&self, change: Change, heads: Heads) {
        let (Change::Insert(key) | Change::Remove(key) | Change::Swap(key, _)) = change;
        let locked = self.lock();
        let place = locked.find(heads.of(key), |pointer| Ok(pointer.cmp(&pointer_of(key)))).unwrap();
        match (change, place.at) {
            (Change::Insert(_), Err(at)) => locked.insert(place.used, at, entry_of(key, heads)),
            (Change::Remove(_), Ok(at)) => locked.remove(place.used, at),
            (Change::Swap(_, pointer), Ok(at)) => locked.swap(std::iter::once((at, pointer))),
            (change, at) => panic!("{change:?}: {at:?}"),
        }
    }

    /// Makes all changes, as the only writer.
    fn change_alone(&self, changes: &[Change], heads: Heads) {
        mapped::write_alone();
        changes.iter().for_each(|&change| self.change(change, heads));
    }

    /// The pointer of the last entry that is not behind the key, and whether it is the key's.
    fn search(&self, key: u64, heads: Heads) -> Option<(u64, bool)> {
        // A swapped record is one above the first.
        self.node().search(heads.of(key), |pointer| Ok((pointer / 16).cmp(&key))).unwrap()
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.node().entries(&mut entries);
        entries
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Insert(u64),
    Remove(u64),
    /// A new pointer for a key.
    Swap(u64, u64),
}

/// A writer makes these changes while a reader looks for a key, which is there all the time if it is `there`; a key that is
/// neither there nor changed is never found, and what comes before it is one of the right ones.
fn check_search<const SLOTS: usize>(
    name: &str,
    start: &'static [u64],
    changes: &'static [Change],
    key: u64,
    preemptions: usize,
) {
    let changed = |key: u64| {
        changes
            .iter()
            .any(|change| matches!(change, Change::Insert(changed) | Change::Remove(changed) if *changed == key))
    };
    let there = start.contains(&key) && !changed(key);
    let perhaps = changed(key);
    // What stays, and is the last before the key.
    let before = start.iter().copied().filter(|&other| other < key && !changed(other)).max();
    for heads in [Heads::Different, Heads::Equal] {
        check(&format!("{name}, {heads:?} heads"), preemptions, move || {
            let leaf = Leaf::<SLOTS>::with(start, heads);
            let other = Arc::clone(&leaf);
            let writer = thread::spawn(move || other.change_alone(changes, heads));
            let found = leaf.search(key, heads);
            match found {
                Some((pointer, true)) => {
                    assert!(there || perhaps, "a key that was never there: {pointer}");
                    assert_eq!(pointer / 16, key);
                }
                other => {
                    assert!(!there, "the key vanished: {other:?}");
                    let other = other.map(|(pointer, _)| pointer / 16);
                    assert!(other >= before && other.is_none_or(|other| other < key), "{other:?} is before {key}");
                }
            }
            writer.join().unwrap();
        });
    }
}

/// A writer makes these changes while a reader copies all entries: in order, each once, those that stay, and none that never
/// was.
fn check_entries<const SLOTS: usize>(
    name: &str,
    start: &'static [u64],
    changes: &'static [Change],
    preemptions: usize,
) {
    check(name, preemptions, move || {
        let leaf = Leaf::<SLOTS>::with(start, Heads::Different);
        let other = Arc::clone(&leaf);
        let writer = thread::spawn(move || other.change_alone(changes, Heads::Different));
        let entries = leaf.entries();
        writer.join().unwrap();
        let keys: Vec<u64> = entries.iter().map(|entry| entry.pointer / 16).collect();
        assert!(keys.is_sorted_by(|left, right| left < right), "{keys:?}");
        assert!(entries.iter().all(|entry| entry.head == entry.pointer / 16), "a head of another: {entries:?}");
        // As at one moment: after none, or some, of the changes.
        let mut moment: Vec<u64> = start.to_vec();
        let mut moments = vec![moment.clone()];
        for change in changes {
            match *change {
                Change::Insert(key) => moment.push(key),
                Change::Remove(key) => moment.retain(|&other| other != key),
                Change::Swap(..) => {}
            }
            moment.sort_unstable();
            moments.push(moment.clone());
        }
        assert!(moments.contains(&keys), "{keys:?} at no moment");
    });
}

/// The preemptions with which a search for a key is tried: the most where it is there all the time, and must be found.
fn bound(key: u64) -> usize {
    if key == 3 { 2 } else { 1 }
}

#[test]
fn loom_insert_against_search() {
    let changes = &[Change::Insert(2)];
    for key in [2, 3, 4] {
        check_search::<2>(&format!("insert 2 into 3 of 2 slots, search {key}"), &[3], changes, key, bound(key));
    }
    check_search::<3>("insert 2 into 3, 5 of 3 slots, search 3", &[3, 5], changes, 3, 1);
}

#[test]
fn loom_remove_against_search() {
    let changes = &[Change::Remove(2)];
    for key in [2, 3, 4] {
        check_search::<2>(&format!("remove 2 from 2, 3 of 2 slots, search {key}"), &[2, 3], changes, key, bound(key));
    }
    check_search::<3>("remove 2 from 2, 3, 5 of 3 slots, search 3", &[2, 3, 5], changes, 3, 1);
}

#[test]
fn loom_swap_against_search() {
    let changes = &[Change::Swap(3, 3 * 16 + 8)];
    check_search::<2>("swap 3 in 2, 3 of 2 slots, search 3", &[2, 3], changes, 3, 3);
}

#[test]
fn loom_changes_against_entries() {
    check_entries::<3>("insert 2 into 3, 5 of 3 slots, copy all", &[3, 5], &[Change::Insert(2)], 2);
    check_entries::<3>("remove 2 from 2, 3, 5 of 3 slots, copy all", &[2, 3, 5], &[Change::Remove(2)], 2);
    // The direction changes, and a pair returns to the slot that it has left.
    let there_and_back = &[Change::Insert(2), Change::Remove(2)];
    check_entries::<2>("insert 2 into 3 of 2 slots and remove it, copy all", &[3], there_and_back, 2);
    let back_and_there = &[Change::Remove(2), Change::Insert(1)];
    check_entries::<2>("remove 2 from 2, 3 of 2 slots, insert 1, copy all", &[2, 3], back_and_there, 2);
}
