//! redb: a copy-on-write B+-tree in one file.
//!
//! Every put is a transaction of `Durability::Immediate`. redb has no durability between that and `None`, which loses everything since
//! the last immediate commit when the process dies. So `process` is what its interface allows: a backend that writes and does not
//! sync ([`Unsynced`]); a commit is then in the page cache, and outlives the process as a log does that is written and not
//! synced.
//!
//! Reads share one read transaction for as long as nothing is committed, so that its beginning is not in every get.

use std::fs::OpenOptions;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use redb::backends::FileBackend;
use redb::{
    AccessGuard, BackendError, Builder, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, StorageBackend,
    Table, TableDefinition,
};
use slmdb_bench::Result;
use slmdb_bench::store::{Entry, Start, Store};

use super::failure::{failed, failed_in};
use super::version::version_of;
use crate::footing::{Footing, mebibytes};

const NAME: &str = "redb";
const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");

type Reading = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// An open database.
struct Redb {
    database: Database,
    /// The table as of the last commit; none if nobody has read since then.
    reading: RwLock<Option<Arc<Reading>>>,
    /// The file, for syncs of a store that does not.
    file: std::fs::File,
}

/// Opens one; makes it if it is missing.
pub fn open(directory: &Path, footing: &Footing, sync: bool) -> Result<Box<dyn Store>> {
    let path = directory.join("store.redb");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(failed_in(NAME))?;
    let backend = FileBackend::new(file.try_clone().map_err(failed_in(NAME))?).map_err(failed_in(NAME))?;
    let mut builder = Builder::new();
    builder.set_cache_size(footing.memory_budget_bytes as usize);
    let database =
        if sync { builder.create_with_backend(backend) } else { builder.create_with_backend(Unsynced(backend)) };
    let store = Redb { database: database.map_err(failed_in(NAME))?, reading: RwLock::default(), file };
    // The table is there from now on.
    store.write(|_| Ok(()))?;
    Ok(Box::new(store))
}

/// What it is, and how it is set up.
pub fn setup(footing: &Footing) -> String {
    format!("redb {}: cache {}", version_of(NAME), mebibytes(footing.memory_budget_bytes))
}

impl Redb {
    fn write(&self, work: impl FnOnce(&mut Table<'_, &[u8], &[u8]>) -> Result<()>) -> Result<()> {
        let transaction = self.database.begin_write().map_err(failed_in(NAME))?;
        {
            let mut table = transaction.open_table(TABLE).map_err(failed_in(NAME))?;
            work(&mut table)?;
        }
        transaction.commit().map_err(failed_in(NAME))?;
        // A reader in between has seen this commit or not; whoever comes after sees it.
        *self.reading.write().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    fn reading(&self) -> Result<Arc<Reading>> {
        if let Some(reading) = &*self.reading.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(reading.clone());
        }
        // Begun under the lock, so that no commit comes between beginning and remembering.
        let mut place = self.reading.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(reading) = &*place {
            return Ok(reading.clone());
        }
        let transaction = self.database.begin_read().map_err(failed_in(NAME))?;
        let reading = Arc::new(transaction.open_table(TABLE).map_err(failed_in(NAME))?);
        *place = Some(reading.clone());
        Ok(reading)
    }
}

impl Store for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_all(&[(key, value)])
    }

    fn put_all(&self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        self.write(|table| {
            for (key, value) in entries {
                table.insert(*key, *value).map_err(failed_in(NAME))?;
            }
            Ok(())
        })
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(|table| table.remove(key).map(|_| ()).map_err(failed_in(NAME)))
    }

    fn get(&self, key: &[u8], look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        // Dropped in this order: a transaction that ended before its last page was let go has made a commit panic in a debug build
        // (`readers_see_earlier_writes_while_another_thread_writes`).
        let reading = self.reading()?;
        let value = reading.get(key).map_err(failed_in(NAME))?;
        if let Some(value) = &value {
            look(value.value());
        }
        Ok(value.is_some())
    }

    fn update_if_present(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let mut is_there = false;
        self.write(|table| {
            is_there = table.get(key).map_err(failed_in(NAME))?.is_some();
            if is_there {
                table.insert(key, value).map_err(failed_in(NAME))?;
            }
            Ok(())
        })?;
        Ok(is_there)
    }

    fn walk(&self, start: Start<'_>, visit: &mut dyn FnMut(&mut dyn Entry) -> Result<bool>) -> Result<()> {
        let reading = self.reading()?;
        let mut range = match start {
            Start::At(key) => reading.range(key..),
            Start::First | Start::Last => reading.range::<&[u8]>(..),
        }
        .map_err(failed_in(NAME))?;
        let mut step = || if start == Start::Last { range.next_back() } else { range.next() };
        while let Some(entry) = step() {
            let (key, value) = entry.map_err(failed_in(NAME))?;
            if !visit(&mut Found { key, value })? {
                break;
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| failed(NAME, error))
    }

    // Nothing waits in memory. It compacts only a database that nobody else is using; free pages are used again without that.
}

/// An entry of a range.
struct Found<'r> {
    key: AccessGuard<'r, &'static [u8]>,
    value: AccessGuard<'r, &'static [u8]>,
}

impl Entry for Found<'_> {
    fn key(&self) -> &[u8] {
        self.key.value()
    }

    fn value(&mut self) -> Result<&[u8]> {
        Ok(self.value.value())
    }
}

/// redb's own backend, but for syncs.
#[derive(Debug)]
struct Unsynced(FileBackend);

impl StorageBackend for Unsynced {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, length_bytes: u64) -> io::Result<()> {
        self.0.set_len(length_bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}
