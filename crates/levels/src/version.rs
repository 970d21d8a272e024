//! [`Version`]: which runs are on which level, at one moment.

use std::cmp::Ordering;
use std::ops::{Bound, Range};
use std::sync::Arc;

use slmdb_engine::files::caches::ALLOCATION_BYTES;
use slmdb_env::Result;
use slmdb_order::KeyOrder;

use crate::change::Change;
use crate::depth::LEVELS_MAX;
use crate::run::{Found, Run, RunRecord};

/// A range of keys: from where, and to where.
pub type KeyRange<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// Which runs are on which level. It never changes. Who has one has all its runs.
pub struct Version<R: Run> {
    order: KeyOrder,
    /// Level 0: newest first. Other levels: in key order.
    levels: [Vec<Arc<R>>; LEVELS_MAX],
    bytes: [u64; LEVELS_MAX],
    memory_bytes: usize,
}

/// What a range has, about. Versions and deletes count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Approximation {
    /// Number of entries.
    pub entries: u64,
    /// Bytes of the runs' lengths.
    pub bytes: u64,
}

impl<R: Run> Version<R> {
    /// These runs on their levels, in any order. The error says how they contradict each other.
    pub fn new(order: KeyOrder, runs: impl IntoIterator<Item = (u8, Arc<R>)>) -> Result<Version<R>, String> {
        let change = Change { added: runs.into_iter().collect(), ..Change::default() };
        Version::empty(order).with(&change)
    }

    /// No run on any level.
    pub(crate) fn empty(order: KeyOrder) -> Version<R> {
        let levels = std::array::from_fn(|_| Vec::new());
        Version { order, levels, bytes: [0; LEVELS_MAX], memory_bytes: size_of::<Version<R>>() }
    }

    /// This version after a change. The error says why the change does not fit.
    pub(crate) fn with(&self, change: &Change<R>) -> Result<Version<R>, String> {
        let mut levels = self.levels.clone();
        for run in change.removed.iter().chain(change.moved.iter().map(|(run, _)| run)) {
            let at = |level: &Vec<Arc<R>>| level.iter().position(|other| other.number() == run.number());
            let place = levels.iter_mut().find_map(|level| at(level).map(|position| (level, position)));
            let Some((level, position)) = place else {
                return Err(format!("run {} leaves its level, but is on none", run.number()));
            };
            level.remove(position);
        }
        for (level, run) in change.arriving() {
            let Some(runs) = levels.get_mut(usize::from(level)) else {
                return Err(format!("run {} on level {level}", run.number()));
            };
            let is_before = |other: &Arc<R>| match level {
                0 => {
                    let numbers = |of: &R| (of.record().highest_sequence, of.record().lowest_sequence);
                    numbers(other) > numbers(run)
                }
                _ => self.order.compare(&other.record().smallest_key, &run.record().smallest_key).is_lt(),
            };
            runs.insert(runs.partition_point(is_before), run.clone());
        }
        let bytes = std::array::from_fn(|level| levels[level].iter().map(|run| run.record().bytes).sum());
        let runs_bytes: usize = levels.iter().flatten().map(|run| memory_of_run(&**run)).sum();
        let memory_bytes = size_of::<Version<R>>() + levels.iter().map(memory_of_list).sum::<usize>() + runs_bytes;
        let after = Version { order: self.order.clone(), levels, bytes, memory_bytes };
        after.check()?;
        Ok(after)
    }

    /// Checks what must hold among runs: bounds in order, no number twice, of two runs of level 0 with a key between them one
    /// the older, no two runs of a deeper level with a key between them. The error says what does not.
    pub fn check(&self) -> Result<(), String> {
        let mut numbers: Vec<u32> = self.runs().map(|(_, run)| run.number()).collect();
        numbers.sort_unstable();
        if let Some(twice) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("run {} is there twice", twice[0]));
        }
        for (level, run) in self.runs() {
            let record = run.record();
            if self.order.compare(&record.smallest_key, &record.largest_key).is_gt() {
                return Err(format!("run {} on level {level} ends before it begins", run.number()));
            }
        }
        let overlap = |level: usize, first: &R, second: &R| {
            Err(format!("runs {} and {} overlap on level {level}", first.number(), second.number()))
        };
        let is_before = |first: &R, second: &R| {
            self.order.compare(&first.record().largest_key, &second.record().smallest_key).is_lt()
        };
        for (position, newer) in self.levels[0].iter().enumerate() {
            for older in &self.levels[0][position + 1..] {
                // (The deletes that a range comes to have one number, in however many runs.)
                let is_newer = newer.record().lowest_sequence >= older.record().highest_sequence;
                if !is_newer && !is_before(newer, older) && !is_before(older, newer) {
                    return overlap(0, newer, older);
                }
            }
        }
        for (level, runs) in self.levels.iter().enumerate().skip(1) {
            if let Some(pair) = runs.windows(2).find(|pair| !is_before(&pair[0], &pair[1])) {
                return overlap(level, &pair[0], &pair[1]);
            }
        }
        Ok(())
    }

    /// The order of the keys.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// The runs of a level. Level 0: newest first. Other levels: in key order.
    pub fn level(&self, level: u8) -> &[Arc<R>] {
        self.levels.get(usize::from(level)).map_or(&[], Vec::as_slice)
    }

    /// What the runs of a level take, in bytes.
    pub fn level_bytes(&self, level: u8) -> u64 {
        self.bytes.get(usize::from(level)).copied().unwrap_or(0)
    }

    /// What it takes in memory, in bytes: its lists, its runs and the keys in their records. Versions share runs. What
    /// runs have elsewhere (in caches, in the pool) is not counted.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The same without its runs.
    pub(crate) fn lists_bytes(&self) -> usize {
        size_of::<Version<R>>() + self.levels.iter().map(memory_of_list).sum::<usize>()
    }

    /// All runs, with their levels, upper levels first.
    pub fn runs(&self) -> impl Iterator<Item = (u8, &Arc<R>)> {
        let numbered = self.levels.iter().enumerate();
        numbered.flat_map(|(level, runs)| runs.iter().map(move |run| (level as u8, run)))
    }

    /// The newest version of `key` up to this sequence number. Deletes are found, too. The first that is found going
    /// down is the newest (INV-L2).
    pub fn get(&self, key: &[u8], sequence_max: u64) -> Result<Option<Found>> {
        // (Of most stores most levels are empty.)
        for level in (0..LEVELS_MAX as u8).filter(|&level| !self.level(level).is_empty()) {
            for run in self.runs_with(level, key).filter(|run| run.record().lowest_sequence <= sequence_max) {
                let found = run.get(key, sequence_max)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// Whether a level has some version of a key, a delete too.
    pub fn has_key(&self, level: u8, key: &[u8]) -> Result<bool> {
        for run in self.runs_with(level, key) {
            if run.get(key, u64::MAX)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The runs of a level whose bounds have `key` between them: at most one, except on level 0.
    fn runs_with(&self, level: u8, key: &[u8]) -> impl Iterator<Item = &Arc<R>> {
        let runs = self.level(level);
        let ends_before = |run: &Arc<R>| self.order.compare(&run.record().largest_key, key).is_lt();
        let (first, most) = match level {
            0 => (0, usize::MAX),
            _ => (runs.partition_point(ends_before), 1),
        };
        let is_between = move |run: &&Arc<R>| self.overlaps(run, (Bound::Included(key), Bound::Included(key)));
        runs[first..].iter().take(most).filter(is_between)
    }

    /// Whether a run may have keys of a range.
    pub(crate) fn overlaps(&self, run: &R, (from, to): KeyRange<'_>) -> bool {
        self.order.is_from(&run.record().largest_key, from) && self.order.is_up_to(&run.record().smallest_key, to)
    }

    /// The runs of a level that may have keys of the range, in the level's order.
    pub fn overlapping(&self, level: u8, range: KeyRange<'_>) -> Vec<Arc<R>> {
        match level {
            0 => self.level(0).iter().filter(|run| self.overlaps(run, range)).cloned().collect(),
            _ => self.level(level)[self.positions_overlapping(level, range)].to_vec(),
        }
    }

    /// The same as positions. REQUIRES: `level` is not 0.
    pub(crate) fn positions_overlapping(&self, level: u8, (from, to): KeyRange<'_>) -> Range<usize> {
        let runs = self.level(level);
        let start = runs.partition_point(|run| !self.order.is_from(&run.record().largest_key, from));
        let end = runs.partition_point(|run| self.order.is_up_to(&run.record().smallest_key, to));
        // (The end is before the start if the range is empty, or the comparator is no order.)
        start..end.max(start)
    }

    /// Whether no level deeper than `below` can have the key. Other runs of `below` itself are not looked at.
    pub fn is_base(&self, below: u8, key: &[u8]) -> bool {
        (below + 1..LEVELS_MAX as u8).all(|level| self.runs_with(level, key).next().is_none())
    }

    /// The deepest level with a run that may have keys of the range.
    pub fn deepest_level(&self, range: KeyRange<'_>) -> Option<u8> {
        let has_some = |level: u8| self.level(level).iter().any(|run| self.overlaps(run, range));
        (0..LEVELS_MAX as u8).rev().find(|&level| has_some(level))
    }

    /// How much of a run stands before `key`, about. Asks the run only if the key is between its bounds.
    fn before(&self, run: &R, key: &[u8]) -> Result<Approximation> {
        let record = run.record();
        if self.order.compare(key, &record.smallest_key) != Ordering::Greater {
            return Ok(Approximation::default());
        }
        if self.order.compare(key, &record.largest_key) == Ordering::Greater {
            return Ok(all_of(record));
        }
        let before = run.before(key)?;
        Ok(Approximation { entries: before.entries.min(record.entries), bytes: before.bytes.min(record.bytes) })
    }

    /// What a range has, about. It is too much by what newer versions hide.
    pub fn approximate(&self, range: KeyRange<'_>) -> Result<Approximation> {
        let mut sum = Approximation::default();
        for (_, run) in self.runs().filter(|(_, run)| self.overlaps(run, range)) {
            let record = run.record();
            let through = |key: &[u8]| -> Result<Approximation> {
                // Of a key that has several versions one is counted.
                let before = self.before(run, key)?;
                Ok(Approximation { entries: before.entries + u64::from(run.get(key, u64::MAX)?.is_some()), ..before })
            };
            let from = match range.0 {
                Bound::Unbounded => Approximation::default(),
                Bound::Included(from) => self.before(run, from)?,
                Bound::Excluded(from) => through(from)?,
            };
            let to = match range.1 {
                Bound::Unbounded => all_of(record),
                Bound::Included(to) => through(to)?,
                Bound::Excluded(to) => self.before(run, to)?,
            };
            let entries = to.entries.saturating_sub(from.entries);
            let mean = u128::from(record.bytes) * u128::from(entries) / u128::from(record.entries.max(1));
            sum.entries += entries;
            // (A key that the range includes is no byte more: of that key alone the mean has to do.)
            sum.bytes += match to.bytes.saturating_sub(from.bytes) {
                0 => mean as u64,
                bytes => bytes,
            };
        }
        Ok(sum)
    }
}

fn all_of(record: &RunRecord) -> Approximation {
    Approximation { entries: record.entries, bytes: record.bytes }
}

fn memory_of_list<R: Run>(runs: &Vec<Arc<R>>) -> usize {
    runs.capacity() * size_of::<Arc<R>>()
}

/// What a run and the keys in its record take in memory, in bytes.
pub(crate) fn memory_of_run<R: Run>(run: &R) -> usize {
    let record = run.record();
    // Three allocations, each with two counts: the run and both keys.
    let counts_bytes = 3 * (2 * size_of::<usize>() + ALLOCATION_BYTES);
    size_of::<R>() + record.smallest_key.len() + record.largest_key.len() + counts_bytes
}
