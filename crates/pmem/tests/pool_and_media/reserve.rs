//! The pool's reserve: what arenas leave alone and key segments and blocks can have to the last unit.
#![allow(clippy::unwrap_used, reason = "a test stops where something fails")]

use std::path::Path;
use std::sync::Arc;

use crate::common::{fill, is_filled, small};
use proptest::prelude::*;
use slmdb_env::{ErrorKind, OsEnv};
use slmdb_pmem::{Blocks, Claim, Dram, Emulated, Extent, ExtentKind, Medium, Pool, PoolOptions, UNIT_BYTES};
use slmdb_testkit::{Failure, MemoryEnv, Repeat, Simulated};

/// Header and map of a small pool.
const OWN_UNITS: u64 = 2;

fn pool_of(units: u64) -> Pool<Dram> {
    Pool::anonymous(Dram, &PoolOptions { maximum_bytes: (OWN_UNITS + units) * UNIT_BYTES, ..small() }).unwrap()
}

/// Arenas of one unit until no more can be had.
fn fill_up<M: Medium>(pool: &Pool<M>) -> Vec<Extent> {
    let mut arenas = Vec::new();
    loop {
        match pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, arenas.len() as u32) {
            Ok(arena) => arenas.push(arena),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full);
                return arenas;
            }
        }
    }
}

/// Parts of key segments until no more can be had. Gives their units.
fn take_all<M: Medium>(pool: &Pool<M>, wanted_units: u64) -> u64 {
    let mut units = 0;
    loop {
        match pool.allocate_part(ExtentKind::KeySegment, wanted_units * UNIT_BYTES, UNIT_BYTES, 1, Claim::Privileged) {
            Ok(part) => units += part.length_bytes / UNIT_BYTES,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full);
                return units;
            }
        }
    }
}

#[test]
fn a_pool_filled_to_the_last_unit_keeps_its_reserve() {
    let pool = pool_of(100);
    pool.set_reserve(30 * UNIT_BYTES, UNIT_BYTES).unwrap();
    assert_eq!((pool.reserve_bytes(), pool.free_bytes() >= 30 * UNIT_BYTES), (30 * UNIT_BYTES, true));
    assert_eq!(fill_up(&pool).len(), 70);
    assert_eq!(pool.free_bytes(), 30 * UNIT_BYTES);
    assert_eq!(pool.set_reserve(31 * UNIT_BYTES, UNIT_BYTES).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(pool.set_reserve(u64::MAX, UNIT_BYTES).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(pool.reserve_bytes(), 30 * UNIT_BYTES, "the old reserve stays");
    assert_eq!(take_all(&pool, 7), 30);
    assert_eq!(pool.free_bytes(), 0);
    pool.set_reserve(29 * UNIT_BYTES, UNIT_BYTES).unwrap();
    assert_eq!(pool.verify().len(), 0);
}

#[test]
fn every_unit_is_of_use_when_every_other_one_is_free() {
    let pool = pool_of(101);
    let arenas = fill_up(&pool);
    assert_eq!(arenas.len(), 101);
    for arena in arenas.iter().step_by(2) {
        pool.free_extent(arena.offset).unwrap();
    }
    pool.set_reserve(51 * UNIT_BYTES, UNIT_BYTES).unwrap();
    assert_eq!(pool.allocate_extent(ExtentKind::Arena, 1, 1).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(
        pool.set_reserve(2 * UNIT_BYTES, 2 * UNIT_BYTES).unwrap_err().kind(),
        ErrorKind::Full,
        "no two in a row are free"
    );
    // Blocks of different sizes, each in units of its own, and a key segment in as many parts as there are units.
    let pool = Arc::new(pool);
    let blocks = Blocks::open(Arc::clone(&pool)).unwrap();
    let counts = [(64, 1022), (512, 127), (4096, 15), (32_768, 1)];
    for (size, count) in counts {
        assert_eq!(Blocks::<Dram>::extent_bytes_max(size, count, UNIT_BYTES), UNIT_BYTES);
        for _ in 0..count {
            blocks.take(size).unwrap();
        }
    }
    assert_eq!(pool.free_bytes(), (51 - 4) * UNIT_BYTES);
    assert_eq!(take_all(&pool, 1000), 51 - 4);
    assert_eq!(blocks.take(512).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!((pool.free_bytes(), pool.verify().len()), (0, 0));
}

#[test]
fn a_part_is_the_longest_run_unless_all_fits_one() {
    let pool = pool_of(20);
    let extents: Vec<Extent> =
        [3, 1, 5, 1, 4, 6].map(|units| pool.allocate_extent(ExtentKind::Arena, units * UNIT_BYTES, 0).unwrap()).into();
    for index in [0, 2, 4] {
        pool.free_extent(extents[index].offset).unwrap();
    }
    let part = |units: u64| {
        let part =
            pool.allocate_part(ExtentKind::KeySegment, units * UNIT_BYTES, UNIT_BYTES, 1, Claim::Privileged).unwrap();
        (part.offset, part.length_bytes / UNIT_BYTES)
    };
    assert_eq!(part(4), (extents[4].offset, 4), "the shortest run that is long enough");
    assert_eq!(part(6), (extents[2].offset, 5), "the longest there is");
    assert_eq!(part(1), (extents[0].offset, 1));
    let least = 3 * UNIT_BYTES;
    let error = pool.allocate_part(ExtentKind::KeySegment, least, least, 1, Claim::Privileged).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "two are left, and less than three are of no use");
    assert_eq!(pool.free_bytes(), 2 * UNIT_BYTES);
}

#[test]
fn arenas_make_the_pool_grow_and_leave_the_reserve() {
    let pool = pool_of(1000);
    pool.set_reserve(10 * UNIT_BYTES, UNIT_BYTES).unwrap();
    assert!(pool.length_bytes() < 40 * UNIT_BYTES);
    pool.allocate_extent(ExtentKind::Arena, 20 * UNIT_BYTES, 1).unwrap();
    assert!(pool.free_bytes() >= 10 * UNIT_BYTES);
    pool.set_reserve(500 * UNIT_BYTES, UNIT_BYTES).unwrap();
    assert!(pool.free_bytes() >= 500 * UNIT_BYTES && pool.length_bytes() < 600 * UNIT_BYTES);
    // Key segments use it without growing the pool; the next arena makes up for it.
    let length = pool.length_bytes();
    pool.allocate_extent(ExtentKind::KeySegment, 300 * UNIT_BYTES, 1).unwrap();
    assert_eq!(pool.length_bytes(), length);
    pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 2).unwrap();
    assert!(pool.free_bytes() >= 500 * UNIT_BYTES);
    pool.set_reserve(0, 0).unwrap();
    pool.allocate_extent(ExtentKind::Arena, pool.free_bytes() / 2, 3).unwrap();
    assert_eq!(pool.verify().len(), 0);
}

#[test]
fn blocks_take_little_of_the_reserve_at_a_time() {
    let pool = Arc::new(pool_of(200));
    let blocks = Blocks::open(Arc::clone(&pool)).unwrap();
    // So many that the next extent would be one of many units.
    for _ in 0..4000 {
        blocks.take(512).unwrap();
    }
    pool.set_reserve(20 * UNIT_BYTES, UNIT_BYTES).unwrap();
    fill_up(&pool);
    assert_eq!(pool.free_bytes(), 20 * UNIT_BYTES);
    for _ in 0..=blocks.free_count(512) {
        blocks.take(512).unwrap();
    }
    assert_eq!(pool.free_bytes(), 19 * UNIT_BYTES);
    blocks.take(100_000).unwrap();
    assert_eq!(pool.free_bytes(), 16 * UNIT_BYTES, "one block, in three units");
    assert_eq!(Blocks::<Dram>::extent_bytes_max(131_072, 1, UNIT_BYTES), 3 * UNIT_BYTES);
    assert_eq!(Blocks::<Dram>::extent_bytes_max(131_072, 2, 2 * UNIT_BYTES), 8 * UNIT_BYTES);
}

#[test]
fn blocks_in_use_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let pool = Arc::new(Pool::create(&OsEnv::new(), &path, Emulated::new(), &small()).unwrap());
    let blocks = Blocks::open(pool).unwrap();
    let taken: Vec<u64> = (0..300).map(|_| blocks.take(500).unwrap()).collect();
    assert_eq!(blocks.used_count(512), 0);
    for block in &taken {
        blocks.mark_used(*block).unwrap();
        blocks.mark_used(*block).unwrap();
    }
    assert_eq!((blocks.used_count(512), blocks.used_count(500), blocks.used_count(1024)), (300, 300, 0));
    for block in &taken[..100] {
        blocks.mark_free(*block).unwrap();
        blocks.mark_free(*block).unwrap();
    }
    assert_eq!(blocks.used_count(512), 200);
    drop(blocks);
    let pool = Arc::new(Pool::open(&OsEnv::new(), &path, Emulated::new(), &small(), false).unwrap());
    let blocks = Blocks::open(pool).unwrap();
    assert_eq!(blocks.used_count(512), 200);
    assert_eq!(blocks.used().len(), 200);
}

#[test]
fn a_full_disk_refuses_the_reserve_and_not_what_it_was_made_for() {
    let env = MemoryEnv::new();
    let path = Path::new("/pool");
    let options = PoolOptions { growth_bytes: 64 * UNIT_BYTES, ..small() };
    env.set_capacity(20 * UNIT_BYTES);
    let pool = Pool::create(&env, path, Emulated::new(), &options).unwrap();
    assert_eq!(pool.set_reserve(19 * UNIT_BYTES, UNIT_BYTES).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(pool.reserve_bytes(), 0);
    pool.set_reserve(10 * UNIT_BYTES, UNIT_BYTES).unwrap();
    // The space was taken from the disk then: it doesn't matter how full that is now.
    env.set_capacity(0);
    assert!(fill_up(&pool).len() <= 8);
    assert!(pool.free_bytes() >= 10 * UNIT_BYTES);
    assert!(take_all(&pool, 3) >= 10);
    assert_eq!(pool.verify().len(), 0);
}

#[test]
fn whatever_fails_while_the_reserve_grows_the_old_one_stays() {
    let path = Path::new("/pool");
    for failure in [Failure::Io, Failure::Full] {
        for operation in 0.. {
            let env = MemoryEnv::new();
            let pool = Pool::create(&env, path, Emulated::new(), &small()).unwrap();
            pool.set_reserve(5 * UNIT_BYTES, UNIT_BYTES).unwrap();
            env.fail_at(operation, failure, Repeat::ForGood);
            let result = pool.set_reserve(50 * UNIT_BYTES, 2 * UNIT_BYTES);
            assert_eq!(result.is_err(), env.failures_struck() > 0);
            if result.is_ok() {
                assert!(operation > 0);
                break;
            }
            assert_eq!((pool.reserve_bytes(), pool.verify().len()), (5 * UNIT_BYTES, 0));
            env.clear_failures();
            pool.set_reserve(50 * UNIT_BYTES, 2 * UNIT_BYTES).unwrap();
        }
    }
}

#[test]
fn a_crash_leaves_the_reserve_as_free_space() {
    let medium = Simulated::new();
    let pool = Pool::anonymous(medium.clone(), &small()).unwrap();
    let begin = medium.moment();
    let kept = pool.allocate_extent(ExtentKind::Arena, 2 * UNIT_BYTES, 1).unwrap();
    fill(&pool, &kept);
    let before = medium.moment();
    pool.set_reserve(9 * UNIT_BYTES, UNIT_BYTES).unwrap();
    pool.allocate_part(ExtentKind::KeySegment, 8 * UNIT_BYTES, UNIT_BYTES, 2, Claim::Privileged).unwrap();
    pool.allocate_extent(ExtentKind::Arena, 3 * UNIT_BYTES, 3).unwrap();
    let mut replay = medium.history().replay();
    replay.to_moment(begin);
    let mut images = 0;
    while replay.to_next_crash() {
        for image in replay.images(16, 1) {
            images += 1;
            let pool = Pool::from_image(Dram, image).unwrap();
            assert_eq!((pool.verify().len(), pool.reserve_bytes()), (0, 0));
            assert!(replay.moment() < before || is_filled(&pool, &kept));
        }
    }
    assert!(images > 10);
}

#[test]
fn a_reserve_reaches_into_new_regions() {
    // Regions of 256 MiB, from the header of the file. The memory is never touched.
    let (env, directory) = (OsEnv::new(), tempfile::tempdir().unwrap());
    let path = directory.path().join("pool");
    drop(Pool::create(&env, &path, Dram, &small()).unwrap());
    let pool = Pool::open(&env, &path, Dram, &PoolOptions { maximum_bytes: 2 << 30, ..small() }, false).unwrap();
    for (bytes, piece_units) in [(200 << 20, 1), (600 << 20, 1), (900 << 20, 3), (1500 << 20, 7)] {
        pool.set_reserve(bytes, piece_units * UNIT_BYTES).unwrap();
        assert!(pool.free_bytes() >= bytes && pool.free_bytes() < bytes + (4 << 20), "{}", pool.free_bytes());
        assert_eq!(pool.verify().len(), 0);
    }
    assert_eq!(pool.set_reserve(2 << 30, UNIT_BYTES).unwrap_err().kind(), ErrorKind::Full);
}

#[derive(Debug, Clone)]
enum Step {
    Arena { units: u64 },
    Part { wanted: u64, least: u64 },
    Block { size: u32 },
    Free { which: usize },
    Reserve { units: u64, piece: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..8_u64).prop_map(|units| Step::Arena { units }),
        4 => (1..12_u64, 1..4_u64).prop_map(|(wanted, least)| Step::Part { wanted: wanted.max(least), least }),
        3 => (64..131_072_u32).prop_map(|size| Step::Block { size }),
        5 => any::<usize>().prop_map(|which| Step::Free { which }),
        3 => (0..60_u64, 1..4_u64).prop_map(|(units, piece)| Step::Reserve { units, piece }),
    ];
    prop::collection::vec(step, 1..200)
}

/// The free units of a pool that count towards a reserve, found from its extents.
fn counted_units(pool: &Pool<Dram>, piece: u64) -> u64 {
    let (mut end, mut counted) = (0, 0);
    for extent in pool.extents() {
        counted += (extent.offset - end) / UNIT_BYTES / piece * piece;
        end = extent.end();
    }
    counted + (pool.length_bytes() - end) / UNIT_BYTES / piece * piece
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn space_is_accounted_for_whatever_happens(steps in steps()) {
        let maximum = 100;
        let pool = Arc::new(pool_of(maximum));
        let blocks = Blocks::open(Arc::clone(&pool)).unwrap();
        let (mut extents, mut reserve): (Vec<Extent>, _) = (Vec::new(), (0, 1));
        for step in steps {
            let counted = |piece: u64| counted_units(&pool, piece);
            // What could be counted if the pool were as long as it may be.
            let at_most = |piece: u64| counted(piece) + (OWN_UNITS + maximum) - pool.length_bytes() / UNIT_BYTES + piece;
            match step {
                Step::Arena { units } => match pool.allocate_extent(ExtentKind::Arena, units * UNIT_BYTES, 1) {
                    Ok(extent) => {
                        prop_assert!(counted(reserve.1) >= reserve.0, "an arena took of the reserve");
                        extents.push(extent);
                    }
                    Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Full),
                },
                Step::Part { wanted, least } => {
                    match pool.allocate_part(ExtentKind::KeySegment, wanted * UNIT_BYTES, least * UNIT_BYTES, 1, Claim::Privileged) {
                        Ok(extent) => {
                            prop_assert!((least..=wanted).contains(&(extent.length_bytes / UNIT_BYTES)));
                            extents.push(extent);
                        }
                        Err(error) => {
                            prop_assert_eq!(error.kind(), ErrorKind::Full);
                            prop_assert_eq!(counted(least), 0, "{} in a row were free", least);
                        }
                    }
                }
                Step::Block { size } => match blocks.take(size) {
                    Ok(block) => prop_assert!(blocks.block_size(block).unwrap() >= size),
                    Err(error) => {
                        prop_assert_eq!(error.kind(), ErrorKind::Full);
                        let units = Blocks::<Dram>::extent_bytes_max(size, 1, UNIT_BYTES) / UNIT_BYTES;
                        prop_assert_eq!(counted(units), 0);
                    }
                },
                Step::Free { which } if !extents.is_empty() => {
                    pool.free_extent(extents.swap_remove(which % extents.len()).offset).unwrap();
                }
                Step::Free { .. } => {}
                Step::Reserve { units, piece } => {
                    let lower = units <= reserve.0 && piece <= reserve.1;
                    match pool.set_reserve(units * UNIT_BYTES, piece * UNIT_BYTES) {
                        Ok(()) => {
                            prop_assert!(lower || counted(piece) >= units);
                            reserve = (units, piece);
                        }
                        Err(error) => {
                            prop_assert_eq!(error.kind(), ErrorKind::Full);
                            prop_assert!(!lower && at_most(piece) < units + 2 * piece);
                        }
                    }
                }
            }
            prop_assert_eq!(pool.reserve_bytes(), reserve.0 * UNIT_BYTES);
            prop_assert_eq!(pool.free_bytes(), counted(1) * UNIT_BYTES);
            prop_assert_eq!(pool.free_bytes() + pool.used_bytes(), pool.length_bytes());
            prop_assert_eq!(pool.verify().len(), 0);
        }
    }
}
