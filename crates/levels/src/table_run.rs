//! [`TableRun`]: a table file of a level.
//!
//! A `get` and a cursor go through the block cache. A source reads past it, a window at a time, so that a merge does
//! not push out of the cache what readers need.

use std::sync::Arc;

use slmdb_engine::files::searched_tables::CachedParts;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::read::merge::Source;
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_table::{EntryKind, Slice, TableCursor, TableScan};

use crate::run::{EntrySource, Found, Run, RunCursor, RunRecord};
use crate::version::Approximation;

/// The most bytes of a file that a merge reads at a time,
const WINDOW_BYTES: usize = 1 << 20;
/// the most bytes of all inputs together,
const ALL_WINDOWS_BYTES: usize = 64 << 20;
/// and the least of a file, however many inputs there are.
const LEAST_WINDOW_BYTES: usize = 64 << 10;

/// A table file of a level. It was written [to be searched by key](slmdb_table::TableForm::LEVELS).
pub struct TableRun {
    number: u32,
    record: RunRecord,
    tables: Arc<Tables>,
}

impl TableRun {
    /// The table file of this number. It is opened when it is first read.
    pub fn new(number: u32, record: RunRecord, tables: Arc<Tables>) -> TableRun {
        TableRun { number, record, tables }
    }
}

/// The runs of a store's table files from this level on, with their levels, for [`Levels::open`](crate::Levels::open).
/// No file is opened.
pub fn runs_of(state: &StoreState, from_level: u8, tables: &Arc<Tables>) -> Vec<(u8, Arc<TableRun>)> {
    let files = state.files.iter().filter(|(_, file)| file.level >= from_level);
    files.map(|(&number, file)| (file.level, Arc::new(TableRun::new(number, file.into(), tables.clone())))).collect()
}

/// Bytes of each source's window in a merge of so many inputs.
pub fn window_bytes(inputs: usize) -> usize {
    (ALL_WINDOWS_BYTES / inputs.max(1)).clamp(LEAST_WINDOW_BYTES, WINDOW_BYTES)
}

impl Run for TableRun {
    type Cursor = TableRunCursor;
    type Source = TableRunSource;

    fn number(&self) -> u32 {
        self.number
    }

    fn record(&self) -> &RunRecord {
        &self.record
    }

    fn get(&self, key: &[u8], sequence_max: u64) -> Result<Option<Found>> {
        let found = self.tables.find(self.number, key, sequence_max)?;
        Ok(found.map(|entry| Found { kind: entry.kind, sequence: entry.sequence, value: entry.value }))
    }

    fn cursor(self: &Arc<Self>) -> Result<TableRunCursor> {
        Ok(TableRunCursor { cursor: self.tables.cursor(self.number)?, _run: self.clone() })
    }

    fn source(self: &Arc<Self>, window_bytes: usize) -> Result<TableRunSource> {
        Ok(TableRunSource { scan: self.tables.scan(self.number, window_bytes)?, _run: self.clone() })
    }

    fn before(&self, key: &[u8]) -> Result<Approximation> {
        let before = self.tables.entries_before(self.number, key)?;
        Ok(Approximation { entries: before.entries, bytes: before.bytes })
    }
}

/// A position in a [`TableRun`], which it keeps.
pub struct TableRunCursor {
    cursor: TableCursor<CachedParts>,
    _run: Arc<TableRun>,
}

impl RunCursor for TableRunCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek(key)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek_before(key)
    }

    fn seek_first(&mut self) -> Result<()> {
        self.cursor.seek_first()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.cursor.seek_last()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.cursor.next()
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.cursor.prev()
    }

    #[inline]
    fn valid(&self) -> bool {
        self.cursor.valid()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    #[inline]
    fn sequence(&self) -> u64 {
        self.cursor.sequence()
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        self.cursor.kind()
    }

    fn value_ref(&mut self) -> Result<&[u8]> {
        Ok(self.cursor.value())
    }

    fn value(&mut self) -> Result<Slice> {
        Ok(self.cursor.value_slice())
    }
}

/// All entries of a [`TableRun`], which it keeps.
pub struct TableRunSource {
    scan: TableScan,
    _run: Arc<TableRun>,
}

impl TableRunSource {
    /// What it takes in memory, in bytes, the block it is in apart.
    pub fn memory_bytes(&self) -> usize {
        self.scan.memory_bytes()
    }
}

impl Source for TableRunSource {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        self.scan.advance()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.scan.key()
    }

    #[inline]
    fn sequence(&self) -> u64 {
        self.scan.sequence()
    }
}

impl EntrySource for TableRunSource {
    #[inline]
    fn kind(&self) -> EntryKind {
        self.scan.kind()
    }

    #[inline]
    fn value_bytes(&self) -> u64 {
        self.scan.value().len() as u64
    }

    #[inline]
    fn value(&mut self) -> Result<&[u8]> {
        Ok(self.scan.value())
    }
}
