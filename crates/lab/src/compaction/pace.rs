//! How far compactions slow writers: what level 0 and level 1 have, and the decision for [`slmdb_engine::stall::pacing`].
//!
//! The *debt* of level 0 is how much of it is used between the part at which its compactions begin and the whole. At 1 a
//! flush waits. MemTables that wait for their flush count, as far as they have new keys. The debt of level 1 is what it has
//! beyond its target, as a part of the target. The larger one holds.
//!
//! Writers are slowed little at first, and to half the rate at which chunks leave level 0 where it is full. So level 0 stops
//! growing before that, and no writer waits for a chunk. If writers only replace what the mutable tree has, level 0 does not
//! grow, and nobody is slowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb_engine::batch::Totals;
use slmdb_engine::stall::pacing::multiple;
use slmdb_engine::store::parts::Parts;

use crate::state::LabState;

/// (debt, writers' rate as a multiple of the rate at which chunks leave level 0), linear in between. Below the first debt
/// writers are not slowed.
const PACE: &[(f64, f64)] = &[(0.1, 4.0), (0.4, 1.2), (0.7, 1.0), (1.0, 0.5), (1.5, 0.2)];

/// The quantities of a store.
#[derive(Debug, Clone, Copy)]
struct Situation {
    /// Bytes of the two trees.
    used_bytes: f64,
    /// What waiting MemTables will add to them.
    coming_bytes: f64,
    /// Bytes that they may have.
    bytes_max: f64,
    /// The part of that from which on chunks leave.
    compaction_at: f64,
    /// Bytes of level 1, as a part of its target.
    level_one: f64,
}

impl Situation {
    /// 0: nothing is due. 1: level 0 is full, or level 1 has twice what it should have.
    fn debt(&self) -> f64 {
        let (used, due) = ((self.used_bytes + self.coming_bytes) / self.bytes_max, self.compaction_at.min(0.95));
        ((used - due) / (1.0 - due)).max(self.level_one - 1.0)
    }
}

/// How far compactions slow writers.
pub(crate) struct LevelZeroPace {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<LabState>,
    /// Of the last flush, the mean of what an entry's writer put, in bytes.
    entry_bytes: AtomicU64,
}

impl LevelZeroPace {
    pub(crate) fn new(store: Arc<Parts>, state: Arc<LabState>) -> LevelZeroPace {
        LevelZeroPace { store, state, entry_bytes: AtomicU64::new(0) }
    }

    /// Counts a flush: what it had, and how many keys the mutable tree did not have before.
    pub(crate) fn flushed(&self, totals: &Totals, new_keys: u64, file_bytes: u64) {
        let entry_bytes = (totals.key_bytes + totals.value_bytes) / totals.entries.max(1);
        self.entry_bytes.store(entry_bytes, Ordering::Relaxed);
        let now_ns = self.store.context.env.monotonic_ns();
        self.store.writes.pacing.debt_made(new_keys, totals.entries, file_bytes, now_ns);
        self.set();
    }

    /// Counts a chunk: how many keys left level 0, what was written for that, and its time.
    pub(crate) fn chunk_left(&self, keys: u64, written_bytes: u64, took_ns: u64) {
        let removed_bytes = keys * self.entry_bytes.load(Ordering::Relaxed);
        self.store.writes.pacing.debt_paid(removed_bytes, written_bytes, took_ns);
        self.set();
    }

    /// Sets how far writers are slowed. Waits for nobody.
    pub(crate) fn set(&self) {
        let multiple = multiple(PACE, self.situation().debt());
        // Chunks go one by one, so no thread is idle that could help.
        self.store.set_compaction_pace(multiple, 1, 1);
    }

    fn situation(&self) -> Situation {
        let view = self.store.writes.view.load();
        let waiting_entries: u64 = view.memtables.iter().skip(1).map(|memtable| memtable.entries()).sum();
        let (used_bytes, keys) =
            (self.state.level_zero.used_bytes() as f64, self.state.level_zero.keys().max(1) as f64);
        let new_keys = waiting_entries as f64 * self.store.writes.pacing.debt_part();
        Situation {
            used_bytes,
            coming_bytes: new_keys * used_bytes / keys,
            bytes_max: self.state.level_zero.bytes_max() as f64,
            compaction_at: self.state.options.level_zero_compaction_at,
            level_one: self.state.levels.current().level_bytes(1) as f64 / self.state.levels.target_bytes(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(used_bytes: f64, coming_bytes: f64, level_one: f64) -> Situation {
        Situation { used_bytes, coming_bytes, bytes_max: 1000.0, compaction_at: 0.75, level_one }
    }

    #[test]
    fn writers_are_slowed_before_level_0_is_full() {
        // Used, coming, level 1; pace.
        let cases = [
            (0.0, 0.0, 0.0, None),
            (774.0, 0.0, 0.0, None),
            (775.0, 0.0, 0.0, Some(4.0)),
            (674.0, 101.0, 0.0, Some(4.0)),
            (850.0, 0.0, 0.0, Some(1.2)),
            (925.0, 0.0, 1.2, Some(1.0)),
            (1000.0, 0.0, 0.0, Some(0.5)),
            (5000.0, 0.0, 0.0, Some(0.2)),
            (0.0, 0.0, 1.0, None),
            (0.0, 0.0, 1.1, Some(4.0)),
            (0.0, 0.0, 2.0, Some(0.5)),
            (0.0, 0.0, 9.0, Some(0.2)),
        ];
        for (used_bytes, coming_bytes, level_one, pace) in cases {
            let paced = multiple(PACE, situation(used_bytes, coming_bytes, level_one).debt());
            let is_same = match (paced, pace) {
                (Some(paced), Some(pace)) => f64::abs(paced - pace) < 1e-6,
                (paced, pace) => paced == pace,
            };
            assert!(is_same, "{used_bytes} and {coming_bytes}, level 1 {level_one}: {paced:?}, not {pace:?}");
        }
        assert!(PACE.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 > two[1].1), "the more debt the slower");
    }

    #[test]
    fn a_store_that_is_compacted_only_when_full_slows_writers_there() {
        let full = |used_bytes| Situation { compaction_at: 1.0, ..situation(used_bytes, 0.0, 0.0) };
        assert_eq!([900.0, 950.0].map(|used| multiple(PACE, full(used).debt())), [None, None]);
        assert!(multiple(PACE, full(1000.0).debt()).is_some_and(|pace| pace <= 0.51));
    }
}
