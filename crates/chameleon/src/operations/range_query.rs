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
}

impl ChameleonCursor {
    /// A cursor on no key, at a moment that is registered for it.
    pub(crate) fn new(reader: Arc<Reader>, moment: u64) -> ChameleonCursor {
        let (window, value) = (Window::default(), Slice::default());
        ChameleonCursor { reader, moment, direction: Direction::Forward, window, value }
    }

    /// Goes on to the next window that is not empty, if there is one.
    fn settle(&mut self) -> Result<()> {
        while self.window.current().is_none() {
            if !self.window.go_on(&self.reader, self.direction, self.moment)? {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl TierCursor for ChameleonCursor {
    fn begin_range(&mut self) {
        self.window.begin();
    }

    fn seek(&mut self, to: SeekTo<'_>) -> Result<()> {
        self.direction = to.direction();
        self.window.load(&self.reader, to, self.moment)?;
        self.settle()
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
        self.value = Slice::default();
        let bytes = self.window.memory_bytes() as u64;
        self.window = Window::default();
        bytes
    }
}
