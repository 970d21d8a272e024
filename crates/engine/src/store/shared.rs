//! [`Shared`]: what a store shares with its snapshots and cursors, and how all of them read.

use std::sync::Arc;

use slmdb_env::Result;
use slmdb_structures::EntryKind;

use super::cursor::StoreCursor;
use super::parts::Parts;
use super::tier::{Moment, Tier};
use crate::read::snapshot_registry::SnapshotKind;
use crate::{EngineCursor, Slice};

/// What a store shares with its snapshots and cursors.
pub struct Shared<T: Tier> {
    /// The parts that know no engine.
    pub parts: Arc<Parts>,
    /// What is below the MemTables.
    pub tier: Arc<T>,
}

impl<T: Tier> Shared<T> {
    /// The value of a key at a moment. MemTables come first, and the tier is asked afterwards: entries move that way only.
    #[inline]
    pub(super) fn get(&self, key: &[u8], moment: Moment) -> Result<Option<Slice>> {
        let sequence_max = self.sequence_max(moment);
        for memtable in &self.parts.writes.view.load().memtables {
            if let Some(found) = memtable.get(key, sequence_max) {
                return Ok((found.kind == EntryKind::Put).then(|| Slice::from(found.value)));
            }
        }
        self.tier.get(key, moment)
    }

    /// Whether a key has a value at a moment.
    #[inline]
    pub(super) fn contains_key(&self, key: &[u8], moment: Moment) -> Result<bool> {
        let sequence_max = self.sequence_max(moment);
        for memtable in &self.parts.writes.view.load().memtables {
            if let Some(found) = memtable.get(key, sequence_max) {
                return Ok(found.kind == EntryKind::Put);
            }
        }
        self.tier.contains_key(key, moment)
    }

    #[inline]
    fn sequence_max(&self, moment: Moment) -> u64 {
        match moment {
            Moment::Now => self.parts.writes.publication.published(),
            Moment::At(moment) => moment,
        }
    }

    /// A cursor at the present moment.
    /// LOCKS: snapshots
    pub(super) fn cursor(self: &Arc<Self>) -> Box<dyn EngineCursor> {
        let (moment, view) = loop {
            let before = self.parts.writes.view.load_full();
            let moment = self.parts.register(SnapshotKind::Cursor);
            let after = self.parts.writes.view.load_full();
            if Arc::ptr_eq(&before, &after) {
                break (moment, before);
            }
            self.parts.release(moment, SnapshotKind::Cursor, 0);
        };
        Box::new(StoreCursor::new(self.parts.clone(), self.tier.cursor(moment), moment, &view))
    }

    /// A cursor at the moment of a snapshot that is held.
    /// LOCKS: snapshots
    pub(super) fn cursor_at(self: &Arc<Self>, moment: u64) -> Box<dyn EngineCursor> {
        let moment = self.parts.state.moments().register(SnapshotKind::Cursor, &|| moment);
        let view = self.parts.writes.view.load_full();
        Box::new(StoreCursor::new(self.parts.clone(), self.tier.cursor(moment), moment, &view))
    }
}
