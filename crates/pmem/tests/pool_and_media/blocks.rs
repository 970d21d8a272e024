//! Blocks: what the bitmaps and the lists say, against a model.
#![allow(clippy::unwrap_used, reason = "a test stops where something fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::common::small;
use proptest::prelude::*;
use slmdb_env::{ErrorKind, OsEnv};
use slmdb_pmem::blocks::BLOCK_BYTES_MAX;
use slmdb_pmem::{Blocks, Dram, Emulated, ExtentKind, Pool, PoolOptions, UNIT_BYTES};
use slmdb_testkit::Random;

fn blocks() -> Blocks<Dram> {
    Blocks::open(Arc::new(Pool::anonymous(Dram, &small()).unwrap())).unwrap()
}

#[test]
fn every_size_can_be_had_aligned_and_apart() {
    let blocks = blocks();
    let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
    for size in [0, 1, 64, 65, 500, 512, 4000, 4096, 5000, 65_536, 100_000, BLOCK_BYTES_MAX] {
        let rounded = size.max(64).next_power_of_two();
        for _ in 0..20 {
            let block = blocks.take(size).unwrap();
            assert_eq!(blocks.block_size(block).unwrap(), rounded);
            assert_eq!(block % u64::from(rounded).min(4096), 0);
            let extent = blocks.pool().extent_at(block).unwrap();
            assert_eq!((extent.kind, extent.owner), (ExtentKind::Blocks, rounded));
            assert!(block > extent.offset && block + u64::from(rounded) <= extent.end());
            taken.insert(block, block + u64::from(rounded));
        }
    }
    assert_eq!(taken.len(), 12 * 20);
    assert!(taken.values().zip(taken.keys().skip(1)).all(|(end, next)| end <= next), "blocks overlap");
    assert_eq!(blocks.used(), [], "taking is not using");
    assert_eq!(blocks.take(BLOCK_BYTES_MAX + 1).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(blocks.take(u32::MAX).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn what_is_no_block_is_corruption() {
    let blocks = blocks();
    let block = blocks.take(512).unwrap();
    let extent = blocks.pool().extent_at(block).unwrap();
    let arena = blocks.pool().allocate_extent(ExtentKind::Arena, 1, 0).unwrap();
    for offset in [0, 1, 64, extent.offset, block + 1, block + 64, extent.end(), arena.offset, u64::MAX, 1 << 40] {
        assert_eq!(blocks.block_size(offset).unwrap_err().kind(), ErrorKind::Corruption, "{offset}");
        assert_eq!(blocks.mark_used(offset).unwrap_err().kind(), ErrorKind::Corruption, "{offset}");
        assert_eq!(blocks.is_used(offset).unwrap_err().kind(), ErrorKind::Corruption, "{offset}");
    }
}

/// What waits for the last reader runs on any thread, at any time. It took a map that was damaged by then for an error of the
/// program, and ended a thread of a store that had nothing to do with it.
#[test]
fn a_block_recycled_under_a_damaged_map_stays_off_the_list() {
    let blocks = blocks();
    let block = blocks.take(512).unwrap();
    let free = blocks.free_count(512);
    let entry = UNIT_BYTES + blocks.pool().extent_at(block).unwrap().offset / UNIT_BYTES * 16;
    let sound = blocks.pool().load(entry).unwrap();
    blocks.pool().store(entry, u64::from_ne_bytes([0xa5; 8])).unwrap();
    assert_eq!(blocks.is_used(block).unwrap_err().kind(), ErrorKind::Corruption);
    blocks.recycle(block);
    blocks.pool().store(entry, sound).unwrap();
    assert_eq!(blocks.free_count(512), free);
    blocks.recycle(block);
    assert_eq!(blocks.free_count(512), free + 1);
}

#[test]
fn a_bitmap_that_was_something_else_before_is_zero_at_birth() {
    let pool = Arc::new(Pool::anonymous(Dram, &small()).unwrap());
    let extent = pool.allocate_extent(ExtentKind::Arena, 8 * UNIT_BYTES, 0).unwrap();
    // SAFETY: nobody else has the extent.
    unsafe { pool.write(extent.offset, &vec![0xff; extent.length_bytes as usize]) }.unwrap();
    pool.free_extent(extent.offset).unwrap();
    let blocks = Blocks::open(pool.clone()).unwrap();
    for size in [64, 512, 4096, 32_768] {
        blocks.take(size).unwrap();
    }
    assert_eq!(blocks.used(), []);
    assert!(Blocks::open(pool).is_ok());
}

#[test]
fn impossible_extents_of_blocks_are_corruption() {
    for owner in [0, 1, 32, 63, 96, 1000, BLOCK_BYTES_MAX * 2, u32::MAX, UNIT_BYTES as u32] {
        let pool = Arc::new(Pool::anonymous(Dram, &small()).unwrap());
        let extent = pool.allocate_extent_zeroed(ExtentKind::Blocks, UNIT_BYTES, owner, 1024).unwrap();
        assert_eq!(Blocks::open(pool.clone()).unwrap_err().kind(), ErrorKind::Corruption, "{owner}");
        assert!(extent.length_bytes == UNIT_BYTES);
    }
    let pool = Arc::new(Pool::anonymous(Dram, &small()).unwrap());
    let extent = pool.allocate_extent_zeroed(ExtentKind::Blocks, UNIT_BYTES, 512, 1024).unwrap();
    pool.store(extent.offset + 8, 1 << 63).unwrap();
    assert_eq!(Blocks::open(pool.clone()).unwrap_err().kind(), ErrorKind::Corruption, "block 127 of 127");
    pool.store(extent.offset + 8, 1 << 62).unwrap();
    assert!(Blocks::open(pool).is_ok(), "block 126 is the last");
}

#[test]
fn a_full_pool_says_so_and_a_little_room_is_used() {
    let options = PoolOptions { maximum_bytes: 8 * UNIT_BYTES, ..small() };
    let blocks = Blocks::open(Arc::new(Pool::anonymous(Dram, &options).unwrap())).unwrap();
    let mut taken = 0;
    let error = loop {
        match blocks.take(64) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Full);
    assert_eq!(blocks.pool().used_bytes(), 8 * UNIT_BYTES);
    assert!(taken > 6 * 1000, "{taken}");
}

#[derive(Debug, Clone)]
enum Step {
    Take { size: u32 },
    Use { which: usize },
    Free { which: usize },
    Drop { which: usize },
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![8 => Just(512_u32), 4 => Just(64_u32), 2 => 1..5000_u32, 1 => 1..BLOCK_BYTES_MAX];
    let step = prop_oneof![
        8 => size.prop_map(|size| Step::Take { size }),
        6 => any::<usize>().prop_map(|which| Step::Use { which }),
        4 => any::<usize>().prop_map(|which| Step::Free { which }),
        2 => any::<usize>().prop_map(|which| Step::Drop { which }),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_are_what_a_model_says(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let pool = Pool::create(&OsEnv::new(), &path, Emulated::new(), &small()).unwrap();
        let mut blocks = Blocks::open(Arc::new(pool)).unwrap();
        let mut taken: Vec<u64> = Vec::new();
        let mut used: Vec<u64> = Vec::new();
        for step in steps {
            match step {
                Step::Take { size } => {
                    let block = blocks.take(size).unwrap();
                    prop_assert!(!taken.contains(&block) && !used.contains(&block), "block {} was had already", block);
                    taken.push(block);
                }
                Step::Use { which } if !taken.is_empty() => {
                    let block = taken.swap_remove(which % taken.len());
                    blocks.mark_used(block).unwrap();
                    blocks.mark_used(block).unwrap();
                    used.push(block);
                }
                Step::Free { which } if !used.is_empty() => {
                    let block = used.swap_remove(which % used.len());
                    blocks.mark_free(block).unwrap();
                    blocks.mark_free(block).unwrap();
                    blocks.recycle(block);
                }
                Step::Drop { which } if !taken.is_empty() => blocks.recycle(taken.swap_remove(which % taken.len())),
                Step::Use { .. } | Step::Free { .. } | Step::Drop { .. } => {}
                Step::Reopen => {
                    drop(blocks);
                    let pool = Pool::open(&OsEnv::new(), &path, Emulated::new(), &small(), false).unwrap();
                    blocks = Blocks::open(Arc::new(pool)).unwrap();
                    taken.clear();
                }
            }
        }
        used.sort_unstable();
        prop_assert_eq!(blocks.used(), used);
        prop_assert_eq!(blocks.pool().verify().len(), 0);
    }
}

#[test]
fn threads_take_and_mark_at_once() {
    let pool = Arc::new(Pool::anonymous(Emulated::new(), &small()).unwrap());
    let blocks = Blocks::open(pool).unwrap();
    let kept: BTreeSet<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let blocks = &blocks;
                scope.spawn(move || {
                    let mut random = Random(thread);
                    let mut mine = Vec::new();
                    for _ in 0..2000 {
                        if random.below(3) == 0 && !mine.is_empty() {
                            let block = mine.swap_remove(random.below(mine.len() as u64) as usize);
                            blocks.mark_free(block).unwrap();
                            blocks.recycle(block);
                        } else {
                            let block = blocks.take(64 << random.below(4)).unwrap();
                            blocks.mark_used(block).unwrap();
                            mine.push(block);
                        }
                    }
                    mine
                })
            })
            .collect();
        let mine: Vec<u64> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let kept: BTreeSet<u64> = mine.iter().copied().collect();
        assert_eq!(kept.len(), mine.len(), "two threads have the same block");
        kept
    });
    assert_eq!(blocks.used(), kept.into_iter().collect::<Vec<_>>());
}
