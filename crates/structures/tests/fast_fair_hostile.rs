//! Damaged pools: whatever the words are, the tree gives an error that names the place, or works on what is left. It never
//! panics, hangs, or takes another key's record for the one that was asked for.
#![allow(clippy::unwrap_used)]

mod fast_fair_support;

use std::ops::Bound;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use crossbeam_epoch as epoch;
use fast_fair_support::{Random, Store, budget, hostile_keys};
use slmdb_env::{Error, ErrorKind};
use slmdb_order::KeyOrder;
use slmdb_pmem::simulated::Choice;
use slmdb_pmem::{Blocks, Dram, ExtentKind, Pool, Simulated};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{Decision, Direction, LeafRead, Segment, SegmentEntry, Tree, write_segment};

/// A pool with a tree, as bytes, and what is where in it.
struct Image {
    bytes: Vec<u8>,
    keys: Vec<Vec<u8>>,
    records: Vec<u64>,
    nodes: Vec<u64>,
    blocks: Vec<u64>,
    root_area: u64,
    segment: (u64, u64),
}

fn image(keys: Vec<Vec<u8>>) -> Image {
    let medium = Simulated::new();
    let store = Store::create_in(medium.clone(), 256, 16 << 20);
    let records = store.records(1, &keys);
    for (key, &record) in keys.iter().zip(&records) {
        store.put(key, record);
    }
    let blocks = store.blocks.used();
    let is_node = |&block: &u64| store.blocks.block_size(block).unwrap() == 256;
    let nodes = blocks.iter().copied().filter(is_node).collect();
    let extent = store.pool.extent_at(records[0]).unwrap();
    let mut replay = medium.history().replay();
    replay.to_moment(u64::MAX);
    let bytes = replay.image(Choice::Everything);
    let root_area = store.pool.root_offset();
    Image { bytes, keys, records, nodes, blocks, root_area, segment: (extent.offset, extent.length_bytes) }
}

impl Image {
    /// Damages some words.
    fn damaged(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for _ in 0..1 + random.below(3) {
            let block = self.blocks[random.below(self.blocks.len())];
            let node = self.nodes[random.below(self.nodes.len())];
            let word = match random.below(12) {
                0 => self.root_area + 8 * random.below(9) as u64,
                1 => self.segment.0 + 8 * random.below(self.segment.1 as usize / 8) as u64,
                2 => self.records[random.below(self.records.len())] + 8 * random.below(5) as u64,
                3 => block + 8 * random.below(32) as u64,
                4 => node + 32,
                5 => node + [0, 16, 24, 40][random.below(4)],
                _ => node + 64 + 8 * random.below(24) as u64,
            };
            let old = u64::from_le_bytes(bytes[word as usize..][..8].try_into().unwrap());
            let new = match random.below(10) {
                0 => random.next(),
                1 => old ^ 1 << random.below(64),
                2 => random.below(3) as u64,
                3 => self.records[random.below(self.records.len())],
                4 => self.records[random.below(self.records.len())] + random.below(64) as u64,
                5 => block,
                6 => block + random.below(600) as u64,
                7 => random.below(bytes.len()) as u64,
                _ => self.nodes[random.below(self.nodes.len())],
            };
            bytes[word as usize..][..8].copy_from_slice(&new.to_le_bytes());
        }
        bytes
    }

    /// Everything that can be done with a tree is done with a damaged one.
    fn exercise(&self, bytes: Vec<u8>, random: &mut Random) {
        let Ok(pool) = Pool::from_image(Dram, bytes).map(Arc::new) else { return };
        let Ok(blocks) = Blocks::open(Arc::clone(&pool)).map(Arc::new) else { return };
        let tree = match Tree::open(pool, blocks, KeyOrder::Bytewise) {
            Ok(tree) => tree,
            Err(error) => return expected(&error),
        };
        self.read(&tree);
        let mut order: Vec<usize> = (0..40).map(|_| random.below(self.keys.len())).collect();
        for &index in &order {
            let result = match random.below(3) {
                0 => tree.remove(&self.keys[index]),
                _ => tree.insert_or_replace(&self.keys[index], self.records[index]),
            };
            result.map_or_else(|error| expected(&error), drop);
        }
        order.sort_by_key(|&index| &self.keys[index]);
        order.dedup();
        let keys = order.iter().map(|&index| &self.keys[index][..]);
        let removing = random.below(2) == 0;
        let decide = |index: usize| if removing { Decision::Remove } else { Decision::Put(self.records[order[index]]) };
        tree.update_sorted(keys, |index, _| Ok(decide(index))).unwrap_or_else(|error| expected(&error));
        self.read(&tree);
    }

    fn read(&self, tree: &Tree<Dram>) {
        let guard = epoch::pin();
        for key in &self.keys {
            match tree.get(key, &guard) {
                Ok(Some(record)) => assert_eq!(record.key(), key),
                Ok(None) => {}
                Err(error) => expected(&error),
            }
        }
        for direction in [Direction::Forward, Direction::Backward] {
            for at_once in [0, 100] {
                let (mut leaf, mut from) = (LeafRead::new(), Some(Bound::Unbounded));
                while let Some(bound) = from {
                    let bound = bound.as_ref().map(Vec::as_slice);
                    if let Err(error) = tree.read_leaves(bound, direction, at_once, &guard, &mut leaf) {
                        expected(&error);
                        break;
                    }
                    from = leaf.next().map(|bound| bound.map(<[u8]>::to_vec));
                }
            }
        }
        tree.verify().iter().for_each(expected);
        tree.dump().map_or_else(|error| expected(&error), drop);
        tree.count().map_or_else(|error| expected(&error), drop);
    }
}

fn expected(error: &Error) {
    // A damaged bitmap may make the pool look full; a record whose key is damaged is another key's.
    let kinds = [ErrorKind::Corruption, ErrorKind::Full, ErrorKind::Unsupported, ErrorKind::Invalid];
    assert!(kinds.contains(&error.kind()), "{error}");
}

/// Fails, and does not hang, if `run` does not end in time.
fn must_end(run: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        run();
        let _ = done.send(());
    });
    match wait.recv_timeout(Duration::from_secs(300 * budget() as u64)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the tree is caught in a loop"),
        _ => thread.join().unwrap(),
    }
}

#[test]
fn a_damaged_tree_gives_errors_and_nothing_worse() {
    must_end(|| {
        let mut random = Random::new(1);
        let short: Vec<Vec<u8>> = (0..300_u32).map(|number| (number * 7919 % 300).to_be_bytes().to_vec()).collect();
        let mut hostile = hostile_keys(&mut random, 150);
        hostile.iter_mut().for_each(|key| key.truncate(300));
        hostile.sort();
        hostile.dedup();
        for keys in [short, hostile] {
            let image = image(keys);
            for seed in 0..1200 * budget() as u64 {
                let mut random = Random::new(seed);
                let bytes = image.damaged(&mut random);
                image.exercise(bytes, &mut random);
            }
        }
    });
}

#[test]
fn a_damaged_tree_is_reported_by_verify() {
    // A word that matters, set to something else: it is not overlooked.
    let keys: Vec<Vec<u8>> = (0..300_u32).map(|number| (number * 7919 % 300).to_be_bytes().to_vec()).collect();
    let image = image(keys);
    let whole = Store::open_image(Dram, image.bytes.clone());
    assert!(whole.tree.verify().is_empty());
    let mut found = 0;
    for &node in image.nodes.iter() {
        let places = [node + 16, node + 24, node + 32, node + 40, node + 64, node + 72, node + 88];
        for place in places {
            let mut bytes = image.bytes.clone();
            let word = &mut bytes[place as usize..][..8];
            let old = u64::from_le_bytes(word.try_into().unwrap());
            let free =
                place >= node + 64 && bytes[(node + 64 + (place - node - 64) / 16 * 16 + 8) as usize..][..8] == [0; 8];
            let inline_fences_end = place == node + 40 && bytes[node as usize + 34..][..6] == [0; 6];
            if free || inline_fences_end {
                continue;
            }
            bytes[place as usize..][..8].copy_from_slice(&(old ^ 0x40).to_le_bytes());
            let pool = Arc::new(Pool::from_image(Dram, bytes).unwrap());
            let blocks = Arc::new(Blocks::open(Arc::clone(&pool)).unwrap());
            let reported = Tree::open(pool, blocks, KeyOrder::Bytewise).map_or(true, |tree| !tree.verify().is_empty());
            assert!(reported, "node {node} + {} was {old:#x}", place - node);
            found += 1;
        }
    }
    assert!(found > 100);
}

#[test]
fn a_damaged_segment_is_refused_whatever_is_wrong() {
    let mut random = Random::new(3);
    let store = Store::create(Dram, 256);
    let mut keys = hostile_keys(&mut random, 60);
    keys.iter_mut().for_each(|key| key.truncate(200));
    keys.sort();
    keys.dedup();
    let entries = keys.iter().map(|key| SegmentEntry {
        key,
        sequence: random_sequence(key),
        kind: EntryKind::Put,
        block_offset: 1,
        block_length: 2,
    });
    let segment = write_segment(&store.pool, 5, entries).unwrap();
    let offset_of_all = segment.parts()[0].offset;
    let extent = store.pool.extent_at(offset_of_all).unwrap();
    assert_eq!((extent.kind, extent.owner), (ExtentKind::KeySegment, 5));
    let guard = epoch::pin();
    let notes: Vec<u64> = segment.records(&store.pool, &guard).map(|record| record.unwrap().offset() + 12).collect();
    let (mut refused, mut allowed) = (0, 0);
    for at in (0..64).chain(64..64 + segment.length_bytes()) {
        let offset = offset_of_all + at;
        let (word, shift) = (offset & !7, 8 * (offset % 8));
        let whole = store.pool.load(word).unwrap();
        for flip in [1, 0x80, 0xff] {
            store.pool.store(word, whole ^ flip << shift).unwrap();
            let is_note = notes.iter().any(|note| (*note..note + 4).contains(&offset));
            match Segment::open(&store.pool, &[extent]) {
                Ok(_) => {
                    assert!(is_note, "byte {at} was flipped unnoticed");
                    allowed += 1;
                }
                Err(error) => {
                    assert!(!is_note && error.kind() == ErrorKind::Corruption, "byte {at}: {error}");
                    refused += 1;
                }
            }
            // Walking it none the less ends, with errors or without.
            assert!(segment.records(&store.pool, &guard).count() <= segment.length_bytes() as usize / 24);
        }
        store.pool.store(word, whole).unwrap();
    }
    assert_eq!(Segment::open(&store.pool, &[extent]).unwrap(), segment);
    assert!(refused > 1000 && allowed == 12 * keys.len());
    // A segment under another's number is not that file's.
    let moved = slmdb_pmem::Extent { owner: 6, ..extent };
    assert_eq!(Segment::open(&store.pool, &[moved]).unwrap_err().kind(), ErrorKind::Corruption);
    let empty = store.pool.allocate_extent(ExtentKind::KeySegment, 64, 9).unwrap();
    assert_eq!(Segment::open(&store.pool, &[empty]).unwrap_err().kind(), ErrorKind::Corruption);
    let arena = store.pool.allocate_extent(ExtentKind::Arena, 64, 9).unwrap();
    assert_eq!(Segment::open(&store.pool, &[arena]).unwrap_err().kind(), ErrorKind::Corruption);
}

fn random_sequence(key: &[u8]) -> u64 {
    Random::new(key.len() as u64).next() >> 8
}
