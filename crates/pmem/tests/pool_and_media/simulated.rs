//! The simulated medium: what it promises, and what the pool makes of that in every crash.
#![allow(clippy::unwrap_used, reason = "a test stops where something fails")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::common::{UUID, fill, is_filled, small};
use slmdb_pmem::{Blocks, Dram, Extent, ExtentKind, Medium, Pool, UNIT_BYTES};
use slmdb_testkit::{
    MemoryEnv, Random, Recording, Simulated,
    medium::{Choice, Pick, Replay},
};

fn pool() -> (Simulated, Pool<Simulated>) {
    let medium = Simulated::new();
    let pool = Pool::anonymous(medium.clone(), &small()).unwrap();
    (medium, pool)
}

/// The words at `offsets` in every image of a crash here.
fn outcomes<const N: usize>(replay: &Replay, offsets: [u64; N]) -> BTreeSet<[u64; N]> {
    let images = replay.images(500, 1);
    images
        .map(|image| {
            offsets.map(|offset| u64::from_le_bytes(image[offset as usize..offset as usize + 8].try_into().unwrap()))
        })
        .collect()
}

fn end_of(medium: &Simulated) -> Replay {
    let mut replay = medium.history().replay();
    replay.to_moment(u64::MAX);
    replay
}

#[test]
fn what_was_not_fenced_may_be_there_or_not() {
    let (medium, pool) = pool();
    let word = pool.root_offset();
    pool.store(word, 1).unwrap();
    assert_eq!(outcomes(&end_of(&medium), [word]), [[0], [1]].into());
    pool.flush(word, 8);
    assert_eq!(outcomes(&end_of(&medium), [word]), [[0], [1]].into(), "a flush alone promises nothing");
    pool.store(word, 2).unwrap();
    pool.fence();
    assert_eq!(outcomes(&end_of(&medium), [word]), [[1], [2]].into(), "the fence orders what was flushed before it");
    pool.persist(word, 8);
    assert_eq!(outcomes(&end_of(&medium), [word]), [[2]].into());
}

#[test]
fn stores_to_one_line_keep_their_order_and_lines_do_not() {
    let (medium, pool) = pool();
    let (first, same_line, other_line) = (pool.root_offset(), pool.root_offset() + 56, pool.root_offset() + 64);
    pool.store(first, 1).unwrap();
    pool.store(same_line, 1).unwrap();
    assert_eq!(outcomes(&end_of(&medium), [first, same_line]), [[0, 0], [1, 0], [1, 1]].into());
    pool.persist(first, 64);
    pool.store(first, 2).unwrap();
    pool.store(other_line, 2).unwrap();
    assert_eq!(outcomes(&end_of(&medium), [first, other_line]), [[1, 0], [1, 2], [2, 0], [2, 2]].into());
    let pending: Vec<_> = end_of(&medium).pending().collect();
    assert_eq!(pending, [(first, 1), (other_line, 1)]);
}

#[test]
fn a_fence_orders_its_own_threads_flushes_only() {
    let (medium, pool) = pool();
    let word = pool.root_offset();
    pool.store(word, 1).unwrap();
    pool.flush(word, 8);
    std::thread::scope(|scope| scope.spawn(|| pool.fence()).join().unwrap());
    assert_eq!(outcomes(&end_of(&medium), [word]), [[0], [1]].into());
    pool.fence();
    assert_eq!(outcomes(&end_of(&medium), [word]), [[1]].into());
}

#[test]
fn the_words_of_a_copy_have_no_order() {
    let (medium, pool) = pool();
    let extent = pool.allocate_extent_zeroed(ExtentKind::Arena, UNIT_BYTES, 1, UNIT_BYTES).unwrap();
    // SAFETY: the extent is ours.
    unsafe { pool.write(extent.offset, &[0xff; 16]) }.unwrap();
    let replay = end_of(&medium);
    let seen: BTreeSet<Vec<u8>> = (0..200)
        .map(|seed| replay.image(Choice::Random(seed))[extent.offset as usize..extent.offset as usize + 16].to_vec())
        .collect();
    assert_eq!(seen.len(), 4, "both, either, none: {seen:?}");
}

#[test]
fn compare_exchange_is_recorded_when_it_stores() {
    let (medium, pool) = pool();
    let word = pool.root_offset();
    let before = medium.moment();
    assert_eq!(pool.compare_exchange(word, 5, 6).unwrap(), Err(0));
    assert_eq!(medium.moment(), before);
    assert_eq!(pool.compare_exchange(word, 0, 6).unwrap(), Ok(0));
    assert_eq!(medium.moment(), before + 1);
    assert_eq!(outcomes(&end_of(&medium), [word]), [[0], [6]].into());
}

#[test]
fn the_record_is_the_same_in_every_run() {
    let run = |seed| {
        let (medium, pool) = pool();
        for value in 0..100 {
            pool.store(pool.root_offset() + value % 7 * 32, value).unwrap();
            if value % 5 == 0 {
                pool.persist(pool.root_offset(), 64);
            }
        }
        let mut replay = medium.history().replay();
        let mut images = Vec::new();
        while replay.to_next_crash() {
            images.extend(replay.images(4, seed));
        }
        (medium.moment(), medium.counters(), images)
    };
    let (first, again, other) = (run(1), run(1), run(2));
    assert!(first == again);
    assert!(first.2 != other.2, "another seed gives other images");
}

#[test]
fn a_replay_ends_in_what_the_processor_saw() {
    let (medium, pool) = pool();
    let mut random = Random(5);
    for _ in 0..500 {
        let offset = pool.root_offset() + random.below(400) * 8;
        match random.below(3) {
            0 => pool.persist(offset, random.below(200)),
            _ => pool.store(offset, random.number()).unwrap(),
        }
    }
    let image = end_of(&medium).image(Choice::Everything);
    for offset in (pool.root_offset()..pool.root_offset() + 400 * 8).step_by(8) {
        let word = u64::from_le_bytes(image[offset as usize..offset as usize + 8].try_into().unwrap());
        assert_eq!(word, pool.load(offset).unwrap());
    }
}

#[test]
fn one_medium_serves_one_pool_after_the_other() {
    let (medium, first) = pool();
    let moment = medium.moment();
    drop(first);
    assert_eq!(medium.moment(), moment, "the record outlives the pool");
    let second = Pool::anonymous(medium.clone(), &small()).unwrap();
    second.store(second.root_offset(), 3).unwrap();
    assert_eq!(outcomes(&end_of(&medium), [second.root_offset()]), [[0], [3]].into());
}

#[test]
#[should_panic(expected = "serves one pool")]
fn one_medium_does_not_serve_two_pools() {
    let (medium, _first) = pool();
    let _ = Pool::anonymous(medium, &small());
}

#[test]
fn a_creation_is_finished_or_not() {
    let (medium, pool) = pool();
    let expected = pool.extents();
    let mut replay = medium.history().replay();
    let (mut finished, mut unfinished) = (0, 0);
    for moment in 0..=medium.moment() {
        replay.to_moment(moment);
        for image in replay.images(20, moment) {
            match Pool::from_image(Dram, image) {
                Ok(crashed) => {
                    finished += 1;
                    assert_eq!((crashed.extents(), crashed.uuid()), (expected.clone(), UUID));
                    assert!(!crashed.was_clean());
                }
                Err(error) => {
                    unfinished += 1;
                    assert!(error.to_string().contains("never finished"), "{error}");
                }
            }
        }
    }
    assert!(finished > 0 && unfinished > 10);
}

#[test]
fn closing_and_opening_hold_in_every_crash() {
    let (env, path) = (MemoryEnv::new(), Path::new("/pool"));
    let medium = Simulated::new();
    let pool = Pool::create(&env, path, medium.clone(), &small()).unwrap();
    let extent = pool.allocate_extent_zeroed(ExtentKind::Arena, UNIT_BYTES, 1, UNIT_BYTES).unwrap();
    // It checks itself, so that nobody but its maker makes it durable.
    let list = pool.allocate_extent(ExtentKind::List, 1, 2).unwrap();
    fill(&pool, &list);
    let begin = medium.moment();
    pool.seal().unwrap();
    let mut replay = medium.history().replay();
    replay.to_moment(begin);
    let mut closed = 0;
    while replay.to_next_crash() {
        for image in replay.images(64, 9) {
            env.set_content("/crashed", &image);
            let medium = Simulated::new();
            let crashed = Pool::open(&env, Path::new("/crashed"), medium.clone(), &small(), false);
            let crashed = crashed.expect("a crash while closing");
            closed += u32::from(crashed.was_clean());
            assert_eq!(crashed.extent_at(extent.offset), Some(extent));
            assert!(is_filled(&crashed, &list));
            let mut opening = medium.history().replay();
            let mut still_clean = 0;
            while opening.to_next_crash() {
                for image in opening.images(64, 9) {
                    env.set_content("/again", &image);
                    let again = Pool::open(&env, Path::new("/again"), Dram, &small(), false);
                    let again = again.expect("a crash while opening");
                    still_clean += u32::from(again.was_clean());
                    assert!(again.open_count() >= crashed.open_count());
                    assert_eq!(again.extent_at(extent.offset), Some(extent));
                    assert!(is_filled(&again, &list));
                }
            }
            assert_eq!(still_clean > 0, crashed.was_clean());
        }
    }
    assert!(closed > 1, "closed clean at the end, and at the latest fence perhaps");
}

#[test]
fn no_number_of_an_opening_is_used_twice() {
    let (medium, pool) = pool();
    let mut used = BTreeSet::from([pool.open_count()]);
    let mut image = end_of(&medium).image(Choice::Nothing);
    for _ in 0..5 {
        let medium = Simulated::new();
        let pool = Pool::from_image(medium.clone(), image).unwrap();
        assert!(used.insert(pool.open_count()));
        image = end_of(&medium).image(Choice::Nothing);
    }
}

/// What a run of allocating and freeing was promised.
#[derive(Debug, Clone)]
enum Done {
    Allocated(Extent),
    Freed(Extent),
}

#[test]
fn extents_are_there_whole_or_not_at_all_in_every_crash() {
    let (medium, pool) = pool();
    let mut random = Random(7);
    let own = pool.extents();
    let mut held: Vec<Extent> = Vec::new();
    let mut acknowledged = vec![(medium.moment(), None)];
    for step in 0..150 {
        let done = if held.len() > 6 || (random.below(3) == 0 && !held.is_empty()) {
            let extent = held.swap_remove(random.below(held.len() as u64) as usize);
            pool.free_extent(extent.offset).unwrap();
            Done::Freed(extent)
        } else {
            let (units, zeroed) = (1 + random.below(3), random.below(2) * 512);
            let extent = pool.allocate_extent_zeroed(ExtentKind::Blocks, units * UNIT_BYTES, step, zeroed).unwrap();
            // Dirty and never flushed, so that a later owner of the space meets it in some images.
            pool.store(extent.offset, u64::MAX).unwrap();
            held.push(extent);
            Done::Allocated(extent)
        };
        acknowledged.push((medium.moment(), Some(done)));
    }
    let mut replay = medium.history().replay();
    replay.to_moment(acknowledged[0].0);
    let mut images = 0;
    while replay.to_next_crash() {
        let known = acknowledged.partition_point(|(moment, _)| *moment <= replay.moment());
        let after = |steps: usize| {
            let mut extents = own.clone();
            for (_, done) in &acknowledged[..steps] {
                match done {
                    Some(Done::Allocated(extent)) => extents.push(*extent),
                    Some(Done::Freed(extent)) => extents.retain(|held| held != extent),
                    None => {}
                }
            }
            extents.sort_by_key(|extent| extent.offset);
            extents
        };
        let (before, then) = (after(known), after((known + 1).min(acknowledged.len())));
        for image in replay.images(6, 3) {
            let crashed = Pool::from_image(Dram, image).unwrap();
            let found = crashed.extents();
            assert!(found == before || found == then, "at {}: {found:?}", replay.moment());
            assert_eq!(crashed.verify().len(), 0);
            crashed.allocate_extent(ExtentKind::Arena, 3 * UNIT_BYTES, 0).unwrap();
            images += 1;
        }
    }
    assert!(images > 500, "{images}");
}

#[test]
fn a_new_extent_of_blocks_never_comes_with_a_used_block() {
    let (medium, pool) = pool();
    let pool = Arc::new(pool);
    // The space was full of ones before.
    let extent = pool.allocate_extent(ExtentKind::Arena, 6 * UNIT_BYTES, 0).unwrap();
    // SAFETY: the extent is ours.
    unsafe { pool.write(extent.offset, &vec![0xff; extent.length_bytes as usize]) }.unwrap();
    pool.persist(extent.offset, extent.length_bytes);
    pool.free_extent(extent.offset).unwrap();
    let blocks = Blocks::open(pool.clone()).unwrap();
    let begin = medium.moment();
    for size in [64, 512, 4096, 65_536] {
        blocks.take(size).unwrap();
    }
    let mut replay = medium.history().replay();
    replay.to_moment(begin);
    while replay.to_next_crash() {
        for image in replay.images(10, 4) {
            let crashed = Blocks::open(Arc::new(Pool::from_image(Dram, image).unwrap())).unwrap();
            assert_eq!(crashed.used(), []);
        }
    }
}

#[test]
fn block_bits_hold_in_every_crash() {
    let (medium, pool) = pool();
    let blocks = Blocks::open(Arc::new(pool)).unwrap();
    let mut random = Random(11);
    let taken: Vec<u64> = (0..80).map(|_| blocks.take(512).unwrap()).collect();
    // Steps of several changes under one fence.
    let mut steps = vec![(medium.moment(), BTreeSet::new())];
    for _ in 0..60 {
        let mut used = steps[steps.len() - 1].1.clone();
        for _ in 0..=random.below(4) {
            let block = taken[random.below(80) as usize];
            if used.remove(&block) {
                blocks.mark_free(block).unwrap();
            } else {
                blocks.mark_used(block).unwrap();
                used.insert(block);
            }
        }
        blocks.pool().fence();
        steps.push((medium.moment(), used));
    }
    let mut replay = medium.history().replay();
    replay.to_moment(steps[0].0);
    while replay.to_next_crash() {
        let known = steps.partition_point(|(moment, _)| *moment <= replay.moment()) - 1;
        let before = &steps[known].1;
        let then = &steps[(known + 1).min(steps.len() - 1)].1;
        for image in replay.images(10, 5) {
            let crashed = Blocks::open(Arc::new(Pool::from_image(Dram, image).unwrap())).unwrap();
            let found: BTreeSet<u64> = crashed.used().into_iter().collect();
            for block in found.symmetric_difference(before) {
                assert!(before.contains(block) != then.contains(block), "block {block} was not even touched");
            }
        }
    }
}

#[test]
fn growing_holds_in_every_crash() {
    let (medium, pool) = pool();
    let begin = medium.moment();
    let first = pool.allocate_extent(ExtentKind::Arena, 10 * UNIT_BYTES, 1).unwrap();
    let second = pool.allocate_extent_zeroed(ExtentKind::Arena, 7 * UNIT_BYTES, 2, 7 * UNIT_BYTES).unwrap();
    let mut replay = medium.history().replay();
    replay.to_moment(begin);
    while replay.to_next_crash() {
        for image in replay.images(30, 6) {
            let crashed = Pool::from_image(Dram, image).unwrap();
            let found = crashed.extents();
            assert!(found.len() >= 2 && found.len() <= 4);
            assert!(found.get(2).is_none_or(|&extent| extent == first));
            assert!(found.get(3).is_none_or(|&extent| extent == second));
            let new = crashed.allocate_extent(ExtentKind::Arena, 30 * UNIT_BYTES, 3).unwrap();
            crate::common::fill(&crashed, &new);
            assert!(is_filled(&crashed, &new) && crashed.verify().is_empty());
        }
    }
}

/// Words that nobody flushes, such as locks, are under the seal, too: found by the simulator.
#[test]
fn a_pool_closed_clean_opens_after_a_power_cut() {
    let medium = Simulated::recording(Arc::new(Recording::new()));
    let pool = Pool::anonymous(medium.clone(), &small()).unwrap();
    let blocks = pool.allocate_extent(ExtentKind::Blocks, UNIT_BYTES, 256).unwrap();
    pool.store(blocks.offset + 4096, 42).unwrap();
    pool.store(pool.root_offset(), 43).unwrap();
    pool.seal().unwrap();
    let crashed = Pool::from_image(Simulated::new(), end_of(&medium).image(Choice::Nothing)).unwrap();
    assert!(crashed.was_clean());
    assert_eq!(crashed.load(blocks.offset + 4096).unwrap(), 42);
    assert_eq!(crashed.load(crashed.root_offset()).unwrap(), 43);
}

/// Found by the simulator: a processor's caches outlive a process, and what is in them is read as if it were durable.
#[test]
fn what_a_kill_left_in_caches_is_durable_once_the_pool_opens() {
    let first = Simulated::recording(Arc::new(Recording::new()));
    let pool = Pool::anonymous(first.clone(), &small()).unwrap();
    let extent = pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 1).unwrap();
    pool.store(extent.offset + 256, 44).unwrap();
    let left = end_of(&first);
    let second = Simulated::recording(Arc::new(Recording::new())).with_durable(left.image(Choice::Nothing));
    let again = Pool::from_image(second.clone(), left.image(Choice::Everything)).unwrap();
    assert_eq!(again.load(extent.offset + 256).unwrap(), 44);
    let crashed = Pool::from_image(Dram, end_of(&second).image(Choice::Nothing)).unwrap();
    assert_eq!(crashed.load(extent.offset + 256).unwrap(), 44);
}

/// A wrong image of the simulator's: where a killed creation was done again, a power cut gave the new pool, whose file was empty, what
/// the old one had held.
#[test]
fn a_pool_made_anew_has_nothing_of_what_was_durable_before() {
    let first = Simulated::recording(Arc::new(Recording::new()));
    let pool = Pool::anonymous(first.clone(), &small()).unwrap();
    pool.store(pool.root_offset(), 44).unwrap();
    pool.seal().unwrap();
    let second = Simulated::recording(Arc::new(Recording::new()));
    let second = second.with_durable(end_of(&first).image(Choice::Nothing));
    let again = Pool::anonymous(second.clone(), &small()).unwrap();
    let mut record = second.history().replay();
    record.to_moment(second.history().begin().unwrap() + 1);
    assert!(record.image(Choice::Nothing).iter().all(|&byte| byte == 0));
    drop(again);
}

/// A wrong image of the simulator's: of a leaf that a kill had left in the middle of a shift it made words durable in an order in which
/// they were not stored, and called what followed a fault of the store.
#[test]
fn a_line_left_in_the_caches_is_there_whole_or_not_at_all() {
    let first = Simulated::recording(Arc::new(Recording::new()));
    let pool = Pool::anonymous(first.clone(), &small()).unwrap();
    let extent = pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 1).unwrap();
    let words = [extent.offset + 256, extent.offset + 264];
    words.iter().for_each(|&offset| pool.store(offset, 44).unwrap());
    let left = end_of(&first);
    let second = Simulated::recording(Arc::new(Recording::new())).with_durable(left.image(Choice::Nothing));
    let again = Pool::from_image(second.clone(), left.image(Choice::Everything)).unwrap();
    let mut record = second.history().replay();
    let mut seen = BTreeSet::new();
    while record.to_next_crash() {
        for picked in 0..256 {
            let bytes =
                record.image_of(|_, stores| Pick { stores: picked as usize % (stores + 1), words: picked as u8 });
            seen.insert(words.map(|offset| bytes.get(offset as usize).copied().unwrap_or(0)));
        }
    }
    drop(again);
    assert_eq!(seen, BTreeSet::from([[0, 0], [44, 44]]));
}
