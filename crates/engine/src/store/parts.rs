//! [`Parts`]: the parts of an open store that know no engine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use slmdb_env::Lock;
use slmdb_manifest::{Counters, Edit, StoreState};

use super::tier_state::TierState;
use crate::context::StoreContext;
use crate::events::delivery::Events;
use crate::files::catalog::{Catalog, CommitHooks};
use crate::files::file_verifier::FileVerifier;
use crate::files::obsolete_files::ObsoleteFiles;
use crate::files::table_cache::Tables;
use crate::observe::lifetime_counters::LifetimeCounters;
use crate::recovery::recovered_log::RecoveredLog;
use crate::space::controller::SpaceController;
use crate::space::pool_growth::guard_growth;
use crate::write::write_path::{RecoveredWrites, WritePath};

/// The parts of an open store that know no engine. Dropping them ends the use of pool and directory.
pub struct Parts {
    /// Options, directory, counters, events, memory budget, health.
    pub context: Arc<StoreContext>,
    /// MemTables, their log, and the writers.
    pub writes: Arc<WritePath>,
    /// The MANIFEST.
    pub catalog: Arc<Catalog>,
    /// Table files.
    pub tables: Arc<Tables>,
    /// Table files that have left the store.
    pub obsolete: Arc<ObsoleteFiles>,
    /// What writes are granted, and what is done when there is no space.
    pub space: Arc<SpaceController>,
    /// Counters since the opening and since the store was made.
    pub lifetime: Arc<LifetimeCounters>,
    /// What the engine keeps.
    pub state: Arc<dyn TierState>,
    /// Compactions that have begun since the store was opened.
    pub(super) compactions_begun: AtomicU64,
    /// Lock of the store's directory. Released when the last cursor and the last handle are gone.
    _lock: Option<Box<dyn Lock>>,
}

impl Parts {
    /// Puts the parts of a recovered store together.
    pub fn new(
        log: Box<RecoveredLog>,
        tables: Arc<Tables>,
        state: Arc<dyn TierState>,
        lock: Option<Box<dyn Lock>>,
        events: Events,
    ) -> Arc<Parts> {
        let log = *log;
        let manifest = log.catalog.state();
        let (flushed_through, lifetime_before) = (manifest.flushed_through, manifest.lifetime);
        let uuids = (manifest.uuid, manifest.files_uuid);
        let granted = log.granted();
        let context = Arc::new(StoreContext::new(log.options, log.directory, uuids, events));
        context.counted.file_bytes_written.store(log.file_bytes_written, Ordering::Relaxed);
        let found = RecoveredWrites {
            arenas: log.arenas,
            active: log.active,
            active_from: log.active_from,
            recovered: log.memtables,
            last_sequence: log.last_sequence,
            flushed_through,
        };
        let writes = Arc::new(WritePath::new(context.clone(), found));
        if let Some(shared) = &context.options.shared {
            let writes: Weak<WritePath> = Arc::downgrade(&writes);
            shared.memtables().join(writes);
        }
        context.on_failure({
            // Weak, because both own the context, or are owned by who does.
            let (state, writes) = (Arc::downgrade(&state), Arc::downgrade(&writes));
            move || {
                state.upgrade().inspect(|state| state.stop_compactions());
                writes.upgrade().inspect(|writes| writes.wake());
            }
        });
        let lifetime = Arc::new(LifetimeCounters::new(&context, state.pool(), lifetime_before));
        let hooks = Hooks { writes: writes.clone(), lifetime: lifetime.clone(), state: state.clone() };
        let reserve = Arc::new(log.reserve);
        let catalog = Arc::new(Catalog::new(context.clone(), log.catalog, reserve, tables.clone(), hooks));
        guard_growth(state.pool(), &catalog.reserve, &context);
        let obsolete = Arc::new(ObsoleteFiles::new(context.clone(), tables.clone(), state.clone()));
        let space = SpaceController::new(context.clone(), writes.clone(), catalog.clone(), state.clone(), granted);
        Arc::new(Parts {
            context,
            writes,
            catalog,
            tables,
            obsolete,
            space: Arc::new(space),
            lifetime,
            state,
            compactions_begun: AtomicU64::new(0),
            _lock: lock,
        })
    }

    /// Checks what is the same for each engine.
    pub fn file_verifier(&self) -> FileVerifier {
        FileVerifier {
            context: self.context.clone(),
            catalog: self.catalog.clone(),
            tables: self.tables.clone(),
            obsolete: self.obsolete.clone(),
        }
    }

    /// Counts space, or garbage, that has come, so that whoever found none looks again.
    /// LOCKS: compactions; memtables
    pub fn space_came_back(&self) {
        self.state.wake_compactions();
        self.writes.memtables.lock().space_returned += 1;
        self.wake_waiting();
    }

    /// Wakes waiting threads: a compaction has ended, or there will be none.
    /// LOCKS: memtables
    pub fn wake_waiting(&self) {
        let _traffic = self.writes.memtables.lock();
        self.writes.wake_work();
    }
}

impl Drop for Parts {
    /// Ends the pool's use before the lock is released. After a clean close there is nothing left to do.
    fn drop(&mut self) {
        self.state.pool().end();
    }
}

/// The active MemTable and the spare.
const MEMTABLES_AHEAD: u64 = 2;

/// What is added to each record of the MANIFEST.
struct Hooks {
    writes: Arc<WritePath>,
    lifetime: Arc<LifetimeCounters>,
    state: Arc<dyn TierState>,
}

impl CommitHooks for Hooks {
    /// LOCKS: those of [`TierState::longest_key_bytes`]; memtables
    fn flushes_to_come(&self) -> (u64, u64) {
        let of_tier_bytes = self.state.longest_key_bytes();
        let memtables = self.writes.memtables.lock();
        let longest_bytes = of_tier_bytes.max(memtables.longest_key_bytes);
        (memtables.immutables as u64 + MEMTABLES_AHEAD, u64::from(longest_bytes))
    }

    fn lifetime(&self) -> Counters {
        self.lifetime.of_store()
    }

    fn before_commit(&self, state: &StoreState, edit: &mut Edit) {
        self.state.before_commit(state, edit);
    }

    fn after_commit(&self, edit: &Edit, is_committed: bool) {
        self.state.after_commit(edit, is_committed);
    }
}
