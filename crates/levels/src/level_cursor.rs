//! [`LevelCursor`]: the runs of a level, one after the other, as they are seen at a moment.

use std::ops::Range;
use std::sync::Arc;

use slmdb_env::Result;

use crate::moment_cursor::MomentCursor;
use crate::run::Run;
use crate::version::Version;

/// A position in runs of a level that follow one another. Only the run that it is in is open, from the first time on
/// that it is asked for.
pub(crate) struct LevelCursor<R: Run> {
    version: Arc<Version<R>>,
    level: u8,
    /// Which runs of the level.
    runs: Range<usize>,
    moment: u64,
    /// The position of the run, and the position in it.
    open: Option<(usize, MomentCursor<R::Cursor>)>,
}

impl<R: Run> LevelCursor<R> {
    /// On no entry. REQUIRES: the runs are in key order, and have no key in common.
    pub(crate) fn new(version: Arc<Version<R>>, level: u8, runs: Range<usize>, moment: u64) -> LevelCursor<R> {
        LevelCursor { version, level, runs, moment, open: None }
    }

    /// The position in the run that it is on. `None`: it is on no entry.
    pub(crate) fn entry(&self) -> Option<&R::Cursor> {
        self.open.as_ref().map(|(_, cursor)| cursor).filter(|cursor| cursor.valid()).map(MomentCursor::entry)
    }

    /// The same, to read its value.
    pub(crate) fn entry_mut(&mut self) -> Option<&mut R::Cursor> {
        self.open.as_mut().map(|(_, cursor)| cursor).filter(|cursor| cursor.valid()).map(MomentCursor::entry_mut)
    }

    /// The run that it is in.
    pub(crate) fn run(&self) -> Option<&Arc<R>> {
        self.level().get(self.open.as_ref()?.0)
    }

    fn level(&self) -> &[Arc<R>] {
        &self.version.level(self.level)[self.runs.clone()]
    }

    /// The cursor of a run, which is opened if it is another than before. `None`: there is no such run.
    fn open(&mut self, position: usize) -> Result<Option<&mut MomentCursor<R::Cursor>>> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != position) {
            // The old one is closed before.
            self.open = None;
            let Some(run) = self.level().get(position) else { return Ok(None) };
            let cursor = MomentCursor::new(run.cursor()?, self.moment);
            self.open = Some((position, cursor));
        }
        Ok(self.open.as_mut().map(|(_, cursor)| cursor))
    }

    /// Moves to the first visible key at or after `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        let order = self.version.order();
        let position = self.level().partition_point(|run| order.compare(&run.record().largest_key, key).is_lt());
        if let Some(cursor) = self.open(position)? {
            cursor.seek(key)?;
        }
        self.settle_forward()
    }

    /// Moves to the last visible key before `key`.
    pub(crate) fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let order = self.version.order();
        let behind = self.level().partition_point(|run| order.compare(&run.record().smallest_key, key).is_lt());
        let Some(position) = behind.checked_sub(1) else {
            self.open = None;
            return Ok(());
        };
        if let Some(cursor) = self.open(position)? {
            cursor.seek_before(key)?;
        }
        self.settle_backward()
    }

    /// Moves to the first visible key.
    pub(crate) fn seek_first(&mut self) -> Result<()> {
        if let Some(cursor) = self.open(0)? {
            cursor.seek_first()?;
        }
        self.settle_forward()
    }

    /// Moves to the last visible key.
    pub(crate) fn seek_last(&mut self) -> Result<()> {
        if let Some(cursor) = self.open(self.level().len().wrapping_sub(1))? {
            cursor.seek_last()?;
        }
        self.settle_backward()
    }

    /// Moves to the next visible key. REQUIRES: it is on an entry.
    pub(crate) fn next(&mut self) -> Result<()> {
        if let Some((_, cursor)) = &mut self.open {
            cursor.next()?;
        }
        self.settle_forward()
    }

    /// Moves to the previous visible key. REQUIRES: it is on an entry.
    pub(crate) fn prev(&mut self) -> Result<()> {
        if let Some((_, cursor)) = &mut self.open {
            cursor.prev()?;
        }
        self.settle_backward()
    }

    /// Moves on to the first visible key of a later run, if this one has no more.
    fn settle_forward(&mut self) -> Result<()> {
        while let Some((position, _)) = self.open.as_ref().filter(|(_, cursor)| !cursor.valid()) {
            let position = position + 1;
            if let Some(cursor) = self.open(position)? {
                cursor.seek_first()?;
            }
        }
        Ok(())
    }

    /// Moves back to the last visible key of an earlier run, if this one has no more.
    fn settle_backward(&mut self) -> Result<()> {
        while let Some((position, _)) = self.open.as_ref().filter(|(_, cursor)| !cursor.valid()) {
            let position = position.wrapping_sub(1);
            if let Some(cursor) = self.open(position)? {
                cursor.seek_last()?;
            }
        }
        Ok(())
    }
}
