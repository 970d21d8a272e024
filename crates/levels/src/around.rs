//! [`Around`]: looks up the keys of a run in the runs above and below it.

use std::ops::Bound;
use std::sync::Arc;

use slmdb_env::Result;
use slmdb_order::KeyOrder;

use crate::depth::LEVELS_MAX;
use crate::run::Run;
use crate::version::Version;

/// The runs that overlap one, for keys in rising order.
pub(crate) struct Around<R: Run> {
    order: KeyOrder,
    /// Newer ones, the newest first.
    above: Vec<Stretch<R>>,
    /// Older ones.
    below: Vec<Stretch<R>>,
}

/// Runs that do not overlap each other, in the order of their keys, and the first that does not end before the last key.
struct Stretch<R: Run>(Vec<Arc<R>>, usize);

impl<R: Run> Around<R> {
    /// Those of a run of this level.
    pub(crate) fn new(version: &Version<R>, level: u8, run: &R) -> Around<R> {
        let keys = (Bound::Included(&run.record().smallest_key[..]), Bound::Included(&run.record().largest_key[..]));
        let (mut above, mut below) = (Vec::new(), Vec::new());
        for other in 0..LEVELS_MAX as u8 {
            let side = if other <= level { &mut above } else { &mut below };
            match other {
                // Those of level 0 may overlap each other.
                0 => side.extend(version.overlapping(0, keys).into_iter().map(|run| Stretch(vec![run], 0))),
                _ if other != level => side.push(Stretch(version.overlapping(other, keys), 0)),
                _ => {}
            }
        }
        if level == 0 {
            let is_it = |stretch: &Stretch<R>| stretch.0[0].number() == run.number();
            let older = above.split_off(above.iter().position(is_it).map_or(above.len(), |position| position + 1));
            above.pop();
            below.splice(0..0, older);
        }
        Around { order: version.order().clone(), above, below }
    }

    /// The number of the newest version of a key that stands above the run.
    pub(crate) fn newer(&mut self, key: &[u8]) -> Result<Option<u64>> {
        for stretch in &mut self.above {
            if let Some(run) = stretch.run_with(&self.order, key)
                && let Some(found) = run.get(key, u64::MAX)?
            {
                return Ok(Some(found.sequence));
            }
        }
        Ok(None)
    }

    /// Whether some version of a key lies below the run.
    pub(crate) fn has_older(&mut self, key: &[u8]) -> Result<bool> {
        for stretch in &mut self.below {
            if let Some(run) = stretch.run_with(&self.order, key)
                && run.get(key, u64::MAX)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl<R: Run> Stretch<R> {
    /// The run that may have a key.
    fn run_with(&mut self, order: &KeyOrder, key: &[u8]) -> Option<&R> {
        let Stretch(runs, position) = self;
        while runs.get(*position).is_some_and(|run| order.compare(&run.record().largest_key, key).is_lt()) {
            *position += 1;
        }
        runs.get(*position).map(|run| &**run).filter(|run| order.compare(&run.record().smallest_key, key).is_le())
    }
}
