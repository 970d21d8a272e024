//! A cursor's view of the levels, as they were at one moment.
//!
//! With each range, and after so many steps, it looks at the levels anew: one that goes on for hours keeps no old lists and files.
//! What its moment sees is in its MemTables or in the levels by then, and stays there while the moment is registered.

use std::sync::Arc;

use slmdb_engine::files::file_names::table;
use slmdb_engine::store::cursor::{SeekTo, TierCursor};
use slmdb_engine::store::parts::Parts;
use slmdb_env::{Error, Result};
use slmdb_levels::{LevelsCursor, Run};
use slmdb_order::{Direction, EntryKind};
use slmdb_table::Slice;

use crate::persistent_skiplist::run::TlsmRun;
use crate::state::TlsmState;

/// After so many steps it looks whether the levels have changed.
const STEPS: u32 = 4096;

/// See [`TierCursor`].
pub(crate) struct TlsmCursor {
    store: Arc<Parts>,
    state: Arc<TlsmState>,
    levels: LevelsCursor<TlsmRun>,
    direction: Direction,
    /// Steps since it looked at the levels.
    steps: u32,
}

impl TlsmCursor {
    /// A cursor on no key, at a moment that is registered for it.
    pub(crate) fn new(store: Arc<Parts>, state: Arc<TlsmState>, moment: u64) -> TlsmCursor {
        let levels = LevelsCursor::new(state.levels.current(), moment);
        TlsmCursor { store, state, levels, direction: Direction::Forward, steps: 0 }
    }
}

impl TlsmCursor {
    /// Goes on in the levels as they are now, at the same key. The version that its moment sees there is the same.
    #[cold]
    fn turn(&mut self) -> Result<()> {
        self.steps = 0;
        let current = self.state.levels.current();
        match Arc::ptr_eq(self.levels.version(), &current) {
            true => Ok(()),
            false => self.levels.turn_to(current),
        }
    }
}

impl TierCursor for TlsmCursor {
    fn begin_range(&mut self) {
        let current = self.state.levels.current();
        if !Arc::ptr_eq(self.levels.version(), &current) {
            self.levels = LevelsCursor::new(current, self.levels.moment());
        }
        self.steps = 0;
    }

    fn seek(&mut self, to: SeekTo<'_>) -> Result<()> {
        self.direction = to.direction();
        match to {
            SeekTo::First => self.levels.seek_first(),
            SeekTo::Last => self.levels.seek_last(),
            SeekTo::At(key) => self.levels.seek(key),
            SeekTo::Before(key) => self.levels.seek_before(key),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.levels.next()?,
            Direction::Backward => self.levels.prev()?,
        }
        self.steps += 1;
        if self.steps >= STEPS { self.turn() } else { Ok(()) }
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.levels.valid().then(|| self.levels.key())
    }

    #[inline]
    fn version(&self) -> (u64, EntryKind) {
        (self.levels.sequence(), self.levels.kind().unwrap_or(EntryKind::Delete))
    }

    fn value(&mut self) -> Result<Slice> {
        self.levels.value()
    }

    fn value_ref(&mut self) -> Result<&[u8]> {
        self.levels.value_ref()
    }

    fn out_of_order(&self) -> Error {
        let what = "keys of a level do not ascend, or a comparator is no total order";
        match self.levels.run().map(|run| (run.number(), run.list())) {
            Some((_, Some(list))) => {
                Error::corruption(self.state.pool.path(), list.list().record().extent.offset, what)
            }
            file => {
                let number = file.map_or(0, |(number, _)| number);
                Error::corruption(table(&self.store.context.directory, number), 0, what)
            }
        }
    }

    fn let_go(&mut self) -> u64 {
        (self.levels.let_go() * self.store.context.options.block_bytes) as u64
    }
}
