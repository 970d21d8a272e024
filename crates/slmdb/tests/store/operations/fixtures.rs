//! Stores that are kept as files in `tests/fixtures/`: each must open, hold what it held, and take writes, for as long as
//! its format is supported.
//!
//! Until the format is released, a change of it makes them anew:
//!
//! ```text
//! for engine in slm lab tlsm; do
//!   SLMDB_TEST_ENGINE=$engine SLMDB_MAKE_FIXTURES=yes cargo test -p slmdb --test store fixtures
//! done
//! ```
//!
//! A fixture is a directory: `db/` with the store's files; `pool`, if it has one, as [`Pieces`] (a pool is nearly all
//! zeros); `contents`, a line for each entry: key and value in hexadecimal digits. They are made on a machine in memory,
//! so identity and times are the same each time. What they hold: runs of flushes and of a compaction, deletes, two versions
//! of a key in one run (written for a snapshot), a value over several blocks, and an arena with what was not flushed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use crate::common::{Home, Model, On, assert_same, assert_verified, contents, engine, flushes_to_files};
use slmdb::{CompactionOptions, CompactionPolicy, EngineName, Medium, WriteBatch};
use slmdb_env::Env;
use slmdb_testkit::MemoryEnv;

const STORE: &str = "/db";
const POOL: &str = "/pool";

/// The names of this engine's.
fn names() -> [(String, On); 2] {
    [("dram", On::Dram), ("emulated", On::Emulated)].map(|(medium, on)| (format!("format-1-{}-{medium}", engine()), on))
}

fn directory_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A file in memory without its zeros: pieces of this many bytes, each behind its number.
struct Pieces;

impl Pieces {
    const PIECE_BYTES: usize = 64;

    fn write(bytes: &[u8]) -> Vec<u8> {
        let mut pieces = (bytes.len() as u64).to_le_bytes().to_vec();
        for (number, piece) in (0_u32..).zip(bytes.chunks(Self::PIECE_BYTES)) {
            if piece.iter().any(|&byte| byte != 0) {
                pieces.extend(number.to_le_bytes());
                pieces.extend(piece);
                pieces.resize(pieces.len() + Self::PIECE_BYTES - piece.len(), 0);
            }
        }
        pieces
    }

    fn read(pieces: &[u8]) -> Vec<u8> {
        let (length, pieces) = pieces.split_at(8);
        let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
        let mut bytes = vec![0; length.next_multiple_of(Self::PIECE_BYTES)];
        for piece in pieces.chunks(4 + Self::PIECE_BYTES) {
            let number = u32::from_le_bytes(piece[..4].try_into().unwrap()) as usize;
            bytes[number * Self::PIECE_BYTES..][..Self::PIECE_BYTES].copy_from_slice(&piece[4..]);
        }
        bytes.truncate(length);
        bytes
    }
}

fn in_hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hexadecimal(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn written_out(model: &Model) -> String {
    model.iter().map(|(key, value)| format!("{} {}\n", in_hexadecimal(key), in_hexadecimal(value))).collect()
}

/// Makes the store of a fixture, closed, with what it holds.
fn make(on: On) -> (MemoryEnv, Model) {
    let env = MemoryEnv::with_seed(2019);
    let options = crate::common::options()
        .env(Arc::new(env.clone()))
        .medium(if on == On::Dram { Medium::Dram } else { Medium::Emulated { path: POOL.into() } })
        .memtable_bytes(16 << 10)
        .pool_initial_bytes(1 << 20)
        .pool_growth_bytes(64 << 10)
        .pool_maximum_bytes(64 << 20)
        .compaction(CompactionOptions {
            policy: CompactionPolicy::Manual,
            table_file_bytes: 1 << 10,
            ..Default::default()
        });
    let mut model = Model::new();
    let db = options.open(STORE).unwrap();
    let mut put = |key: String, value: Vec<u8>| {
        db.put(&key, &value).unwrap();
        model.insert(key.into_bytes(), value);
    };
    put(String::new(), b"of the empty key".to_vec());
    put("large".into(), (0..9000_u32).map(|at| (at % 251) as u8).collect());
    for number in 0..120 {
        put(format!("fruit/{number:03}"), format!("first {number}").into_bytes());
    }
    db.flush().unwrap();
    for number in (0..120).step_by(3) {
        put(format!("fruit/{number:03}"), format!("second {number}").repeat(5).into_bytes());
    }
    for number in (0..120).step_by(7) {
        db.delete(format!("fruit/{number:03}")).unwrap();
        model.remove(format!("fruit/{number:03}").as_bytes());
    }
    db.flush().unwrap();
    // What these leave are files of a compaction beside such of flushes.
    db.compact_range("fruit/000".."fruit/050").unwrap();
    let mut put = |key: &str, value: &str| {
        db.put(key, value).unwrap();
        model.insert(key.into(), value.into());
    };
    put("version", "seen by a snapshot");
    let snapshot = db.snapshot().unwrap();
    put("version", "the newest");
    put("fruit/001", "third 1");
    db.delete("fruit/006").unwrap();
    model.remove(b"fruit/006".as_slice());
    db.flush().unwrap();
    drop(snapshot);
    // What follows stays in the arena.
    let mut batch = WriteBatch::new();
    batch.put("batch/1", "together").unwrap();
    batch.put("batch/2", "with this").unwrap();
    batch.delete("fruit/002").unwrap();
    db.write(&batch).unwrap();
    assert!(db.update_if_present("fruit/004", "conditional").unwrap());
    assert!(!db.insert_if_absent("fruit/004", "not this").unwrap());
    model.insert("batch/1".into(), "together".into());
    model.insert("batch/2".into(), "with this".into());
    model.remove(b"fruit/002".as_slice());
    model.insert("fruit/004".into(), "conditional".into());
    assert_same(&contents(&db).unwrap(), &model, "made");
    assert!(db.stats().memtable_entries > 0 && (db.stats().table_files > 0 || !flushes_to_files(on)));
    db.close().unwrap();
    (env, model)
}

/// Writes a fixture where it is kept.
fn keep(name: &str, env: &MemoryEnv, model: &Model) {
    let directory = directory_of(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(directory.join("db")).unwrap();
    for entry in env.list_directory(Path::new(STORE)).unwrap() {
        if entry.name != "LOCK" {
            let bytes = env.content(Path::new(STORE).join(&entry.name)).unwrap();
            std::fs::write(directory.join("db").join(&entry.name), bytes).unwrap();
        }
    }
    if let Some(pool) = env.content(POOL) {
        std::fs::write(directory.join("pool"), Pieces::write(&pool)).unwrap();
    }
    std::fs::write(directory.join("contents"), written_out(model)).unwrap();
}

/// A copy of a fixture, to be opened, and what it holds.
fn copy(name: &str, on: On) -> (Home, Model) {
    static MADE: Once = Once::new();
    if std::env::var_os("SLMDB_MAKE_FIXTURES").is_some() {
        MADE.call_once(|| {
            for (name, on) in names() {
                let (env, model) = make(on);
                keep(&name, &env, &model);
            }
        });
    }
    let (from, home) = (directory_of(name), Home::new(on));
    std::fs::create_dir(home.store()).unwrap();
    for entry in std::fs::read_dir(from.join("db")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), home.store().join(entry.file_name())).unwrap();
    }
    std::fs::write(home.store().join("LOCK"), "").unwrap();
    if let Some(pool) = home.pool() {
        std::fs::write(pool, Pieces::read(&std::fs::read(from.join("pool")).unwrap())).unwrap();
    }
    let text = std::fs::read_to_string(from.join("contents")).unwrap();
    let lines = text.lines().map(|line| line.split_once(' ').unwrap());
    (home, lines.map(|(key, value)| (from_hexadecimal(key), from_hexadecimal(value))).collect())
}

#[test]
fn a_store_of_each_format_opens_holds_what_it_held_and_goes_on() {
    for (name, on) in names() {
        let (home, mut model) = copy(&name, on);
        assert!(model.len() > 50, "{name}");
        {
            let db = home.options().read_only(true).open(home.store()).unwrap();
            assert_same(&contents(&db).unwrap(), &model, &format!("{name}, read-only"));
            assert_verified(&db, &format!("{name}, read-only"));
            let files = db.table_files();
            let is_of_slm = engine() == EngineName::Slm;
            assert!(!is_of_slm || files.len() > 3 && files.iter().any(|file| file.deletes > 0), "{name}: {files:?}");
        }
        let db = home.open();
        assert_same(&contents(&db).unwrap(), &model, &name);
        assert_verified(&db, &name);
        assert!(db.stats().memtable_entries > 0, "{name} has nothing in its arena");
        for number in 0..500 {
            let (key, value) = (format!("later/{:03}", number % 100), format!("{number}"));
            db.put(&key, &value).unwrap();
            model.insert(key.into(), value.into());
        }
        db.compact_range::<&[u8]>(..).unwrap();
        assert_same(&contents(&db).unwrap(), &model, &name);
        assert_verified(&db, &name);
        db.close().unwrap();
        assert_same(&contents(&home.open()).unwrap(), &model, &format!("{name}, opened again"));
    }
}

/// So that what is kept is what its maker would make, but for the format.
#[test]
fn the_fixtures_hold_what_is_made_today() {
    for (name, on) in names() {
        let (_, model) = make(on);
        let (_, kept) = copy(&name, on);
        assert_same(&kept, &model, &name);
    }
}
