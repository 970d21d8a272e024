//! MemTables of the usual length that are too long for the file system: it is small, or sets space aside by writing.

use std::path::Path;
use std::sync::Arc;

use slmdb::{Db, EngineName, ErrorKind, Medium, Options};
use slmdb_testkit::MemoryEnv;

use crate::common::{self, Random, contents, engine, share};

const STORE: &str = "/db";
const MIB: u64 = 1 << 20;

/// All sizes are as they are by default.
fn options(env: &MemoryEnv, medium: &Medium) -> Options {
    common::options().env(Arc::new(env.clone())).medium(medium.clone())
}

fn media() -> [Medium; 2] {
    [Medium::Dram, Medium::Emulated { path: "/pool".into() }]
}

fn key(number: usize) -> String {
    format!("key {number:06}")
}

/// Puts values of 10 KiB, which no compression makes shorter, until there is no space, or `most` of them. Returns how many
/// were taken.
fn fill(db: &Db, most: usize) -> usize {
    let value = Random(1).bytes(10 << 10);
    let refused = (0..most).find_map(|number| Some((number, db.put(key(number), &value).err()?)));
    refused.map_or(most, |(number, error)| {
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        number
    })
}

/// The first put was refused, with the advice to free some space.
#[test]
fn an_empty_disk_shorter_than_a_memtable_takes_writes() {
    for medium in media() {
        let env = MemoryEnv::with_real_clock();
        env.set_capacity(45 * MIB);
        for round in 0..2 {
            let db = options(&env, &medium).open(STORE).unwrap();
            let taken = fill(&db, 10_000);
            assert!(taken > 100, "{taken} puts in round {round} on {medium:?}");
            (0..taken).for_each(|number| db.delete(key(number)).unwrap());
            db.compact_range::<&[u8]>(..).unwrap();
            assert!(contents(&db).unwrap().is_empty());
            db.close().unwrap();
        }
    }
}

/// A put of one key wrote 84 MiB.
#[test]
fn few_zeros_are_written_where_zeros_set_space_aside() {
    for medium in media() {
        let env = MemoryEnv::with_real_clock();
        env.set_takes_space_at_once(false);
        let options = options(&env, &medium).pool_initial_bytes(MIB);
        let db = options.open(STORE).unwrap();
        db.put("key", "value").unwrap();
        db.close().unwrap();
        let length = |line: &String| {
            let (path, length) = line.strip_prefix("allocate ")?.split_once(' ')?;
            Path::new(path).starts_with(STORE).then(|| length.split_once('+')?.1.parse::<u64>().ok()).flatten()
        };
        let allocated: u64 = env.operations().iter().filter_map(length).sum();
        assert!((1..=12 * MIB).contains(&allocated), "{allocated} bytes on {medium:?}");
        let db = options.open(STORE).unwrap();
        assert_eq!(fill(&db, 3000), 3000);
        db.flush().unwrap();
        db.close().unwrap();
        assert_eq!(contents(&options.open(STORE).unwrap()).unwrap().len(), 3001);
    }
}

/// Whether the store is killed while its disk is full: both, and of other engines than the first only that it is.
fn is_killed_or_not() -> impl Iterator<Item = bool> {
    [true, false].into_iter().take(share(2) as usize)
}

/// As the test below, but that a range takes the keys, which flushes make deletes of.
#[test]
fn a_range_that_is_deleted_gives_space_back_on_small_disks() {
    for (disk_mib, value_bytes) in [(4, 400), (16, 4000)] {
        for is_killed in is_killed_or_not() {
            let context = format!("{disk_mib} MiB, values of {value_bytes} bytes, killed: {is_killed}");
            let env = MemoryEnv::with_real_clock();
            env.set_capacity(disk_mib * MIB);
            let mut random = Random(disk_mib + value_bytes as u64);
            let mut put = |db: &Db, number: usize| db.put(key(number), random.bytes(value_bytes));
            let mut fill = |db: &Db, from: usize| (from..).find(|&number| put(db, number).is_err()).unwrap();
            let mut db = options(&env, &Medium::Dram).open(STORE).unwrap();
            let taken = fill(&db, 0);
            db.delete_range(key(0)..key(taken / 2)).unwrap_or_else(|error| panic!("{context}: {error}"));
            if is_killed {
                let killed = env.kill();
                killed.set_capacity(disk_mib * MIB);
                drop(db);
                db = options(&killed, &Medium::Dram).open(STORE).unwrap();
            }
            db.compact_range::<&[u8]>(..).unwrap_or_else(|error| panic!("{context}: {error}"));
            let again = fill(&db, taken) - taken;
            assert!(again > taken / 16, "{context}: {taken} puts, {again} more");
            assert_eq!(contents(&db).unwrap().len(), taken - taken / 2 + again, "{context}");
        }
    }
}

/// Whatever the length of values, and whether the store was killed while the disk was full. (LAB-DB took no write on a disk of 4 MiB:
/// the MemTable that it was to have first, and what is kept back for compactions, were longer.)
#[test]
fn a_quarter_that_is_deleted_gives_space_back_on_small_disks() {
    for (disk_mib, value_bytes) in [(4, 1), (4, 400), (4, 64 << 10), (16, 4000)] {
        if value_bytes == 1 && engine() == EngineName::Chameleon {
            // (`docs/internals/chameleon.md`, "What is missing".)
            continue;
        }
        for is_killed in is_killed_or_not() {
            let context = format!("{disk_mib} MiB, values of {value_bytes} bytes, killed: {is_killed}");
            let env = MemoryEnv::with_real_clock();
            env.set_capacity(disk_mib * MIB);
            let mut random = Random(disk_mib + value_bytes as u64);
            let mut put = |db: &Db, number: usize| db.put(key(number), random.bytes(value_bytes));
            let mut fill = |db: &Db, from: usize| (from..).find(|&number| put(db, number).is_err()).unwrap();
            let mut db = options(&env, &Medium::Dram).open(STORE).unwrap();
            let taken = fill(&db, 0);
            assert!(taken * (value_bytes + 10) > (MIB * disk_mib / 8) as usize, "{context}: {taken} puts");
            let env = if is_killed { env.kill() } else { env };
            if is_killed {
                env.set_capacity(disk_mib * MIB);
                drop(db);
                db = options(&env, &Medium::Dram).open(STORE).unwrap();
            }
            for number in (0..taken).step_by(4) {
                db.delete(key(number)).unwrap_or_else(|error| panic!("{context}: delete {number} of {taken}: {error}"));
            }
            db.compact_range::<&[u8]>(..).unwrap_or_else(|error| panic!("{context}: {error}"));
            let again = fill(&db, taken) - taken;
            assert!(again > taken / 32, "{context}: {taken} puts, {again} more");
            assert_eq!(contents(&db).unwrap().len(), taken - taken.div_ceil(4) + again, "{context}");
        }
    }
}
