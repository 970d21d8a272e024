//! Shortcuts lead to where the whole way leads, and never to a node that is no more.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use slmdb_order::KeyOrder;
use slmdb_pmem::{Blocks, Dram, Pool, PoolOptions};
use slmdb_sync::epoch;

use crate::EntryKind;
use crate::fast_fair::fences::Target;
use crate::fast_fair::{SegmentEntry, Tree, write_segment};
use slmdb_order::Direction;

pub(super) struct Store {
    pub tree: Tree<Dram>,
    pub keys: Vec<Vec<u8>>,
    pub records: Vec<u64>,
}

impl Store {
    /// An empty tree of nodes of 12 slots, and the records of these keys.
    pub fn new(mut keys: Vec<Vec<u8>>) -> Store {
        let options = PoolOptions { initial_bytes: 0, growth_bytes: 1 << 20, maximum_bytes: 64 << 20, uuid: [1; 16] };
        let pool = Arc::new(Pool::anonymous(Dram, &options).unwrap());
        let blocks = Arc::new(Blocks::open(pool.clone()).unwrap());
        let tree = Tree::create(pool.clone(), blocks, 256, KeyOrder::Bytewise).unwrap();
        keys.sort();
        keys.dedup();
        let entries = keys.iter().enumerate().map(|(number, key)| {
            let sequence = number as u64 + 1;
            SegmentEntry { key, sequence, kind: EntryKind::Put, block_offset: 0, block_length: 64 }
        });
        let segment = write_segment(&pool, 1, entries).unwrap();
        let records = segment.records(&pool, &epoch::pin()).map(|record| record.unwrap().offset()).collect();
        Store { tree, keys, records }
    }

    pub fn put(&self, key: usize) {
        self.tree.insert_or_replace(&self.keys[key], self.records[key]).unwrap();
    }

    /// Asks for keys until shortcuts are there, if the tree is high enough.
    fn warm(&self) {
        let guard = epoch::pin();
        for key in self.keys.iter().take(64) {
            self.tree.get(key, &guard).unwrap();
        }
    }

    /// Every key is found as `is_there` says, from the node that a shortcut leads to. Returns how many shortcuts there were.
    fn check(&self, is_there: impl Fn(usize) -> bool) -> usize {
        let guard = epoch::pin();
        let mut shortcuts = 0;
        for (number, key) in self.keys.iter().enumerate() {
            let found = self.tree.get(key, &guard).unwrap().map(|record| record.offset());
            assert_eq!(found, is_there(number).then_some(self.records[number]));
            for target in [Target::At(key), Target::Below(key)] {
                let Some(node) = self.tree.shortcut(&target, 0).unwrap() else { continue };
                shortcuts += 1;
                assert!(self.tree.blocks.is_used(node.offset).unwrap(), "a shortcut leads to a freed node");
                let way = self.tree.descend_from(node, &target, 0).unwrap();
                // A key that begins a node is not to be searched from there for what is below it.
                assert!(way.is_some() || matches!(target, Target::Below(_)), "a shortcut leads too far to the right");
            }
        }
        shortcuts
    }
}

/// Keys that agree in their first bytes in many ways.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let group =
        prop_oneof![Just(&b""[..]), Just(&b"a"[..]), Just(&b"a group of keys"[..]), Just(&b"a group of keys/"[..])];
    (group, 0..3000_u16, any::<bool>()).prop_map(|(group, number, is_long)| {
        let number = if is_long { format!("{number:020}").into_bytes() } else { number.to_be_bytes().to_vec() };
        [group, &number].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_shortcut_leads_to_its_key(keys in proptest::collection::vec(key(), 2500..3500), kept in 1..4_usize) {
        let store = Store::new(keys);
        let count = store.keys.len();
        (0..count).for_each(|key| store.put(key));
        store.warm();
        prop_assert!(store.check(|_| true) > count, "there are no shortcuts");
        // Many nodes are freed now. Shortcuts that were made before must not count.
        for key in (0..count).filter(|key| key % 4 >= kept) {
            store.tree.remove(&store.keys[key]).unwrap();
            if key % 512 == 0 {
                store.check(|other| other > key || other % 4 < kept);
            }
        }
        store.warm();
        store.check(|key| key % 4 < kept);
        let guard = epoch::pin();
        let last = store.tree.range(Bound::Included(&store.keys[count - 1]), Direction::Backward, &guard).count();
        prop_assert!(last > 0);
    }
}

#[test]
fn shortcuts_are_used_while_nodes_are_freed() {
    let store = Store::new((0..6000).map(|key: u32| format!("{key:08}").into_bytes()).collect());
    (0..6000).filter(|key| key % 2 == 0).for_each(|key| store.put(key));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for first in [0, 2] {
            let (store, is_over) = (&store, &is_over);
            scope.spawn(move || {
                let mut key = first;
                while !is_over.load(Ordering::Relaxed) {
                    key = (key + 1234) % 6000;
                    let guard = epoch::pin();
                    let found = store.tree.get(&store.keys[key], &guard).unwrap().map(|record| record.offset());
                    assert_eq!(found, Some(store.records[key]), "key {key}");
                }
            });
        }
        for _ in 0..20 {
            let odd = || (0..6000).filter(|key| key % 2 == 1);
            odd().for_each(|key| store.put(key));
            odd().for_each(|key| _ = store.tree.remove(&store.keys[key]).unwrap());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    store.check(|key| key % 2 == 0);
}

/// In a large tree the level below may have very many nodes, each time that shortcuts are made.
#[test]
fn of_a_level_with_too_many_nodes_no_more_than_that_are_looked_at() {
    let store = Store::new((0..4000_u32).map(|number| number.to_be_bytes().to_vec()).collect());
    (0..store.keys.len()).for_each(|key| store.put(key));
    let root = store.tree.root().unwrap();
    let (mut level, mut nodes) = (root.level(), vec![root.offset]);
    while level > 0 {
        let children = store.tree.children(&nodes, level, usize::MAX).unwrap().unwrap();
        assert!(children.len() > nodes.len());
        assert!(children.windows(2).all(|pair| pair[0] != pair[1]), "a node is named twice");
        assert_eq!(store.tree.children(&nodes, level, children.len()).unwrap().as_ref(), Some(&children));
        assert_eq!(store.tree.children(&nodes, level, children.len() - 1).unwrap(), None);
        if nodes.len() > 1 {
            // What comes behind those that are too many already need not even be a node.
            let with_none = [nodes[0], 8];
            assert_eq!(store.tree.children(&with_none, level, 1).unwrap(), None);
        }
        (level, nodes) = (level - 1, children);
    }
    assert!(nodes.len() > 300);
}
