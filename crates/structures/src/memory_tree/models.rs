//! The tree under loom: its one writer against a reader, with the values of nodes, the root word and what waits for readers followed.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Bound;
use std::ptr::NonNull;
use std::sync::Arc;

use slmdb_order::Direction;
use slmdb_sync::epoch::{self, Freeing};
use slmdb_sync::mapped;
use slmdb_sync::model::{check, thread};

use super::slab::{RUN_BYTES, RUN_HEADER_BYTES};
use super::*;

/// Chunks of which loom follows the first pieces of the first runs: as many as the models need.
#[derive(Debug)]
struct Followed;

const RUNS_FOLLOWED: usize = 7;
const BYTES_FOLLOWED: usize = 800;

fn layout(length_bytes: usize) -> Layout {
    Layout::from_size_align(length_bytes, CHUNK_ALIGNMENT_BYTES).unwrap()
}

// SAFETY: as the allocator promises.
unsafe impl ChunkSource for Followed {
    fn take(&self, length_bytes: usize) -> Option<NonNull<u8>> {
        // SAFETY: the length is not 0.
        let chunk = NonNull::new(unsafe { alloc_zeroed(layout(length_bytes)) })?;
        for run in 0..RUNS_FOLLOWED {
            // SAFETY: within the chunk, which is zero.
            let start = unsafe { chunk.add(run * RUN_BYTES + RUN_HEADER_BYTES) };
            mapped::watch(start.as_ptr(), &[0; BYTES_FOLLOWED]);
        }
        Some(chunk)
    }

    unsafe fn give_back(&self, chunk: NonNull<u8>, length_bytes: usize) {
        // SAFETY: the caller says that it was allocated so.
        unsafe { dealloc(chunk.as_ptr(), layout(length_bytes)) };
    }
}

fn key(number: u32) -> [u8; 1] {
    [number as u8]
}

/// A place that says the same as a number.
fn found(version: u32, has_number: bool) -> Found {
    let sequence = if has_number { u64::from(version) } else { 0 };
    Found { place: Place { slot: 0, offset: version, length_bytes: version }, sequence }
}

fn put(tree: &MemoryTree, numbers: &[u32], version: u32, has_number: bool) {
    let keys: Vec<_> = numbers.iter().copied().map(key).collect();
    tree.update_sorted(&keys, |_, _| Ok(Decision::Put(found(version, has_number))), |_, _| {}).unwrap();
}

fn remove(tree: &MemoryTree, numbers: &[u32]) {
    let keys: Vec<_> = numbers.iter().copied().map(key).collect();
    tree.update_sorted(&keys, |_, _| Ok(Decision::Remove), |_, _| {}).unwrap();
}

/// Leaves of two keys, nodes of three children.
fn tree(present: &[u32], has_number: bool) -> Arc<MemoryTree> {
    let settings = Settings { leaf_keys: 2, inner_children: 3, ..Settings::default() };
    let tree = MemoryTree::new(Arc::new(Followed), settings).unwrap();
    present.chunks(2).for_each(|keys| put(&tree, keys, 1, has_number));
    Arc::new(tree)
}

/// The version of a key that is there.
fn version(tree: &MemoryTree, number: u32) -> u32 {
    let found = tree.get(&key(number), &epoch::pin()).expect("a key that stays is missing");
    let version = found.place.offset;
    assert_eq!(found.place.length_bytes, version, "a torn place");
    assert!(found.sequence == 0 || found.sequence == u64::from(version), "the number of another place");
    version
}

/// While a writer acts, a reader looks for a key twice, which is there all the time, and sees no older version after a newer one.
fn check_get(
    name: &str,
    preemptions: usize,
    present: &'static [u32],
    has_number: bool,
    read: u32,
    act: impl Fn(&MemoryTree) + Send + Sync + Copy + 'static,
) {
    check(name, preemptions, move || {
        let tree = tree(present, has_number);
        let other = Arc::clone(&tree);
        let writer = thread::spawn(move || {
            mapped::write_alone();
            act(&other);
        });
        let first = version(&tree, read);
        let second = version(&tree, read);
        assert!(first <= second, "an older version after a newer one");
        writer.join().unwrap();
        assert!(version(&tree, read) >= second);
    });
}

#[test]
fn loom_get_beside_an_overwrite() {
    check_get("a place is overwritten", 3, &[1, 2], false, 2, |tree| put(tree, &[2], 2, false));
    check_get("a place is overwritten twice", 2, &[1, 2], false, 2, |tree| {
        put(tree, &[2], 2, false);
        put(tree, &[2], 3, false);
    });
    check_get("a place and its number, in a copy of the leaf", 3, &[1, 2], true, 2, |tree| put(tree, &[2], 2, true));
    check_get("a copy of a leaf below an inner node", 2, &[1, 2, 3, 4], true, 4, |tree| {
        put(tree, &[4], 2, true);
        put(tree, &[3], 2, true);
    });
}

#[test]
fn loom_get_beside_an_insertion() {
    check_get("a key more in a leaf", 3, &[2], false, 2, |tree| put(tree, &[1], 1, false));
    check_get("a leaf becomes two, and a root over them", 3, &[1, 3], false, 3, |tree| put(tree, &[2], 1, false));
    check_get("a leaf becomes two below a root", 2, &[1, 2, 3, 4], false, 4, |tree| put(tree, &[5], 1, false));
    check_get("a root becomes two, and a root over them", 2, &[1, 2, 3, 4, 5, 6], false, 6, |tree| {
        put(tree, &[7], 1, false)
    });
    check_get("a place is overwritten when its leaf has become two", 2, &[1, 3], false, 3, |tree| {
        put(tree, &[2], 1, false);
        put(tree, &[3], 2, false);
    });
}

#[test]
fn loom_get_beside_a_removal() {
    check_get("a key less in a leaf", 3, &[1, 2], false, 2, |tree| remove(tree, &[1]));
    check_get("a leaf goes, and the root with it", 2, &[1, 2, 3, 4], false, 4, |tree| remove(tree, &[1, 2]));
}

#[test]
fn loom_range_beside_a_split_and_a_removal() {
    for direction in [Direction::Forward, Direction::Backward] {
        for (name, changed, removes) in [("an insertion", [5, 6], false), ("a removal", [1, 2], true)] {
            check(&format!("a range {direction:?} beside {name}"), 2, move || {
                let tree = tree(&[1, 2, 3, 4], false);
                let other = Arc::clone(&tree);
                let writer = thread::spawn(move || {
                    mapped::write_alone();
                    if removes { remove(&other, &changed) } else { put(&other, &changed, 1, false) }
                });
                let mut read = RangeRead::default();
                tree.read(Bound::Unbounded, direction, 10, &epoch::pin(), &mut read);
                let mut keys: Vec<u8> = read.iter().map(|(key, _)| key[0]).collect();
                if direction == Direction::Backward {
                    keys.reverse();
                }
                assert!(keys.is_sorted_by(|one, next| one < next), "a key comes twice, or out of order");
                let steady = |key: &u8| !changed.contains(&u32::from(*key));
                let expected = [1, 2, 3, 4].into_iter().filter(steady);
                assert!(keys.iter().copied().filter(steady).eq(expected), "a key that stays was missed");
                writer.join().unwrap();
            });
        }
    }
}

/// The writer takes memory that has just become free, while a reader may be where it was.
fn freed_beside_a_pin(freeing: Freeing) {
    check("a leaf is freed beside a reader", 2, move || {
        let tree = tree(&[1, 2], false);
        epoch::free(freeing);
        let other = Arc::clone(&tree);
        let writer = thread::spawn(move || {
            mapped::write_alone();
            // The leaf of one key more is in the place of the first one, if that is free.
            remove(&other, &[1]);
            put(&other, &[0], 1, false);
        });
        assert_eq!(version(&tree, 2), 1);
        writer.join().unwrap();
        assert_eq!(version(&tree, 2), 1);
    });
}

#[test]
fn loom_what_a_reader_may_see_is_not_freed() {
    freed_beside_a_pin(Freeing::Unread);
}

#[test]
#[should_panic]
fn loom_a_leaf_that_is_freed_at_once_is_noticed() {
    freed_beside_a_pin(Freeing::AtOnce);
}

/// File 8 takes the place of file 7. A reader who has a place of one never takes it for one of the other.
fn slot_given_again(freeing: Freeing) {
    check("a file slot is given out again", 2, move || {
        let tree = tree(&[], false);
        epoch::free(freeing);
        let at = |file: u32, slot: u32| Found { place: Place { slot, offset: file, length_bytes: 1 }, sequence: 0 };
        let slot = tree.files().slot(7).unwrap();
        tree.update_sorted(&[key(1)], |_, _| Ok(Decision::Put(at(7, slot))), |_, _| {}).unwrap();
        let other = Arc::clone(&tree);
        let writer = thread::spawn(move || {
            mapped::write_alone();
            remove(&other, &[1]);
            other.files().forget(7);
            let slot = other.files().slot(8).unwrap();
            other.update_sorted(&[key(1)], |_, _| Ok(Decision::Put(at(8, slot))), |_, _| {}).unwrap();
        });
        let guard = epoch::pin();
        if let Some(found) = tree.get(&key(1), &guard) {
            assert_eq!(tree.files().file(found.place.slot), found.place.offset, "another file's place");
        }
        drop(guard);
        writer.join().unwrap();
        let found = tree.get(&key(1), &epoch::pin()).unwrap();
        assert_eq!((found.place.offset, tree.files().file(found.place.slot)), (8, 8));
    });
}

#[test]
fn loom_a_slot_leads_to_the_file_that_its_place_is_of() {
    slot_given_again(Freeing::Unread);
}

#[test]
#[should_panic]
fn loom_a_slot_that_is_given_out_at_once_is_noticed() {
    slot_given_again(Freeing::AtOnce);
}
