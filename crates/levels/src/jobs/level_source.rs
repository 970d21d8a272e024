//! What a merge reads: the runs of each level one after the other, and of each file a window at a time.
//!
//! Runs of a level don't overlap. So a level is one source, however many runs of it are inputs, and has one window. That
//! keeps a merge within the memory budget, and each entry is compared with few others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use slmdb_engine::read::merge::Source;
use slmdb_env::Result;
use slmdb_table::EntryKind;

use crate::run::{EntrySource, Run};
use crate::table_run::{TableRun, TableRunSource};

/// The most bytes of a file that are read at a time,
const WINDOW_BYTES: u64 = 1 << 20;
/// and the least, however many files there are.
const LEAST_WINDOW_BYTES: u64 = 64 << 10;
/// All windows of a merge together take this part of the memory budget.
const BUDGET_PART: u64 = 16;

/// Bytes of each window of a merge that has so many of them.
pub(super) fn window_bytes(memory_budget_bytes: u64, windows: usize) -> usize {
    let share = memory_budget_bytes / BUDGET_PART / windows.max(1) as u64;
    share.clamp(LEAST_WINDOW_BYTES, WINDOW_BYTES) as usize
}

/// The runs of a level from 1 on, one after the other.
pub(super) struct LevelSource {
    /// Those that come next.
    runs: std::vec::IntoIter<Arc<TableRun>>,
    window_bytes: usize,
    source: Option<TableRunSource>,
    reads: Arc<AtomicU32>,
}

impl LevelSource {
    /// Before the first entry of runs that are in the order of their keys. `reads`: the number of the file that is being
    /// read.
    pub(super) fn new(runs: Vec<Arc<TableRun>>, window_bytes: usize, reads: Arc<AtomicU32>) -> LevelSource {
        LevelSource { runs: runs.into_iter(), window_bytes, source: None, reads }
    }
}

impl Source for LevelSource {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        loop {
            if let Some(source) = &mut self.source
                && source.advance()?
            {
                return Ok(true);
            }
            self.source = None;
            let Some(run) = self.runs.next() else { return Ok(false) };
            self.reads.store(run.number(), Ordering::Relaxed);
            self.source = Some(run.source_by(self.window_bytes)?);
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.source.as_ref().map_or(&[], Source::key)
    }

    #[inline]
    fn sequence(&self) -> u64 {
        self.source.as_ref().map_or(0, Source::sequence)
    }
}

impl EntrySource for LevelSource {
    #[inline]
    fn kind(&self) -> EntryKind {
        self.source.as_ref().map_or(EntryKind::Put, EntrySource::kind)
    }

    #[inline]
    fn value_bytes(&self) -> u64 {
        self.source.as_ref().map_or(0, EntrySource::value_bytes)
    }

    #[inline]
    fn value(&mut self) -> Result<&[u8]> {
        self.source.as_mut().map_or(Ok(&[]), EntrySource::value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_a_part_of_the_memory_budget() {
        let mib = 1 << 20;
        assert_eq!(
            [0, 1, 8, 16, 1000].map(|windows| window_bytes(128 << 20, windows)),
            [mib, mib, mib, mib / 2, mib / 16]
        );
        assert_eq!(window_bytes(0, 1), mib / 16);
    }
}
