//! What the tests of the tree share: stores with a tree, key records, hostile keys, and comparison with a `BTreeMap`.
#![allow(dead_code)]

pub mod orders;
pub mod workload;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use slmdb_order::{Direction, KeyOrder};
use slmdb_pmem::{Blocks, Medium, Pool, PoolOptions};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{LeafRead, SegmentEntry, Tree, write_segment};
use slmdb_sync::epoch;

/// A small generator of random numbers (SplitMix64): the same seed gives the same test.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}

/// How much longer than usual random tests run: `SLMDB_TEST_BUDGET`, 1 by default.
pub fn budget() -> usize {
    std::env::var("SLMDB_TEST_BUDGET").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

pub fn pool_options(maximum_bytes: u64) -> PoolOptions {
    PoolOptions { initial_bytes: 0, growth_bytes: 64 << 10, maximum_bytes, uuid: [7; 16] }
}

/// A tree and all it stands on.
pub struct Store<M: Medium> {
    pub pool: Arc<Pool<M>>,
    pub blocks: Arc<Blocks<M>>,
    pub tree: Tree<M>,
}

impl<M: Medium> Store<M> {
    pub fn create(medium: M, node_bytes: u32) -> Store<M> {
        Store::create_in(medium, node_bytes, 200 << 20)
    }

    pub fn create_in(medium: M, node_bytes: u32, maximum_bytes: u64) -> Store<M> {
        Store::create_ordered(medium, node_bytes, maximum_bytes, KeyOrder::Bytewise)
    }

    pub fn create_ordered(medium: M, node_bytes: u32, maximum_bytes: u64, order: KeyOrder) -> Store<M> {
        let pool = Arc::new(Pool::anonymous(medium, &pool_options(maximum_bytes)).unwrap());
        let blocks = Arc::new(Blocks::open(Arc::clone(&pool)).unwrap());
        let tree = Tree::create(Arc::clone(&pool), Arc::clone(&blocks), node_bytes, order).unwrap();
        Store { pool, blocks, tree }
    }

    /// As after a crash that left these bytes.
    pub fn open_image(medium: M, image: Vec<u8>) -> Store<M> {
        Store::open_image_ordered(medium, image, KeyOrder::Bytewise)
    }

    pub fn open_image_ordered(medium: M, image: Vec<u8>, order: KeyOrder) -> Store<M> {
        let pool = Arc::new(Pool::from_image(medium, image).unwrap());
        let blocks = Arc::new(Blocks::open(Arc::clone(&pool)).unwrap());
        let tree = Tree::open(Arc::clone(&pool), Arc::clone(&blocks), order).unwrap();
        Store { pool, blocks, tree }
    }

    /// Writes records for these keys, in this order, as a segment of this file. Gives their offsets.
    pub fn records<K: AsRef<[u8]>>(&self, file: u32, keys: &[K]) -> Vec<u64> {
        let entries = keys.iter().map(|key| SegmentEntry {
            key: key.as_ref(),
            sequence: u64::from(file) << 20,
            kind: EntryKind::Put,
            block_offset: 4096,
            block_length: 100,
        });
        let segment = write_segment(&self.pool, file, entries).unwrap();
        let guard = epoch::pin();
        segment.records(&self.pool, &guard).map(|record| record.unwrap().offset()).collect()
    }

    pub fn put(&self, key: &[u8], record: u64) {
        self.tree.insert_or_replace(key, record).unwrap();
    }

    pub fn remove(&self, key: &[u8]) {
        self.tree.remove(key).unwrap();
    }

    /// The record that the tree has for a key.
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        let guard = epoch::pin();
        self.tree.get(key, &guard).unwrap().map(|record| {
            assert_eq!(record.key(), key);
            record.offset()
        })
    }

    /// The records that the tree has for keys, looked up together.
    pub fn get_each<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Option<u64>> {
        let (guard, keys) = (epoch::pin(), keys.iter().map(AsRef::as_ref).collect::<Vec<&[u8]>>());
        let mut records = Vec::new();
        let found = self.tree.get_each(&keys, &guard, |index, record| {
            assert_eq!(index, records.len());
            records.push(record.map(|record| {
                assert_eq!(record.key(), keys[index]);
                record.offset()
            }));
            Ok(())
        });
        found.unwrap();
        records
    }

    /// The tree and the model hold the same, however one looks.
    pub fn assert_same(&self, model: &BTreeMap<Vec<u8>, u64>) {
        let faults = self.tree.verify();
        assert!(faults.is_empty(), "{faults:#?}\n{}", self.tree.dump().unwrap_or_default());
        for (key, &record) in model {
            assert_eq!(self.get(key), Some(record), "key {}", key.escape_ascii());
        }
        assert_eq!(self.tree.count().unwrap(), model.len() as u64);
        let all: Vec<u64> = self.in_order(model).iter().map(|(_, record)| *record).collect();
        assert_eq!(self.collect(Bound::Unbounded, Direction::Forward, 0), all);
        assert_eq!(self.collect(Bound::Unbounded, Direction::Forward, 7), all);
        let reversed: Vec<u64> = all.iter().rev().copied().collect();
        assert_eq!(self.collect(Bound::Unbounded, Direction::Backward, 0), reversed);
        assert_eq!(self.collect(Bound::Unbounded, Direction::Backward, 7), reversed);
    }

    /// The model's entries in the tree's order.
    pub fn in_order<'m>(&self, model: &'m BTreeMap<Vec<u8>, u64>) -> Vec<(&'m [u8], u64)> {
        let mut entries: Vec<(&[u8], u64)> = model.iter().map(|(key, &record)| (&key[..], record)).collect();
        entries.sort_by(|left, right| self.tree.order().compare(left.0, right.0));
        entries
    }

    /// Reads from some place must give what the model has from there on.
    pub fn assert_ranges(&self, model: &BTreeMap<Vec<u8>, u64>, places: &[Vec<u8>]) {
        let entries = self.in_order(model);
        for place in places {
            for from in [Bound::Included(&place[..]), Bound::Excluded(&place[..])] {
                let stands = |key: &[u8]| self.tree.order().compare(key, place);
                let is_before = |key: &[u8]| match from {
                    Bound::Included(_) => stands(key).is_lt(),
                    _ => stands(key).is_le(),
                };
                let is_behind = |key: &[u8]| match from {
                    Bound::Included(_) => stands(key).is_gt(),
                    _ => stands(key).is_ge(),
                };
                let expected: Vec<u64> =
                    entries.iter().filter(|(key, _)| !is_before(key)).map(|(_, record)| *record).take(40).collect();
                let mut found = self.collect(from, Direction::Forward, 30);
                found.truncate(40);
                assert_eq!(found, expected, "forward from {from:?}");
                let expected: Vec<u64> = entries
                    .iter()
                    .rev()
                    .filter(|(key, _)| !is_behind(key))
                    .map(|(_, record)| *record)
                    .take(40)
                    .collect();
                let mut found = self.collect(from, Direction::Backward, 30);
                found.truncate(40);
                assert_eq!(found, expected, "backward from {from:?}");
            }
        }
    }

    /// All records from a bound on, read leaf by leaf, or some leaves at once.
    pub fn collect(&self, from: Bound<&[u8]>, direction: Direction, at_once: usize) -> Vec<u64> {
        let (mut leaf, mut all) = (LeafRead::new(), Vec::new());
        let mut next = Some(from.map(<[u8]>::to_vec));
        while let Some(from) = next {
            let guard = epoch::pin();
            self.tree.read_leaves(from.as_ref().map(Vec::as_slice), direction, at_once, &guard, &mut leaf).unwrap();
            all.extend_from_slice(leaf.records());
            next = leaf.next().map(|bound| bound.map(<[u8]>::to_vec));
        }
        all
    }

    /// Keys as text, for small cases.
    pub fn keys(&self) -> Vec<String> {
        let guard = epoch::pin();
        let range = self.tree.range(Bound::Unbounded, Direction::Forward, &guard);
        range.map(|record| String::from_utf8_lossy(record.unwrap().key()).into_owned()).collect()
    }
}

/// Keys that have broken trees: the empty one, prefixes of each other, long ones, with long common beginnings, all zeros
/// and all ones.
pub fn hostile_keys(random: &mut Random, count: usize) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
    for length in [1, 2, 7, 8, 9, 16, 17, 100, 65_535] {
        keys.push(vec![0; length]);
        keys.push(vec![0xff; length]);
        keys.push(vec![b'a'; length]);
    }
    keys.push([vec![b'a'; 65_534], vec![b'b']].concat());
    keys.push([vec![b'a'; 65_533], vec![b'b', 0]].concat());
    while keys.len() < count {
        let key = match random.below(7) {
            0 => (0..random.below(24)).map(|_| random.next() as u8).collect(),
            1 => (0..random.below(12)).map(|_| b'a' + random.below(2) as u8).collect(),
            2 => [vec![b'p'; 8], random.next().to_be_bytes()[..1 + random.below(4)].to_vec()].concat(),
            3 => [vec![b'q'; 16], random.next().to_be_bytes()[..1 + random.below(4)].to_vec()].concat(),
            4 => [vec![b'r'; 100], random.next().to_be_bytes()[..1 + random.below(4)].to_vec()].concat(),
            5 => [vec![b's'; 12], vec![0; random.below(20)]].concat(),
            _ => {
                let base = keys[random.below(keys.len())].clone();
                let end = random.below(base.len().min(40) + 1);
                [&base[..end], &[random.below(3) as u8]].concat()
            }
        };
        keys.push(key);
        if keys.len() == count {
            keys.sort();
            keys.dedup();
        }
    }
    random.shuffle(&mut keys);
    keys
}
