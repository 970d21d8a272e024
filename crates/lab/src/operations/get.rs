//! Point reads (paper, section 3.2): MemTables, the mutable tree, the immutable tree, then the levels.
//!
//! This order makes reads right while flushes and compactions go on, because data moves that way only (I6). A MemTable
//! leaves the readers' list only after the mutable tree has its entries. A chunk leaves the immutable tree only after
//! the levels have it. So the levels are loaded last.
//!
//! After the look into a tree, a chunk may move the entry on and its run file may go before the entry is read. Then the
//! file is gone from the store, and the key is looked up again.

use std::sync::Arc;

use slmdb_engine::store::parts::Parts;
use slmdb_engine::store::tier::Moment;
use slmdb_env::{Error, Result};
use slmdb_structures::EntryKind;
use slmdb_structures::hybrid_tree::Version;
use slmdb_table::Slice;

use crate::level_zero::location;
use crate::operations::pauses::{Paused, pause};
use crate::state::LabState;

/// What readers need of the store.
pub(crate) struct Reader {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<LabState>,
}

impl Reader {
    /// The value at a moment of a key that no MemTable has then.
    /// LOCKS: snapshots; file numbers; catalog (if a file is gone)
    pub(crate) fn get(&self, key: &[u8], moment: Moment) -> Result<Option<Slice>> {
        self.read(key, moment, |version| self.store.tables.value(key, location(version)))
    }

    /// Whether a key has a value at a moment that no MemTable has then. May read a block of each level.
    pub(crate) fn contains_key(&self, key: &[u8], moment: Moment) -> Result<bool> {
        Ok(self.read(key, moment, |_| Ok(Slice::default()))?.is_some())
    }

    /// Finds the version of a key that a moment sees. `fetch` reads what level 0 leads to.
    fn read(&self, key: &[u8], moment: Moment, fetch: impl Fn(&Version) -> Result<Slice>) -> Result<Option<Slice>> {
        let mut before = None;
        loop {
            pause(Paused::BeforeTrees);
            let version = match moment {
                Moment::Now => self.state.level_zero.get(key)?,
                Moment::At(moment) => self.state.level_zero.get_at(key, moment)?,
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
        let found = self.state.levels.current().get(key, sequence_max)?;
        Ok(found.filter(|found| found.kind == EntryKind::Put).map(|found| found.value))
    }

    /// Whether a run file has left the store since.
    pub(crate) fn is_gone(&self, file: u32) -> bool {
        self.store.catalog.is_gone(file)
    }

    /// The value of a version of level 0, for a cursor whose moment keeps it.
    pub(crate) fn value_of(&self, key: &[u8], version: &Version) -> Result<Slice> {
        if version.kind == EntryKind::Delete {
            return Err(Error::invalid("a deleted key has no value"));
        }
        self.store.tables.value(key, location(version))
    }
}
