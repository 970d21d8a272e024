//! Pools on a device-dax: one of the environment in memory, which can be mapped like a real one and fails whoever reads,
//! writes, syncs or resizes it. `dax.rs` has the real thing.
#![allow(clippy::unwrap_used, reason = "a test stops where something fails")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{UUID, fill, is_filled, small};
use slmdb_env::{DaxDevice, ErrorKind};
use slmdb_pmem::persistent::Undelayed;
use slmdb_pmem::pool::{check_direct, check_new_device, creation_finished, remove_pool};
use slmdb_pmem::{Extent, ExtentKind, Persistent, Pool, PoolOptions, UNIT_BYTES};
use slmdb_testkit::MemoryEnv;

const PATH: &str = "/dev/dax0.0";
const DEVICE_BYTES: u64 = 8 << 20;
const ALIGNMENT_BYTES: u64 = 2 << 20;

struct Machine {
    env: MemoryEnv,
    /// The device's memory.
    memory: File,
}

impl Machine {
    fn new() -> Machine {
        Machine::with(DaxDevice { size_bytes: DEVICE_BYTES, alignment_bytes: ALIGNMENT_BYTES, is_persistent: true })
    }

    fn with(device: DaxDevice) -> Machine {
        let env = MemoryEnv::new();
        let memory = env.add_dax_device(PATH, device);
        Machine { env, memory }
    }

    fn path(&self) -> &'static Path {
        Path::new(PATH)
    }

    fn create(&self) -> slmdb_env::Result<Pool<Persistent<Undelayed>>> {
        Pool::create(&self.env, self.path(), dax(), &small())
    }

    fn open(&self, read_only: bool) -> slmdb_env::Result<Pool<Persistent<Undelayed>>> {
        Pool::open(&self.env, self.path(), dax(), &small(), read_only)
    }

    fn content(&self) -> Vec<u8> {
        let mut content = vec![0; DEVICE_BYTES as usize];
        self.memory.read_exact_at(&mut content, 0).unwrap();
        content
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, offset).unwrap();
    }

    /// Fills everything from an offset on with what no pool has written.
    fn litter(&self, from: u64) {
        self.write(from, &vec![0xa5; (DEVICE_BYTES - from) as usize]);
    }
}

fn dax() -> Persistent<Undelayed> {
    Persistent::dax(true).unwrap()
}

/// Takes extents until there is no room.
fn fill_up(pool: &Pool<Persistent<Undelayed>>, unit: u64) -> Vec<Extent> {
    let mut extents = Vec::new();
    loop {
        match pool.allocate_extent(ExtentKind::KeySegment, unit, extents.len() as u32) {
            Ok(extent) => {
                fill(pool, &extent);
                extents.push(extent);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                return extents;
            }
        }
    }
}

/// A pool takes the whole device whatever lay behind its first unit.
#[test]
fn a_pool_takes_the_whole_device_whatever_lay_on_it() {
    let machine = Machine::new();
    machine.litter(UNIT_BYTES);
    assert!(!creation_finished(&machine.env, machine.path()).unwrap());
    assert!(check_new_device(&machine.env, machine.path()).unwrap());
    check_direct(&machine.env, machine.path()).unwrap();
    let pool = machine.create().unwrap();
    assert_eq!((pool.length_bytes(), pool.maximum_bytes()), (DEVICE_BYTES, DEVICE_BYTES));
    assert_eq!(pool.load(pool.root_offset()).unwrap(), 0);
    let zeroed = pool.allocate_extent_zeroed(ExtentKind::Blocks, UNIT_BYTES, 64, UNIT_BYTES).unwrap();
    assert_eq!(pool.load(zeroed.offset + 4096).unwrap(), 0);
    let extents = fill_up(&pool, 3 * UNIT_BYTES);
    assert_eq!(pool.free_bytes() / UNIT_BYTES, (DEVICE_BYTES / UNIT_BYTES - 3) % 3);
    assert!(pool.verify().is_empty());
    assert!(creation_finished(&machine.env, machine.path()).unwrap());
    drop(pool);

    // Killed, then closed in order, then opened clean; a full pool stays as full as it is.
    for was_clean in [false, true, true] {
        let pool = machine.open(false).unwrap();
        assert_eq!(pool.was_clean(), was_clean);
        assert!(pool.verify().is_empty() && extents.iter().all(|extent| is_filled(&pool, extent)));
        let error = pool.allocate_extent(ExtentKind::Arena, 3 * UNIT_BYTES, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full);
        assert!(error.to_string().contains(PATH), "{error}");
        assert_eq!(pool.set_reserve(4 * UNIT_BYTES, UNIT_BYTES).unwrap_err().kind(), ErrorKind::Full);
        pool.free_extent(extents[0].offset).unwrap();
        let again = pool.allocate_extent(ExtentKind::KeySegment, extents[0].length_bytes, extents[0].owner).unwrap();
        assert_eq!(again, extents[0]);
        pool.seal().unwrap();
    }
    // After a power cut, too, whatever the boot.
    let crashed = Machine { env: machine.env.crash(), ..machine };
    assert!(extents.iter().all(|extent| is_filled(&crashed.open(false).unwrap(), extent)));
}

#[test]
fn a_limit_is_kept_to_and_can_be_raised() {
    let machine = Machine::new();
    let path = machine.path();
    let limited = PoolOptions { maximum_bytes: 3 << 20, ..small() };
    let pool = Pool::create(&machine.env, path, dax(), &limited).unwrap();
    assert_eq!((pool.length_bytes(), pool.maximum_bytes()), (4 << 20, 4 << 20), "whole steps of the alignment");
    let first = fill_up(&pool, UNIT_BYTES);
    drop(pool);
    let pool = Pool::open(&machine.env, path, dax(), &limited, false).unwrap();
    assert!(fill_up(&pool, UNIT_BYTES).is_empty());
    drop(pool);

    let pool = machine.open(false).unwrap();
    assert_eq!((pool.length_bytes(), pool.maximum_bytes()), (4 << 20, DEVICE_BYTES));
    let second = fill_up(&pool, UNIT_BYTES);
    assert_eq!((first.len() + second.len()) as u64, DEVICE_BYTES / UNIT_BYTES - 2);
    drop(pool);
    let pool = machine.open(false).unwrap();
    assert!(pool.verify().is_empty() && first.iter().chain(&second).all(|extent| is_filled(&pool, extent)));
}

#[test]
fn a_device_that_holds_something_is_left_alone() {
    let refused = |machine: &Machine, what: &str| {
        let before = machine.content();
        let errors = [
            machine.create().unwrap_err(),
            check_new_device(&machine.env, machine.path()).unwrap_err(),
            remove_pool(&machine.env, machine.path(), UUID).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {error}");
            assert!(error.to_string().contains(&format!("--output={PATH}")), "{what}: {error}");
        }
        assert!(machine.content() == before, "{what}");
    };
    let machine = Machine::new();
    machine.litter(0);
    refused(&machine, "something");
    let machine = Machine::new();
    machine.write(1080, &[0x53, 0xef]);
    refused(&machine, "a file system, which begins with zeros");
    let foreign = PoolOptions { uuid: *b"another store's!", ..small() };
    for closed in [false, true] {
        let machine = Machine::new();
        let pool = Pool::create(&machine.env, machine.path(), dax(), &foreign).unwrap();
        if closed {
            pool.seal().unwrap();
        }
        drop(pool);
        refused(&machine, "the pool of another store");
        assert_eq!(machine.open(false).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(machine.open(true).unwrap_err().kind(), ErrorKind::Invalid);
        remove_pool(&machine.env, machine.path(), foreign.uuid).unwrap();
        machine.create().unwrap();
    }
}

#[test]
fn a_creation_that_was_cut_short_is_redone() {
    let machine = Machine::new();
    let pool = machine.create().unwrap();
    pool.store(pool.root_offset(), 7).unwrap();
    let old = pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 9).unwrap();
    fill(&pool, &old);
    drop(pool);
    let made = machine.content();
    // Clearing what was there goes from behind to the front: at none of its steps is it somebody else's.
    for (case, zeros) in [0..0, 128..4200, 128..65_536, 0..64, 0..65_536].into_iter().enumerate() {
        machine.write(0, &made);
        if case >= 3 {
            machine.write(128, &vec![0; UNIT_BYTES as usize - 128]);
        }
        machine.write(zeros.start, &vec![0; (zeros.end - zeros.start) as usize]);
        let pool = machine.create().unwrap();
        assert_eq!(pool.extents().len(), 2, "case {case}: the header and one map");
        assert_eq!(pool.load(pool.root_offset()).unwrap(), 0);
        drop(pool);
        assert!(machine.open(false).unwrap().verify().is_empty());
    }
    // Up to the magic number it is nobody's.
    machine.write(0, &[0; 8]);
    assert!(!creation_finished(&machine.env, machine.path()).unwrap());
    assert!(check_new_device(&machine.env, machine.path()).unwrap());
    assert_eq!(machine.open(false).unwrap_err().kind(), ErrorKind::Corruption);
    machine.create().unwrap();
    assert_eq!(check_new_device(&machine.env, machine.path()).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_read_only_opening_changes_no_byte_of_the_device() {
    for closed in [false, true] {
        let machine = Machine::new();
        machine.litter(UNIT_BYTES);
        let pool = machine.create().unwrap();
        let extents: Vec<_> =
            (1..9).map(|units| pool.allocate_extent(ExtentKind::KeySegment, units * UNIT_BYTES, 1).unwrap()).collect();
        extents.iter().for_each(|extent| fill(&pool, extent));
        pool.free_extent(extents[3].offset).unwrap();
        if closed {
            pool.seal().unwrap();
        }
        drop(pool);
        let before = machine.content();
        let pool = machine.open(true).unwrap();
        assert_eq!(pool.was_clean(), closed);
        let kept = extents.iter().filter(|extent| extent.offset != extents[3].offset);
        assert!(kept.clone().all(|extent| is_filled(&pool, extent)));
        let new = pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 2).unwrap();
        fill(&pool, &new);
        pool.store(pool.root_offset(), 7).unwrap();
        pool.free_extent(extents[0].offset).unwrap();
        pool.seal().unwrap();
        drop(pool);
        assert!(machine.content() == before, "closed {closed}");
    }
}

#[test]
fn damaged_bytes_of_a_device_are_errors_on_every_way_in() {
    let machine = Machine::new();
    let pool = machine.create().unwrap();
    let extent = pool.allocate_extent(ExtentKind::KeySegment, 5 * UNIT_BYTES, 1).unwrap();
    fill(&pool, &extent);
    pool.seal().unwrap();
    drop(pool);
    let sound = machine.content();
    let map_entry = |unit: u64| UNIT_BYTES + 16 * unit;
    let places = (0..96).chain([4096, map_entry(0), map_entry(1), map_entry(2), map_entry(2) + 4, extent.offset + 77]);
    for place in places {
        for read_only in [true, false] {
            machine.write(place, &[!sound[place as usize]]);
            let error = machine.open(read_only).unwrap_err();
            let expected = [ErrorKind::Corruption, ErrorKind::Unsupported];
            assert!(expected.contains(&error.kind()), "offset {place}: {error}");
            machine.write(place, &[sound[place as usize]]);
        }
    }
    // A map in which every unit begins an extent as long as there can be. Nothing is copied twice for it.
    let longest = (4_u64 << 56 | 65_536 << 32).to_le_bytes();
    for unit in 0..4096 {
        machine.write(map_entry(unit), &longest);
    }
    for read_only in [true, false] {
        assert_eq!(machine.open(read_only).unwrap_err().kind(), ErrorKind::Corruption);
    }
    // A pool that claims to be longer than its device.
    let long = Machine::with(DaxDevice { size_bytes: 16 << 20, alignment_bytes: 4096, is_persistent: true });
    drop(long.create().unwrap());
    let mut front = vec![0; 4 * UNIT_BYTES as usize];
    long.memory.read_exact_at(&mut front, 0).unwrap();
    machine.write(0, &front);
    for read_only in [true, false] {
        let error = machine.open(read_only).unwrap_err();
        assert!(error.to_string().contains("cut off"), "{error}");
    }
}

#[test]
fn memory_that_forgets_is_no_persistent_memory() {
    let volatile = DaxDevice { size_bytes: DEVICE_BYTES, alignment_bytes: ALIGNMENT_BYTES, is_persistent: false };
    let machine = Machine::with(volatile);
    for error in [check_direct(&machine.env, machine.path()).unwrap_err(), machine.create().unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(&format!("emulated:{PATH}")), "{error}");
    }
    assert!(machine.content().iter().all(|&byte| byte == 0));
    drop(Pool::create(&machine.env, machine.path(), Persistent::new(), &small()).unwrap());
    assert_eq!(machine.open(false).unwrap_err().kind(), ErrorKind::Unsupported);
    Pool::open(&machine.env, machine.path(), Persistent::new(), &small(), false).unwrap();
    machine.open(true).unwrap();
}

#[test]
fn a_mapping_begins_where_the_device_wants_it() {
    for alignment_bytes in [4096, 1 << 16, 2 << 20, 1 << 30] {
        let size_bytes = alignment_bytes.max(DEVICE_BYTES);
        let machine = Machine::with(DaxDevice { size_bytes, alignment_bytes, is_persistent: true });
        let pool = machine.create().unwrap();
        assert_eq!(pool.length_bytes(), if alignment_bytes == 1 << 30 { 1 << 30 } else { DEVICE_BYTES });
        let root = pool.pointer(pool.root_offset(), 8).unwrap();
        assert_eq!((root.addr() as u64 - pool.root_offset()) % alignment_bytes, 0);
        drop(pool);
        assert!(machine.open(true).unwrap().verify().is_empty());
    }
    for size_bytes in [4096, UNIT_BYTES] {
        let machine = Machine::with(DaxDevice { size_bytes, alignment_bytes: 4096, is_persistent: true });
        assert_eq!(machine.create().unwrap_err().kind(), ErrorKind::Invalid, "no room for header and map");
    }
}

#[test]
fn a_removed_pool_leaves_a_device_for_others_and_a_file_nowhere() {
    let machine = Machine::new();
    remove_pool(&machine.env, machine.path(), UUID).unwrap();
    drop(machine.create().unwrap());
    remove_pool(&machine.env, machine.path(), UUID).unwrap();
    assert!(machine.content()[..UNIT_BYTES as usize].iter().all(|&byte| byte == 0));
    let foreign = PoolOptions { uuid: [7; 16], ..small() };
    drop(Pool::create(&machine.env, machine.path(), dax(), &foreign).unwrap());

    let file = Path::new("/pool");
    remove_pool(&machine.env, file, UUID).unwrap();
    drop(Pool::create(&machine.env, file, Persistent::new(), &small()).unwrap());
    assert_eq!(remove_pool(&machine.env, file, [7; 16]).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(machine.env.content(file).is_some());
    remove_pool(&machine.env, file, UUID).unwrap();
    assert!(machine.env.content(file).is_none());
}
