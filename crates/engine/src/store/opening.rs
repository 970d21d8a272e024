//! Opening a store, whichever engine has it: the directory, then the medium, then recovery, then the background threads.

use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Error, Lock, Result};
use slmdb_manifest::{MediumKind, StoreState};
use slmdb_pmem::{AnyMedium, Persistent, Pool};
use tracing::field::Empty;
use tracing::info_span;

use super::parts::Parts;
use super::store::Store;
use super::tier::Tier;
use super::tier_state::TierState;
use crate::background::workers::Workers;
use crate::directory::EngineKind;
use crate::directory::home::note_openings;
use crate::directory::open::{Prepared, check_directory, prepare};
use crate::files::table_cache::Tables;
use crate::observe::spans::timed;
use crate::recovery::recovered_log::RecoveredLog;
use crate::space::allowance::{Grant, kept_for_deletes};
use crate::space::controller::TakenFrom;
use crate::space::memtable_bytes::memtable_bytes;
use crate::write::arenas::Arenas;
use crate::{Engine, Options, SharedOptions};

/// What an engine adds to an opening.
pub trait Opening {
    /// The engine.
    const KIND: EngineKind;
    /// What lies in the fast tier, as it was found there or made anew.
    type Fast;
    /// What the engine does below the MemTables.
    type Tier: Tier;

    /// Makes the fast tier of a store on `Dram` from its files.
    fn in_memory(options: &Options, directory: &Path, state: &mut StoreState) -> Result<Self::Fast>;

    /// Finds the fast tier of a store that has a pool on this medium, or makes it.
    fn in_pool(medium: AnyMedium, options: &Options, state: &StoreState) -> Result<Self::Fast>;

    /// The pool.
    fn pool(fast: &Self::Fast) -> &Arc<Pool<AnyMedium>>;

    /// Makes what the engine keeps of the fast tier as it was found. Changes nothing but the pool and `recovery.state`, and may be
    /// done again.
    fn recover(recovery: Recovery<'_>, fast: Self::Fast) -> Result<Recovered<StateOf<Self>>>;
}

/// What an engine keeps of a store.
pub type StateOf<O> = <<O as Opening>::Tier as Tier>::State;

/// What an engine's recovery has to work with.
pub struct Recovery<'r> {
    /// The store's options.
    pub options: &'r Options,
    /// Its directory, as an absolute path.
    pub directory: &'r Path,
    /// What its MANIFEST says. Jobs that are carried to their end change it.
    pub state: &'r mut StoreState,
    /// Its table files.
    pub tables: &'r Arc<Tables>,
}

/// What an engine's recovery has made.
pub struct Recovered<S> {
    /// What the engine keeps.
    pub state: Arc<S>,
    /// Removes what the MANIFEST no longer needs, once that is durable.
    pub remove_leftovers: RemoveLeftovers,
}

/// See [`Recovered::remove_leftovers`].
pub type RemoveLeftovers = Box<dyn FnOnce(&StoreState) -> Result<()>>;

/// What an opening has found before the engine looks at it. On the heap, so that threads with little stack can open stores.
pub struct Found<'d> {
    /// The store's options. Their environment holds the directory, and that of the pool.
    pub options: Options,
    /// Its directory, as an absolute path.
    pub directory: &'d Path,
    /// What its MANIFEST says.
    pub state: StoreState,
    /// The lock of the directory, and of the pool.
    pub lock: Option<Box<dyn Lock>>,
    /// Its background threads, which have no work yet.
    pub workers: Workers,
}

impl Found<'_> {
    /// Opens a directory. The background threads are made first: if they can't be had, nothing has changed.
    pub fn of<'d>(engine: &EngineKind, options: &Options, directory: &'d Path) -> Result<Box<Found<'d>>> {
        let options = with_shared(options);
        options.check()?;
        let workers = Workers::of(&options, engine.threads)?;
        let Prepared { mut options, state, lock } = prepare(engine, &options, directory)?;
        options.memtable_bytes = memtable_bytes(&options, directory);
        Ok(Box::new(Found { options, directory, state, lock, workers }))
    }
}

/// The options of a store, with what it has in common with others in the place of its own.
fn with_shared(options: &Options) -> Options {
    let mut options = options.clone();
    if let Some(shared) = &options.shared {
        let SharedOptions { memory_budget_bytes, threads, open_tables_max } = *shared.options();
        options.compaction.threads = match options.compaction.threads {
            0 => threads,
            fewer => fewer.min(threads),
        };
        (options.memory_budget_bytes, options.open_tables_max) = (memory_budget_bytes, open_tables_max);
    }
    options
}

/// Opens, recovers or makes a store, on the medium that its MANIFEST names. `medium`: one that the caller brings in its place,
/// for a store that has a pool. (For simulators: the medium alone decides what survives what.)
pub fn open<O: Opening>(options: &Options, directory: &Path, medium: Option<AnyMedium>) -> Result<Arc<dyn Engine>> {
    let env = &*options.env;
    check_directory(env, directory)?;
    let directory = env.absolute(directory)?;
    let span = info_span!("open", directory = %directory.display(), read_only = options.read_only, ms = Empty);
    timed(env, span, || {
        let found = Found::of(&O::KIND, options, &directory)?;
        match medium {
            None => on_its_medium::<O>(found),
            Some(_) if found.state.medium.kind == MediumKind::Dram => {
                Err(Error::invalid("a store on Dram has no pool that could be on another medium"))
            }
            Some(medium) => in_pool::<O>(found, medium),
        }
    })
}

fn on_its_medium<O: Opening>(mut found: Box<Found<'_>>) -> Result<Arc<dyn Engine>> {
    let options = &found.options;
    let (unit_bytes, emulation) = (options.media_unit_bytes, options.emulation);
    let caches_are_persistent = options.caches_are_persistent;
    let medium: AnyMedium = match found.state.medium.kind {
        MediumKind::Dram => {
            let fast = O::in_memory(options, found.directory, &mut found.state)?;
            return Ok(Arc::new(start::<O>(found, fast)?));
        }
        MediumKind::Emulated if !emulation.is_nothing() => {
            Persistent::emulating(&emulation).with_unit(unit_bytes)?.into()
        }
        MediumKind::Emulated => Persistent::new().with_unit(unit_bytes)?.into(),
        MediumKind::Dax => Persistent::dax(caches_are_persistent)?.with_unit(unit_bytes)?.into(),
    };
    in_pool::<O>(found, medium)
}

fn in_pool<O: Opening>(found: Box<Found<'_>>, medium: AnyMedium) -> Result<Arc<dyn Engine>> {
    let fast = O::in_pool(medium, &found.options, &found.state)?;
    Ok(Arc::new(start::<O>(found, fast)?))
}

/// Recovers a store, and starts its background threads.
pub fn start<O: Opening>(found: Box<Found<'_>>, fast: O::Fast) -> Result<Store<O::Tier>> {
    let (store, workers) = recover::<O>(found, fast)?;
    store.start(workers);
    Ok(store)
}

/// Recovers a store from its MANIFEST, its files and its fast tier:
///
/// 1. The engine recovers what it keeps.
/// 2. The MemTables are replayed from their arenas ([`crate::recovery`]).
/// 3. One rename of the MANIFEST makes what was found durable. Only then is anything removed, and only then are writes
///    taken.
///
/// Until step 3 nothing goes that the MANIFEST names, and what changes in the pool may be done again. So a crash in recovery is
/// recovered the same way. Opened read-only, step 3 is left out and everything stays in memory. The store's background
/// threads have no work yet.
pub fn recover<O: Opening>(mut found: Box<Found<'_>>, fast: O::Fast) -> Result<(Store<O::Tier>, Workers)> {
    let (directory, pool) = (found.directory, O::pool(&fast).clone());
    note_openings(&mut found.state, &pool);
    let tables = Arc::new(Tables::new(&found.options, directory.into(), found.state.files_uuid));
    tables.set_table_bytes(found.state.files.values().map(|file| file.length_bytes).sum());
    let env = tables.env();
    found.options.env = env.clone();
    let arenas = Arenas::new(&pool, env.clone(), directory, found.options.memtable_bytes);
    let recovery = Recovery { options: &found.options, directory, state: &mut found.state, tables: &tables };
    let Recovered { state: tier, remove_leftovers } = O::recover(recovery, fast)?;
    let Found { options, state, lock, mut workers, .. } = *found;
    let span = info_span!("replay_log", arenas = state.arenas.len(), ms = Empty);
    let mut log = timed(&*env, span, || RecoveredLog::replay(options, directory, state, arenas))?;
    if !log.options.read_only {
        let span = info_span!("take_over", memtables = log.memtables.len(), ms = Empty);
        timed(&*env, span, || log.take_over(|log| provide_for_recovered(log, &*tier)))?;
        log.remove_leftovers(&O::KIND)?;
        remove_leftovers(log.catalog.state())?;
    }
    let table_files = log.catalog.state().files.len();
    tracing::info!(table_files, last_sequence_number = log.last_sequence, "recovered");
    let parts = Parts::new(log, tables, tier.clone(), lock, std::mem::take(&mut workers.events));
    Ok((Store::new(O::KIND, parts, &tier), workers))
}

/// Sets the reserves of a recovered store, and sets aside in the pool what the flushes of its MemTables will need. That
/// was set aside when they were written. If there is less now, their flushes wait for space.
fn provide_for_recovered(log: &RecoveredLog, tier: &dyn TierState) -> Result<()> {
    tier.count_files(&log.options, log.catalog.state(), &log.reserve);
    let granted = log.granted();
    let without = granted.iter().fold(Grant::default(), |all, (_, totals)| all.and(totals));
    let with_deletes = without.and(&kept_for_deletes(&log.options));
    for (grant, from) in
        [(with_deletes, TakenFrom::FreeSpace), (with_deletes, TakenFrom::Reserve), (without, TakenFrom::Reserve)]
    {
        match tier.reserve(&grant, from) {
            Err(Error::Full { .. }) => {}
            done => return done,
        }
    }
    Ok(())
}
