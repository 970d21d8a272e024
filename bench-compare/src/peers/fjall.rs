//! fjall: an LSM-tree in Rust.
//!
//! - `process`: as by default, a write is in the journal's file when it returns (`PersistMode::Buffer`).
//! - `sync`: every write is a batch with `PersistMode::SyncData`.
//!
//! Everything else is as by default (MemTables of 64 MB, leveled compaction), but the filter, which by default has more bits for the
//! newest level, the cache, and the workers: by default they are as many as the processors, up to four; with two a store of this kind was slower than
//! with four and used more processor time. Values apart are the default threshold's: those of 1 KiB and
//! more.

use std::path::Path;

use fjall::config::{BlockSizePolicy, BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode, UserKey, UserValue};
use slmdb_bench::Result;
use slmdb_bench::store::{Entry, Numbers, Start, Store};

use super::failure::failed_in;
use super::version::version_of;
use crate::footing::{BLOCK_BYTES, BLOOM_BITS_PER_KEY, Footing, mebibytes, processors};

const NAME: &str = "fjall";
/// Threads for work in the background, where there are not more processors.
const WORKERS: usize = 4;

/// An open database with its one keyspace.
struct Fjall {
    // Dropped in this order.
    keyspace: Keyspace,
    database: Database,
    sync: bool,
}

/// Opens one; makes it if it is missing.
pub fn open(directory: &Path, footing: &Footing, sync: bool, values_apart: bool) -> Result<Box<dyn Store>> {
    let builder = Database::builder(directory).cache_size(footing.block_cache_bytes());
    let database = builder.worker_threads(workers()).open();
    let database = database.map_err(failed_in(NAME))?;
    let filter = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(BLOOM_BITS_PER_KEY as f32));
    let keyspace = database.keyspace("entries", || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(footing.write_buffer_bytes)
            .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES as u32))
            .filter_policy(FilterPolicy::all(filter))
            .with_kv_separation(values_apart.then(KvSeparationOptions::default))
    });
    Ok(Box::new(Fjall { keyspace: keyspace.map_err(failed_in(NAME))?, database, sync }))
}

fn workers() -> usize {
    processors().max(WORKERS)
}

/// What it is, and how it is set up.
pub fn setup(footing: &Footing, values_apart: bool) -> String {
    format!(
        "fjall {}: block cache {}, MemTables of {}, blocks of {BLOCK_BYTES} bytes, Bloom {BLOOM_BITS_PER_KEY} bits, {} workers{}",
        version_of(NAME),
        mebibytes(footing.block_cache_bytes()),
        mebibytes(footing.write_buffer_bytes),
        workers(),
        if values_apart { ", values of 1 KiB and more apart" } else { "" },
    )
}

impl Store for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.sync {
            return self.put_all(&[(key, value)]);
        }
        self.keyspace.insert(key, value).map_err(failed_in(NAME))
    }

    fn put_all(&self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        let mode = if self.sync { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.database.batch().durability(Some(mode));
        for (key, value) in entries {
            batch.insert(&self.keyspace, *key, *value);
        }
        batch.commit().map_err(failed_in(NAME))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.keyspace.remove(key).map_err(failed_in(NAME))?;
        if self.sync { self.database.persist(PersistMode::SyncData).map_err(failed_in(NAME)) } else { Ok(()) }
    }

    fn get(&self, key: &[u8], look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.keyspace.get(key).map_err(failed_in(NAME))?;
        if let Some(value) = &value {
            look(value);
        }
        Ok(value.is_some())
    }

    fn walk(&self, start: Start<'_>, visit: &mut dyn FnMut(&mut dyn Entry) -> Result<bool>) -> Result<()> {
        let mut entries = match start {
            Start::At(key) => self.keyspace.range(key..),
            Start::First | Start::Last => self.keyspace.iter(),
        };
        let mut step = || if start == Start::Last { entries.next_back() } else { entries.next() };
        while let Some(entry) = step() {
            let (key, value) = Guard::into_inner(entry).map_err(failed_in(NAME))?;
            if !visit(&mut Found { key, value })? {
                break;
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncAll).map_err(failed_in(NAME))
    }

    fn flush(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait().map_err(failed_in(NAME))
    }

    fn compact(&self) -> Result<()> {
        self.flush()?;
        self.keyspace.major_compact().map_err(failed_in(NAME))
    }

    fn numbers(&self) -> Numbers {
        let memory_bytes = self.database.cache_size() + self.database.write_buffer_size();
        Numbers { memory_bytes: Some(memory_bytes), ..Numbers::default() }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// An entry of a range.
struct Found {
    key: UserKey,
    value: UserValue,
}

impl Entry for Found {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn value(&mut self) -> Result<&[u8]> {
        Ok(&self.value)
    }
}
