//! The media: counting in write units, copies past the caches, emulated time, and persistent memory itself.
//!
//! What needs a file system mounted for direct access runs where `SLMDB_TEST_DAX` names a directory on one; elsewhere the
//! test says that it is skipped.
#![allow(clippy::unwrap_used, reason = "a test stops where something fails")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{fill, is_filled, small};
use slmdb_env::{Env, ErrorKind, OsEnv};
use slmdb_pmem::persistent::{MEDIA_UNIT_BYTES, STREAM_BYTES_MIN};
use slmdb_pmem::pool::check_direct;
use slmdb_pmem::{AnyMedium, Arena, Dram, Emulation, ExtentKind, LatencyModel, Medium, Persistent, Pool, UNIT_BYTES};
use slmdb_testkit::{MemoryEnv, Random, Simulated, medium::Choice};

#[test]
fn bytes_asked_bytes_flushed_and_media_bytes_are_told_apart() {
    for unit_bytes in [64, 256, 4096] {
        let medium = Persistent::new().with_unit(unit_bytes).unwrap();
        let pool = Pool::anonymous(medium.clone(), &small()).unwrap();
        let extent = pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 1).unwrap();
        let before = medium.counters();
        for index in 0..16 {
            pool.persist(extent.offset + 4096 * index + 40, 8);
        }
        let after = medium.counters();
        assert_eq!(after.persists - before.persists, 16);
        assert_eq!(after.bytes_asked - before.bytes_asked, 16 * 8);
        assert_eq!(after.lines_flushed - before.lines_flushed, 16);
        assert_eq!(after.media_bytes - before.media_bytes, 16 * unit_bytes);
    }
    for unit_bytes in [0, 32, 192, 8192] {
        assert_eq!(Persistent::new().with_unit(unit_bytes).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn the_simulated_medium_counts_like_the_real_one() {
    let mut random = Random(3);
    let (real, simulated) = (Persistent::new(), Simulated::new());
    let pools = (Pool::anonymous(real, &small()).unwrap(), Pool::anonymous(simulated, &small()).unwrap());
    // Addresses within a unit are the same: a pool begins with a large page.
    for _ in 0..5000 {
        let (offset, length) = (pools.0.root_offset() + random.below(4000), 1 + random.below(600));
        pools.0.flush(offset, length);
        pools.1.flush(offset, length);
        if random.below(4) == 0 {
            pools.0.fence();
            pools.1.fence();
        }
    }
    pools.0.fence();
    pools.1.fence();
    assert_eq!(pools.0.medium().counters(), pools.1.medium().counters());
}

/// Copies of every alignment and length around those where the way changes.
fn copies_arrive<M: Medium>(medium: M) {
    let pool = Arc::new(Pool::anonymous(medium, &small()).unwrap());
    let extent = pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 1).unwrap();
    let arena = Arena::in_pool(pool.clone(), extent);
    let source: Vec<u8> = (0..3 * STREAM_BYTES_MIN).map(|index| (index % 251) as u8 + 1).collect();
    let lengths = [0, 1, 63, 64, 65, 200, STREAM_BYTES_MIN - 1, STREAM_BYTES_MIN, STREAM_BYTES_MIN + 77, 20_000];
    for (case, length) in lengths.into_iter().enumerate() {
        for shift in [0, 1, 8, 31, 63] {
            let at = 256 + shift;
            // SAFETY: the extent is ours alone, and nothing refers to it.
            unsafe {
                pool.zero(extent.offset, UNIT_BYTES).unwrap();
                let before = pool.medium().counters();
                if case % 2 == 0 {
                    pool.write_durably(extent.offset + at, &source[..length]).unwrap();
                } else {
                    arena.write_durably(at, &source[..length]);
                }
                pool.fence();
                let after = pool.medium().counters();
                if pool.medium().is_persistent() {
                    let lines = if length == 0 { 0 } else { (at + length as u64).div_ceil(64) - at / 64 };
                    assert_eq!(after.lines_flushed - before.lines_flushed, lines, "{length} at {at}");
                    assert_eq!(after.bytes_asked - before.bytes_asked, length as u64);
                }
                let all = pool.bytes(extent.offset, UNIT_BYTES).unwrap();
                assert!(all[..at as usize].iter().all(|&byte| byte == 0), "{length} at {at}: written before the place");
                assert_eq!(&all[at as usize..at as usize + length], &source[..length]);
                assert!(all[at as usize + length..].iter().all(|&byte| byte == 0), "{length} at {at}: written behind");
            }
        }
    }
    let beyond = pool.length_bytes() - 4;
    // SAFETY: nothing is written.
    assert!(unsafe { pool.write_durably(beyond, &source[..8]) }.is_err());
}

#[test]
fn durable_copies_arrive_on_every_medium() {
    copies_arrive(Dram);
    copies_arrive(Persistent::new());
    copies_arrive(Persistent::dax(true).unwrap());
    copies_arrive(Simulated::new());
    let emulation = Emulation { latency_ns: 10, ..Emulation::default() };
    copies_arrive(Persistent::emulating(&emulation));
}

#[test]
fn a_durable_copy_is_durable_after_the_fence_and_not_before() {
    let medium = Simulated::new();
    let pool = Pool::anonymous(medium.clone(), &small()).unwrap();
    let extent = pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 1).unwrap();
    // SAFETY: the extent is ours alone.
    unsafe { pool.write_durably(extent.offset + 8, &[9; 10_000]).unwrap() };
    let place = extent.offset as usize + 8..extent.offset as usize + 10_008;
    let mut replay = medium.history().replay();
    replay.to_moment(medium.moment());
    assert!(replay.image(Choice::Nothing)[place.clone()].iter().all(|&byte| byte == 0));
    pool.fence();
    let mut replay = medium.history().replay();
    replay.to_moment(medium.moment());
    assert!(replay.image(Choice::Nothing)[place].iter().all(|&byte| byte == 9));
}

#[test]
fn what_one_thread_streams_another_sees_in_order() {
    let pool = Arc::new(Pool::anonymous(Persistent::new(), &small()).unwrap());
    let extent = pool.allocate_extent(ExtentKind::Arena, 64 * UNIT_BYTES, 1).unwrap();
    let root = pool.root_offset();
    const COPIES: u64 = 200;
    const BYTES: u64 = 16_384;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for copy in 0..COPIES {
                // SAFETY: nobody looks at the place before the word says that it is written.
                unsafe { pool.write_durably(extent.offset + copy * BYTES, &[copy as u8 + 1; BYTES as usize]).unwrap() };
                pool.store(root, copy + 1).unwrap();
            }
            pool.fence();
        });
        let mut seen = 0;
        while seen < COPIES {
            let written = pool.load(root).unwrap();
            for copy in seen..written {
                // SAFETY: written before the word was stored, and never again.
                let bytes = unsafe { pool.bytes(extent.offset + copy * BYTES, BYTES) }.unwrap();
                assert!(bytes.iter().all(|&byte| byte == copy as u8 + 1), "copy {copy} was seen too early");
            }
            seen = written;
        }
    });
}

#[test]
fn emulated_time_is_taken_where_the_model_says() {
    let persists = 2000_u32;
    for (model, per_persist) in [(LatencyModel::Line, 2), (LatencyModel::Persist, 1)] {
        let emulation = Emulation { latency_ns: 1000, model, ..Emulation::default() };
        let pool = Pool::anonymous(Persistent::emulating(&emulation), &small()).unwrap();
        let start = Instant::now();
        (0..persists).for_each(|_| pool.persist(pool.root_offset() + 32, 64));
        let expected = Duration::from_nanos(u64::from(persists) * per_persist * 1000);
        assert!(start.elapsed() >= expected.mul_f64(0.98), "{model:?}: {:?} instead of {expected:?}", start.elapsed());
    }
    // Lines that are streamed take their time, too.
    let emulation = Emulation { latency_ns: 1000, ..Emulation::default() };
    let pool = Pool::anonymous(Persistent::emulating(&emulation), &small()).unwrap();
    let extent = pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 1).unwrap();
    let start = Instant::now();
    for _ in 0..4 {
        // SAFETY: the extent is ours alone.
        unsafe { pool.write_durably(extent.offset, &[1; UNIT_BYTES as usize]).unwrap() };
        pool.fence();
    }
    assert!(start.elapsed() >= Duration::from_micros(4 * 1024).mul_f64(0.98));
}

#[test]
fn reads_are_counted_and_slowed_while_something_is_emulated() {
    let reads = |medium: AnyMedium| {
        let pool = Pool::anonymous(medium, &small()).unwrap();
        let noted = pool.medium().reads();
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..500).for_each(|_| pool.note_read()));
            scope.spawn(|| (0..500).for_each(|_| noted.note()));
        });
        (pool.medium().counters().reads, start.elapsed())
    };
    let emulation = Emulation { read_latency_ns: 10_000, ..Emulation::default() };
    let (count, took) = reads(Persistent::emulating(&emulation).into());
    assert!(count == 1000 && took >= Duration::from_millis(5).mul_f64(0.98), "{count} in {took:?}");
    let emulation = Emulation { latency_ns: 10_000, ..Emulation::default() };
    assert_eq!(reads(Persistent::emulating(&emulation).into()).0, 1000, "counted, and not slowed");
    assert_eq!(reads(Persistent::new().into()).0, 0);
    assert_eq!(reads(AnyMedium::dram()).0, 0);
}

#[test]
fn a_path_without_direct_access_is_refused_and_left_as_it_was() {
    let directory = tempfile::tempdir_in(if Path::new("/dev/shm").exists() { "/dev/shm" } else { "." }).unwrap();
    let path = directory.path().join("pool");
    let error = check_direct(&OsEnv::new(), &path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains(&format!("emulated:{}", path.display())), "{error}");
    assert!(!path.exists());
    let created = Pool::create(&OsEnv::new(), &path, Persistent::dax(true).unwrap(), &small()).unwrap_err();
    assert_eq!(created.kind(), ErrorKind::Unsupported);
    std::fs::remove_file(&path).unwrap();

    // A pool that was copied off persistent memory can still be read.
    let pool = Pool::create(&OsEnv::new(), &path, Persistent::new(), &small()).unwrap();
    let extent = pool.allocate_extent(ExtentKind::Arena, 1, 1).unwrap();
    fill(&pool, &extent);
    drop(pool);
    let dax = || Persistent::dax(true).unwrap();
    let error = Pool::open(&OsEnv::new(), &path, dax(), &small(), false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(is_filled(&Pool::open(&OsEnv::new(), &path, dax(), &small(), true).unwrap(), &extent));

    let env = MemoryEnv::new();
    assert_eq!(check_direct(&env, Path::new("/pool")).unwrap_err().kind(), ErrorKind::Unsupported);
    let error = Pool::create(&env, Path::new("/pool"), dax(), &small()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_pool_works_on_persistent_memory() {
    let Some(directory) = std::env::var_os("SLMDB_TEST_DAX").map(PathBuf::from) else {
        println!("SKIPPED: SLMDB_TEST_DAX names no directory on persistent memory");
        return;
    };
    let path = directory.join(format!("slmdb-test-{}.pool", std::process::id()));
    let env = OsEnv::new();
    check_direct(&env, &path).unwrap();
    let pool = Pool::create(&env, &path, Persistent::dax(false).unwrap(), &small()).unwrap();
    let extents: Vec<_> = (0..40)
        .map(|owner| {
            let extent = pool.allocate_extent(ExtentKind::KeySegment, 300_000, owner).unwrap();
            fill(&pool, &extent);
            extent
        })
        .collect();
    assert!(pool.length_bytes() > 40 * 300_000, "it has grown");
    let counters = pool.medium().counters();
    assert!(counters.lines_flushed * 64 >= counters.bytes_asked && counters.media_bytes % MEDIA_UNIT_BYTES == 0);
    drop(pool);
    for clean in [false, true] {
        let pool = Pool::open(&env, &path, Persistent::dax(false).unwrap(), &small(), false).unwrap();
        assert!(extents.iter().all(|extent| is_filled(&pool, extent)), "after {clean}");
        pool.seal().unwrap();
        drop(pool);
    }
    let pool = Pool::open(&env, &path, Persistent::dax(false).unwrap(), &small(), true).unwrap();
    assert!(pool.was_clean() && extents.iter().all(|extent| is_filled(&pool, extent)));
    drop(pool);
    env.remove_file(&path).unwrap();
}
