//! Point reads (paper, section 3.2): MemTables, the mutable tree, the immutable tree, then the levels.
//!
//! This order makes reads right while flushes and compactions go on, because data moves that way only (I6). A MemTable
//! leaves the readers' list only after the mutable tree has its entries. A chunk leaves the immutable tree only after
//! the levels have it. So the levels are loaded last.
//!
//! After the look into a tree, a chunk may move the entry on and its run file may go before the entry is read. Then the
//! file is gone from the store, and the key is looked up again.

use std::sync::Arc;

use slmdb_engine::context::StoreContext;
use slmdb_engine::files::catalog::Catalog;
use slmdb_engine::files::obsolete_files::ObsoleteFiles;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::read::snapshot_registry::SnapshotKind;
use slmdb_engine::write::write_path::WritePath;
use slmdb_env::{Error, Result};
use slmdb_levels::{Levels, TableRun};
use slmdb_pmem::Medium;
use slmdb_structures::EntryKind;
use slmdb_structures::hybrid_tree::Version;
use slmdb_table::Slice;

use crate::compaction::queue::CompactionQueue;
use crate::level_zero::{LevelZero, location};
use crate::memory::MemoryShare;
use crate::operations::pauses::{Paused, pause};

/// The moment that a read sees.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    /// The present one.
    Now,
    /// One that is [registered](slmdb_engine::read::snapshot_registry).
    At(u64),
}

/// What readers need of the store.
pub(crate) struct Reader<M: Medium> {
    pub(crate) context: Arc<StoreContext>,
    pub(crate) writes: Arc<WritePath<M>>,
    pub(crate) level_zero: Arc<LevelZero<M>>,
    pub(crate) levels: Arc<Levels<TableRun>>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) memory: Arc<MemoryShare<M>>,
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    pub(crate) compactions: Arc<CompactionQueue>,
}

impl<M: Medium + Clone> Reader<M> {
    /// The value of `key` at a moment.
    /// LOCKS: snapshots; file numbers; catalog (if a file is gone)
    pub(crate) fn get(&self, key: &[u8], moment: Moment) -> Result<Option<Slice>> {
        self.read(key, moment, |value| Slice::from(value), |version| self.tables.value(key, location(version)))
    }

    /// Whether `key` has a value at a moment. May read a block of a level.
    pub(crate) fn contains_key(&self, key: &[u8], moment: Moment) -> Result<bool> {
        Ok(self.read(key, moment, |_| Slice::default(), |_| Ok(Slice::default()))?.is_some())
    }

    /// Finds the version of a key that a moment sees. `take` copies a value from a MemTable, `fetch` reads what level 0
    /// leads to.
    fn read(
        &self,
        key: &[u8],
        moment: Moment,
        take: impl Fn(&[u8]) -> Slice,
        fetch: impl Fn(&Version) -> Result<Slice>,
    ) -> Result<Option<Slice>> {
        let sequence_max = match moment {
            Moment::Now => self.writes.publication.published(),
            Moment::At(moment) => moment,
        };
        for memtable in &self.writes.view.load().memtables {
            if let Some(found) = memtable.get(key, sequence_max) {
                return Ok((found.kind == EntryKind::Put).then(|| take(found.value)));
            }
        }
        let mut before = None;
        loop {
            pause(Paused::BeforeTrees);
            let version = match moment {
                Moment::Now => self.level_zero.get(key)?,
                Moment::At(moment) => self.level_zero.get_at(key, moment)?,
            };
            pause(Paused::BehindTrees);
            let Some(version) = version else { return self.get_in_levels(key, moment) };
            if version.kind == EntryKind::Delete {
                return Ok(None);
            }
            match fetch(&version) {
                // A chunk has moved the entry on. If it is still the same, the error is real.
                Err(error) if !self.is_gone(version.file) || before == Some(version) => return Err(error),
                Err(_) => before = Some(version),
                Ok(value) => return Ok(Some(value)),
            }
        }
    }

    pub(super) fn get_in_levels(&self, key: &[u8], moment: Moment) -> Result<Option<Slice>> {
        let sequence_max = match moment {
            Moment::Now => u64::MAX,
            Moment::At(moment) => moment,
        };
        let found = self.levels.current().get(key, sequence_max)?;
        Ok(found.filter(|found| found.kind == slmdb_table::EntryKind::Put).map(|found| found.value))
    }

    /// Whether a run file has left the store since.
    pub(crate) fn is_gone(&self, file: u32) -> bool {
        self.catalog.is_gone(file)
    }

    /// The value of a version of level 0, for a cursor whose moment keeps it.
    pub(crate) fn value_of(&self, key: &[u8], version: &Version) -> Result<Slice> {
        if version.kind == EntryKind::Delete {
            return Err(Error::invalid("a deleted key has no value"));
        }
        self.tables.value(key, location(version))
    }

    /// Ends the registration of a cursor or a snapshot, and gives back what was kept for it alone. `held_bytes` is what a
    /// cursor has freed of its own.
    /// LOCKS: snapshots; those of `ObsoleteFiles::remove_unpinned`; memtables; arenas
    pub(crate) fn release(&self, moment: u64, holder: SnapshotKind, held_bytes: u64) {
        let kept_bytes = self.level_zero.snapshots.kept_bytes();
        let unpinned = self.level_zero.snapshots.release(moment, holder);
        if !unpinned.is_empty() {
            self.obsolete.remove_unpinned();
            self.writes.memtables.lock().space_returned += 1;
            self.compactions.wake();
        }
        // Nothing of a failed store is deleted (INV-27), and a closed one belongs to the next opening.
        let is_open = self.context.check_writable().is_ok();
        let reclaimed = if is_open { self.writes.arenas.reader_has_gone() } else { Ok(0) };
        let lists_bytes = reclaimed.unwrap_or_else(|error| {
            tracing::warn!(%error, "the arena of a flushed MemTable stays for now");
            0
        });
        let no_longer_kept_bytes = kept_bytes.saturating_sub(self.level_zero.snapshots.kept_bytes());
        self.memory.kept_freed(no_longer_kept_bytes + lists_bytes + held_bytes);
    }
}
