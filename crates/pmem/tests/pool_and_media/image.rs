//! Images of pools in memory: what was sealed comes back, and any other bytes are no image or an error.

use std::path::Path;

use crate::common::{fill, is_filled, small};
use slmdb_env::{Env, Error};
use slmdb_pmem::{Dram, Extent, ExtentKind, Pool, PoolOptions, ROOT_BYTES, UNIT_BYTES};
use slmdb_testkit::{MemoryEnv, Random};

const PATH: &str = "/image";
const BINDING: [u8; 32] = [7; 32];

/// A pool with extents and a free unit between them, and its image.
fn image() -> (MemoryEnv, Vec<Extent>, Vec<u8>) {
    let env = MemoryEnv::new();
    let pool = Pool::anonymous(Dram, &small()).unwrap();
    let mut extents = Vec::new();
    for (owner, units, kind) in [
        (1, 1, ExtentKind::KeySegment),
        (2, 3, ExtentKind::KeySegment),
        (3, 6, ExtentKind::KeySegment),
        (4, 1, ExtentKind::List),
        (5, 1, ExtentKind::Segment),
    ] {
        extents.push(pool.allocate_extent(kind, units, owner).unwrap());
        fill(&pool, &extents[extents.len() - 1]);
    }
    pool.free_extent(extents.remove(1).offset).unwrap();
    pool.store(pool.root_offset() + ROOT_BYTES - 8, 77).unwrap();
    let bytes = pool.write_image(&env, Path::new(PATH), &BINDING).unwrap();
    drop(pool);
    let content = env.content(PATH).unwrap();
    assert_eq!(content.len() as u64, bytes);
    (env, extents, content)
}

fn open(env: &MemoryEnv, bytes: &[u8]) -> slmdb_env::Result<Option<Pool<Dram>>> {
    env.set_content(PATH, bytes);
    Pool::open_image(env, Path::new(PATH), Dram, &small(), &BINDING)
}

fn assert_is_whole(pool: &Pool<Dram>, extents: &[Extent]) {
    let own = |extent: &Extent| !matches!(extent.kind, ExtentKind::Header | ExtentKind::Map);
    assert_eq!(pool.extents().into_iter().filter(own).collect::<Vec<_>>(), extents);
    assert!(extents.iter().all(|extent| is_filled(pool, extent)));
    assert_eq!(pool.load(pool.root_offset() + ROOT_BYTES - 8).unwrap(), 77);
    assert_eq!(pool.verify().len(), 0);
}

#[test]
fn what_was_sealed_comes_back_and_goes_on() {
    let (env, extents, bytes) = image();
    let pool = open(&env, &bytes).unwrap().unwrap();
    assert_is_whole(&pool, &extents);
    assert!(pool.was_clean());
    assert_eq!(pool.open_count(), 2, "locks of the life before are free");
    assert_eq!(pool.dram_bytes() / UNIT_BYTES, pool.used_bytes() / UNIT_BYTES, "all of it is in memory");
    let more = pool.allocate_extent(ExtentKind::Arena, 3, 9).unwrap();
    assert_eq!(more.offset, extents[0].end(), "what was free is free");
    pool.allocate_extent(ExtentKind::Arena, pool.length_bytes() / UNIT_BYTES, 10).unwrap();
    // And once more.
    pool.write_image(&env, Path::new(PATH), &BINDING).unwrap();
    let pool = Pool::open_image(&env, Path::new(PATH), Dram, &small(), &BINDING).unwrap().unwrap();
    assert_eq!(pool.open_count(), 3);
    assert!(extents.iter().all(|extent| is_filled(&pool, extent)));
}

#[test]
fn the_image_of_something_else_is_none() {
    let (env, _, bytes) = image();
    env.set_content(PATH, &bytes);
    let open = |options: &PoolOptions, binding| Pool::open_image(&env, Path::new(PATH), Dram, options, binding);
    assert!(open(&small(), &[8; 32]).unwrap().is_none(), "another binding");
    let small_one = PoolOptions { maximum_bytes: 2 * UNIT_BYTES, ..small() };
    assert!(open(&small_one, &BINDING).unwrap().is_none(), "larger than a pool may be");
    let other = PoolOptions { uuid: [9; 16], ..small() };
    assert!(matches!(open(&other, &BINDING), Err(Error::Corruption { .. })), "another store's");
}

#[test]
fn an_image_that_was_cut_short_is_none() {
    let (env, _, bytes) = image();
    for length in (0..200).chain((0..bytes.len()).step_by(4099)).chain([bytes.len() - 1]) {
        assert!(matches!(open(&env, &bytes[..length]), Ok(None)), "{length}");
    }
    assert!(matches!(open(&env, &[]), Ok(None)));
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(open(&env, &longer), Ok(None)));
}

/// A power cut may take any page: the file's length and its footer are there, and what lies before is zero.
#[test]
fn every_flip_and_every_lost_page_is_found() {
    let (env, extents, bytes) = image();
    let footer = bytes.len() - 64;
    let in_use = |offset: usize| {
        let units = offset as u64 / UNIT_BYTES * UNIT_BYTES;
        offset >= footer
            || units <= UNIT_BYTES
            || extents.iter().any(|extent| (extent.offset..extent.end()).contains(&units))
    };
    let mut random = Random(1);
    let entries = UNIT_BYTES as usize..UNIT_BYTES as usize + 16 * 16;
    for offset in (0..200).chain(4090..4104).chain(entries).chain(footer..bytes.len()).chain((0..footer).step_by(509)) {
        let mut damaged = bytes.clone();
        damaged[offset] ^= 1 << (random.number() % 8);
        match open(&env, &damaged) {
            Ok(Some(pool)) => {
                assert!(!in_use(offset), "a flip at {offset} went unnoticed");
                assert_is_whole(&pool, &extents);
            }
            Ok(None) => assert!(offset >= footer, "{offset}"),
            Err(Error::Corruption { file, .. }) => assert_eq!(file, Path::new(PATH)),
            Err(error) => panic!("{offset}: {error}"),
        }
    }
    for page in (0..footer).step_by(4096) {
        let mut damaged = bytes.clone();
        damaged[page..page + 4096].fill(0);
        if damaged != bytes {
            assert!(matches!(open(&env, &damaged), Err(Error::Corruption { .. })), "page at {page}");
        }
    }
    assert!(env.exists(Path::new(PATH)).unwrap());
}
