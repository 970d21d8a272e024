//! How far compactions slow writers: what the fullest level has, and the decision for [`slmdb_engine::stall::pacing`].
//!
//! The *debt* is what the fullest level has beyond what it may have, as a part of that. For level 0 that is its runs, each of
//! which a get may have to ask. LevelDB slows writers at 8 runs and stops them at 12. Here they are slowed little at first, and to
//! half the rate at which compactions empty level 0 where it has three times what it may have.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::stall::pacing::multiple;
use slmdb_engine::store::flush::FlushedFile;
use slmdb_engine::store::parts::Parts;
use slmdb_levels::jobs::level_jobs::Compacted;

use crate::state::TlsmState;

/// (debt, writers' rate as a multiple of the rate at which level 0 is emptied), linear in between. Below the first debt writers
/// are not slowed.
const PACE: &[(f64, f64)] = &[(0.5, 4.0), (1.0, 1.2), (1.5, 1.0), (2.0, 0.5), (4.0, 0.2)];

/// How far compactions slow writers.
pub(crate) struct LevelsPace {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<TlsmState>,
}

impl LevelsPace {
    /// Counts a flush: all that it has written is to be moved down.
    pub(crate) fn flushed(&self, file: &FlushedFile) {
        let now_ns = self.store.context.env.monotonic_ns();
        self.store.writes.pacing.debt_made(file.entries, file.entries, file.bytes, now_ns);
        self.set();
    }

    /// Counts a compaction. One of level 0 has paid off what it took from there.
    pub(crate) fn compacted(&self, done: &Compacted) {
        if done.from == 0 {
            self.store.writes.pacing.debt_paid(done.left_bytes, done.written_bytes, done.took_ns);
        }
        self.set();
    }

    /// Sets how far writers are slowed. Waits for nobody.
    pub(crate) fn set(&self) {
        // Where compactions wait for space, no writer has to wait for compactions.
        let wait_for_space = self.state.lacks_reserve() || self.state.finds_no_space.load(Ordering::Relaxed);
        let debt = if wait_for_space { 0.0 } else { self.state.levels.debt().fullest - 1.0 };
        // Level 0 goes down as a whole, so no thread is idle that could help.
        self.store.set_compaction_pace(multiple(PACE, debt), 1, 1);
    }
}
