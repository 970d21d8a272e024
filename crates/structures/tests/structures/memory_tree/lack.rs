//! When memory lacks, or file slots do: nothing is half done, nothing leaks, and it can be tried again.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use slmdb_env::ErrorKind;
use slmdb_structures::memory_tree::{ChunkSource, Decision, Found, MemoryTree, Settings, SystemMemory};
use slmdb_sync::epoch;

use super::{Model, check, found, tiny};

/// Memory that is refused after so many times, and that is counted.
#[derive(Debug)]
struct Scarce {
    left: AtomicUsize,
    taken_bytes: AtomicUsize,
}

// SAFETY: the memory is the system's.
unsafe impl ChunkSource for Scarce {
    fn take(&self, length_bytes: usize) -> Option<NonNull<u8>> {
        self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).ok()?;
        self.taken_bytes.fetch_add(length_bytes, SeqCst);
        SystemMemory.take(length_bytes)
    }

    unsafe fn give_back(&self, chunk: NonNull<u8>, length_bytes: usize) {
        self.taken_bytes.fetch_sub(length_bytes, SeqCst);
        // SAFETY: it was taken from there.
        unsafe { SystemMemory.give_back(chunk, length_bytes) };
    }
}

fn scarce() -> Arc<Scarce> {
    Arc::new(Scarce { left: AtomicUsize::new(usize::MAX), taken_bytes: AtomicUsize::new(0) })
}

/// Keys so long that most nodes have a chunk of their own, so that each is taken from the system.
fn long_keys(round: u64) -> Vec<Vec<u8>> {
    let key =
        |number: u64| [format!("{:04}", number * 7).into_bytes(), vec![b'x'; 17_000 + number as usize * 100]].concat();
    (0..24).filter(|number| !(number + round).is_multiple_of(4)).map(key).collect()
}

fn act(round: u64, index: usize) -> Decision {
    match (round + index as u64) % 5 {
        0 => Decision::Remove,
        _ => Decision::Put(found(round * 100 + index as u64, round)),
    }
}

/// Applies a round to both, as far as it goes. Whether it went all the way.
fn apply(tree: &MemoryTree, model: &mut Model, round: u64) -> bool {
    let keys = long_keys(round);
    let decide = |index: usize, was: Option<Found>| {
        let put = act(round, index);
        // As an engine does that begins anew.
        Ok(if was.map(Decision::Put) == Some(put) { Decision::Keep } else { put })
    };
    let done = tree.update_sorted(&keys, decide, |index, was| {
        let before = match act(round, index) {
            Decision::Put(found) => model.insert(keys[index].clone(), found),
            _ => model.remove(&keys[index]),
        };
        assert_eq!(was, before, "{index}");
    });
    if let Err(error) = &done {
        assert!(error.may_be_tried_again(), "{error}");
    }
    done.is_ok()
}

#[test]
fn a_change_that_lacks_memory_is_whole_or_not_there_and_can_be_given_again() {
    let mut lacks = 0;
    for allowed in 0.. {
        let source = scarce();
        let settings = Settings { garbage_bytes_min: 0, ..tiny() };
        let tree = MemoryTree::new(source.clone(), settings).unwrap();
        (1..=4).for_each(|file| assert_eq!(tree.files().slot(file).unwrap(), file - 1));
        let mut model = Model::new();
        (0..3).for_each(|round| assert!(apply(&tree, &mut model, round)));
        source.left.store(allowed, SeqCst);
        let is_done = apply(&tree, &mut model, 3);
        check(&tree, &model, &epoch::pin());
        source.left.store(usize::MAX, SeqCst);
        assert!(apply(&tree, &mut model, 3));
        check(&tree, &model, &epoch::pin());
        assert!(tree.memory_bytes() >= source.taken_bytes.load(SeqCst) as u64);
        // Nothing that was given up is still held: an empty tree has an empty leaf. (Other tests have guards, too.)
        let all: Vec<Vec<u8>> = model.into_keys().collect();
        let is_small = |tree: &MemoryTree| {
            tree.update_sorted(&all, |_, _| Ok(Decision::Remove), |_, _| {}).unwrap();
            tree.live_bytes() == 16
        };
        assert!((0..100).any(|_| is_small(&tree)), "{} bytes of an empty tree", tree.live_bytes());
        drop(tree);
        assert_eq!(source.taken_bytes.load(SeqCst), 0, "memory that was not given back");
        if is_done {
            break;
        }
        lacks += 1;
    }
    assert!(lacks > 10, "{lacks}");
}

#[test]
fn a_bulk_load_that_lacks_memory_has_not_happened() {
    let source = scarce();
    let tree = MemoryTree::new(source.clone(), tiny()).unwrap();
    tree.files().slot(1).unwrap();
    let keys = long_keys(0);
    for allowed in 0..keys.len() {
        let mut part = tree.bulk_part();
        source.left.store(allowed, SeqCst);
        let mut loaded = keys.iter().try_for_each(|key| part.add(key, found(4, 1)));
        if loaded.is_ok() {
            loaded = tree.finish_bulk_load(vec![part]);
        }
        source.left.store(usize::MAX, SeqCst);
        match loaded {
            Ok(()) => break,
            Err(error) => assert!(error.may_be_tried_again(), "{error}"),
        }
        check(&tree, &Model::new(), &epoch::pin());
    }
    let before = tree.count(&epoch::pin());
    if before == 0 {
        let mut part = tree.bulk_part();
        keys.iter().for_each(|key| part.add(key, found(4, 1)).unwrap());
        tree.finish_bulk_load(vec![part]).unwrap();
    }
    check(&tree, &keys.into_iter().map(|key| (key, found(4, 1))).collect(), &epoch::pin());
}

#[test]
fn a_slot_is_given_out_again_when_no_guard_is_left_from_when_its_file_went() {
    let tree = super::tree(tiny());
    let guard = epoch::pin();
    tree.files().forget(2);
    assert_eq!(tree.files().file(1), 2, "a reader may still have a place there");
    assert_eq!(tree.files().slot(9).unwrap(), 4);
    drop(guard);
    let is_free = |tree: &MemoryTree| {
        (0..10).for_each(|_| epoch::pin().flush());
        tree.files().slot(10).unwrap() == 1 || {
            tree.files().forget(10);
            false
        }
    };
    // Other tests have guards, too.
    assert!((0..1000).any(|_| is_free(&tree) || {
        std::thread::sleep(std::time::Duration::from_millis(5));
        false
    }));
    assert_eq!((tree.files().file(1), tree.files().file(4)), (10, 9));
    assert_eq!(tree.files().files(), [(1, 0), (3, 2), (4, 3), (9, 4), (10, 1)]);
}

#[test]
fn there_are_so_many_file_slots_and_no_more() {
    let tree = super::tree(tiny());
    (5..=131_072).for_each(|file| assert_eq!(tree.files().slot(file).unwrap(), file - 1));
    assert_eq!(tree.files().slot(131_073).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(tree.files().slot(131_072).unwrap(), 131_071);
    assert_eq!(tree.files().file(u32::MAX), 0);
}
