//! The index in a damaged pool: read in every way, changed, and read again.
//!
//! An input is choices of words: which one is changed, and into what. Words that lead from one thing to another get the
//! places of other things; that is what makes cycles, and what random numbers hardly ever hit.

use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crossbeam_epoch as epoch;
use slmdb_env::{Error, ErrorKind, Result};
use slmdb_order::{Direction, KeyOrder};
use slmdb_pmem::{Blocks, Dram, Emulated, ExtentKind, Pool, PoolOptions};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{Decision, LeafRead, Segment, SegmentEntry, Tree, write_segment};
use slmdb_testkit::MemoryEnv;

use crate::memory::within;
use crate::mode::Mode;
use crate::script::Choices;
use crate::{mend, script};

/// A pool with a tree, as bytes, and what is where in it.
#[derive(Debug)]
pub struct Image {
    /// The pool.
    pub bytes: Vec<u8>,
    /// The keys, in the order they were put.
    pub keys: Vec<Vec<u8>>,
    /// Where each key's record is.
    pub records: Vec<u64>,
    /// Where the nodes are.
    pub nodes: Vec<u64>,
    blocks: Vec<u64>,
    root_area: u64,
    segment: (u64, u64),
}

const PATH: &str = "/pool";
const NODE_BYTES: u32 = 256;
/// The words of an intent slot, and slots that are ever used by a tree this low.
const INTENT_WORDS: usize = 21;
const INTENTS: usize = 4;

/// A tree with these keys.
pub fn image(keys: Vec<Vec<u8>>) -> Image {
    make(keys).expect("a sound tree")
}

fn make(keys: Vec<Vec<u8>>) -> Result<Image> {
    let env = MemoryEnv::new();
    let options = PoolOptions { initial_bytes: 0, growth_bytes: 64 << 10, maximum_bytes: 16 << 20, uuid: [7; 16] };
    let pool = Arc::new(Pool::create(&env, Path::new(PATH), Emulated::new(), &options)?);
    let blocks = Arc::new(Blocks::open(Arc::clone(&pool))?);
    let tree = Tree::create(Arc::clone(&pool), Arc::clone(&blocks), NODE_BYTES, KeyOrder::Bytewise)?;
    let entries = keys.iter().map(|key| SegmentEntry {
        key,
        sequence: 1 << 20,
        kind: EntryKind::Put,
        block_offset: 4096,
        block_length: 100,
    });
    let guard = epoch::pin();
    let segment = write_segment(&pool, 1, entries)?;
    let records = segment.records(&pool, &guard).map(|record| Ok(record?.offset())).collect::<Result<Vec<u64>>>()?;
    for (key, &record) in keys.iter().zip(&records) {
        tree.insert_or_replace(key, record)?;
    }
    drop(guard);
    let used = blocks.used();
    let is_node = |&block: &u64| blocks.block_size(block).is_ok_and(|size| size == NODE_BYTES);
    let nodes = used.iter().copied().filter(is_node).collect();
    let offset = segment.parts()[0].offset;
    let length = pool.extent_at(offset).map_or(0, |extent| extent.length_bytes);
    let root_area = pool.root_offset();
    drop((tree, blocks, pool));
    let bytes = env.content(PATH).unwrap_or_default();
    Ok(Image { bytes, keys, records, nodes, blocks: used, root_area, segment: (offset, length) })
}

/// Short keys; keys with long heads in common, so that fences have blocks of their own.
fn images() -> &'static [Image] {
    static IMAGES: OnceLock<Vec<Image>> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let short = (0..200_u32).map(|number| (number * 7919 % 200).to_be_bytes().to_vec()).collect();
        let long = (0..100_u32).map(|number| {
            let head = [b'p', b'q', b'r'][number as usize % 3];
            [vec![head; number as usize % 5 * 40], (number * 7919 % 100).to_be_bytes().to_vec()].concat()
        });
        [short, long.collect()].map(image).into()
    })
}

/// Runs an input.
pub fn run(input: &[u8]) {
    let Some((mode, rest)) = Mode::split(input) else { return };
    let image = &images()[mode.sound(images().len())];
    let (damage, deeds) = rest.split_at(rest.len() - rest.len() / 3);
    let mut bytes = image.bytes.clone();
    if mode.has_option() {
        let mut file = [bytes];
        script::apply(damage, &mut file);
        [bytes] = file;
    } else {
        image.damage(&mut bytes, &mut Choices::new(damage));
    }
    mode.mend(&mut bytes, &image.bytes, mend::pool::mend);
    within(4 * bytes.len() + (16 << 20), || image.exercise(bytes, &mut Choices::new(deeds)));
}

impl Image {
    /// Whether damage that was done to a copy is told, by opening the tree or by its `verify`.
    pub fn is_reported(&self, bytes: Vec<u8>) -> bool {
        let open = || {
            let pool = Arc::new(Pool::from_image(Dram, bytes)?);
            let blocks = Arc::new(Blocks::open(Arc::clone(&pool))?);
            Tree::open(pool, blocks, KeyOrder::Bytewise)
        };
        open().map_or(true, |tree| !tree.verify().is_empty())
    }

    /// Damages some words.
    fn damage(&self, bytes: &mut [u8], choices: &mut Choices<'_>) {
        for _ in 0..script::EDITS_MAX {
            if choices.is_empty() {
                return;
            }
            let kind = choices.below(13);
            let block = self.blocks[choices.below(self.blocks.len())];
            let node = self.nodes[choices.below(self.nodes.len())];
            let number = choices.below(1 << 16);
            let word = match kind {
                0 => self.root_area + 8 * (number as u64 % 9),
                1 => self.segment.0 + 8 * (number as u64 % (self.segment.1 / 8)),
                2 => self.records[number % self.records.len()] + 8 * (number as u64 / 256 % 5),
                3 => block + 8 * (number as u64 % 32),
                4 => node + 32,
                5 => node + [0, 16, 24, 40][number % 4],
                6 => {
                    let slots = mend::u64_at(bytes, self.root_area as usize + 16);
                    let (slot, word) = (number % INTENTS, number / INTENTS % INTENT_WORDS);
                    slots.wrapping_add(256 * slot as u64 + 8 * word as u64)
                }
                _ => node + 64 + 8 * (number as u64 % 24),
            };
            let word = usize::try_from(word).unwrap_or(usize::MAX);
            let old = mend::u64_at(bytes, word);
            let new = match choices.below(12) {
                0 => u64::from_le_bytes(choices.bytes()),
                1 => old ^ 1 << (choices.byte() % 64),
                2 => u64::from(choices.byte() % 3),
                3 => self.records[choices.below(self.records.len())],
                4 => self.records[choices.below(self.records.len())] + u64::from(choices.byte() % 64),
                5 => self.blocks[choices.below(self.blocks.len())],
                6 => self.blocks[choices.below(self.blocks.len())] + choices.below(600) as u64,
                7 => choices.below(bytes.len()) as u64,
                // An intent, or the shape of a node.
                8 => u64::from_le_bytes([
                    1 + choices.byte() % 3,
                    choices.byte() % 4,
                    1,
                    1 + choices.byte() % 8,
                    0,
                    0,
                    0,
                    0,
                ]),
                _ => self.nodes[choices.below(self.nodes.len())],
            };
            mend::put(bytes, word, &new.to_le_bytes());
        }
    }

    /// Everything that can be done with a tree is done with a damaged one.
    fn exercise(&self, bytes: Vec<u8>, choices: &mut Choices<'_>) {
        let sound = bytes == self.bytes;
        let Ok(pool) = Pool::from_image(Dram, bytes).map(Arc::new) else { return assert!(!sound) };
        self.read_segments(&pool);
        let Ok(blocks) = Blocks::open(Arc::clone(&pool)).map(Arc::new) else { return assert!(!sound) };
        let tree = match Tree::open(pool, blocks, KeyOrder::Bytewise) {
            Ok(tree) => tree,
            Err(error) => {
                assert!(!sound, "a sound tree is refused: {error}");
                return damaged(&error);
            }
        };
        self.read(&tree, sound);
        let mut order: Vec<usize> = (0..8).map(|_| choices.below(self.keys.len())).collect();
        for &index in &order {
            let result = match choices.byte() % 3 {
                0 => tree.remove(&self.keys[index]),
                _ => tree.insert_or_replace(&self.keys[index], self.records[index]),
            };
            result.map_or_else(|error| damaged(&error), drop);
        }
        order.sort_by_key(|&index| &self.keys[index]);
        order.dedup();
        let keys = order.iter().map(|&index| &self.keys[index][..]);
        let removing = choices.byte().is_multiple_of(2);
        let decide = |index: usize| if removing { Decision::Remove } else { Decision::Put(self.records[order[index]]) };
        tree.update_sorted(keys, |index, _| Ok(decide(index))).unwrap_or_else(|error| damaged(&error));
        self.read(&tree, false);
    }

    /// As recovery does: each table file's segment, and every record in it.
    fn read_segments(&self, pool: &Pool<Dram>) {
        let guard = epoch::pin();
        for extent in pool.extents().into_iter().filter(|extent| extent.kind == ExtentKind::KeySegment) {
            match Segment::open(pool, &[extent]) {
                Ok(segment) => {
                    // Under a checksum that is right a record may still be none.
                    let records: Result<Vec<_>> = segment.records(pool, &guard).collect();
                    let count = segment.parts()[0].count;
                    records.map_or_else(|error| damaged(&error), |records| assert_eq!(records.len() as u64, count));
                }
                Err(error) => damaged(&error),
            }
        }
    }

    fn read(&self, tree: &Tree<Dram>, sound: bool) {
        let guard = epoch::pin();
        for (key, &offset) in self.keys.iter().zip(&self.records) {
            match tree.get(key, &guard) {
                Ok(Some(record)) => assert!(record.key() == key && (!sound || record.offset() == offset)),
                Ok(None) => assert!(!sound, "a key is gone from a sound tree"),
                Err(error) => damaged(&error),
            }
        }
        for direction in [Direction::Forward, Direction::Backward] {
            for at_once in [0, 100] {
                let (mut leaf, mut from) = (LeafRead::new(), Some(Bound::Unbounded));
                while let Some(bound) = from {
                    let bound = bound.as_ref().map(Vec::as_slice);
                    if let Err(error) = tree.read_leaves(bound, direction, at_once, &guard, &mut leaf) {
                        damaged(&error);
                        break;
                    }
                    from = leaf.next().map(|bound| bound.map(<[u8]>::to_vec));
                }
            }
        }
        tree.verify().iter().for_each(damaged);
        tree.dump().map_or_else(|error| damaged(&error), drop);
        tree.count().map_or_else(|error| damaged(&error), drop);
    }
}

fn damaged(error: &Error) {
    // A damaged bitmap may make the pool look full; a record whose key is damaged is another key's.
    let kinds = [ErrorKind::Corruption, ErrorKind::Full, ErrorKind::Unsupported, ErrorKind::Invalid];
    assert!(kinds.contains(&error.kind()), "{error}");
}
