//! Readers that are held up between their two looks at the commit word.

use std::sync::Arc;

use slmdb_order::KeyOrder;
use slmdb_pmem::{Dram, Pool, PoolOptions, Slots};

use super::super::{Entry, HybridTree, LeafCopy, Place, Version};
use super::meanwhile;
use crate::EntryKind;

fn entry(key: &[u8], sequence: u64) -> Entry<'_> {
    let version = Version { sequence, kind: EntryKind::Put, file: 1, offset: 0, length_bytes: 1 };
    Entry { key, version }
}

fn tree(keys: &[&[u8]]) -> Arc<HybridTree<Dram>> {
    let options = PoolOptions { initial_bytes: 0, growth_bytes: 1 << 16, maximum_bytes: 8 << 20, uuid: [1; 16] };
    let pool = Arc::new(Pool::anonymous(Dram, &options).unwrap());
    let slots = Arc::new(Slots::open(pool).unwrap());
    let tree = HybridTree::create(slots, 0, 1, KeyOrder::Bytewise).unwrap();
    tree.apply(keys.iter().map(|key| entry(key, 1)), |_, _| {}).unwrap();
    Arc::new(tree)
}

#[test]
fn a_miss_counts_only_if_the_leaf_is_as_it_was() {
    let tree = tree(&[b"a", b"c"]);
    let other = Arc::clone(&tree);
    meanwhile(move || other.apply([entry(b"b", 2)], |_, _| {}).unwrap());
    assert_eq!(tree.get(b"b").unwrap().map(|version| version.sequence), Some(2));
}

#[test]
fn a_copy_is_of_one_moment() {
    let tree = tree(&[b"a", b"c"]);
    let other = Arc::clone(&tree);
    meanwhile(move || {
        other.remove([(&b"c"[..], 1)]).unwrap();
        other.apply([entry(b"b", 2)], |_, _| {}).unwrap();
    });
    let mut copy = LeafCopy::default();
    assert!(tree.copy_leaf(Place::First, &mut copy).unwrap());
    assert_eq!(copy.iter().map(|(key, _)| key).collect::<Vec<_>>(), [b"a", b"b"]);
}

/// What is replaced under a reader is not used again while the reader is there.
#[test]
fn a_reader_keeps_what_it_came_by() {
    let keys: Vec<Vec<u8>> = (0..48).map(|number| vec![b'a' + number]).collect();
    let tree = tree(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>());
    let other = Arc::clone(&tree);
    meanwhile(move || {
        // Splits the leaf, and then asks for everything that is free again.
        for sequence in 2..200 {
            let more: Vec<Vec<u8>> = keys.iter().map(|key| [key, &[sequence as u8][..]].concat()).collect();
            other.apply(more.iter().map(|key| entry(key, sequence)), |_, _| {}).unwrap();
            other.remove(more.iter().map(|key| (&key[..], sequence))).unwrap();
            slmdb_sync::epoch::pin().flush();
        }
        assert!(other.slots().retiring() > 0);
    });
    let mut copy = LeafCopy::default();
    assert!(tree.copy_leaf(Place::First, &mut copy).unwrap());
    assert!(copy.iter().all(|(key, version)| key.len() == 1 && version.sequence == 1), "{copy:?}");
}
