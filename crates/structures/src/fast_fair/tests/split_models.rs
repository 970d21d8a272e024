//! Splits, merges, and what becomes of the nodes that they replace, under loom: the real tree in a real pool, whose nodes and
//! root word are watched.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use slmdb_order::KeyOrder;
use slmdb_pmem::{Blocks, Dram, ExtentKind, Pool, PoolOptions};
use slmdb_sync::epoch::{self, Freeing};
use slmdb_sync::mapped;
use slmdb_sync::model::{check, thread};

use super::super::build::NewNode;
use super::super::fences::Shape;
use super::super::{SegmentEntry, Tree, write_segment};
use crate::EntryKind;

const NODE_BYTES: u32 = 256;
/// The slots of such a node.
const SLOTS: u8 = 12;
/// As many nodes as the models need: the first leaf, the two that replace it, their parent, what replaces these, and some to spare.
const NODES_WATCHED: u64 = 6;

struct Store {
    tree: Tree<Dram>,
    records: Vec<u64>,
}

fn key(number: u8) -> [u8; 1] {
    [b'a' + number]
}

impl Store {
    /// With these keys in one leaf, and records for some more.
    fn with(present: impl Iterator<Item = u8>) -> Arc<Store> {
        let options = PoolOptions { initial_bytes: 0, growth_bytes: 1 << 16, maximum_bytes: 1 << 20, uuid: [1; 16] };
        let pool = Arc::new(Pool::anonymous(Dram, &options).unwrap());
        let blocks = Arc::new(Blocks::open(Arc::clone(&pool)).unwrap());
        let tree = Tree::create(Arc::clone(&pool), blocks, NODE_BYTES, KeyOrder::Bytewise).unwrap();
        let keys: Vec<_> = (0..SLOTS + 4).map(key).collect();
        let entries = keys.iter().map(|key| SegmentEntry {
            key: &key[..],
            sequence: 1,
            kind: EntryKind::Put,
            block_offset: 0,
            block_length: 0,
        });
        let segment = write_segment(&pool, 1, entries).unwrap();
        let guard = epoch::pin();
        let records = segment.records(&pool, &guard).map(|record| record.unwrap().offset()).collect();
        drop(guard);
        let store = Store { tree, records };
        present.for_each(|number| store.put(number));
        let extent = pool.extent_at(store.tree.root().unwrap().offset).unwrap();
        assert_eq!((extent.kind, extent.owner), (ExtentKind::Blocks, NODE_BYTES));
        let nodes = store.tree.blocks.used().into_iter().filter(|node| (extent.offset..extent.end()).contains(node));
        watch(&pool, nodes.min().unwrap(), u64::from(NODE_BYTES) * NODES_WATCHED);
        watch(&pool, store.tree.root_word(), 8);
        Arc::new(store)
    }

    fn put(&self, number: u8) {
        self.tree.insert_or_replace(&key(number), self.records[usize::from(number)]).unwrap();
    }

    /// Says whether the tree had more levels before.
    fn remove(&self, number: u8) -> bool {
        let height = self.tree.height().unwrap();
        self.tree.remove(&key(number)).unwrap();
        self.tree.height().unwrap() < height
    }

    /// Takes a free node and writes an empty leaf there, as one who splits another leaf would. Says where.
    fn write_over_a_free_node(&self) -> u64 {
        epoch::pin().flush();
        let block = self.tree.blocks.take(NODE_BYTES).unwrap();
        let shape = Shape::new(0, None, None, &KeyOrder::Bytewise);
        let leaf =
            NewNode { block, fence_block: None, shape, low: None, high: None, sibling: 0, lock: 0, entries: &[] };
        leaf.write(&self.tree.pool, NODE_BYTES).unwrap();
        block
    }

    fn check(&self, number: u8) {
        let guard = epoch::pin();
        let found = self.tree.get(&key(number), &guard).unwrap().map(|record| record.offset());
        assert_eq!(found, Some(self.records[usize::from(number)]), "key {number}");
    }
}

/// Has loom follow the words of a range of the pool.
fn watch(pool: &Pool<Dram>, offset: u64, length_bytes: u64) {
    let words = (offset..offset + length_bytes).step_by(8);
    let bytes: Vec<u8> = words.flat_map(|at| pool.word(at).unwrap().load(Relaxed).to_ne_bytes()).collect();
    mapped::watch(pool.pointer(offset, length_bytes).unwrap(), &bytes);
}

#[test]
fn loom_split_against_get() {
    for read in [0, SLOTS - 1] {
        check(&format!("split of a full leaf, get of key {read}"), 4, move || {
            let store = Store::with(0..SLOTS);
            let other = Arc::clone(&store);
            let writer = thread::spawn(move || {
                mapped::write_alone();
                other.put(SLOTS);
            });
            store.check(read);
            writer.join().unwrap();
            (0..=SLOTS).for_each(|number| store.check(number));
        });
    }
}

#[test]
fn loom_split_against_insert() {
    // The second one finds the leaf full and split, or splits it, or finds its key's place in a node that has just been
    // replaced.
    check("split of a leaf with room for one, insert of another", 3, move || {
        let store = Store::with(1..SLOTS);
        let other = Arc::clone(&store);
        let writer = thread::spawn(move || other.put(SLOTS));
        store.put(0);
        writer.join().unwrap();
        (0..=SLOTS).for_each(|number| store.check(number));
    });
}

#[test]
fn loom_merge_against_get() {
    // Keys that ascend leave a full leaf and one with a single key. Of the full one three are left: the next removal makes it
    // sparse, and the root's only child becomes the root.
    for read in [1, SLOTS] {
        check(&format!("merge of two leaves, root dropped, get of key {read}"), 1, move || {
            let store = Store::with(0..=SLOTS);
            assert!(!(3..SLOTS).any(|number| store.remove(number)));
            let other = Arc::clone(&store);
            let writer = thread::spawn(move || {
                mapped::write_alone();
                assert!(other.remove(0));
            });
            store.check(read);
            writer.join().unwrap();
            [1, 2, SLOTS].into_iter().for_each(|number| store.check(number));
        });
    }
}

/// A leaf is split while a key is looked up in it, and what was freed is written over at once. Says in how many executions that
/// was the old leaf, and in how many something else, because the old one was still being read.
fn split_and_written_over(name: &str, freeing: Freeing) -> (u64, u64) {
    let counts = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let counted = Arc::clone(&counts);
    check(name, 3, move || {
        let store = Store::with(0..SLOTS);
        epoch::free(freeing);
        let (other, counts) = (Arc::clone(&store), Arc::clone(&counts));
        let writer = thread::spawn(move || {
            mapped::write_alone();
            let old = other.tree.root().unwrap().offset;
            other.put(SLOTS);
            let is_old = other.write_over_a_free_node() == old;
            let (old, others) = &*counts;
            if is_old { old } else { others }.fetch_add(1, Relaxed);
        });
        store.check(0);
        writer.join().unwrap();
        (0..=SLOTS).for_each(|number| store.check(number));
    });
    (counted.0.load(Relaxed), counted.1.load(Relaxed))
}

/// A node that was replaced is not written over while it is read.
#[test]
fn loom_a_replaced_node_is_not_written_over_while_it_is_read() {
    let (old, others) = split_and_written_over("split, and a free node written over, against get", Freeing::Unread);
    assert!(old > 0 && others > 0, "{old} and {others} executions");
}

/// That the model above can fail.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_a_node_that_is_freed_at_once_is_noticed() {
    split_and_written_over("the same without waiting for readers", Freeing::AtOnce);
}
