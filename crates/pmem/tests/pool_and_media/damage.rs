//! Wrong bytes: whatever a pool file holds, opening it gives an error that says where, or right answers.
#![allow(clippy::unwrap_used, reason = "a test stops where something fails")]

use std::path::Path;

use crate::common::{fill, is_filled, small};
use slmdb_env::{Error, ErrorKind};
use slmdb_pmem::{Blocks, Dram, Emulated, Extent, ExtentKind, Pool, ROOT_BYTES, UNIT_BYTES};
use slmdb_testkit::{MemoryEnv, Random};

const PATH: &str = "/pool";

/// A pool with extents of every kind and a free unit between them, and its file's bytes.
fn pool_file(clean: bool) -> (MemoryEnv, Vec<Extent>, Vec<u8>) {
    let env = MemoryEnv::new();
    let pool = Pool::create(&env, Path::new(PATH), Emulated::new(), &small()).unwrap();
    let mut extents = Vec::new();
    for (owner, kind) in [(1, ExtentKind::Arena), (2, ExtentKind::KeySegment), (3, ExtentKind::KeySegment)] {
        extents.push(pool.allocate_extent(kind, 1, owner).unwrap());
        fill(&pool, &extents[extents.len() - 1]);
    }
    pool.free_extent(extents.remove(1).offset).unwrap();
    pool.store(pool.root_offset() + ROOT_BYTES - 8, 77).unwrap();
    if clean {
        pool.seal().unwrap();
    }
    drop(pool);
    let bytes = env.content(PATH).unwrap();
    (env, extents, bytes)
}

/// What checks itself is its readers' to check, but its place in the map is the pool's.
#[test]
fn flips_in_extents_that_check_themselves_are_left_to_their_readers() {
    let env = MemoryEnv::new();
    let pool = Pool::create(&env, Path::new(PATH), Emulated::new(), &small()).unwrap();
    let extents = [ExtentKind::List, ExtentKind::Segment, ExtentKind::HashTable].map(|kind| {
        let extent = pool.allocate_extent(kind, 1, kind as u32).unwrap();
        fill(&pool, &extent);
        extent
    });
    pool.seal().unwrap();
    drop(pool);
    let bytes = env.content(PATH).unwrap();
    for extent in extents {
        for at in (extent.offset..extent.end()).step_by(997) {
            let mut damaged = bytes.clone();
            damaged[at as usize] ^= 1;
            let pool = open(&env, &damaged).unwrap();
            assert!(pool.was_clean() && pool.extents().contains(&extent));
            assert!(!is_filled(&pool, &extent));
        }
        let entry = UNIT_BYTES + extent.offset / UNIT_BYTES * 16;
        for bit in 0..128 {
            let mut damaged = bytes.clone();
            damaged[(entry + bit / 8) as usize] ^= 1 << (bit % 8);
            let named = place(&open(&env, &damaged).expect_err("a flip in the map went unnoticed"));
            assert!(named / UNIT_BYTES == 1, "a flip of bit {bit} is reported at {named}");
        }
    }
}

/// An extent of a kind that comes later is refused, and the error does not call it damage alone.
#[test]
fn a_kind_that_this_build_does_not_know_is_refused() {
    let (env, extents, mut bytes) = pool_file(false);
    bytes[(UNIT_BYTES + extents[0].offset / UNIT_BYTES * 16 + 7) as usize] = 77;
    let error = open(&env, &bytes).unwrap_err();
    assert!(error.to_string().contains("is no extent that this build knows"), "{error}");
}

fn open(env: &MemoryEnv, bytes: &[u8]) -> slmdb_env::Result<Pool<Dram>> {
    env.set_content(PATH, bytes);
    // Read-only, so that there is nothing to write back.
    Pool::open(env, Path::new(PATH), Dram, &small(), true)
}

/// The offset that a corruption names.
fn place(error: &Error) -> u64 {
    match error {
        Error::Corruption { file, offset, .. } if file == Path::new(PATH) => *offset,
        other => panic!("{other:?}"),
    }
}

fn extent_covering(extents: &[Extent], offset: u64) -> Option<Extent> {
    extents.iter().find(|extent| (extent.offset..extent.end()).contains(&offset)).copied()
}

#[test]
fn every_flip_in_a_pool_closed_clean_is_found() {
    let (env, extents, bytes) = pool_file(true);
    assert!(open(&env, &bytes).is_ok());
    // Every byte that has a meaning of its own, and a sample of those that are only content.
    let entries = UNIT_BYTES as usize..UNIT_BYTES as usize + 16 * 8;
    let offsets = (0..200).chain(4090..4104).chain(8180..8200).chain(entries).chain((0..bytes.len()).step_by(251));
    let mut random = Random(1);
    let mut kinds = [0; 4];
    for offset in offsets {
        let mut damaged = bytes.clone();
        damaged[offset] ^= 1 << random.below(8);
        let covered = match offset as u64 {
            at if at < UNIT_BYTES => Some((0, 0)),
            at if at < 2 * UNIT_BYTES => Some((1, UNIT_BYTES)),
            at => extent_covering(&extents, at).map(|extent| (2, extent.offset)),
        };
        match (open(&env, &damaged), covered) {
            (Err(error), Some((kind, extent))) => {
                kinds[kind] += 1;
                let named = place(&error);
                let end = extent + UNIT_BYTES;
                assert!((extent..end).contains(&named), "a flip at {offset} is reported at {named}: {error}");
            }
            (Ok(pool), None) => {
                kinds[3] += 1;
                assert!(extents.iter().all(|extent| is_filled(&pool, extent)), "{offset}");
            }
            (Ok(_), Some(_)) => panic!("a flip at {offset} went unnoticed"),
            (Err(error), None) => panic!("a flip at {offset}, in free space, gave {error}"),
        }
    }
    assert!(kinds.iter().all(|&count| count > 100), "{kinds:?}: a kind of byte was not tried");
}

#[test]
fn every_cut_of_a_pool_is_found() {
    for clean in [true, false] {
        let (env, _, bytes) = pool_file(clean);
        let cuts = (0..bytes.len()).step_by(4096).chain([1, 7, 8, 63, 64, 65, 127, 128, 8191, bytes.len() - 1]);
        for cut in cuts {
            let error = open(&env, &bytes[..cut]).expect_err("a cut went unnoticed");
            assert!(place(&error) <= cut as u64, "cut at {cut}: {error}");
        }
    }
}

#[test]
fn what_stands_behind_a_pool_does_not_matter() {
    for clean in [true, false] {
        let (env, extents, bytes) = pool_file(clean);
        for (tail, byte) in
            [(1, 0), (1, 0xff), (UNIT_BYTES as usize, 0), (5 * UNIT_BYTES as usize + 9, 0xff), (4096, 3)]
        {
            let longer = [&bytes[..], &vec![byte; tail]].concat();
            let pool = open(&env, &longer).unwrap();
            assert!(extents.iter().all(|extent| is_filled(&pool, extent)));
            assert_eq!(pool.length_bytes(), bytes.len() as u64);
            // And the pool grows over it.
            env.set_content(PATH, &longer);
            let pool = Pool::open(&env, Path::new(PATH), Emulated::new(), &small(), false).unwrap();
            let new = pool.allocate_extent(ExtentKind::Arena, 20 * UNIT_BYTES, 9).unwrap();
            fill(&pool, &new);
            pool.seal().unwrap();
            drop(pool);
            let pool = Pool::open(&env, Path::new(PATH), Emulated::new(), &small(), false).unwrap();
            assert!(pool.was_clean() && is_filled(&pool, &new));
            assert!(extents.iter().all(|extent| is_filled(&pool, extent)));
        }
    }
}

#[test]
fn zeroed_ranges_of_a_clean_pool_are_found() {
    let (env, extents, bytes) = pool_file(true);
    let mut ranges =
        vec![(0, 8), (0, 64), (64, 72), (72, 80), (0, 4096), (0, bytes.len()), (4096, 8192), (65_536, 131_072)];
    ranges.extend(extents.iter().map(|extent| (extent.offset as usize, extent.end() as usize)));
    ranges.extend((0..4).map(|unit| (65_536 + 16 * unit, 65_536 + 16 * unit + 16)));
    for (from, to) in ranges {
        let mut damaged = bytes.clone();
        damaged[from..to].fill(0);
        if damaged == bytes {
            continue;
        }
        let error = open(&env, &damaged).expect_err("zeros went unnoticed");
        assert!(place(&error) < bytes.len() as u64, "{from}..{to}: {error}");
    }
}

#[test]
fn parts_of_an_older_pool_are_found() {
    // The same pool, closed clean twice with a change in between; a part of the new file is replaced by the old one's.
    let (env, extents, old) = pool_file(true);
    let pool = Pool::open(&env, Path::new(PATH), Emulated::new(), &small(), false).unwrap();
    // SAFETY: nobody else has the extent.
    unsafe { pool.write(extents[0].offset, b"new") }.unwrap();
    pool.seal().unwrap();
    drop(pool);
    let new = env.content(PATH).unwrap();
    for unit in 1..new.len() / UNIT_BYTES as usize {
        let range = unit * UNIT_BYTES as usize..(unit + 1) * UNIT_BYTES as usize;
        let mut mixed = new.clone();
        mixed[range.clone()].copy_from_slice(&old[range.clone()]);
        assert_eq!(open(&env, &mixed).is_ok(), new[range.clone()] == old[range], "unit {unit}");
    }
}

/// A wild map in a pool left open is an error or a consistent map.
#[test]
fn a_wild_map_of_a_pool_left_open_is_an_error_or_consistent() {
    let (env, extents, bytes) = pool_file(false);
    let length = bytes.len() as u64 / UNIT_BYTES;
    let mut random = Random(2);
    let (mut refused, mut opened) = (0, 0);
    for round in 0..3000 {
        let mut damaged = bytes.clone();
        for _ in 0..=random.below(2) {
            let unit = random.below(length + 4) as usize;
            let at = UNIT_BYTES as usize + 16 * unit;
            let word = match random.below(5) {
                // Zeroed, or an extent that may well have been there.
                0 => (random.below(2) * (3 + random.below(3))) << 56 | (1 + random.below(2)) << 32,
                1 => 0,
                2 => 1 << random.below(64) ^ u64::from_le_bytes(damaged[at..at + 8].try_into().unwrap()),
                3 => random.number(),
                _ => random.below(8) << 56 | random.below(1 << 24) << 32 | random.number() & 0xffff,
            };
            damaged[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        match open(&env, &damaged) {
            Err(error) => {
                refused += 1;
                assert!((UNIT_BYTES..2 * UNIT_BYTES).contains(&place(&error)), "round {round}: {error}");
            }
            Ok(pool) => {
                opened += 1;
                assert_eq!(pool.verify().len(), 0, "round {round}");
                let found = pool.extents();
                assert!(found.windows(2).all(|pair| pair[0].end() <= pair[1].offset), "round {round}: overlap");
                assert!(found.iter().all(|extent| extent.end() <= pool.length_bytes()), "round {round}");
                assert!(extents.iter().filter(|extent| found.contains(extent)).all(|extent| is_filled(&pool, extent)));
                pool.allocate_extent(ExtentKind::Arena, 2 * UNIT_BYTES, 1).unwrap();
                let _ = Blocks::open(pool.into());
            }
        }
    }
    assert!(refused > 500 && opened > 100, "{refused} refused, {opened} opened: the test tries too little");
}

#[test]
fn extents_that_overlap_are_found() {
    // The first unit that was allocated says that it is two units more: over the free one and the next extent.
    let (env, extents, mut bytes) = pool_file(false);
    let entry = (UNIT_BYTES + 16 * (extents[0].offset / UNIT_BYTES)) as usize;
    assert_eq!(bytes[entry + 4..entry + 8], [1, 0, 0, ExtentKind::Arena as u8]);
    bytes[entry + 4] = 2;
    assert!(open(&env, &bytes).is_ok(), "the next unit is free");
    bytes[entry + 4] = 3;
    let error = open(&env, &bytes).unwrap_err();
    assert_eq!(place(&error), entry as u64);
    assert!(error.to_string().contains("overlaps"), "{error}");
}

/// Flips in the header of a pool left open are found or harmless.
#[test]
fn flips_in_the_header_of_an_open_pool_are_found_or_harmless() {
    let (env, extents, bytes) = pool_file(false);
    for bit in 0..128 * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        match open(&env, &damaged) {
            Ok(pool) => {
                assert!(bit / 8 >= 96, "a flip in byte {} went unnoticed", bit / 8);
                assert!(extents.iter().all(|extent| is_filled(&pool, extent)));
            }
            Err(error) => assert!(place(&error) < 128, "{error}"),
        }
    }
}

#[test]
fn another_format_version_is_unsupported() {
    let (env, _, mut bytes) = pool_file(true);
    bytes[8] = 2;
    let crc = slmdb_checksum::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(open(&env, &bytes).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn noise_is_no_pool() {
    let env = MemoryEnv::new();
    let mut random = Random(3);
    for length in [1, 8, 64, 4096, 200_000] {
        let noise: Vec<u8> = (0..length).map(|_| random.number() as u8 | 1).collect();
        assert_eq!(open(&env, &noise).unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(Pool::from_image(Dram, noise).unwrap_err().kind(), ErrorKind::Corruption);
    }
    assert_eq!(Pool::from_image(Dram, Vec::new()).unwrap_err().kind(), ErrorKind::Corruption);
}
