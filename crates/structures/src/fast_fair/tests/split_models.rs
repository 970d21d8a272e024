//! Splits under loom: the real tree in a real pool, whose nodes and root word are watched.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use slmdb_order::KeyOrder;
use slmdb_pmem::{Blocks, Dram, ExtentKind, Pool, PoolOptions};
use slmdb_sync::epoch;
use slmdb_sync::mapped;
use slmdb_sync::model::{check, thread};

use super::super::{SegmentEntry, Tree, write_segment};
use crate::EntryKind;

const NODE_BYTES: u32 = 256;
/// The slots of such a node.
const SLOTS: u8 = 12;
/// As many nodes as the models need: the first leaf, the two that replace it, their parent, and some to spare.
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
        let leaf = store.tree.root().unwrap().offset;
        let extent = pool.extents().into_iter().find(|extent| {
            extent.kind == ExtentKind::Blocks
                && extent.owner == NODE_BYTES
                && extent.offset < leaf
                && leaf < extent.end()
        });
        assert!(extent.is_some(), "the root is in an extent of blocks");
        watch(&pool, leaf, u64::from(NODE_BYTES) * NODES_WATCHED);
        watch(&pool, store.tree.root_word(), 8);
        Arc::new(store)
    }

    fn put(&self, number: u8) {
        self.tree.insert_or_replace(&key(number), self.records[usize::from(number)]).unwrap();
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
