//! A pool that can't grow, or can't have all the addresses it may come to need. Each in a child process, whose limits are lowered: this
//! test program, started again.

use std::fs;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use slmdb_env::{Error, OsEnv};
use slmdb_pmem::{Dram, ExtentKind, Pool, PoolOptions};

const CHILD: &str = "SLMDB_LACKS_TEST";
const MIB: u64 = 1 << 20;

/// Runs this test again in a process of its own; says whether this is that process.
fn is_child(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("lacks::{test}"), "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "");
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
    false
}

/// What the process has of something, in bytes, as `/proc/self/status` tells.
fn has_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
}

fn limit(resource: Resource, bytes: Option<u64>) {
    setrlimit(resource, Rlimit { current: bytes, maximum: getrlimit(resource).maximum }).unwrap();
}

fn options(maximum_bytes: u64) -> PoolOptions {
    PoolOptions { initial_bytes: MIB, growth_bytes: 64 * MIB, maximum_bytes, uuid: [1; 16] }
}

/// It was an error that nobody took for one that passes.
#[test]
fn a_pool_that_lacks_memory_to_grow_is_full_until_there_is_some() {
    if !is_child("a_pool_that_lacks_memory_to_grow_is_full_until_there_is_some") {
        return;
    }
    let pool = Pool::anonymous(Dram, &options(1 << 40)).unwrap();
    let before = pool.length_bytes();
    limit(Resource::Data, Some(has_bytes("VmData") + 32 * MIB));
    let refused = [(); 2].map(|()| (pool.allocate_extent(ExtentKind::Arena, 128 * MIB, 1), pool.length_bytes()));
    // Less than it would grow by, and there is as much.
    let small = pool.allocate_extent(ExtentKind::Arena, 8 * MIB, 2);
    // (A panic takes memory.)
    limit(Resource::Data, None);
    for (refused, length_bytes) in refused {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Full { .. }), "{refused:?}");
        assert!(refused.to_string().contains("Cannot allocate memory"), "{refused}");
        assert_eq!(length_bytes, before);
    }
    let small = small.unwrap();
    let large = pool.allocate_extent(ExtentKind::Arena, 128 * MIB, 3).unwrap();
    for extent in [small, large] {
        // SAFETY: allocated just now, and nobody else knows of it.
        unsafe { pool.write(extent.end() - 8, &[7; 8]) }.unwrap();
    }
    assert!(pool.verify().is_empty());
}

/// It was not to be had at all.
#[test]
fn a_pool_takes_about_half_of_the_addresses_there_are() {
    if !is_child("a_pool_takes_about_half_of_the_addresses_there_are") {
        return;
    }
    for there_bytes in [64 * MIB, 700 * MIB, 3000 * MIB] {
        let before = has_bytes("VmSize");
        limit(Resource::As, Some(before + there_bytes));
        let pool = Pool::anonymous(Dram, &options(1 << 40));
        let taken = has_bytes("VmSize") - before;
        limit(Resource::As, None);
        let pool = pool.unwrap();
        assert!(taken <= there_bytes / 2 + 8 * MIB, "{taken} of {there_bytes}");
        assert!(pool.maximum_bytes() >= there_bytes / 8, "{} of {there_bytes}", pool.maximum_bytes());
        // As long as it may become, and no longer.
        let rest = pool.maximum_bytes() - pool.length_bytes();
        pool.allocate_extent(ExtentKind::Arena, rest, 1).unwrap();
        let refused = pool.allocate_extent(ExtentKind::Arena, 2 * MIB, 2).unwrap_err();
        assert!(matches!(refused, Error::Full { .. }), "{refused:?}");
    }
    let before = has_bytes("VmSize");
    limit(Resource::As, Some(before + 64 * MIB));
    let refused = Pool::anonymous(Dram, &PoolOptions { initial_bytes: 100 * MIB, ..options(1 << 40) });
    limit(Resource::As, None);
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("pool_initial_bytes"), "{refused}");
}

/// The last of them took all that was left, and the program had no memory any more.
#[test]
fn a_pool_without_addresses_leaves_some_to_others() {
    if !is_child("a_pool_without_addresses_leaves_some_to_others") {
        return;
    }
    let few = PoolOptions { growth_bytes: MIB, ..options(1 << 40) };
    limit(Resource::As, Some(has_bytes("VmSize") + 1500 * MIB));
    let mut pools = Vec::new();
    let refused = loop {
        match Pool::anonymous(Dram, &few) {
            Ok(pool) => pools.push(pool),
            Err(refused) => break refused,
        }
    };
    let memory = Vec::<u8>::new().try_reserve_exact(256 << 20);
    let extents: Vec<_> = pools.iter().map(|pool| pool.allocate_extent(ExtentKind::Arena, 8 * MIB, 1)).collect();
    pools.truncate(pools.len() - 2);
    let again = Pool::anonymous(Dram, &few);
    limit(Resource::As, None);
    assert!(refused.is_passing_lack(), "{refused}");
    assert!(refused.to_string().contains("too few addresses left"), "{refused}");
    assert!(pools.len() > 20, "only {} pools", pools.len());
    memory.unwrap();
    assert!(extents.into_iter().all(|extent| extent.is_ok()), "a pool has no room");
    drop(again.unwrap());
}

/// 128 of them had all addresses that a process has.
#[test]
fn the_more_pools_there_are_the_less_room_each_has() {
    if !is_child("the_more_pools_there_are_the_less_room_each_has") {
        return;
    }
    let (before, mut pools) = (has_bytes("VmSize"), Vec::new());
    for _ in 0..2000 {
        pools.push(Pool::anonymous(Dram, &options(u64::MAX)).unwrap());
    }
    let room_bytes: Vec<u64> = pools.iter().map(|pool| pool.maximum_bytes() - pool.length_bytes()).collect();
    assert!(room_bytes.is_sorted_by(|one, next| one >= next), "{room_bytes:?}");
    let memory_bytes = fs::read_to_string("/proc/meminfo").unwrap();
    let of_line = |name| {
        let line = memory_bytes.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
    };
    let memory_bytes = of_line("MemTotal") + of_line("SwapTotal");
    assert!(
        room_bytes[0] <= memory_bytes && room_bytes[0] >= memory_bytes / 8 * 7,
        "{} of {memory_bytes}",
        room_bytes[0]
    );
    assert!(room_bytes[1999] >= 16 * MIB, "{room_bytes:?}");
    assert!(has_bytes("VmSize") - before < 125 << 40);
    // Whoever is full says why.
    let last = pools.pop().unwrap();
    let refused = last.allocate_extent(ExtentKind::Arena, room_bytes[1999] + MIB, 1).unwrap_err();
    assert!(refused.to_string().contains("no more addresses could be reserved"), "{refused}");
}

/// A file can't be longer than its file system, and what is only read grows in memory.
#[test]
fn a_pool_file_has_no_more_room_than_its_file_system() {
    let directory = tempfile::tempdir().unwrap();
    let (env, path) = (OsEnv::new(), directory.path().join("pool"));
    let found = rustix::fs::statvfs(directory.path()).unwrap();
    let pool = Pool::create(&env, &path, Dram, &options(u64::MAX)).unwrap();
    assert!(pool.maximum_bytes() <= found.f_blocks * found.f_frsize, "{}", pool.maximum_bytes());
    pool.seal().unwrap();
    drop(pool);
    let pool = Pool::open(&env, &path, Dram, &options(4 * MIB), false).unwrap();
    assert_eq!(pool.maximum_bytes(), 4 * MIB);
    drop(pool);
    let pool = Pool::open(&env, &path, Dram, &options(u64::MAX), true).unwrap();
    let sysinfo = rustix::system::sysinfo();
    assert!(
        pool.maximum_bytes()
            <= pool.length_bytes() + (sysinfo.totalram + sysinfo.totalswap) as u64 * u64::from(sysinfo.mem_unit)
    );
}
