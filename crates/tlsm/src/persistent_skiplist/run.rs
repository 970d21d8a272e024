//! [`TlsmRun`]: a run of a level, which is a list in the pool or a table file.

use std::sync::Arc;

use slmdb_engine::read::merge::Source;
use slmdb_env::Result;
use slmdb_levels::{
    Approximation, EntrySource, Found, Run, RunCursor, RunRecord, TableRun, TableRunCursor, TableRunSource,
};
use slmdb_structures::list::Place;
use slmdb_table::{EntryKind, Slice};

use super::pool_run::{PoolRun, PoolRunCursor, PoolRunSource};

/// A run of a level.
pub(crate) enum TlsmRun {
    /// A list in the pool.
    List(PoolRun),
    /// A table file.
    Table(Arc<TableRun>),
}

impl TlsmRun {
    /// The list, if it is one.
    pub(crate) fn list(&self) -> Option<&PoolRun> {
        match self {
            TlsmRun::List(list) => Some(list),
            TlsmRun::Table(_) => None,
        }
    }
}

impl From<Arc<TableRun>> for TlsmRun {
    fn from(table: Arc<TableRun>) -> TlsmRun {
        TlsmRun::Table(table)
    }
}

impl Run for TlsmRun {
    type Cursor = TlsmRunCursor;
    type Source = TlsmRunSource;

    fn number(&self) -> u32 {
        match self {
            TlsmRun::List(list) => list.list().record().number,
            TlsmRun::Table(table) => table.number(),
        }
    }

    fn record(&self) -> &RunRecord {
        match self {
            TlsmRun::List(list) => list.record(),
            TlsmRun::Table(table) => table.record(),
        }
    }

    fn is_file(&self) -> bool {
        matches!(self, TlsmRun::Table(_))
    }

    fn get(&self, key: &[u8], sequence_max: u64) -> Result<Option<Found>> {
        match self {
            TlsmRun::List(list) => list.get(key, sequence_max),
            TlsmRun::Table(table) => table.get(key, sequence_max),
        }
    }

    fn cursor(self: &Arc<Self>) -> Result<TlsmRunCursor> {
        let at = match &**self {
            TlsmRun::List(list) => At::List(list.cursor()),
            TlsmRun::Table(table) => At::Table(table.cursor()?),
        };
        Ok(TlsmRunCursor { at, _run: self.clone() })
    }

    fn source(self: &Arc<Self>, window_bytes: usize) -> Result<TlsmRunSource> {
        let of = match &**self {
            TlsmRun::List(list) => Of::List(list.source()),
            TlsmRun::Table(table) => Of::Table(Box::new(table.source(window_bytes)?)),
        };
        Ok(TlsmRunSource { of, _run: self.clone() })
    }

    fn before(&self, key: &[u8]) -> Result<Approximation> {
        match self {
            TlsmRun::List(list) => list.before(key),
            TlsmRun::Table(table) => table.before(key),
        }
    }
}

/// A position in a run, which it keeps.
pub(crate) struct TlsmRunCursor {
    at: At,
    _run: Arc<TlsmRun>,
}

enum At {
    List(PoolRunCursor),
    Table(TableRunCursor),
}

/// Does the same with either.
macro_rules! either {
    ($kind:ident, $of:expr, $cursor:ident => $done:expr) => {
        match $of {
            $kind::List($cursor) => $done,
            $kind::Table($cursor) => $done,
        }
    };
}

impl RunCursor for TlsmRunCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        either!(At, &mut self.at, cursor => cursor.seek(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        either!(At, &mut self.at, cursor => cursor.seek_before(key))
    }

    fn seek_first(&mut self) -> Result<()> {
        either!(At, &mut self.at, cursor => cursor.seek_first())
    }

    fn seek_last(&mut self) -> Result<()> {
        either!(At, &mut self.at, cursor => cursor.seek_last())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        either!(At, &mut self.at, cursor => cursor.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        either!(At, &mut self.at, cursor => cursor.prev())
    }

    #[inline]
    fn valid(&self) -> bool {
        either!(At, &self.at, cursor => cursor.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        either!(At, &self.at, cursor => cursor.key())
    }

    #[inline]
    fn sequence(&self) -> u64 {
        either!(At, &self.at, cursor => cursor.sequence())
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        either!(At, &self.at, cursor => cursor.kind())
    }

    fn value_ref(&mut self) -> Result<&[u8]> {
        either!(At, &mut self.at, cursor => cursor.value_ref())
    }

    fn value(&mut self) -> Result<Slice> {
        either!(At, &mut self.at, cursor => cursor.value())
    }
}

/// All entries of a run, which it keeps.
pub(crate) struct TlsmRunSource {
    of: Of,
    _run: Arc<TlsmRun>,
}

enum Of {
    List(PoolRunSource),
    Table(Box<TableRunSource>),
}

impl TlsmRunSource {
    /// Where the current entry lies in the pool. `None`: it comes from a table file.
    #[inline]
    pub(crate) fn place(&self) -> Option<Place> {
        match &self.of {
            Of::List(list) => list.place(),
            Of::Table(_) => None,
        }
    }
}

impl Source for TlsmRunSource {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        either!(Of, &mut self.of, source => source.advance())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        either!(Of, &self.of, source => source.key())
    }

    #[inline]
    fn sequence(&self) -> u64 {
        either!(Of, &self.of, source => source.sequence())
    }
}

impl EntrySource for TlsmRunSource {
    #[inline]
    fn kind(&self) -> EntryKind {
        either!(Of, &self.of, source => source.kind())
    }

    #[inline]
    fn value_bytes(&self) -> u64 {
        either!(Of, &self.of, source => source.value_bytes())
    }

    #[inline]
    fn value(&mut self) -> Result<&[u8]> {
        either!(Of, &mut self.of, source => source.value())
    }
}
