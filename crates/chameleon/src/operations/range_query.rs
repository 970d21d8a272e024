//! A cursor's view of the table files, as they were at one moment: one [window](super::window) after the other.

use std::sync::Arc;

use slmdb_engine::files::file_names::table;
use slmdb_engine::store::cursor::{SeekTo, TierCursor};
use slmdb_env::{Error, Result};
use slmdb_order::{Direction, EntryKind};
use slmdb_table::Slice;

use super::get::{Reader, Version};
use super::window::Window;

/// See [`TierCursor`].
pub(crate) struct ChameleonCursor {
    reader: Arc<Reader>,
    moment: u64,
    direction: Direction,
    window: Window,
    /// The value that was lent last.
    value: Slice,
    /// What the budget was told that the window takes.
    held_bytes: u64,
}

/// Cursors keep what their next windows are made from as long as those of others take less than this part of the memory budget.
const MERGES_PART: u64 = 4;

impl ChameleonCursor {
    /// A cursor on no key, at a moment that is registered for it.
    pub(crate) fn new(reader: Arc<Reader>, moment: u64) -> ChameleonCursor {
        let (window, value) = (Window::default(), Slice::default());
        ChameleonCursor { reader, moment, direction: Direction::Forward, window, value, held_bytes: 0 }
    }

    /// Tells the budget what the window takes. Where cursors take much, this one keeps the window alone.
    fn account(&mut self) {
        let context = &self.reader.store.context;
        let cursor_blocks = &context.budget.cursor_blocks;
        let of_others = cursor_blocks.bytes().saturating_sub(self.held_bytes);
        if of_others > context.options.memory_budget_bytes / MERGES_PART {
            self.window.drop_merge();
        }
        let bytes = self.window.memory_bytes() as u64;
        cursor_blocks.replace(self.held_bytes, bytes);
        self.held_bytes = bytes;
    }

    /// Goes on to the next window that is not empty, if there is one.
    fn settle(&mut self) -> Result<()> {
        let mut goes_on = Ok(true);
        while self.window.current().is_none() && matches!(goes_on, Ok(true)) {
            goes_on = self.window.go_on(&self.reader, self.direction, self.moment);
        }
        self.account();
        goes_on.map(drop)
    }
}

impl TierCursor for ChameleonCursor {
    fn begin_range(&mut self) {
        self.window.begin();
    }

    fn seek(&mut self, to: SeekTo<'_>) -> Result<()> {
        self.direction = to.direction();
        let loaded = self.window.load(&self.reader, to, self.moment);
        if loaded.is_err() {
            self.account();
        }
        loaded.and_then(|()| self.settle())
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        self.window.pass(self.direction);
        if self.window.current().is_some() { Ok(()) } else { self.settle() }
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.window.current().map(|(key, _)| key)
    }

    #[inline]
    fn version(&self) -> (u64, EntryKind) {
        let of = |(_, version): (&[u8], Version)| (version.location.sequence, version.kind);
        self.window.current().map_or((0, EntryKind::Delete), of)
    }

    /// Where a collection has moved the entry meanwhile, it is looked for again.
    fn value(&mut self) -> Result<Slice> {
        let Some((key, mut version)) = self.window.current() else {
            return Err(Error::invalid("the cursor is on no entry"));
        };
        loop {
            match self.reader.store.tables.value(key, version.location) {
                Err(error) if self.reader.is_gone(version.location.file) => {
                    let found = self.reader.version_at(key, self.moment)?;
                    version = found.filter(|found| found.kind == EntryKind::Put).ok_or(error)?;
                }
                read => return read,
            }
        }
    }

    fn value_ref(&mut self) -> Result<&[u8]> {
        self.value = self.value()?;
        Ok(&self.value)
    }

    fn out_of_order(&self) -> Error {
        let number = self.window.current().map_or(0, |(_, version)| version.location.file);
        let what = "keys of a table file do not ascend, or a comparator is no total order";
        Error::corruption(table(&self.reader.store.context.directory, number), 0, what)
    }

    fn let_go(&mut self) -> u64 {
        let bytes = self.held_bytes;
        (self.window, self.value) = (Window::default(), Slice::default());
        self.account();
        bytes
    }
}
