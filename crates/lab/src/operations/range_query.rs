//! Cursors: the whole store in key order, forwards and backwards, as it was at one moment (paper, section 3.2).
//!
//! A cursor merges the MemTables of its moment, level 0 and the levels. Of level 0 it copies one *window* after the
//! other: what both trees have between two keys, and what the map of replaced versions has there.
//!
//! After each window it looks at the levels anew. A chunk that left level 0 before the window was copied is in the
//! levels by then, because data moves that way only (I6). So a cursor misses nothing, and keeps no view, no file and no
//! chunk. That takes the place of the paper's lock between range queries and flushes.

use std::cmp::Ordering;
use std::sync::Arc;

use slmdb_engine::EngineCursor;
use slmdb_engine::files::file_names::table;
use slmdb_engine::read::empty_ranges::PassedDeletes;
use slmdb_engine::read::memtable_iterator::MemTableSource;
use slmdb_engine::read::scan_buffers::SeekCounter;
use slmdb_engine::read::snapshot_registry::SnapshotKind;
use slmdb_engine::read::values_ahead::ValuesAhead;
use slmdb_engine::write::memtables::MemTableView;
use slmdb_env::{Error, Result};
use slmdb_levels::{LevelsCursor, Run, TableRun};
use slmdb_order::{CycleDetector, KeyOrder};
use slmdb_structures::EntryKind;
use slmdb_structures::hybrid_tree::Version;
use slmdb_table::Slice;

use super::get::Reader;
use crate::level_zero::location;
use crate::operations::pauses::{Paused, pause};
use crate::operations::window::{Window, WindowFrom};
use slmdb_engine::store::tier::Moment;

/// The direction in which a cursor goes. Its sources stand at the cursor's key, or beyond it in this direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heading {
    Forward,
    Backward,
}

/// Which source has the current entry.
#[derive(Debug, Clone, Copy)]
enum At {
    MemTable(usize),
    LevelZero(Version),
    Levels,
}

/// Which sources have the nearest key, and which of them has its newest version.
#[derive(Debug, Clone, Copy)]
struct Nearest {
    at: At,
    kind: EntryKind,
    sequence: u64,
    is_in_window: bool,
    is_in_levels: bool,
}

const ON_NO_ENTRY: &str = "the cursor is on no entry";

/// Nobody asks how often a cursor goes from one run file to another.
struct Uncounted;

impl SeekCounter for Uncounted {
    fn count_seek(&self, _: u32) {}
}

/// See [`EngineCursor`].
pub(crate) struct Cursor {
    reader: Arc<Reader>,
    order: KeyOrder,
    moment: u64,
    memtables: Vec<MemTableSource>,
    window: Window,
    levels: LevelsCursor<TableRun>,
    heading: Heading,
    /// Where the current value is. `None`: the cursor is on no entry.
    at: Option<At>,
    /// The current key, or the last one.
    key: Vec<u8>,
    /// Memory for the next one.
    next_key: Vec<u8>,
    /// Whether the window is on that key, and whether the levels are.
    is_window_on_key: bool,
    are_levels_on_key: bool,
    /// The current value of level 0 and those that follow it there, where entries stand by themselves in mapped files.
    values_ahead: ValuesAhead,
    /// The last value that was lent from elsewhere.
    lent: Slice,
    /// What the budget was told that window and values take.
    held_bytes: u64,
    /// The sources have not been moved to a place since `key` was found.
    is_walking: bool,
    /// Finds out if the comparator leads the cursor round in a circle (INV-25).
    cycle_detector: CycleDetector,
    /// The same for where windows end: a snapshot may see none of their entries.
    window_cycle_detector: CycleDetector,
}

impl Cursor {
    /// A cursor on no entry, at a moment that is registered for it.
    pub(crate) fn new(reader: Arc<Reader>, moment: u64, view: &MemTableView) -> Cursor {
        Cursor {
            order: reader.state.level_zero.mutable().order().clone(),
            moment,
            memtables: view.memtables.iter().map(|memtable| MemTableSource::new(memtable, moment)).collect(),
            window: Window::default(),
            levels: LevelsCursor::new(reader.state.levels.current(), moment),
            heading: Heading::Forward,
            at: None,
            key: Vec::new(),
            next_key: Vec::new(),
            is_window_on_key: false,
            are_levels_on_key: false,
            values_ahead: ValuesAhead::default(),
            lent: Slice::default(),
            held_bytes: 0,
            is_walking: false,
            cycle_detector: CycleDetector::default(),
            window_cycle_detector: CycleDetector::default(),
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
    fn load(&mut self, from: WindowFrom<'_>, goes_on: bool) -> Result<()> {
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
            WindowFrom::First => self.levels.seek_first(),
            WindowFrom::Last => self.levels.seek_last(),
            WindowFrom::At(key) => self.levels.seek(key),
            WindowFrom::Before(key) => self.levels.seek_before(key),
        }
    }

    /// Moves all sources to a place, and finds the entry there.
    fn go(&mut self, from: WindowFrom<'_>) -> Result<()> {
        (self.at, self.is_walking) = (None, false);
        self.cycle_detector.begin();
        self.window_cycle_detector.begin();
        self.values_ahead.prepare_seek();
        self.heading = match from {
            WindowFrom::First | WindowFrom::At(_) => Heading::Forward,
            WindowFrom::Last | WindowFrom::Before(_) => Heading::Backward,
        };
        self.move_sources(from)?;
        self.settle()
    }

    /// Moves all sources to a place.
    fn move_sources(&mut self, from: WindowFrom<'_>) -> Result<()> {
        for memtable in &mut self.memtables {
            match from {
                WindowFrom::First => memtable.seek_first(),
                WindowFrom::Last => memtable.seek_last(),
                WindowFrom::At(key) => memtable.seek(key),
                WindowFrom::Before(key) => memtable.seek_before(key),
            }
        }
        self.load(from, false)
    }

    /// How a key compares to another in the cursor's direction.
    #[inline]
    fn compare(&self, key: &[u8], other: &[u8]) -> Ordering {
        let order = self.order.compare(key, other);
        if self.heading == Heading::Forward { order } else { order.reverse() }
    }

    /// The key that comes next among all sources, and who has its newest version.
    #[inline]
    fn nearest(&self) -> Option<Nearest> {
        let of_levels = || {
            let kind = self.levels.kind()?;
            let sequence = self.levels.sequence();
            Some(Nearest { at: At::Levels, kind, sequence, is_in_window: false, is_in_levels: true })
        };
        let mut nearest = match self.window.current() {
            None => of_levels(),
            Some((key, version)) => {
                let (at, Version { kind, sequence, .. }) = (At::LevelZero(version), version);
                let of_window = Nearest { at, kind, sequence, is_in_window: true, is_in_levels: false };
                match of_levels().map(|of_levels| (self.compare(key, self.levels.key()), of_levels)) {
                    None | Some((Ordering::Less, _)) => Some(of_window),
                    Some((Ordering::Greater, of_levels)) => Some(of_levels),
                    Some((Ordering::Equal, of_levels)) => {
                        let newer = if of_levels.sequence > sequence { of_levels } else { of_window };
                        Some(Nearest { is_in_window: true, is_in_levels: true, ..newer })
                    }
                }
            }
        };
        for (number, memtable) in self.memtables.iter().enumerate().filter(|(_, memtable)| memtable.valid()) {
            let (at, kind, sequence) = (At::MemTable(number), memtable.kind(), memtable.sequence());
            let order =
                nearest.as_ref().map_or(Ordering::Less, |best| self.compare(memtable.key(), self.key_at(best.at)));
            // What was flushed meanwhile is in level 0, too. Its value needs no file here.
            nearest = match nearest {
                Some(best) if order.is_gt() || (order.is_eq() && best.sequence > sequence) => Some(best),
                Some(best) if order.is_eq() => Some(Nearest { at, kind, sequence, ..best }),
                _ => Some(Nearest { at, kind, sequence, is_in_window: false, is_in_levels: false }),
            };
        }
        nearest
    }

    /// The key that a source is on.
    #[inline]
    fn key_at(&self, at: At) -> &[u8] {
        match at {
            At::MemTable(number) => self.memtables[number].key(),
            At::LevelZero(_) => self.window.current().map_or(&[], |(key, _)| key),
            At::Levels => self.levels.key(),
        }
    }

    /// Finds the next entry that is no delete, from where the sources stand.
    fn settle(&mut self) -> Result<()> {
        if !self.lent.is_empty() {
            self.lent = Slice::new();
        }
        let is_forward = self.heading == Heading::Forward;
        let mut deletes = PassedDeletes::new(self.moment, is_forward);
        loop {
            let nearest = self.nearest();
            if self.is_window_passed(nearest.map(|nearest| self.key_at(nearest.at))) {
                self.load_next_window()?;
                continue;
            }
            let Some(Nearest { at, kind, is_in_window, is_in_levels, .. }) = nearest else { break };
            let mut key = std::mem::take(&mut self.next_key);
            key.clear();
            key.extend_from_slice(self.key_at(at));
            if !self.order.is_bytewise() && !self.cycle_detector.visit(&key) {
                return Err(round_in_a_circle());
            }
            if self.is_walking && !self.is_beyond(&key) {
                return Err(self.out_of_order(at));
            }
            self.next_key = std::mem::replace(&mut self.key, key);
            (self.is_window_on_key, self.are_levels_on_key) = (is_in_window, is_in_levels);
            self.is_walking = true;
            if kind == EntryKind::Put {
                self.at = Some(at);
                break;
            }
            match deletes.pass(&self.key, &self.reader.store.writes.empty_ranges) {
                None => self.pass_key()?,
                Some(key) if is_forward => self.move_sources(WindowFrom::At(&key))?,
                Some(key) => self.move_sources(WindowFrom::Before(&key))?,
            }
        }
        let writes = &self.reader.store.writes;
        deletes.end(&writes.empty_ranges, || writes.publication.begun());
        Ok(())
    }

    /// Whether a key comes after the last one in the cursor's direction.
    fn is_beyond(&self, key: &[u8]) -> bool {
        let order = self.order.compare(key, &self.key);
        if self.heading == Heading::Forward { order.is_gt() } else { order.is_lt() }
    }

    /// What is wrong when a source gives keys that are not in their order.
    fn out_of_order(&self, at: At) -> Error {
        let file = match at {
            At::MemTable(_) => {
                return Error::invalid("the comparator is no total order: keys of a MemTable do not ascend");
            }
            At::LevelZero(version) => Some(version.file),
            At::Levels => self.levels.run().map(|run| run.number()),
        };
        let path = table(&self.reader.store.context.directory, file.unwrap_or_default());
        Error::corruption(path, 0, "keys of level 0 or of a level do not ascend, or a comparator is no total order")
    }

    /// Whether the window has no entry left, and more of level 0 may come before `nearest`.
    fn is_window_passed(&self, nearest: Option<&[u8]>) -> bool {
        if self.window.current().is_some() {
            return false;
        }
        match self.heading {
            Heading::Forward => {
                self.window.high().is_some_and(|high| nearest.is_none_or(|key| self.order.compare(key, high).is_ge()))
            }
            Heading::Backward => {
                self.window.low().is_some_and(|low| nearest.is_none_or(|key| self.order.compare(key, low).is_lt()))
            }
        }
    }

    fn load_next_window(&mut self) -> Result<()> {
        let bound = if self.heading == Heading::Forward { self.window.high() } else { self.window.low() };
        let bound = bound.unwrap_or_default().to_vec();
        if !self.order.is_bytewise() && !self.window_cycle_detector.visit(&bound) {
            return Err(round_in_a_circle());
        }
        match self.heading {
            Heading::Forward => self.load(WindowFrom::At(&bound), true),
            Heading::Backward => self.load(WindowFrom::Before(&bound), true),
        }
    }

    /// Moves every source that stands on the current key beyond it.
    #[inline]
    fn pass_key(&mut self) -> Result<()> {
        let (key, is_forward) = (&self.key, self.heading == Heading::Forward);
        for memtable in self.memtables.iter_mut().filter(|memtable| memtable.valid() && memtable.key() == key) {
            if is_forward { memtable.next() } else { memtable.prev() }
        }
        if self.is_window_on_key {
            self.window.pass(is_forward);
        }
        match self.are_levels_on_key {
            true if is_forward => self.levels.next(),
            true => self.levels.prev(),
            false => Ok(()),
        }
    }

    /// Moves one entry on in a direction.
    fn step(&mut self, heading: Heading) -> Result<()> {
        if self.at.is_none() {
            return Ok(());
        }
        if self.heading != heading {
            let key = std::mem::take(&mut self.key);
            return match heading {
                Heading::Backward => self.go(WindowFrom::Before(&key)),
                Heading::Forward => {
                    self.go(WindowFrom::At(&key))?;
                    if self.at.is_some() && self.key == key { self.step(heading) } else { Ok(()) }
                }
            };
        }
        self.at = None;
        self.pass_key()?;
        self.settle()
    }

    /// The value of a version of level 0. `None`: [`Cursor::values_ahead`] has it.
    fn value_in_level_zero(&mut self, version: &Version) -> Result<Option<Slice>> {
        let place = location(version);
        if self.values_ahead.turn_to(&Uncounted, place) {
            return Ok(None);
        }
        let (tables, ahead) = (&self.reader.store.tables, &mut self.values_ahead);
        let brought = match self.heading {
            Heading::Forward => ahead.bring(tables, &Uncounted, self.window.puts_forward(), place),
            Heading::Backward => ahead.bring(tables, &Uncounted, self.window.puts_backward(), place),
        };
        self.account();
        match brought {
            Ok(true) => return Ok(None),
            Err(error) if !self.reader.is_gone(version.file) => return Err(error),
            Ok(false) | Err(_) => {}
        }
        match self.reader.value_of(&self.key, version) {
            // A chunk has moved it on. What the moment sees is still there.
            Err(error) if self.reader.is_gone(version.file) => {
                self.reader.get(&self.key, Moment::At(self.moment))?.ok_or(error).map(Some)
            }
            value => value.map(Some),
        }
    }
}

fn round_in_a_circle() -> Error {
    Error::invalid("the comparator is no total order: a cursor went round in a circle")
}

impl EngineCursor for Cursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.go(WindowFrom::At(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.go(WindowFrom::Before(key))
    }

    fn seek_first(&mut self) -> Result<()> {
        self.go(WindowFrom::First)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.go(WindowFrom::Last)
    }

    fn next(&mut self) -> Result<()> {
        self.step(Heading::Forward)
    }

    fn prev(&mut self) -> Result<()> {
        self.step(Heading::Backward)
    }

    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn key(&self) -> &[u8] {
        if self.at.is_some() { &self.key } else { &[] }
    }

    fn value(&mut self) -> Result<Slice> {
        match self.at {
            None => Err(Error::invalid(ON_NO_ENTRY)),
            Some(At::MemTable(number)) => Ok(Slice::from(self.memtables[number].value())),
            Some(At::Levels) => self.levels.value(),
            Some(At::LevelZero(version)) => {
                if let Some(value) = self.value_in_level_zero(&version)? {
                    return Ok(value);
                }
                let value = self.values_ahead.take_value();
                self.account();
                Ok(value)
            }
        }
    }

    fn value_ref(&mut self) -> Result<&[u8]> {
        match self.at {
            None => Err(Error::invalid(ON_NO_ENTRY)),
            Some(At::MemTable(number)) => Ok(self.memtables[number].value()),
            Some(At::Levels) => self.levels.value_ref(),
            Some(At::LevelZero(version)) => match self.value_in_level_zero(&version)? {
                None => Ok(self.values_ahead.value_lent()),
                Some(value) => {
                    self.lent = value;
                    Ok(&self.lent)
                }
            },
        }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        // What is given back to the system at the end of the last one is what was freed by then.
        let blocks_bytes = (self.levels.let_go() * self.reader.store.context.options.block_bytes) as u64;
        let held_bytes = self.held_bytes + blocks_bytes;
        (self.window, self.values_ahead) = (Window::default(), ValuesAhead::default());
        self.account();
        // The MemTables before the registration: then their arenas can go.
        self.memtables.clear();
        self.reader.store.release(self.moment, SnapshotKind::Cursor, held_bytes);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
