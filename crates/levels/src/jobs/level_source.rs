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

/// The most bytes of a file that are read at a time,
const WINDOW_BYTES: u64 = 1 << 20;
/// and the least, however many files there are.
pub(crate) const LEAST_WINDOW_BYTES: usize = 64 << 10;
/// All windows of a merge together take this part of the memory budget.
const BUDGET_PART: u64 = 16;

/// Bytes of each window of a merge that has so many of them.
pub(super) fn window_bytes(memory_budget_bytes: u64, windows: usize) -> usize {
    let share = memory_budget_bytes / BUDGET_PART / windows.max(1) as u64;
    share.clamp(LEAST_WINDOW_BYTES as u64, WINDOW_BYTES) as usize
}

/// Where a merge's entries come from.
pub struct Input<R: Run>(From<R>);

enum From<R: Run> {
    Level(LevelSource<R>),
    Above(Box<dyn EntrySource>),
}

impl<R: Run> Input<R> {
    /// Entries of runs of a level.
    pub(super) fn level(source: LevelSource<R>) -> Input<R> {
        Input(From::Level(source))
    }

    /// Entries from above the levels.
    pub(super) fn above(source: Box<dyn EntrySource>) -> Input<R> {
        Input(From::Above(source))
    }

    /// The source of the run that has the current entry. `None`: it comes from above the levels.
    pub fn of_run(&self) -> Option<&R::Source> {
        match &self.0 {
            From::Level(source) => source.source.as_ref(),
            From::Above(_) => None,
        }
    }
}

impl<R: Run> Source for Input<R> {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        match &mut self.0 {
            From::Level(source) => source.advance(),
            From::Above(source) => source.advance(),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match &self.0 {
            From::Level(source) => source.key(),
            From::Above(source) => source.key(),
        }
    }

    #[inline]
    fn sequence(&self) -> u64 {
        match &self.0 {
            From::Level(source) => source.sequence(),
            From::Above(source) => source.sequence(),
        }
    }
}

impl<R: Run> EntrySource for Input<R> {
    #[inline]
    fn kind(&self) -> EntryKind {
        match &self.0 {
            From::Level(source) => source.kind(),
            From::Above(source) => source.kind(),
        }
    }

    #[inline]
    fn value_bytes(&self) -> u64 {
        match &self.0 {
            From::Level(source) => source.value_bytes(),
            From::Above(source) => source.value_bytes(),
        }
    }

    #[inline]
    fn value(&mut self) -> Result<&[u8]> {
        match &mut self.0 {
            From::Level(source) => source.value(),
            From::Above(source) => source.value(),
        }
    }
}

/// The runs of a level from 1 on, one after the other.
pub(crate) struct LevelSource<R: Run> {
    /// Those that come next.
    runs: std::vec::IntoIter<Arc<R>>,
    window_bytes: usize,
    source: Option<R::Source>,
    reads: Arc<AtomicU32>,
}

impl<R: Run> LevelSource<R> {
    /// Before the first entry of runs that are in the order of their keys. `reads`: the number of the file that is being
    /// read.
    pub(crate) fn new(runs: Vec<Arc<R>>, window_bytes: usize, reads: Arc<AtomicU32>) -> LevelSource<R> {
        LevelSource { runs: runs.into_iter(), window_bytes, source: None, reads }
    }
}

impl<R: Run> Source for LevelSource<R> {
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
            self.source = Some(run.source(self.window_bytes)?);
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

impl<R: Run> EntrySource for LevelSource<R> {
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
