//! [`Db`]: an open store.

use std::cell::RefCell;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_engine::{
    Approximate, Capabilities, Condition, Engine, KeyOrder, Result, Slice, Stats, TableFile, VerifyProgress,
    VerifyReport, WriteBatch,
};

use crate::engines;
use crate::own::Own;
use crate::range::{Bounds, bounds_of, bounds_of_prefix};
use crate::write_options::WriteOptions;
use crate::{Cursor, Range, Snapshot};

/// An open store. Clones are cheap and mean the same store; all of them may be used from any number of threads at once.
///
/// The store is closed cleanly when the last clone goes ([`Db::close`] also tells whether that worked). The `LOCK` is
/// released when the last cursor, iterator and snapshot are gone, too.
///
/// A child of `fork` can't use what its parent opened: everything is [`crate::Error::Invalid`] there, [`Db::stats`] and
/// [`Db::table_files`] are empty, and dropping or closing a handle does nothing. Open the store after the fork.
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Own<Arc<dyn Engine>>,
    order: KeyOrder,
    path: PathBuf,
    sync: bool,
    /// Of a store that is opened for reading alone: what it was opened with, for copies.
    read_only: Option<slmdb_engine::Options>,
}

thread_local! {
    /// The batch that single puts and deletes of this thread are encoded in.
    static SINGLE: RefCell<WriteBatch> = RefCell::new(WriteBatch::new());
}

/// A thread keeps its batch for the next write unless it grew beyond this.
const KEPT_BATCH_BYTES: usize = 1 << 20;

impl Db {
    pub(crate) fn with_options(options: &slmdb_engine::Options, path: &Path) -> Result<Db> {
        let engine = (engines::of_store(options, path)?.open)(options, path, None)?;
        let (order, sync, path) = (options.comparator.clone(), options.syncs_writes, path.to_path_buf());
        let read_only = options.read_only.then(|| options.clone());
        Ok(Db { inner: Arc::new(Inner { engine: Own::new(engine), order, path, sync, read_only }) })
    }

    /// Sets the value of `key`. On return the put survives a kill of the process, and (with [`Options::sync`](crate::Options::sync), or after
    /// [`Db::sync`]) a power cut.
    ///
    /// Errors: [`crate::Error::Invalid`] for a key over 65,535 bytes or a value over 256 MiB; [`crate::Error::Full`];
    /// [`crate::Error::ReadOnly`]. After an error nothing was written, but for one case: a write that waited for its
    /// sync ([`Options::sync`](crate::Options::sync)) which then failed may be there or not, and the store takes no more writes.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write_single(|batch| batch.put(key, value), |engine, batch| engine.write(batch, self.inner.sync))
    }

    /// As [`Db::put`], with options for this write.
    pub fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        let sync = options.is_synced(self.inner.sync);
        self.write_single(|batch| batch.put(key, value), |engine, batch| engine.write(batch, sync))
    }

    /// Sets the value of `key` if it has none. True: it was set, and of any number of callers that insert one key at once
    /// exactly one gets this answer. False: the key had a value, and nothing has changed. No other write takes effect
    /// between the look and the put.
    ///
    /// Looks the key up as [`Db::contains_key`] does. Durability and errors as with [`Db::put`]; with [`Options::sync`](crate::Options::sync) an answer of false is durable,
    /// too: the value that was in the way survives a power cut. A call whose key has a value already writes nothing; one
    /// that finds its key free and is beaten to it leaves an empty place of its own size in the MemTable, until the next
    /// flush.
    ///
    /// ```
    /// # fn main() -> slmdb::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = slmdb::Db::open(directory.path().join("db"))?;
    /// assert!(db.insert_if_absent("lock", "mine")?);
    /// assert!(!db.insert_if_absent("lock", "yours")?);
    /// assert_eq!(db.get("lock")?.as_deref(), Some(b"mine".as_slice()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.insert_if_absent_with(key, value, WriteOptions::new())
    }

    /// As [`Db::insert_if_absent`], with options for this write.
    ///
    /// ```
    /// # fn main() -> slmdb::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = slmdb::Db::open(directory.path().join("db"))?;
    /// use slmdb::WriteOptions;
    ///
    /// let synced = WriteOptions::new().sync(true);
    /// assert!(db.insert_if_absent_with("lock", "mine", synced)?); // survives a power cut
    /// assert!(!db.insert_if_absent_with("lock", "yours", synced)?); // and what was in the way does, too
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_if_absent_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        let (key, sync) = (key.as_ref(), options.is_synced(self.inner.sync));
        self.write_single(
            |batch| batch.put(key, value),
            |engine, batch| engine.write_if(Condition::Absent(key), batch, sync),
        )
    }

    /// Sets the value of `key` if it has one already. True: it was set. False: the key had no value, and has none now.
    /// Everything else as with [`Db::insert_if_absent`].
    pub fn update_if_present(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.update_if_present_with(key, value, WriteOptions::new())
    }

    /// As [`Db::update_if_present`], with options for this write.
    ///
    /// ```
    /// # fn main() -> slmdb::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = slmdb::Db::open(directory.path().join("db"))?;
    /// use slmdb::WriteOptions;
    ///
    /// let synced = WriteOptions::new().sync(true);
    /// assert!(!db.update_if_present_with("order/17", "paid", synced)?); // there is no such order
    /// db.put("order/17", "open")?;
    /// assert!(db.update_if_present_with("order/17", "paid", synced)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_if_present_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        let (key, sync) = (key.as_ref(), options.is_synced(self.inner.sync));
        self.write_single(
            |batch| batch.put(key, value),
            |engine, batch| engine.write_if(Condition::Present(key), batch, sync),
        )
    }

    /// Removes `key` and its value; it is no error if there is none. Durability and errors as with [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::new())
    }

    /// As [`Db::delete`], with options for this write.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        let sync = options.is_synced(self.inner.sync);
        self.write_single(|batch| batch.delete(key), |engine, batch| engine.write(batch, sync))
    }

    /// Removes all keys in a range, in the order of the store, at one moment. It writes a few bytes, and so takes the same time whatever
    /// the range holds. Readers have none of these keys on return; snapshots and cursors that were made before see them.
    ///
    /// Flushes write a delete for each key that the range held. Until then reads pass over what is hidden. Durability and
    /// errors as with [`Db::put`]. See [`WriteBatch::delete_range`] for several at once.
    ///
    /// ```
    /// # fn main() -> slmdb::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = slmdb::Db::open(directory.path().join("db"))?;
    /// for key in ["a", "b", "c"] {
    ///     db.put(key, "1")?;
    /// }
    /// db.delete_range("a".."c")?;
    /// assert_eq!((db.get("b")?, db.contains_key("c")?), (None, true));
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.delete_range_with(range, WriteOptions::new())
    }

    /// As [`Db::delete_range`], with options for this write.
    pub fn delete_range_with<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>, options: WriteOptions) -> Result<()> {
        let sync = options.is_synced(self.inner.sync);
        self.write_single(|batch| batch.delete_range(range), |engine, batch| engine.write(batch, sync))
    }

    /// Applies a batch: readers see all of it or nothing, and so does recovery after any crash. Of several changes to one
    /// key the last counts. Durability and errors as with [`Db::put`].
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::new())
    }

    /// As [`Db::write`], with options for this write.
    pub fn write_with(&self, batch: &WriteBatch, options: WriteOptions) -> Result<()> {
        self.engine()?.write(batch, options.is_synced(self.inner.sync))
    }

    /// The value of `key`, or `None`. What that may read:
    ///
    /// | engine | a key that is there | a missing key |
    /// |---|---|---|
    /// | [`EngineName::Slm`](crate::EngineName::Slm) | one block of one table file | nothing |
    /// | [`EngineName::Lab`](crate::EngineName::Lab) | one block; and of each level above it the index and a block, where the filter does not say that the key is not there | the same of all levels |
    /// | [`EngineName::Tlsm`](crate::EngineName::Tlsm) | of each level down to the one that has it: nothing where that lies in the pool; of table files as above | the same of all levels |
    /// | [`EngineName::Chameleon`](crate::EngineName::Chameleon) | one block of one table file, and the place in a hash table that says which, if it is not in memory; more for keys that were overwritten since a snapshot | that place |
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.engine()?.get(key.as_ref())
    }

    /// Whether `key` has a value. The engine [`Slm`](crate::EngineName::Slm) reads no table file for that;
    /// [`Chameleon`](crate::EngineName::Chameleon) reads its hash tables, and
    /// [`Lab`](crate::EngineName::Lab) and [`Tlsm`](crate::EngineName::Tlsm) may read what [`Db::get`] reads of the levels
    /// ([`Capabilities::looks_read_files`](crate::Capabilities::looks_read_files)).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.engine()?.contains_key(key.as_ref())
    }

    /// The entries with keys in a range, in the store's order, from either end, as they are at this moment. Under a
    /// [`Options::comparator`](crate::Options::comparator) the bounds, too, mean what that says. Bounds may be strings,
    /// slices, arrays or vectors (of references to vectors, write `&from[..]..&to[..]`).
    ///
    /// ```
    /// # fn main() -> slmdb::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = slmdb::Db::open(directory.path().join("db"))?;
    /// db.put("a", "1")?;
    /// db.put("b", "2")?;
    /// db.put("c", "3")?;
    /// let keys: Vec<_> = db.range("a".."c")?.map(|entry| entry.unwrap().0).collect();
    /// assert_eq!(keys, [b"a", b"b"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Range> {
        self.range_of(bounds_of(&range))
    }

    /// The entries whose keys start with `prefix`; as [`Db::range`]. The empty prefix means all.
    ///
    /// [`crate::Error::Invalid`] for any other under a [`Options::comparator`](crate::Options::comparator): the keys with a common prefix need not be
    /// next to each other then. Use [`Db::range`] with bounds that mean something in that order.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range> {
        self.range_of(bounds_of_prefix(prefix.as_ref(), &self.inner.order)?)
    }

    /// All entries; as [`Db::range`].
    pub fn iter(&self) -> Result<Range> {
        self.range_of((Bound::Unbounded, Bound::Unbounded))
    }

    /// A position that moves over the entries as they are at this moment.
    pub fn cursor(&self) -> Result<Cursor> {
        Ok(Cursor::new(self.engine()?.cursor()?))
    }

    /// The store as it is at this moment, to be read for as long as it is held.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot::new(self.engine()?.snapshot()?, self.inner.order.clone()))
    }

    /// Makes everything acknowledged so far survive a power cut. On persistent memory it does already.
    pub fn sync(&self) -> Result<()> {
        self.engine()?.sync()
    }

    /// Brings everything acknowledged so far out of the MemTables and into table files. Never needed for safety.
    ///
    /// The engine [`Tlsm`](crate::EngineName::Tlsm) makes no file where the store has a pool: what was in MemTables lies in lists in
    /// the pool then. So on [`Medium::Emulated`](crate::Medium::Emulated) a flush does not save it from a restart of the machine.
    /// [`Db::checkpoint`] does.
    pub fn flush(&self) -> Result<()> {
        self.engine()?.flush()
    }

    /// Brings everything acknowledged so far into table files and merges those with keys in the range (or hands over
    /// `..` for all): afterwards no two of them overlap there, and nothing obsolete is left in them but what snapshots and
    /// cursors see. In a small part of the store some deletes may stay that still hide something. Never needed; the store
    /// compacts by itself what is worth it. Reads and writes go on meanwhile.
    ///
    /// The engine [`Tlsm`](crate::EngineName::Tlsm) merges lists in the pool, too. What is merged stays there as its tiering says,
    /// and segments that lists share may keep some of what is obsolete.
    ///
    /// [`crate::Error::Full`] if there is no space for the new files beside the old ones; then what was done stays. The engines
    /// [`Lab`](crate::EngineName::Lab) and [`Tlsm`](crate::EngineName::Tlsm) then drop what is obsolete without merging, a file or a
    /// list at a time, and files may go on overlapping. They return this error only if there is no space for that.
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let bound = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        let (from, to) = (bound(range.start_bound()), bound(range.end_bound()));
        self.engine()?.compact_range(from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice))
    }

    /// Makes a copy of the store in `directory`, which must be new or empty, while reads and writes go on. What is acknowledged
    /// when this is called is in it; what is written meanwhile may be. Table files never change, so the copy shares them (hard links;
    /// on another file system they are copied) and takes no time and space of its own but for the index: the copy has no
    /// pool, it opens on [`Medium::Dram`](crate::Medium::Dram) by rebuilding it. Both stores go their own ways afterwards.
    ///
    /// Of the engine [`Tlsm`](crate::EngineName::Tlsm) the copy has a table file for each list in the pool, which takes time and
    /// space. An entry that is damaged there is [`crate::Error::Corruption`], and no copy is made.
    ///
    /// A store that was opened for reading alone is copied entry by entry.
    ///
    /// If it fails, nothing is left in the directory. If it is cut short, what is there is no store: another copy may be made in its
    /// place, and [`destroy`](crate::destroy) removes it.
    ///
    /// ```
    /// # fn main() -> slmdb::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// let db = slmdb::Db::open(directory.path().join("db"))?;
    /// db.put("k", "before")?;
    /// db.checkpoint(directory.path().join("copy"))?;
    /// db.put("k", "after")?;
    /// let copy = slmdb::Db::open(directory.path().join("copy"))?;
    /// assert_eq!(copy.get("k")?.as_deref(), Some(&b"before"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn checkpoint(&self, directory: impl AsRef<Path>) -> Result<()> {
        match &self.inner.read_only {
            None => self.engine()?.checkpoint(directory.as_ref()),
            Some(options) => crate::copy::by_entries(&**self.engine()?, options, directory.as_ref()),
        }
    }

    /// What the store holds and has done.
    pub fn stats(&self) -> Stats {
        self.engine().map_or_else(|_| Stats::default(), |engine| engine.stats())
    }

    /// The table files, by number, and the lists of the engine [`Tlsm`](crate::EngineName::Tlsm), which lie in the pool.
    pub fn table_files(&self) -> Vec<TableFile> {
        self.engine().map_or_else(|_| Vec::new(), |engine| engine.table_files())
    }

    /// How much is in a range, about. It takes some milliseconds at most, whatever the range. SLM-DB reads no table file, LAB-DB
    /// and TLSM one block of each level where the range begins and one where it ends. (Of what lies in the pool TLSM reads none.) ChameleonDB reads some of the keys of each file that the range
    /// begins or ends in, and counts a key in each file that has it.
    ///
    /// Up to 4,096 keys in table files are counted exactly (LAB-DB and TLSM count a key of several levels in each), and so are
    /// up to 256 entries in each MemTable; beyond that the
    /// number of keys is meant to be within 10 % of the truth for what is in table files, and within 20 % for what is in
    /// MemTables. Bytes are as good where the values of one table file are about as long as each other; each entry of a mixed
    /// file is taken to be as long as its mean, within the limits of its block. Writes that go on meanwhile may be in it or not.
    ///
    /// ```
    /// # fn main() -> slmdb::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = slmdb::Db::open(directory.path().join("db"))?;
    /// db.put("b", [0; 1000])?;
    /// let about = db.approximate("a".."c")?;
    /// assert_eq!((about.keys, about.table_bytes, about.memtable_bytes), (1, 0, 1001));
    /// # Ok(())
    /// # }
    /// ```
    pub fn approximate<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Approximate> {
        fn bytes<K: AsRef<[u8]>>(bound: Bound<&K>) -> Bound<&[u8]> {
            bound.map(K::as_ref)
        }
        self.engine()?.approximate((bytes(range.start_bound()), bytes(range.end_bound())))
    }

    /// Checks everything there is against everything else, and calls `progress` as it goes on. What is wrong is in
    /// the report; an `Err` means that the checking itself failed. Flushes wait meanwhile; reads and writes don't.
    ///
    /// Of MemTables it checks each record that was acknowledged. What is missing at the end of a log that a kill has cut is not
    /// known to it: an opening takes what is whole.
    pub fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        self.engine()?.verify(progress)
    }

    /// What the store's engine can do, and what it does worse than others.
    pub fn capabilities(&self) -> Result<Capabilities> {
        Ok(self.engine()?.capabilities())
    }

    /// The directory it was opened at.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Gives up this handle. If it was the last one, the store is closed: background work is finished and everything is
    /// sealed, so that the next open can verify every byte. Reports what a drop would swallow.
    pub fn close(self) -> Result<()> {
        // Of several handles closed at once exactly one gets the store.
        Arc::into_inner(self.inner).map_or(Ok(()), |inner| inner.engine.get().map_or(Ok(()), |engine| engine.close()))
    }

    fn range_of(&self, bounds: Bounds) -> Result<Range> {
        Ok(Range::new(self.engine()?.cursor()?, self.inner.order.clone(), bounds))
    }

    /// The engine, in the process that opened the store.
    fn engine(&self) -> Result<&Arc<dyn Engine>> {
        self.inner.engine.get()
    }

    /// Encodes a batch of one change in this thread's own, and hands it over.
    fn write_single<T>(
        &self,
        encode: impl FnOnce(&mut WriteBatch) -> Result<()>,
        write: impl FnOnce(&dyn Engine, &WriteBatch) -> Result<T>,
    ) -> Result<T> {
        let engine = self.engine()?;
        SINGLE.with_borrow_mut(|batch| {
            batch.clear();
            encode(batch)?;
            let written = write(&**engine, batch);
            if batch.byte_len() > KEPT_BATCH_BYTES {
                *batch = WriteBatch::new();
            }
            written
        })
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Db").field("path", &self.inner.path).finish_non_exhaustive()
    }
}
