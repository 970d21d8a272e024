//! The pool: making, opening, growing, extents, words, on every medium.
#![allow(clippy::unwrap_used, reason = "a test stops where something fails")]

use std::path::Path;
use std::sync::Arc;

use crate::common::{UUID, fill, is_filled, small};
use proptest::prelude::*;
use slmdb_env::{Env, ErrorKind, OpenMode, OsEnv};
use slmdb_pmem::pool::creation_finished;
use slmdb_pmem::{Dram, Emulated, Extent, ExtentKind, Medium, Pool, PoolOptions, ROOT_BYTES, UNIT_BYTES};
use slmdb_testkit::{Failure, MemoryEnv, Random, Repeat, Simulated};

/// What every medium must do.
fn works_on<M: Medium>(medium: M) {
    let pool = Arc::new(Pool::anonymous(medium, &small()).unwrap());
    assert!(pool.was_clean() && pool.open_count() > 0);
    assert_eq!((pool.uuid(), pool.path()), (UUID, Path::new("(memory)")));
    let root = pool.root_offset();
    for word in (root..root + ROOT_BYTES).step_by(8) {
        assert_eq!(pool.load(word).unwrap(), 0);
    }
    pool.store(root, 7).unwrap();
    assert_eq!(pool.compare_exchange(root, 6, 8).unwrap(), Err(7));
    assert_eq!(pool.compare_exchange(root, 7, 8).unwrap(), Ok(7));
    assert_eq!(pool.load(root).unwrap(), 8);
    pool.persist(root, 8);

    let first = pool.allocate_extent(ExtentKind::KeySegment, 1, 1).unwrap();
    let second = pool.allocate_extent(ExtentKind::Arena, 3 * UNIT_BYTES + 1, 2).unwrap();
    assert_eq!((first.length_bytes, second.length_bytes), (UNIT_BYTES, 4 * UNIT_BYTES));
    fill(&pool, &first);
    fill(&pool, &second);
    assert!(is_filled(&pool, &first) && is_filled(&pool, &second));
    assert_eq!(pool.extent_at(second.offset + 3 * UNIT_BYTES + 9), Some(second));
    assert_eq!(pool.kind_at(second.end() - 1), Some(ExtentKind::Arena));
    assert_eq!(pool.kind_at(second.end()), None);
    // SAFETY: the extent is ours.
    unsafe { pool.zero(first.offset + 8, 8) }.unwrap();
    assert_eq!(pool.load(first.offset + 8).unwrap(), 0);

    pool.free_extent(first.offset).unwrap();
    assert_eq!(pool.extent_at(first.offset), None);
    assert_eq!(pool.allocate_extent(ExtentKind::Arena, 1, 3).unwrap().offset, first.offset, "space comes back");
    assert_eq!(pool.verify().len(), 0);
}

#[test]
fn a_pool_works_on_dram() {
    works_on(Dram);
}

#[test]
fn a_pool_works_on_the_emulated_medium() {
    works_on(Emulated::new());
}

#[test]
fn a_pool_works_on_the_simulated_medium() {
    works_on(Simulated::new());
}

#[test]
fn flushes_and_fences_are_counted() {
    let medium = Emulated::new();
    let pool = Pool::anonymous(medium.clone(), &small()).unwrap();
    let word = pool.root_offset();
    let before = medium.counters();
    pool.flush(word + 60, 8);
    pool.flush(word, 128);
    pool.flush(word, 0);
    pool.fence();
    pool.fence();
    let after = pool.medium().counters();
    assert_eq!(after.persists - before.persists, 1, "the second fence ordered nothing");
    assert_eq!(after.lines_flushed - before.lines_flushed, 4);
    assert_eq!(after.media_bytes - before.media_bytes, 256, "all of it in one unit of the medium");
    assert_eq!(after.bytes_asked - before.bytes_asked, 8 + 128);
    assert_eq!(Dram.counters(), Default::default());
}

#[test]
fn every_thread_is_counted() {
    // More threads at once than have counters of their own, and then some more.
    let medium = Emulated::new();
    let pool = Pool::anonymous(medium.clone(), &small()).unwrap();
    let before = medium.counters();
    for threads in [3, 100, 20] {
        let barrier = std::sync::Barrier::new(threads);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    pool.persist(pool.root_offset(), 8);
                    barrier.wait();
                    for _ in 0..1000 {
                        pool.persist(pool.root_offset(), 128);
                    }
                });
            }
        });
    }
    let after = medium.counters();
    assert_eq!(after.persists - before.persists, 123 * 1001);
    assert_eq!(after.lines_flushed - before.lines_flushed, 123 * 2001);
}

#[test]
fn stray_offsets_are_corruption_and_nothing_worse() {
    let pool = Pool::anonymous(Dram, &small()).unwrap();
    let length = pool.length_bytes();
    for offset in [0, 8, 4088, length, length + 8, 1 << 40, u64::MAX, u64::MAX - 7, pool.root_offset() + 4, length - 4]
    {
        assert_eq!(pool.load(offset).unwrap_err().kind(), ErrorKind::Corruption, "{offset}");
        assert_eq!(pool.store(offset, 1).unwrap_err().kind(), ErrorKind::Corruption, "{offset}");
    }
    for (offset, bytes) in [(length - 8, 9), (u64::MAX, 2), (pool.root_offset(), u64::MAX), (0, 8)] {
        assert!(pool.pointer(offset, bytes).is_err(), "{offset} {bytes}");
        pool.flush(offset, bytes);
    }
    for offset in [length, 1 << 45, u64::MAX] {
        assert_eq!((pool.kind_at(offset), pool.extent_at(offset)), (None, None));
        assert!(pool.free_extent(offset).is_err());
    }
    assert!(pool.free_extent(0).is_err() && pool.free_extent(UNIT_BYTES).is_err(), "header and map stay");
    assert_eq!(pool.kind_at(0), Some(ExtentKind::Header));
    assert_eq!(pool.kind_at(UNIT_BYTES), Some(ExtentKind::Map));
}

#[test]
fn impossible_extents_are_refused() {
    let pool = Pool::anonymous(Dram, &small()).unwrap();
    for kind in [ExtentKind::Header, ExtentKind::Map] {
        assert_eq!(pool.allocate_extent(kind, 1, 0).unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_eq!(pool.allocate_extent(ExtentKind::Arena, 0, 0).unwrap_err().kind(), ErrorKind::Invalid);
    for length in [64 << 20, 1 << 40, u64::MAX] {
        assert_eq!(pool.allocate_extent(ExtentKind::Arena, length, 0).unwrap_err().kind(), ErrorKind::Full, "{length}");
    }
    assert_eq!(pool.extents().len(), 2);
}

#[test]
fn a_crash_leaves_an_extent_long_or_short() {
    let medium = Simulated::new();
    let pool = Pool::anonymous(medium.clone(), &small()).unwrap();
    let long = pool.allocate_extent(ExtentKind::Segment, 4 * UNIT_BYTES, 7).unwrap();
    fill(&pool, &long);
    let begin = medium.moment();
    let short = pool.shorten_extent(long.offset, UNIT_BYTES + 1).unwrap();
    assert_eq!(short, Extent { length_bytes: 2 * UNIT_BYTES, ..long });
    let end = medium.moment();
    assert_eq!(pool.extent_at(long.offset + 2 * UNIT_BYTES), None);
    let mut seen = std::collections::BTreeSet::new();
    let mut replay = medium.history().replay();
    replay.to_moment(begin);
    loop {
        for image in replay.images(16, 1) {
            let crashed = Pool::from_image(Dram, image).unwrap();
            assert_eq!(crashed.verify().len(), 0);
            let found = crashed.extent_at(long.offset).unwrap();
            assert!(found == short || found == long && replay.moment() < end);
            assert!(is_filled(&crashed, &short) == is_filled(&pool, &short));
            seen.insert(found.length_bytes);
        }
        if !replay.to_next_crash() {
            break;
        }
    }
    assert_eq!(seen.len(), 2);
    for (offset, bytes, kind) in [
        (long.offset, 0, ErrorKind::Invalid),
        (long.offset + UNIT_BYTES, 1, ErrorKind::Corruption),
        (0, 1, ErrorKind::Corruption),
    ] {
        assert_eq!(pool.shorten_extent(offset, bytes).unwrap_err().kind(), kind, "{offset}");
    }
}

#[test]
fn a_pool_closed_clean_opens_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let pool = Pool::create(&OsEnv::new(), &path, Emulated::new(), &small()).unwrap();
    let root = pool.root_offset();
    pool.store(root + 8, 99).unwrap();
    pool.persist(root + 8, 8);
    let kept: Vec<Extent> = (1..=20)
        .map(|owner| pool.allocate_extent(ExtentKind::KeySegment, owner * 10_000, owner as u32).unwrap())
        .collect();
    kept.iter().for_each(|extent| fill(&pool, extent));
    pool.free_extent(kept[4].offset).unwrap();
    let (extents, used, length) = (pool.extents(), pool.used_bytes(), pool.length_bytes());
    let mut opened = vec![pool.open_count()];
    pool.seal().unwrap();
    assert_eq!(pool.allocate_extent(ExtentKind::Arena, 1, 1).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(pool.free_extent(kept[0].offset).unwrap_err().kind(), ErrorKind::ReadOnly);
    drop(pool);

    for _ in 0..3 {
        let pool = Pool::open(&OsEnv::new(), &path, Emulated::new(), &small(), false).unwrap();
        assert!(pool.was_clean());
        assert!(!opened.contains(&pool.open_count()));
        opened.push(pool.open_count());
        assert_eq!((pool.extents(), pool.used_bytes(), pool.length_bytes()), (extents.clone(), used, length));
        assert_eq!(pool.load(root + 8).unwrap(), 99);
        assert!(kept.iter().enumerate().all(|(index, extent)| index == 4 || is_filled(&pool, extent)));
        assert_eq!(pool.verify().len(), 0);
        pool.seal().unwrap();
    }
}

#[test]
fn a_pool_that_was_not_closed_opens_with_every_store_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let pool = Pool::create(&OsEnv::new(), &path, Emulated::new(), &small()).unwrap();
    let extent = pool.allocate_extent(ExtentKind::Arena, 300_000, 5).unwrap();
    fill(&pool, &extent);
    let first = pool.open_count();
    drop(pool); // as a killed process leaves it
    let pool = Pool::open(&OsEnv::new(), &path, Emulated::new(), &small(), false).unwrap();
    assert!(!pool.was_clean());
    assert!(pool.open_count() > first);
    assert!(is_filled(&pool, &extent));
    assert_eq!(pool.extent_at(extent.offset), Some(extent));
}

#[test]
fn files_that_can_not_be_mapped_are_written_back() {
    let env = MemoryEnv::new();
    let path = Path::new("/pool");
    let pool = Pool::create(&env, path, Emulated::new(), &small()).unwrap();
    let extent = pool.allocate_extent(ExtentKind::Arena, 2_000_000, 5).unwrap();
    fill(&pool, &extent);
    drop(pool);
    let pool = Pool::open(&env, path, Emulated::new(), &small(), false).unwrap();
    assert!(!pool.was_clean() && is_filled(&pool, &extent));
    pool.seal().unwrap();
    drop(pool);
    let after_a_power_cut = env.crash();
    after_a_power_cut.set_content(path, &env.content(path).unwrap());
    let pool = Pool::open(&after_a_power_cut, path, Emulated::new(), &small(), false).unwrap();
    assert!(pool.was_clean() && is_filled(&pool, &extent));
}

#[test]
fn a_pool_left_open_under_another_boot_names_repair() {
    let env = MemoryEnv::new();
    let path = Path::new("/pool");
    drop(Pool::create(&env, path, Emulated::new(), &small()).unwrap());
    let rebooted = env.crash();
    assert_ne!(rebooted.boot_id(), env.boot_id());
    rebooted.set_content(path, &env.content(path).unwrap());
    for read_only in [false, true] {
        let error = Pool::open(&rebooted, path, Emulated::new(), &small(), read_only).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("slmdb repair"), "{error}");
    }
    assert!(Pool::open(&env, path, Emulated::new(), &small(), false).is_ok());
}

#[test]
fn the_pool_of_another_store_is_refused() {
    let env = MemoryEnv::new();
    let path = Path::new("/pool");
    drop(Pool::create(&env, path, Dram, &small()).unwrap());
    let other = PoolOptions { uuid: [9; 16], ..small() };
    assert_eq!(Pool::open(&env, path, Dram, &other, false).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(Pool::create(&env, path, Dram, &other).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(Pool::open(&env, path, Dram, &small(), false).is_ok(), "and nothing happened to it");
    assert!(Pool::create(&env, path, Dram, &small()).is_ok(), "its own store may make it anew");
    env.set_content("/letter", b"Dear friend");
    assert_eq!(Pool::create(&env, Path::new("/letter"), Dram, &other).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(env.content("/letter").unwrap(), b"Dear friend");
}

#[test]
fn an_unfinished_creation_is_recognised_and_redone() {
    let env = MemoryEnv::new();
    let path = Path::new("/pool");
    assert!(!creation_finished(&env, path).unwrap());
    drop(Pool::create(&env, path, Dram, &small()).unwrap());
    assert!(creation_finished(&env, path).unwrap());
    let mut unfinished = env.content(path).unwrap();
    unfinished[..8].fill(0);
    for bytes in [&unfinished[..], &unfinished[..100], &vec![0; 200_000], b""] {
        env.set_content(path, bytes);
        assert!(!creation_finished(&env, path).unwrap());
        let error = Pool::open(&env, path, Dram, &small(), false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("never finished"), "{error}");
        assert!(Pool::create(&env, path, Dram, &small()).is_ok());
    }
}

#[test]
fn a_pool_grows_while_others_read_it_and_keeps_its_addresses() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let pool = Arc::new(Pool::create(&OsEnv::new(), &path, Emulated::new(), &small()).unwrap());
    let first = pool.allocate_extent(ExtentKind::Arena, 1, 1).unwrap();
    fill(&pool, &first);
    let address = pool.pointer(first.offset, 8).unwrap().addr();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                assert!(is_filled(&pool, &first));
            }
        });
        let before = pool.length_bytes();
        for owner in 0..200 {
            let extent = pool.allocate_extent(ExtentKind::KeySegment, 100_000, owner).unwrap();
            fill(&pool, &extent);
        }
        assert!(pool.length_bytes() > before + 200 * 100_000);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(pool.pointer(first.offset, 8).unwrap().addr(), address);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), pool.length_bytes());
    assert!(pool.extents().iter().filter(|extent| !is_own(extent)).all(|extent| is_filled(&pool, extent)));
    drop(Arc::try_unwrap(pool).unwrap());
    let pool = Pool::open(&OsEnv::new(), &path, Emulated::new(), &small(), false).unwrap();
    assert_eq!(pool.extents().len(), 2 + 201);
    assert!(pool.extents().iter().filter(|extent| !is_own(extent)).all(|extent| is_filled(&pool, extent)));
}

fn is_own(extent: &Extent) -> bool {
    matches!(extent.kind, ExtentKind::Header | ExtentKind::Map)
}

#[test]
fn a_full_pool_says_so_and_changes_nothing() {
    let options = PoolOptions { maximum_bytes: 10 * UNIT_BYTES, ..small() };
    let pool = Pool::anonymous(Dram, &options).unwrap();
    let taken: Vec<Extent> = (0..8).map(|owner| pool.allocate_extent(ExtentKind::Arena, 1, owner).unwrap()).collect();
    let before = (pool.extents(), pool.used_bytes(), pool.length_bytes());
    assert_eq!(pool.allocate_extent(ExtentKind::Arena, 1, 9).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!((pool.extents(), pool.used_bytes(), pool.length_bytes()), before);
    pool.free_extent(taken[3].offset).unwrap();
    assert_eq!(pool.allocate_extent(ExtentKind::Arena, 2 * UNIT_BYTES, 9).unwrap_err().kind(), ErrorKind::Full);
    assert!(pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 9).is_ok());
}

#[test]
fn a_full_file_system_says_so_and_a_little_room_is_used() {
    let env = MemoryEnv::new();
    let path = Path::new("/pool");
    let options = PoolOptions { growth_bytes: 64 * UNIT_BYTES, ..small() };
    env.set_capacity(UNIT_BYTES);
    assert_eq!(Pool::create(&env, path, Emulated::new(), &options).unwrap_err().kind(), ErrorKind::Full);
    env.set_capacity(4 * UNIT_BYTES);
    let pool = Pool::create(&env, path, Emulated::new(), &options).unwrap();
    assert!(pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 1).is_ok(), "growing by less than wanted");
    assert!(pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 2).is_ok());
    let before = (pool.extents(), pool.length_bytes());
    assert_eq!(pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 3).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!((pool.extents(), pool.length_bytes()), before);
    env.set_capacity(u64::MAX);
    assert!(pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 3).is_ok());
    assert_eq!(pool.verify().len(), 0);
}

/// A life of a pool in which anything may fail.
fn life(env: &MemoryEnv, path: &Path) -> slmdb_env::Result<()> {
    let pool = Pool::create(env, path, Emulated::new(), &small())?;
    let extent = pool.allocate_extent(ExtentKind::Arena, 3 * UNIT_BYTES, 1)?;
    fill(&pool, &extent);
    pool.seal()?;
    drop(pool);
    let pool = Pool::open(env, path, Emulated::new(), &small(), false)?;
    assert!(is_filled(&pool, &extent));
    let second = pool.allocate_extent(ExtentKind::KeySegment, 9 * UNIT_BYTES, 2)?;
    fill(&pool, &second);
    Ok(())
}

#[test]
fn whatever_operation_fails_the_pool_opens_or_says_why_not() {
    let path = Path::new("/pool");
    for failure in [Failure::Io, Failure::Full, Failure::ShortWrite, Failure::FailedSync] {
        for repeat in [Repeat::Once, Repeat::ForGood] {
            for operation in 0.. {
                let env = MemoryEnv::new();
                env.fail_at(operation, failure, repeat);
                let result = life(&env, path);
                if env.failures_struck() == 0 {
                    assert!(operation > 3 && result.is_ok());
                    break;
                }
                env.clear_failures();
                match Pool::open(&env, path, Emulated::new(), &small(), false) {
                    Ok(pool) => {
                        assert_eq!(pool.verify().len(), 0);
                        pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 3).unwrap();
                    }
                    Err(error) => {
                        let creation = env.content(path).is_none() || !creation_finished(&env, path).unwrap();
                        // Half a write is what a file that can't be mapped risks: then the checksums say so.
                        assert!(creation || error.kind() == ErrorKind::Corruption, "{failure:?} {operation}: {error}");
                        assert!(Pool::create(&env, path, Emulated::new(), &small()).is_ok());
                    }
                }
            }
        }
    }
}

#[test]
fn extents_never_cross_regions() {
    // A small pool has regions of 256 MiB; what it grows to later keeps to them. The memory is never touched.
    let env = OsEnv::new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    drop(Pool::create(&env, &path, Dram, &small()).unwrap());
    let raised = PoolOptions { maximum_bytes: 2 << 30, ..small() };
    let region = 256 << 20;
    let pool = Pool::open(&env, &path, Dram, &raised, false).unwrap();
    let mut extents = Vec::new();
    for owner in 0..3 {
        extents.push(pool.allocate_extent(ExtentKind::Arena, 100 << 20, owner).unwrap());
    }
    assert_eq!(extents[2].offset, region + UNIT_BYTES, "it did not fit into the first region any more");
    assert_eq!(pool.kind_at(region), Some(ExtentKind::Map));
    let last = pool.allocate_extent(ExtentKind::Arena, 40 << 20, 3).unwrap();
    assert_eq!(last.offset, extents[1].end(), "the rest of the first region is used");
    assert_eq!(pool.allocate_extent(ExtentKind::Arena, region, 4).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(pool.verify().len(), 0);
    let all = pool.extents();
    drop(pool);
    let pool = Pool::open(&env, &path, Dram, &raised, false).unwrap();
    assert_eq!(pool.extents(), all);
    pool.free_extent(extents[1].offset).unwrap();
    pool.free_extent(extents[2].offset).unwrap();
    assert_eq!(pool.allocate_extent(ExtentKind::Arena, 100 << 20, 5).unwrap().offset, extents[1].offset);
    assert_eq!(pool.verify().len(), 0);
}

#[test]
fn a_large_pool_grows_through_many_regions() {
    let options = PoolOptions { initial_bytes: 0, growth_bytes: 0, maximum_bytes: 40 << 30, uuid: UUID };
    let pool = Pool::anonymous(Dram, &options).unwrap();
    let most = (4 << 30) - (1 << 20);
    // (It has no more addresses than the machine has memory.)
    let regions = (pool.maximum_bytes() / (4 << 30)).min(8) as u32;
    for owner in 0..regions {
        let length = if owner == 0 { most - UNIT_BYTES } else { most };
        let extent = pool.allocate_extent(ExtentKind::Arena, length, owner).unwrap();
        assert_eq!(extent.end(), (u64::from(owner) + 1) * (4 << 30));
        pool.store(extent.end() - 8, 1).unwrap();
        assert_eq!(pool.extent_at(extent.end() - 8), Some(extent));
    }
    assert_eq!(pool.allocate_extent(ExtentKind::Arena, most + 1, 9).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(pool.verify().len(), 0);
}

#[test]
fn what_is_left_of_a_longer_file_is_no_map() {
    // The space that a new region's map falls on held something else before.
    let env = OsEnv::new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    drop(Pool::create(&env, &path, Dram, &small()).unwrap());
    let region = 256 << 20;
    let file = env.open_file(&path, OpenMode::ReadWrite).unwrap();
    file.write_at(&[0x55; 65_536], region).unwrap();
    drop(file);
    let pool = Pool::open(&env, &path, Dram, &PoolOptions { maximum_bytes: 1 << 30, ..small() }, false).unwrap();
    assert_eq!(pool.length_bytes(), 2 * UNIT_BYTES);
    for owner in 0..2 {
        pool.allocate_extent(ExtentKind::Arena, 200 << 20, owner).unwrap();
    }
    assert_eq!(pool.extents().len(), 2 + 3);
    assert_eq!(pool.verify().len(), 0);
}

#[test]
fn read_only_leaves_the_file_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    for clean in [false, true] {
        let pool = Pool::create(&OsEnv::new(), &path, Emulated::new(), &small()).unwrap();
        let extent = pool.allocate_extent(ExtentKind::Arena, 1, 1).unwrap();
        fill(&pool, &extent);
        if clean {
            pool.seal().unwrap();
        }
        drop(pool);
        let before = std::fs::read(&path).unwrap();
        let mut permissions = std::fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(&path, permissions).unwrap();

        let pool = Pool::open(&OsEnv::new(), &path, Emulated::new(), &small(), true).unwrap();
        assert_eq!(pool.was_clean(), clean);
        assert!(is_filled(&pool, &extent));
        pool.store(pool.root_offset(), 5).unwrap();
        let new = pool.allocate_extent(ExtentKind::KeySegment, 20 * UNIT_BYTES, 2).unwrap();
        fill(&pool, &new);
        pool.free_extent(extent.offset).unwrap();
        assert!(is_filled(&pool, &new));
        assert_eq!((pool.load(pool.root_offset()).unwrap(), pool.verify().len()), (5, 0));
        pool.seal().unwrap();
        drop(pool);

        assert!(std::fs::read(&path).unwrap() == before, "the file changed (clean: {clean})");
        let pool = Pool::open(&OsEnv::new(), &path, Emulated::new(), &small(), true).unwrap();
        assert!(is_filled(&pool, &extent), "and it still opens");
        drop(pool);
        std::fs::remove_file(&path).unwrap();
    }
}

#[derive(Debug, Clone)]
enum Step {
    Allocate { units: u64, kind: ExtentKind },
    Free { which: usize },
    Shorten { which: usize, units: u64 },
    Reopen { clean: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![Just(ExtentKind::Arena), Just(ExtentKind::KeySegment), Just(ExtentKind::Blocks)];
    let step = prop_oneof![
        6 => (1..8_u64, kind).prop_map(|(units, kind)| Step::Allocate { units, kind }),
        4 => any::<usize>().prop_map(|which| Step::Free { which }),
        2 => (any::<usize>(), 1..8_u64).prop_map(|(which, units)| Step::Shorten { which, units }),
        1 => any::<bool>().prop_map(|clean| Step::Reopen { clean }),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn extents_are_what_a_model_says(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        let options = PoolOptions { maximum_bytes: 100 * UNIT_BYTES, ..small() };
        let mut pool = Pool::create(&OsEnv::new(), &path, Emulated::new(), &options).unwrap();
        let mut model: Vec<Extent> = Vec::new();
        let own = pool.extents();
        for (owner, step) in steps.into_iter().enumerate() {
            match step {
                Step::Allocate { units, kind } => match pool.allocate_extent(kind, units * UNIT_BYTES, owner as u32) {
                    Ok(extent) => {
                        prop_assert_eq!((extent.length_bytes, extent.kind, extent.owner), (units * UNIT_BYTES, kind, owner as u32));
                        fill(&pool, &extent);
                        model.push(extent);
                    }
                    Err(error) => {
                        prop_assert_eq!(error.kind(), ErrorKind::Full);
                        let free = options.maximum_bytes - pool.used_bytes();
                        // As fragmented as it may be: every gap that is too small has an extent beside it.
                        prop_assert!(free < units * UNIT_BYTES * (model.len() as u64 + 1), "{} bytes were free", free);
                    }
                },
                Step::Free { which } if !model.is_empty() => {
                    let extent = model.swap_remove(which % model.len());
                    prop_assert!(is_filled(&pool, &extent));
                    pool.free_extent(extent.offset).unwrap();
                }
                Step::Shorten { which, units } if !model.is_empty() => {
                    let which = which % model.len();
                    let extent = &mut model[which];
                    extent.length_bytes = extent.length_bytes.min(units * UNIT_BYTES);
                    prop_assert_eq!(&pool.shorten_extent(extent.offset, units * UNIT_BYTES - 1).unwrap(), extent);
                }
                Step::Free { .. } | Step::Shorten { .. } => {}
                Step::Reopen { clean } => {
                    if clean {
                        pool.seal().unwrap();
                    }
                    drop(pool);
                    pool = Pool::open(&OsEnv::new(), &path, Emulated::new(), &options, false).unwrap();
                    prop_assert_eq!(pool.was_clean(), clean);
                }
            }
            prop_assert_eq!(pool.verify().len(), 0);
        }
        model.extend(own);
        model.sort_by_key(|extent| extent.offset);
        prop_assert_eq!(&pool.extents(), &model);
        prop_assert_eq!(pool.used_bytes(), model.iter().map(|extent| extent.length_bytes).sum::<u64>());
        prop_assert!(model.iter().all(|extent| is_own(extent) || is_filled(&pool, extent)));
        for unit in 0..pool.length_bytes() / UNIT_BYTES {
            let offset = unit * UNIT_BYTES + 77;
            let expected = model.iter().find(|extent| (extent.offset..extent.end()).contains(&offset)).copied();
            prop_assert_eq!(pool.extent_at(offset), expected);
        }
    }
}

#[test]
fn threads_allocate_and_free_at_once() {
    let pool = Pool::anonymous(Emulated::new(), &small()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let pool = &pool;
            scope.spawn(move || {
                let mut random = Random(u64::from(thread));
                let mut mine: Vec<Extent> = Vec::new();
                for _ in 0..200 {
                    if mine.len() > 10 || (random.below(3) == 0 && !mine.is_empty()) {
                        let extent = mine.swap_remove(random.below(mine.len() as u64) as usize);
                        assert!(is_filled(pool, &extent), "somebody else wrote into it");
                        pool.free_extent(extent.offset).unwrap();
                    } else {
                        let bytes = (1 + random.below(4)) * UNIT_BYTES;
                        let extent = pool.allocate_extent(ExtentKind::Arena, bytes, thread).unwrap();
                        fill(pool, &extent);
                        mine.push(extent);
                    }
                }
                assert!(mine.iter().all(|extent| is_filled(pool, extent)));
            });
        }
    });
    assert_eq!(pool.verify().len(), 0);
}
