//! Reading under loom: the real tree in a real pool, whose leaves and root words are watched, one writer and one reader.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use slmdb_order::KeyOrder;
use slmdb_pmem::{Dram, Pool, PoolOptions, Slots};
use slmdb_sync::mapped;
use slmdb_sync::model::{check, thread};

use super::super::layout::{LEAF_BYTES, LEAF_SLOTS};
use super::super::{Entry, HybridTree, LeafCopy, Place, Version};
use crate::EntryKind;

/// The first leaf, the two that replace it, and one to spare.
const LEAVES_WATCHED: u64 = 4;

type Tree = HybridTree<Dram>;

fn key(number: usize) -> [u8; 1] {
    [b'a' + number as u8]
}

fn apply(tree: &Tree, numbers: impl IntoIterator<Item = usize>, sequence: u64) {
    let version = Version { sequence, kind: EntryKind::Put, file: 1, offset: 0, length_bytes: 1 };
    let keys: Vec<_> = numbers.into_iter().map(key).collect();
    tree.apply(keys.iter().map(|key| Entry { key, version }), |_, _| {}).unwrap();
}

/// With these keys in one leaf, and watched.
fn tree_with(numbers: impl IntoIterator<Item = usize>) -> Arc<Tree> {
    let options = PoolOptions { initial_bytes: 0, growth_bytes: 1 << 16, maximum_bytes: 1 << 20, uuid: [1; 16] };
    let pool = Arc::new(Pool::anonymous(Dram, &options).unwrap());
    let slots = Arc::new(Slots::open(Arc::clone(&pool)).unwrap());
    let tree = HybridTree::create(slots, 0, 1, KeyOrder::Bytewise).unwrap();
    for number in numbers {
        apply(&tree, [number], 1);
    }
    let state = tree.published.load_full();
    assert_eq!(state.directory.leaves(), 1);
    let leaf = state.directory.leaf(state.directory.first().unwrap());
    watch(&pool, pool.extent_at(leaf).unwrap().offset, LEAVES_WATCHED * LEAF_BYTES);
    watch(&pool, pool.root_offset(), 256);
    Arc::new(tree)
}

/// Has loom follow the words of a range of the pool.
fn watch(pool: &Pool<Dram>, offset: u64, length_bytes: u64) {
    let words = (offset..offset + length_bytes).step_by(8);
    let bytes: Vec<u8> = words.flat_map(|at| pool.word(at).unwrap().load(Relaxed).to_ne_bytes()).collect();
    mapped::watch(pool.pointer(offset, length_bytes).unwrap(), &bytes);
}

/// A writer does one thing while a reader does another.
fn against(name: &str, keys: &'static [usize], write: fn(&Tree), read: fn(&Tree)) {
    check(name, 2, move || {
        let tree = tree_with(keys.iter().copied());
        let other = Arc::clone(&tree);
        let writer = thread::spawn(move || {
            mapped::write_alone();
            write(&other);
        });
        read(&tree);
        writer.join().unwrap();
    });
}

fn sequence(tree: &Tree, number: usize) -> Option<u64> {
    tree.get(&key(number)).unwrap().map(|version| version.sequence)
}

#[test]
fn loom_hybrid_swing_against_get() {
    against(
        "a new version, get",
        &[0, 1],
        |tree| apply(tree, [1], 2),
        |tree| assert!(matches!(sequence(tree, 1), Some(1 | 2))),
    );
}

#[test]
fn loom_hybrid_insert_against_get() {
    against(
        "an insertion, get of another",
        &[0, 2],
        |tree| apply(tree, [1], 2),
        |tree| {
            assert_eq!(sequence(tree, 2), Some(1));
            assert!(matches!(sequence(tree, 1), None | Some(2)));
        },
    );
}

/// The slot of the key that goes is filled by the one that comes.
#[test]
fn loom_hybrid_slot_used_again_against_copy() {
    against(
        "a removal and an insertion, copy",
        &[0, 2],
        |tree| {
            tree.remove([(&key(2)[..], 1)]).unwrap();
            apply(tree, [1], 2);
        },
        |tree| {
            let mut copy = LeafCopy::default();
            assert!(tree.copy_leaf(Place::First, &mut copy).unwrap());
            let keys: Vec<usize> = copy.iter().map(|(key, _)| usize::from(key[0] - b'a')).collect();
            assert!([&[0, 2][..], &[0], &[0, 1]].contains(&&keys[..]), "{keys:?} at no moment");
        },
    );
}

#[test]
fn loom_hybrid_split_against_get() {
    for read in [0, LEAF_SLOTS - 1] {
        check(&format!("a split, get of key {read}"), 2, move || {
            let tree = tree_with(0..LEAF_SLOTS);
            let other = Arc::clone(&tree);
            let writer = thread::spawn(move || {
                mapped::write_alone();
                apply(&other, [LEAF_SLOTS], 2);
            });
            assert_eq!(sequence(&tree, read), Some(1));
            assert!(matches!(sequence(&tree, LEAF_SLOTS), None | Some(2)));
            writer.join().unwrap();
        });
    }
}
