//! Moments that readers hold: snapshots, and what is given back at their end.
//!
//! A snapshot keeps its moment registered and nothing else: no MemTable, no file. [`crate::read::snapshots`] says what that
//! means for flushes, and why every read finds its version.

use std::sync::Arc;

use slmdb_env::Result;

use super::parts::Parts;
use super::shared::Shared;
use super::tier::{Moment, Tier};
use crate::read::snapshot_registry::SnapshotKind;
use crate::{EngineCursor, EngineSnapshot, Slice};

/// See [`EngineSnapshot`].
pub(super) struct StoreSnapshot<T: Tier> {
    store: Arc<Shared<T>>,
    moment: u64,
}

impl<T: Tier> StoreSnapshot<T> {
    /// A snapshot of the present moment.
    /// LOCKS: snapshots
    pub(super) fn new(store: Arc<Shared<T>>) -> StoreSnapshot<T> {
        let moment = store.parts.register(SnapshotKind::Snapshot);
        StoreSnapshot { store, moment }
    }
}

impl<T: Tier> EngineSnapshot for StoreSnapshot<T> {
    fn sequence_number(&self) -> u64 {
        self.moment
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.store.get(key, Moment::At(self.moment))
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.store.contains_key(key, Moment::At(self.moment))
    }

    fn cursor(&self) -> Result<Box<dyn EngineCursor>> {
        Ok(Shared::cursor_at(&self.store, self.moment))
    }
}

impl<T: Tier> Drop for StoreSnapshot<T> {
    fn drop(&mut self) {
        self.store.parts.release(self.moment, SnapshotKind::Snapshot, 0);
    }
}

impl Parts {
    /// Registers a reader of the present moment.
    /// LOCKS: snapshots
    pub(crate) fn register(&self, kind: SnapshotKind) -> u64 {
        self.state.moments().register(kind, &|| self.writes.publication.published())
    }

    /// Ends the registration of a cursor or a snapshot, and gives back what was kept for it alone. `held_bytes` is what a
    /// cursor has freed of its own.
    /// LOCKS: snapshots; those of `ObsoleteFiles::remove_unpinned`; compactions; memtables; arenas
    pub fn release(&self, moment: u64, kind: SnapshotKind, held_bytes: u64) {
        let moments = self.state.moments();
        let kept_bytes = moments.kept_bytes();
        let unpinned = moments.release(moment, kind);
        if !unpinned.is_empty() {
            self.obsolete.remove_unpinned();
        }
        // Versions that it saw may be garbage now, and files may be gone. (Cursors come and go.)
        let may_have_freed = kind == SnapshotKind::Snapshot || moments.open() == 0;
        let is_short = || {
            let memtables = self.writes.memtables.lock();
            memtables.is_short_of_space || memtables.blocked_flush.is_some()
        };
        if !unpinned.is_empty() || (may_have_freed && is_short()) {
            self.space_came_back();
        }
        // Nothing of a failed store is deleted (INV-27), and a closed one belongs to the next opening.
        let is_open = self.context.check_writable().is_ok();
        let reclaimed = if is_open { self.writes.arenas.reader_has_gone() } else { Ok(0) };
        let lists_bytes = reclaimed.unwrap_or_else(|error| {
            tracing::warn!(%error, "the arena of a flushed MemTable stays for now");
            0
        });
        self.readers_freed(kept_bytes.saturating_sub(moments.kept_bytes()) + lists_bytes + held_bytes);
    }
}
