//! Cursors: the whole store in key order, forwards and backwards, as it was at one moment (paper, section 3.2).
//!
//! A cursor merges the MemTables of its moment, level 0 and the levels. Of level 0 it copies one *window* after the
//! other: what both trees have between two keys, and what the map of replaced versions has there.
//!
//! After each window it looks at the levels anew. A chunk that left level 0 before the window was copied is in the
//! levels by then, because data moves that way only (I6). So a cursor misses nothing, and keeps no view, no file and no
//! chunk. That takes the place of the paper's lock between range queries and flushes.

use std::sync::Arc;

use slmdb_engine::EngineCursor;
use slmdb_engine::files::file_names::table;
use slmdb_engine::read::memtable_iterator::MemTableSource;
use slmdb_engine::read::snapshot_registry::SnapshotKind;
use slmdb_engine::write::memtables::MemTableView;
use slmdb_env::{Error, Result};
use slmdb_levels::{LevelsCursor, Run, TableRun};
use slmdb_order::{CycleDetector, KeyOrder};
use slmdb_pmem::Medium;
use slmdb_structures::EntryKind;
use slmdb_structures::hybrid_tree::Version;
use slmdb_table::Slice;

use super::get::{Moment, Reader};
use crate::operations::pauses::{Paused, pause};
use crate::operations::window::{Window, WindowFrom};

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

/// A source's key, its number, where it is, and what it does.
type Candidate<'k> = (&'k [u8], u64, At, EntryKind);

/// See [`EngineCursor`].
pub(crate) struct Cursor<M: Medium + Clone> {
    reader: Arc<Reader<M>>,
    order: KeyOrder,
    moment: u64,
    memtables: Vec<MemTableSource<M>>,
    window: Window,
    levels: LevelsCursor<TableRun>,
    heading: Heading,
    /// Where the current value is. `None`: the cursor is on no entry.
    at: Option<At>,
    /// The current key, or the last one.
    key: Vec<u8>,
    /// The last value that was lent.
    lent: Slice,
    /// What the budget was told that the window takes.
    held_bytes: u64,
    /// The sources have not been moved to a place since `key` was found.
    is_walking: bool,
    /// Finds out if the comparator leads the cursor round in a circle (INV-25).
    cycle_detector: CycleDetector,
}

impl<M: Medium + Clone> Cursor<M> {
    /// A cursor on no entry, at the present moment.
    /// LOCKS: snapshots
    pub(crate) fn new(reader: Arc<Reader<M>>) -> Cursor<M> {
        let (moment, view) = loop {
            let before = reader.writes.view.load_full();
            let published = || reader.writes.publication.published();
            let moment = reader.level_zero.snapshots.register(SnapshotKind::Cursor, published);
            let after = reader.writes.view.load_full();
            if Arc::ptr_eq(&before, &after) {
                break (moment, before);
            }
            reader.release(moment, SnapshotKind::Cursor, 0);
        };
        Cursor::over(reader, moment, &view)
    }

    /// A cursor on no entry, at the moment of a snapshot that is held.
    /// LOCKS: snapshots
    pub(crate) fn at(reader: Arc<Reader<M>>, moment: u64) -> Cursor<M> {
        let moment = reader.level_zero.snapshots.register(SnapshotKind::Cursor, || moment);
        let view = reader.writes.view.load_full();
        Cursor::over(reader, moment, &view)
    }

    fn over(reader: Arc<Reader<M>>, moment: u64, view: &MemTableView<M>) -> Cursor<M> {
        Cursor {
            order: reader.level_zero.mutable().order().clone(),
            moment,
            memtables: view.memtables.iter().map(|memtable| MemTableSource::new(memtable, moment)).collect(),
            window: Window::default(),
            levels: LevelsCursor::new(reader.levels.current(), moment),
            heading: Heading::Forward,
            at: None,
            key: Vec::new(),
            lent: Slice::default(),
            held_bytes: 0,
            is_walking: false,
            cycle_detector: CycleDetector::default(),
            reader,
        }
    }

    /// Reports the memory of the window to the budget.
    fn account(&mut self) {
        let bytes = self.window.memory_bytes() as u64;
        if bytes != self.held_bytes {
            self.reader.context.budget.cursor_blocks.replace(self.held_bytes, bytes);
            self.held_bytes = bytes;
        }
    }

    /// Copies the window from here on, and looks at the levels as they are after that. If those are the same as before,
    /// and `goes_on`, they stand where they should.
    fn load(&mut self, from: WindowFrom<'_>, goes_on: bool) -> Result<()> {
        pause(Paused::BeforeWindow);
        self.window.load(&self.reader.level_zero, from, self.moment)?;
        self.account();
        let current = self.reader.levels.current();
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
        for memtable in &mut self.memtables {
            match from {
                WindowFrom::First => memtable.seek_first(),
                WindowFrom::Last => memtable.seek_last(),
                WindowFrom::At(key) => memtable.seek(key),
                WindowFrom::Before(key) => memtable.seek_before(key),
            }
        }
        self.heading = match from {
            WindowFrom::First | WindowFrom::At(_) => Heading::Forward,
            WindowFrom::Last | WindowFrom::Before(_) => Heading::Backward,
        };
        self.load(from, false)?;
        self.settle()
    }

    /// The one of two entries that comes first in the cursor's direction; of one key the newer.
    fn nearer<'k>(&self, nearest: Option<Candidate<'k>>, other: Candidate<'k>) -> Option<Candidate<'k>> {
        let Some(first) = nearest else { return Some(other) };
        let order = self.order.compare(other.0, first.0);
        let order = if self.heading == Heading::Forward { order } else { order.reverse() };
        let is_nearer = order.is_lt() || (order.is_eq() && other.1 > first.1);
        Some(if is_nearer { other } else { first })
    }

    /// The key that comes next among all sources, and which has its newest version.
    fn nearest(&self) -> Option<(&[u8], At, EntryKind)> {
        let mut nearest = None;
        for (number, memtable) in self.memtables.iter().enumerate().filter(|(_, memtable)| memtable.valid()) {
            let found = (memtable.key(), memtable.sequence(), At::MemTable(number), memtable.kind());
            nearest = self.nearer(nearest, found);
        }
        if let Some((key, version)) = self.window.current() {
            nearest = self.nearer(nearest, (key, version.sequence, At::LevelZero(version), version.kind));
        }
        if let Some(kind) = self.levels.kind() {
            let kind = if kind == slmdb_table::EntryKind::Put { EntryKind::Put } else { EntryKind::Delete };
            nearest = self.nearer(nearest, (self.levels.key(), self.levels.sequence(), At::Levels, kind));
        }
        nearest.map(|(key, _, at, kind)| (key, at, kind))
    }

    /// Finds the next entry that is no delete, from where the sources stand.
    fn settle(&mut self) -> Result<()> {
        loop {
            let nearest = self.nearest().map(|(key, at, kind)| (key.to_vec(), at, kind));
            if self.is_window_passed(nearest.as_ref().map(|(key, ..)| &key[..])) {
                self.load_next_window()?;
                continue;
            }
            let Some((key, at, kind)) = nearest else { return Ok(()) };
            if !self.order.is_bytewise() && !self.cycle_detector.visit(&key) {
                return Err(Error::invalid("the comparator is no total order: a cursor went round in a circle"));
            }
            if self.is_walking && !self.is_beyond(&key) {
                return Err(self.out_of_order(at));
            }
            (self.key, self.is_walking) = (key, true);
            if kind == EntryKind::Put {
                self.at = Some(at);
                return Ok(());
            }
            self.pass_key()?;
        }
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
        let path = table(&self.reader.context.directory, file.unwrap_or_default());
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
        match self.heading {
            Heading::Forward => {
                let high = self.window.high().unwrap_or_default().to_vec();
                self.load(WindowFrom::At(&high), true)
            }
            Heading::Backward => {
                let low = self.window.low().unwrap_or_default().to_vec();
                self.load(WindowFrom::Before(&low), true)
            }
        }
    }

    /// Moves every source that stands on the current key beyond it.
    fn pass_key(&mut self) -> Result<()> {
        let (key, is_forward) = (&self.key, self.heading == Heading::Forward);
        for memtable in self.memtables.iter_mut().filter(|memtable| memtable.valid() && memtable.key() == key) {
            if is_forward { memtable.next() } else { memtable.prev() }
        }
        if self.window.current().is_some_and(|(other, _)| other == key) {
            self.window.pass(is_forward);
        }
        match self.levels.valid() && self.levels.key() == key {
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

    fn current_value(&mut self) -> Result<Slice> {
        match self.at {
            None => Err(Error::invalid("the cursor is on no entry")),
            Some(At::MemTable(number)) => Ok(Slice::from(self.memtables[number].value())),
            Some(At::Levels) => self.levels.value(),
            Some(At::LevelZero(version)) => match self.reader.value_of(&self.key, &version) {
                // A chunk has moved it on. What the moment sees is still there.
                Err(error) if self.reader.is_gone(version.file) => {
                    self.reader.get(&self.key, Moment::At(self.moment))?.ok_or(error)
                }
                value => value,
            },
        }
    }
}

impl<M: Medium + Clone> EngineCursor for Cursor<M> {
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
        self.current_value()
    }

    fn value_ref(&mut self) -> Result<&[u8]> {
        self.lent = self.current_value()?;
        Ok(&self.lent)
    }
}

impl<M: Medium + Clone> Drop for Cursor<M> {
    fn drop(&mut self) {
        // What is given back to the system at the end of the last one is what was freed by then.
        let blocks_bytes = (self.levels.let_go() * self.reader.context.options.block_bytes) as u64;
        let held_bytes = self.held_bytes + blocks_bytes;
        self.window = Window::default();
        self.account();
        // The MemTables before the registration: then their arenas can go.
        self.memtables.clear();
        self.reader.release(self.moment, SnapshotKind::Cursor, held_bytes);
    }
}
