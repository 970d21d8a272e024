//! A store that has little space on its disk, or in its pool: what several tests of this folder set up.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{Home, Model, On, Random, eager_compaction};
use slmdb::{CompactionOptions, CompactionPolicy, Db, EngineName, ErrorKind, Medium, Options};
use slmdb_env::Env;
use slmdb_testkit::MemoryEnv;

pub(crate) const STORE: &str = "/db";
const MEMTABLE_BYTES: u64 = 32 << 10;
pub(crate) const PLENTY_BYTES: u64 = 1 << 30;
pub(crate) const VALUE_BYTES: usize = 400;
/// The pool's size where the disk is scarce that it is on.
const POOL_BYTES: u64 = 8 << 20;

/// What there is little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scarce {
    DiskOnDram,
    DiskOnEmulated,
    PoolOnDram,
    PoolOnEmulated,
}

const ALL: [Scarce; 4] = [Scarce::DiskOnDram, Scarce::DiskOnEmulated, Scarce::PoolOnDram, Scarce::PoolOnEmulated];

/// What an engine can have too little of. The pool is never full where level 0 goes on to the disk.
pub(crate) fn scarce() -> &'static [Scarce] {
    if crate::common::engine() == EngineName::Slm { &ALL } else { &ALL[..2] }
}

pub(crate) struct Machine {
    pub(crate) scarce: Scarce,
    pub(crate) env: MemoryEnv,
    home: Option<Home>,
    limit_bytes: u64,
}

impl Machine {
    pub(crate) fn new(scarce: Scarce, limit_bytes: u64) -> Machine {
        let home = (scarce == Scarce::PoolOnEmulated).then(|| Home::new(On::Emulated));
        Machine { scarce, env: MemoryEnv::new(), home, limit_bytes }
    }

    pub(crate) fn options(&self) -> Options {
        let pool_is_scarce = matches!(self.scarce, Scarce::PoolOnDram | Scarce::PoolOnEmulated);
        // A pool on the disk that is full has its size from the start: it would take what it once needed, and not give it back.
        let pool_bytes = if self.scarce == Scarce::DiskOnEmulated { POOL_BYTES } else { 0 };
        let options = crate::common::options()
            .memtable_bytes(MEMTABLE_BYTES)
            .memory_budget_bytes(1 << 16)
            .compaction(CompactionOptions { table_file_bytes: MEMTABLE_BYTES, ..eager_compaction() })
            .pool_initial_bytes(pool_bytes.max(1 << 19))
            .pool_growth_bytes(1 << 16)
            .pool_maximum_bytes(if pool_is_scarce { self.limit_bytes } else { PLENTY_BYTES });
        let options = if pool_is_scarce { crate::common::with_index_in_pool(options) } else { options };
        if let Some(home) = &self.home {
            return home.on(options);
        }
        self.env.set_capacity(if pool_is_scarce { PLENTY_BYTES } else { self.limit_bytes + pool_bytes });
        let options = options.env(Arc::new(self.env.clone())).sync(true);
        match self.scarce {
            Scarce::DiskOnEmulated => options.medium(Medium::Emulated { path: "/pool".into() }),
            _ => options,
        }
    }

    pub(crate) fn open(&self) -> Db {
        self.open_with(self.options())
    }

    pub(crate) fn open_with(&self, options: Options) -> Db {
        options.open(self.home.as_ref().map_or(STORE.into(), Home::store)).unwrap()
    }

    /// As a kill at this moment leaves it, with compaction under way. (Where there is a pool file, which can't be copied in one
    /// moment, the store is closed.)
    pub(crate) fn killed(self, db: Db) -> Machine {
        match (&self.home, self.scarce) {
            (Some(_), _) | (None, Scarce::DiskOnEmulated) => {
                db.close().unwrap();
                self
            }
            (None, _) => Machine { env: self.env.kill(), ..self },
        }
    }
}

pub(crate) fn key(number: u64) -> Vec<u8> {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()
}

pub(crate) fn put(db: &Db, model: &mut Model, key: Vec<u8>, value: Vec<u8>) -> slmdb::Result<()> {
    db.put(&key, &value)?;
    model.insert(key, value);
    Ok(())
}

/// Puts new keys until one is refused; how many there are then.
pub(crate) fn fill(db: &Db, model: &mut Model, random: &mut Random, value_bytes: usize, moves: &AtomicU64) -> u64 {
    let mut number = model.len() as u64;
    loop {
        if let Err(error) = put(db, model, key(number), random.bytes(value_bytes)) {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
            return number;
        }
        number += 1;
        moves.fetch_add(1, Ordering::Relaxed);
        assert!(number < 1_000_000, "never full");
    }
}

/// Values so small that the pool is full first, or so large that the disk is.
pub(crate) fn value_bytes(scarce: Scarce) -> usize {
    if matches!(scarce, Scarce::PoolOnDram | Scarce::PoolOnEmulated) { 20 } else { VALUE_BYTES }
}

/// What all files of the store take.
pub(crate) fn used_bytes(env: &MemoryEnv) -> u64 {
    env.list_directory(Path::new(STORE)).unwrap().iter().map(|entry| entry.length_bytes).sum()
}

/// The names of all table files.
pub(crate) fn tables(env: &MemoryEnv) -> Vec<String> {
    let entries = env.list_directory(Path::new(STORE)).unwrap();
    entries.into_iter().map(|entry| entry.name).filter(|name| name.ends_with(".sst")).collect()
}

/// A store with two flushed files, the first of which is nearly all garbage, and compaction off.
pub(crate) fn two_files(env: &MemoryEnv) -> Model {
    let manual = CompactionOptions { policy: CompactionPolicy::Manual, ..eager_compaction() };
    let db = crate::common::options().env(Arc::new(env.clone())).sync(true).compaction(manual).open(STORE).unwrap();
    let (mut model, mut random) = (Model::new(), Random(5));
    for number in 0..200 {
        put(&db, &mut model, key(number), random.bytes(VALUE_BYTES)).unwrap();
    }
    db.flush().unwrap();
    for number in 0..190 {
        put(&db, &mut model, key(number), random.bytes(VALUE_BYTES)).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    model
}
