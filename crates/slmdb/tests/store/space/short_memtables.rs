//! MemTables of the usual length that are too long for the file system: it is small, or sets space aside by writing.

use std::path::Path;
use std::sync::Arc;

use slmdb::{Db, ErrorKind, Medium, Options};
use slmdb_env::memory::MemoryEnv;

use crate::common::{self, Random, contents};

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
        let env = MemoryEnv::new();
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
        let env = MemoryEnv::new();
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
