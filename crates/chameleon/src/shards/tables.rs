//! [`HashTables`]: where hash tables lie. With a pool each has an extent of its own, on `Dram` a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slmdb_engine::files::file_names as names;
use slmdb_env::{Env, Error, File, Mapped, OpenMode, Result};
use slmdb_pmem::{AnyMedium, Claim, Extent, ExtentKind, Pool};
use slmdb_structures::hash::{FinishedTable, HashTable, PoolBytes, TableBytes};
use slmdb_sync::scheduled::Mutex;

use super::section::Row;

/// A hash table, open.
pub(crate) type ShardTable = HashTable<Home>;

/// Where a hash table lies. One that has been retired goes with its last reader, as far as it has not gone before.
#[derive(Debug)]
pub(crate) enum Home {
    Pool { bytes: PoolBytes<AnyMedium>, pool: Arc<Pool<AnyMedium>>, is_retired: AtomicBool },
    File { file: Arc<dyn File>, mapped: Option<Arc<dyn Mapped>>, path: PathBuf, length_bytes: u64 },
}

impl TableBytes for Home {
    fn path(&self) -> &Path {
        match self {
            Home::Pool { bytes, .. } => bytes.path(),
            Home::File { path, .. } => path,
        }
    }

    fn offset_bytes(&self) -> u64 {
        match self {
            Home::Pool { bytes, .. } => bytes.offset_bytes(),
            Home::File { .. } => 0,
        }
    }

    fn length_bytes(&self) -> u64 {
        match self {
            Home::Pool { bytes, .. } => bytes.length_bytes(),
            Home::File { length_bytes, .. } => *length_bytes,
        }
    }

    #[inline]
    fn copy(&self, at: u64, into: &mut [u8]) -> Result<()> {
        match self {
            Home::Pool { bytes, .. } => bytes.copy(at, into),
            Home::File { file, mapped, .. } => match mapped {
                Some(mapped) if mapped.read_at(into, at)? => Ok(()),
                _ => file.read_exact_at(into, at),
            },
        }
    }

    #[inline]
    fn lend<'b>(&'b self, at: u64, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
        match self {
            Home::Pool { bytes, .. } => bytes.lend(at, buffer),
            Home::File { .. } => {
                self.copy(at, buffer)?;
                Ok(buffer)
            }
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Home::Pool { bytes, pool, is_retired } = self
            && is_retired.load(Ordering::Relaxed)
            && let Err(error) = pool.free_extent(bytes.extent().offset)
        {
            tracing::warn!(%error, "the place of a merged hash table stays taken until the next opening");
        }
    }
}

/// Where hash tables lie.
pub(crate) struct HashTables {
    env: Arc<dyn Env>,
    directory: PathBuf,
    uuid: [u8; 16],
    /// `None` on `Dram`.
    pool: Option<Arc<Pool<AnyMedium>>>,
    /// Files that are to be removed, and how many copies of the store keep them.
    leaving: Mutex<(Vec<u32>, usize)>,
}

impl HashTables {
    /// Of a store. `pool`: unless it is on `Dram`.
    pub(crate) fn new(
        env: Arc<dyn Env>,
        directory: &Path,
        uuid: [u8; 16],
        pool: Option<Arc<Pool<AnyMedium>>>,
    ) -> HashTables {
        HashTables { env, directory: directory.into(), uuid, pool, leaving: Mutex::default() }
    }

    /// The store's UUID of files.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Whether tables are files.
    pub(crate) fn are_files(&self) -> bool {
        self.pool.is_none()
    }

    /// Writes a table, durably. After an error that may be tried again nothing is left of it.
    pub(crate) fn write(&self, table: &FinishedTable, claim: Claim) -> Result<()> {
        if let Some(pool) = &self.pool {
            return table.write_to_pool(pool, claim).map(drop);
        }
        let path = names::hash_table(&self.directory, table.record().number);
        let written = self.write_file(&path, table.bytes());
        if written.as_ref().is_err_and(Error::may_be_tried_again) && self.env.exists(&path)? {
            self.env.remove_file(&path)?;
        }
        written
    }

    fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let file = self.env.open_file(path, OpenMode::CreateOrTruncate)?;
        file.allocate(0, bytes.len() as u64)?;
        file.write_at(bytes, 0)?;
        file.sync_data()?;
        self.env.sync_directory(&self.directory)
    }

    /// Opens a table that the MANIFEST names.
    pub(crate) fn open(&self, row: &Row) -> Result<ShardTable> {
        let Some(pool) = &self.pool else { return self.open_file(row.number, row.length_bytes) };
        let missing = || Error::corruption(pool.path(), 0, format!("hash table {} is not in the pool", row.number));
        let bytes = PoolBytes::new(pool.clone(), extent_of(pool, row.number).ok_or_else(missing)?)?;
        let home = Home::Pool { bytes, pool: pool.clone(), is_retired: AtomicBool::new(false) };
        HashTable::open(home, row.number, self.uuid)
    }

    fn open_file(&self, number: u32, length_bytes: u64) -> Result<ShardTable> {
        let path = names::hash_table(&self.directory, number);
        if !self.env.exists(&path)? {
            return Err(Error::corruption(&path, 0, "a hash table of the store is missing"));
        }
        let file = self.env.open_file(&path, OpenMode::Read)?;
        let there_bytes = file.length_bytes()?;
        if there_bytes != length_bytes {
            let what = format!("a hash table of {length_bytes} bytes has {there_bytes}");
            return Err(Error::corruption(&path, there_bytes.min(length_bytes), what));
        }
        file.advise_random();
        let mapped = file.map(length_bytes);
        HashTable::open(Home::File { file, mapped, path, length_bytes }, number, self.uuid)
    }

    /// What tables take of the pool, in bytes.
    pub(crate) fn pool_bytes(&self) -> u64 {
        let extents = self.pool.iter().flat_map(|pool| pool.extents());
        extents.filter(|extent| extent.kind == ExtentKind::HashTable).map(|extent| extent.length_bytes).sum()
    }

    /// Gives up a table that the MANIFEST does not name, and that nobody has open.
    pub(crate) fn remove(&self, row: &Row) {
        let Some(pool) = &self.pool else {
            self.leaving.lock().0.push(row.number);
            return self.remove_leaving();
        };
        let freed = extent_of(pool, row.number).map_or(Ok(()), |extent| pool.free_extent(extent.offset));
        if let Err(error) = freed {
            tracing::warn!(%error, "the place of a hash table stays taken until the next opening");
        }
    }

    /// Gives up a table that the MANIFEST no longer names. Readers may have it open.
    pub(crate) fn retire(&self, table: &ShardTable) {
        match table.bytes() {
            Home::Pool { is_retired, .. } => is_retired.store(true, Ordering::Relaxed),
            Home::File { .. } => {
                self.leaving.lock().0.push(table.record().number);
                self.remove_leaving();
            }
        }
    }

    /// Removes files that are to be removed, unless a copy of the store is being made.
    fn remove_leaving(&self) {
        let leaving = match &mut *self.leaving.lock() {
            (leaving, 0) => std::mem::take(leaving),
            _ => return,
        };
        for number in leaving {
            if let Err(error) = self.env.remove_file(&names::hash_table(&self.directory, number)) {
                tracing::warn!(%error, "a merged hash table stays until the next opening");
            }
        }
    }

    /// Keeps all files until the returned guard is dropped.
    pub(crate) fn hold(&self) -> HeldTables<'_> {
        self.leaving.lock().1 += 1;
        HeldTables(self)
    }

    /// Frees the extents of tables in the pool that the MANIFEST does not name.
    pub(crate) fn free_unnamed(&self, is_named: impl Fn(u32) -> bool) -> Result<()> {
        let Some(pool) = &self.pool else { return Ok(()) };
        let extents = pool.extents();
        let unnamed = extents.iter().filter(|extent| extent.kind == ExtentKind::HashTable && !is_named(extent.owner));
        unnamed.into_iter().try_for_each(|extent| pool.free_extent(extent.offset))
    }
}

/// Keeps the files of hash tables; see [`HashTables::hold`].
pub(crate) struct HeldTables<'t>(&'t HashTables);

impl HeldTables<'_> {
    /// See [`HashTables::are_files`].
    pub(crate) fn are_files(&self) -> bool {
        self.0.are_files()
    }
}

impl Drop for HeldTables<'_> {
    fn drop(&mut self) {
        self.0.leaving.lock().1 -= 1;
        self.0.remove_leaving();
    }
}

/// Where a table lies in the pool.
fn extent_of(pool: &Pool<AnyMedium>, number: u32) -> Option<Extent> {
    let is_it = |extent: &Extent| extent.kind == ExtentKind::HashTable && extent.owner == number;
    pool.extents().into_iter().find(is_it)
}
