//! A cursor's view of level 0 and the levels, as they were at one moment (paper, section 3.2).
//!
//! Of level 0 the cursor copies one *window* after the other: what both trees have between two keys, and what the map of
//! replaced versions has there.
//!
//! After each window it looks at the levels anew. A chunk that left level 0 before the window was copied is in the
//! levels by then, because data moves that way only (I6). So a cursor misses nothing, and keeps no view, no file and no
//! chunk. That takes the place of the paper's lock between range queries and flushes.

use std::cmp::Ordering;
use std::sync::Arc;

use slmdb_engine::files::file_names::table;
use slmdb_engine::read::scan_buffers::SeekCounter;
use slmdb_engine::read::values_ahead::ValuesAhead;
use slmdb_engine::store::cursor::{SeekTo, TierCursor};
use slmdb_engine::store::tier::Moment;
use slmdb_env::{Error, Result};
use slmdb_levels::{LevelsCursor, Run, TableRun};
use slmdb_order::{CycleDetector, Direction, KeyOrder};
use slmdb_structures::EntryKind;
use slmdb_structures::hybrid_tree::Version;
use slmdb_table::Slice;

use super::get::Reader;
use crate::level_zero::location;
use crate::operations::pauses::{Paused, pause};
use crate::operations::window::Window;

/// Which source has the newest version of the current key.
#[derive(Debug, Clone, Copy)]
enum At {
    LevelZero(Version),
    Levels,
}

/// The nearest key of both sources.
#[derive(Debug, Clone, Copy)]
struct Nearest {
    at: At,
    kind: EntryKind,
    sequence: u64,
    is_in_window: bool,
    is_in_levels: bool,
}

/// Nobody asks how often a cursor goes from one run file to another.
struct Uncounted;

impl SeekCounter for Uncounted {
    fn count_seek(&self, _: u32) {}
}

/// See [`TierCursor`].
pub(crate) struct LabCursor {
    reader: Arc<Reader>,
    order: KeyOrder,
    moment: u64,
    window: Window,
    levels: LevelsCursor<TableRun>,
    direction: Direction,
    /// The current key's sources. `None`: there is no key left.
    nearest: Option<Nearest>,
    /// The current value of level 0 and those that follow it there, where entries stand by themselves in mapped files.
    values_ahead: ValuesAhead,
    /// The last value that was lent from elsewhere.
    lent: Slice,
    /// What the budget was told that window and values take.
    held_bytes: u64,
    /// Finds out if the comparator leads windows round in a circle: a snapshot may see none of their entries (INV-25).
    cycle_detector: CycleDetector,
}

impl LabCursor {
    /// A cursor on no key, at a moment that is registered for it.
    pub(crate) fn new(reader: Arc<Reader>, moment: u64) -> LabCursor {
        LabCursor {
            order: reader.state.level_zero.mutable().order().clone(),
            moment,
            window: Window::default(),
            levels: LevelsCursor::new(reader.state.levels.current(), moment),
            direction: Direction::Forward,
            nearest: None,
            values_ahead: ValuesAhead::default(),
            lent: Slice::default(),
            held_bytes: 0,
            cycle_detector: CycleDetector::default(),
            reader,
        }
    }

    /// Reports the memory of the window and of values to the budget.
    fn account(&mut self) {
        let bytes = self.window.memory_bytes() as u64 + self.values_ahead.memory_bytes();
        if bytes != self.held_bytes {
            self.reader.store.context.budget.cursor_blocks.replace(self.held_bytes, bytes);
            self.held_bytes = bytes;
        }
    }

    /// Copies the window from here on, and looks at the levels as they are after that. If those are the same as before,
    /// and `goes_on`, they stand where they should.
    fn load(&mut self, from: SeekTo<'_>, goes_on: bool) -> Result<()> {
        pause(Paused::BeforeWindow);
        let loaded = self.window.load(&self.reader.state.level_zero, from, self.moment, goes_on);
        self.account();
        loaded?;
        let current = self.reader.state.levels.current();
        if Arc::ptr_eq(self.levels.version(), &current) {
            if goes_on {
                return Ok(());
            }
        } else {
            self.levels = LevelsCursor::new(current, self.moment);
        }
        match from {
            SeekTo::First => self.levels.seek_first(),
            SeekTo::Last => self.levels.seek_last(),
            SeekTo::At(key) => self.levels.seek(key),
            SeekTo::Before(key) => self.levels.seek_before(key),
        }
    }

    /// Finds the nearest key, from where window and levels stand.
    fn settle(&mut self) -> Result<()> {
        if !self.lent.is_empty() {
            self.lent = Slice::new();
        }
        while self.is_window_passed() {
            let bound = match self.direction {
                Direction::Forward => self.window.high(),
                Direction::Backward => self.window.low(),
            };
            let bound = bound.unwrap_or_default().to_vec();
            if !self.order.is_bytewise() && !self.cycle_detector.visit(&bound) {
                return Err(Error::invalid("the comparator is no total order: a cursor went round in a circle"));
            }
            match self.direction {
                Direction::Forward => self.load(SeekTo::At(&bound), true)?,
                Direction::Backward => self.load(SeekTo::Before(&bound), true)?,
            }
        }
        self.nearest = self.find_nearest();
        Ok(())
    }

    /// The nearest key of both, and which has its newest version.
    #[inline]
    fn find_nearest(&self) -> Option<Nearest> {
        let of_levels = || {
            let kind = self.levels.kind()?;
            let sequence = self.levels.sequence();
            Some(Nearest { at: At::Levels, kind, sequence, is_in_window: false, is_in_levels: true })
        };
        let Some((key, version)) = self.window.current() else { return of_levels() };
        let (at, Version { kind, sequence, .. }) = (At::LevelZero(version), version);
        let of_window = Nearest { at, kind, sequence, is_in_window: true, is_in_levels: false };
        let Some(of_levels) = of_levels() else { return Some(of_window) };
        let order = match self.direction {
            Direction::Forward => self.order.compare(key, self.levels.key()),
            Direction::Backward => self.order.compare(self.levels.key(), key),
        };
        Some(match order {
            Ordering::Less => of_window,
            Ordering::Greater => of_levels,
            Ordering::Equal => {
                let newer = if of_levels.sequence > sequence { of_levels } else { of_window };
                Nearest { is_in_window: true, is_in_levels: true, ..newer }
            }
        })
    }

    /// Whether the window has no entry left, and more of level 0 may come before the levels' key.
    fn is_window_passed(&self) -> bool {
        if self.window.current().is_some() {
            return false;
        }
        let key = self.levels.valid().then(|| self.levels.key());
        match self.direction {
            Direction::Forward => {
                self.window.high().is_some_and(|high| key.is_none_or(|key| self.order.compare(key, high).is_ge()))
            }
            Direction::Backward => {
                self.window.low().is_some_and(|low| key.is_none_or(|key| self.order.compare(key, low).is_lt()))
            }
        }
    }

    /// The value of a version of level 0. `None`: [`LabCursor::values_ahead`] has it.
    fn value_in_level_zero(&mut self, version: &Version) -> Result<Option<Slice>> {
        let place = location(version);
        if self.values_ahead.turn_to(&Uncounted, place) {
            return Ok(None);
        }
        let (tables, ahead) = (&self.reader.store.tables, &mut self.values_ahead);
        let brought = match self.direction {
            Direction::Forward => ahead.bring(tables, &Uncounted, self.window.puts_forward(), place),
            Direction::Backward => ahead.bring(tables, &Uncounted, self.window.puts_backward(), place),
        };
        self.account();
        match brought {
            Ok(true) => return Ok(None),
            Err(error) if !self.reader.is_gone(version.file) => return Err(error),
            Ok(false) | Err(_) => {}
        }
        let key = self.window.current().map_or(&[][..], |(key, _)| key);
        match self.reader.value_of(key, version) {
            // A chunk has moved it on. What the moment sees is still there.
            Err(error) if self.reader.is_gone(version.file) => {
                self.reader.get(key, Moment::At(self.moment))?.ok_or(error).map(Some)
            }
            value => value.map(Some),
        }
    }
}

impl TierCursor for LabCursor {
    fn begin_range(&mut self) {
        self.cycle_detector.begin();
        self.values_ahead.prepare_seek();
    }

    fn seek(&mut self, to: SeekTo<'_>) -> Result<()> {
        self.nearest = None;
        self.direction = to.direction();
        self.load(to, false)?;
        self.settle()
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        let Some(nearest) = self.nearest.take() else { return Ok(()) };
        let is_forward = self.direction == Direction::Forward;
        if nearest.is_in_window {
            self.window.pass(is_forward);
        }
        if nearest.is_in_levels {
            if is_forward { self.levels.next()? } else { self.levels.prev()? }
        }
        self.settle()
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        match self.nearest?.at {
            At::LevelZero(_) => self.window.current().map(|(key, _)| key),
            At::Levels => Some(self.levels.key()),
        }
    }

    #[inline]
    fn version(&self) -> (u64, EntryKind) {
        self.nearest.map_or((0, EntryKind::Delete), |nearest| (nearest.sequence, nearest.kind))
    }

    fn value(&mut self) -> Result<Slice> {
        let Some(Nearest { at: At::LevelZero(version), .. }) = self.nearest else { return self.levels.value() };
        if let Some(value) = self.value_in_level_zero(&version)? {
            return Ok(value);
        }
        let value = self.values_ahead.take_value();
        self.account();
        Ok(value)
    }

    fn value_ref(&mut self) -> Result<&[u8]> {
        let Some(Nearest { at: At::LevelZero(version), .. }) = self.nearest else { return self.levels.value_ref() };
        match self.value_in_level_zero(&version)? {
            None => Ok(self.values_ahead.value_lent()),
            Some(value) => {
                self.lent = value;
                Ok(&self.lent)
            }
        }
    }

    fn out_of_order(&self) -> Error {
        let file = self.nearest.and_then(|nearest| match nearest.at {
            At::LevelZero(version) => Some(version.file),
            At::Levels => self.levels.run().map(|run| run.number()),
        });
        let path = table(&self.reader.store.context.directory, file.unwrap_or_default());
        Error::corruption(path, 0, "keys of level 0 or of a level do not ascend, or a comparator is no total order")
    }

    fn let_go(&mut self) -> u64 {
        // What is given back to the system at the end of the last one is what was freed by then.
        let blocks_bytes = (self.levels.let_go() * self.reader.store.context.options.block_bytes) as u64;
        let freed_bytes = self.held_bytes + blocks_bytes;
        (self.window, self.values_ahead) = (Window::default(), ValuesAhead::default());
        self.account();
        freed_bytes
    }
}

#[cfg(test)]
mod tests;
