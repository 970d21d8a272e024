//! [`Around`]: what lies above and below a level, for keys in rising order.

use std::ops::Bound;
use std::sync::Arc;

use slmdb_env::Result;

use crate::depth::LEVELS_MAX;
use crate::run::Run;
use crate::version::Version;

/// Finds keys on other levels. The keys rise, so it remembers where it is on each level.
pub(crate) struct Around<R: Run> {
    version: Arc<Version<R>>,
    level: u8,
    /// The first run of each level from 1 on that does not end before the last key. `None`: no key was looked for there.
    positions: [Option<usize>; LEVELS_MAX],
}

impl<R: Run> Around<R> {
    /// What lies around this level.
    pub(crate) fn new(version: Arc<Version<R>>, level: u8) -> Around<R> {
        Around { version, level, positions: [None; LEVELS_MAX] }
    }

    /// Whether neither a deeper level can have the key, nor an older run of level 0.
    pub(crate) fn is_base(&mut self, key: &[u8]) -> bool {
        self.level > 0 && (self.level + 1..LEVELS_MAX as u8).all(|deeper| self.run_with(deeper, key).is_none())
    }

    /// The number of the newest version of a key that stands above a run of the level.
    pub(crate) fn newer(&mut self, run: u32, key: &[u8]) -> Result<Option<u64>> {
        let level_0 = self.version.level(0).iter();
        for newer in level_0.take_while(|other| self.level > 0 || other.number() != run) {
            if self.may_have(newer, key)
                && let Some(found) = newer.get(key, u64::MAX)?
            {
                return Ok(Some(found.sequence));
            }
        }
        for above in 1..self.level {
            if let Some(newer) = self.run_with(above, key)
                && let Some(found) = newer.get(key, u64::MAX)?
            {
                return Ok(Some(found.sequence));
            }
        }
        Ok(None)
    }

    /// Whether some version of a key lies below a run of the level.
    pub(crate) fn has_older(&mut self, run: u32, key: &[u8]) -> Result<bool> {
        if self.level == 0 {
            for older in self.version.level(0).iter().skip_while(|other| other.number() != run).skip(1) {
                if self.may_have(older, key) && older.get(key, u64::MAX)?.is_some() {
                    return Ok(true);
                }
            }
        }
        for deeper in self.level + 1..LEVELS_MAX as u8 {
            if let Some(older) = self.run_with(deeper, key)
                && older.get(key, u64::MAX)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn may_have(&self, run: &R, key: &[u8]) -> bool {
        self.version.overlaps(run, (Bound::Included(key), Bound::Included(key)))
    }

    /// The run of a level from 1 on that may have a key.
    fn run_with(&mut self, level: u8, key: &[u8]) -> Option<&Arc<R>> {
        let (runs, order) = (self.version.level(level), self.version.order());
        let ends_before = |run: &Arc<R>| order.compare(&run.record().largest_key, key).is_lt();
        let position = self.positions[usize::from(level)].get_or_insert_with(|| runs.partition_point(ends_before));
        while runs.get(*position).is_some_and(ends_before) {
            *position += 1;
        }
        runs.get(*position).filter(|run| order.compare(&run.record().smallest_key, key).is_le())
    }
}
