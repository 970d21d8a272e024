//! Recovery: from what a kill, a power cut or a clean close left, to the store as it was (paper, section 5;
//! `docs/internals/recovery.md`).
//!
//! 1. On persistent media, jobs that were *indexing* or *repointing* are carried to their end, because their files and
//!    key segments are durable. Jobs that were *building* are dropped, because their MemTables are still there. Then
//!    the index must have as many keys as the MANIFEST has live entries.
//! 2. On `Dram` the index is rebuilt from an index checkpoint and the key sections of the table files
//!    ([`rebuild`](super::rebuild)).
//! 3. The MemTables are replayed from their arenas, in the order of their generations, without a gap in sequence
//!    numbers (INV-3; [`replay`](slmdb_engine::write::replay)).
//! 4. One rename of the MANIFEST makes what was found durable. Only then is anything removed, and only then are writes
//!    taken.
//!
//! Until step 4 nothing on the slow tier changes, and what changes in the pool may be done again. So a crash in
//! recovery is recovered the same way. Opened read-only, step 4 is left out and everything stays in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::batch::Totals;
use slmdb_engine::files::catalog::CatalogState;
use slmdb_engine::files::file_names as names;
use slmdb_engine::files::file_names::FileKind;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::space::admission::table_bytes;
use slmdb_engine::space::reserve::Reserve;
use slmdb_engine::space::reserved_file::{ReservedFile, remove_leftovers as remove_space};
use slmdb_engine::write::arena_kind;
use slmdb_engine::write::arenas::Arenas;
use slmdb_engine::write::memtables::{Filling, Immutable};
use slmdb_engine::write::replay::{check_strays, replay_log};
use slmdb_env::{Error, Lock, Result};
use slmdb_manifest::{ArenaRecord, Edit, Manifest, StoreState};
use slmdb_pmem::{Arena, ExtentKind, Medium, Pool};
use slmdb_structures::fast_fair::{Segment, SegmentSize, Tree, key_lengths_in_segments};
use slmdb_structures::memtable::MemTable;
use tracing::field::Empty;
use tracing::info_span;

use crate::compaction::repointing::{add_output, repoint_to};
use crate::index::compaction_log::{CompactionLog, Phase, Slot};
use crate::index::insertion::insert_segment;
use crate::index::key_segments::{file_record, numbered};
use crate::space::pool_reserve::PoolReserve;

/// Recovered MemTables that together take no more than this part of an arena move into the new arena, so that many
/// short openings don't leave many small table files.
const COPY_UP_TO_PART: u64 = 4;

/// The opened fast tier.
pub(crate) struct OpenPool<M: Medium> {
    pub(crate) pool: Arc<Pool<M>>,
    pub(crate) tree: Tree<M>,
}

/// A store as recovery has found or made it.
pub(crate) struct RecoveredStore<M: Medium> {
    pub(crate) options: Options,
    pub(crate) directory: PathBuf,
    pub(crate) pool: Arc<Pool<M>>,
    pub(crate) tree: Tree<M>,
    pub(crate) jobs: CompactionLog,
    pub(crate) arenas: Arenas<M>,
    pub(crate) tables: Tables,
    pub(crate) catalog: CatalogState,
    pub(crate) active: Option<Filling<M>>,
    pub(crate) active_from: u64,
    /// Recovered MemTables, oldest first.
    pub(crate) recovered: Vec<Immutable<M>>,
    pub(crate) reserve: Reserve,
    pub(crate) pool_reserve: PoolReserve,
    pub(crate) last_sequence: u64,
    pub(crate) file_bytes_written: u64,
    pub(crate) lock: Option<Box<dyn Lock>>,
}

/// Restores a store from its MANIFEST `state`, its files and its pool.
pub(crate) fn recover<M: Medium + Clone>(
    options: &Options,
    directory: &Path,
    mut state: StoreState,
    fast: OpenPool<M>,
    lock: Option<Box<dyn Lock>>,
) -> Result<RecoveredStore<M>> {
    let OpenPool { pool, tree } = fast;
    // Steps 1 and 2: the index.
    let tables = Tables::new(options, directory.into(), state.files_uuid);
    tables.set_table_bytes(state.files.values().map(|file| file.length_bytes).sum());
    let (env, options) = (tables.env(), &Options { env: tables.env(), ..options.clone() });
    let arenas = Arenas::new(&pool, env.clone(), directory, options.memtable_bytes);
    let jobs = CompactionLog::default();

    let finished_jobs = if M::PERSISTENT {
        let finish = || finish_jobs(&mut state, &pool, &tree, &jobs, &tables);
        let finished = timed(&*env, info_span!("finish_jobs", ms = Empty), finish)?;
        timed(&*env, info_span!("count_keys", ms = Empty), || check_count(&state, &pool, &tree))?;
        finished
    } else {
        // The index was made from the files just now.
        Vec::new()
    };
    // Step 3: the MemTables.
    let span = info_span!("replay_log", arenas = state.arenas.len(), ms = Empty);
    let log = timed(&*env, span, || replay_log(options, &state, &arenas))?;
    check_strays(options, &state, &arenas, log.last_sequence)?;

    // Without those of a dropped job: their headers may never have been written.
    let pool_reserve = PoolReserve::new(key_lengths_in_segments(&pool, |file| state.files.contains_key(&file)));
    let mut parts = RecoveredStore {
        options: options.clone(),
        directory: directory.into(),
        pool,
        tree,
        jobs,
        arenas,
        tables,
        catalog: CatalogState::ReadOnly(state),
        active: None,
        active_from: log.last_sequence + 1,
        recovered: log.memtables,
        reserve: Reserve::new(options, directory),
        pool_reserve,
        last_sequence: log.last_sequence,
        file_bytes_written: 0,
        lock,
    };
    // Step 4: make it durable, then remove the rest.
    if !options.read_only {
        let span = info_span!("take_over", memtables = parts.recovered.len(), ms = Empty);
        timed(&*env, span, || take_over(&mut parts))?;
        for slot in finished_jobs {
            parts.jobs.clear(&parts.pool, slot)?;
        }
        remove_leftovers(&parts)?;
    }
    let state = parts.catalog.state();
    tracing::info!(table_files = state.files.len(), last_sequence_number = parts.last_sequence, "recovered");
    Ok(parts)
}

/// Step 1. Returns the slots to clear once the MANIFEST has what they said.
fn finish_jobs<M: Medium + Clone>(
    state: &mut StoreState,
    pool: &Arc<Pool<M>>,
    tree: &Tree<M>,
    jobs: &CompactionLog,
    tables: &Tables,
) -> Result<Vec<Slot>> {
    let mut slots = Vec::new();
    for (job, slot) in jobs.left(pool)? {
        let committed = state.files.contains_key(&job.file);
        if !committed && job.phase == Phase::Repointing {
            let segment = Segment::of_file(pool, job.file)?;
            let reader = tables.reader(job.file)?;
            let moved = repoint_to(tree, pool, &segment)?;
            let mut edit = Edit::default();
            add_output(&mut edit, job.file, file_record(reader.properties(), reader.length_bytes()), &moved);
            apply(state, edit, pool)?;
        }
        if !committed && job.phase == Phase::Indexing {
            let segment = Segment::of_file(pool, job.file)?;
            let reader = tables.reader(job.file)?;
            let live_changes = insert_segment(tree, pool, &segment, |_, _, _| ())?;
            let record = file_record(reader.properties(), reader.length_bytes());
            let edit = Edit {
                files_added: vec![(job.file, record)],
                live_changes: live_changes.into_iter().collect(),
                arenas_removed: vec![job.generation],
                flushed_through: Some(job.last_sequence),
                ..Edit::default()
            };
            apply(state, edit, pool)?;
        }
        slots.push(slot);
    }
    Ok(slots)
}

/// Checks that the index has as many keys as the MANIFEST has live entries. If not, the index is not this store's,
/// whatever the pool says.
fn check_count<M: Medium + Clone>(state: &StoreState, pool: &Pool<M>, tree: &Tree<M>) -> Result<()> {
    let live: u64 = state.files.values().map(|file| file.live_keys).sum();
    let keys = tree.count()?;
    if keys == live {
        return Ok(());
    }
    let what = format!(
        "the index has {keys} keys, but {live} entries of table files are live by the MANIFEST; `slmdb repair` makes the index anew"
    );
    Err(Error::corruption(pool.path(), 0, what))
}

/// Applies to the state what a job that was carried to its end changes.
fn apply<M: Medium>(state: &mut StoreState, edit: Edit, pool: &Pool<M>) -> Result<()> {
    let edit = numbered(state, edit);
    let damaged = |what| Error::corruption(pool.path(), 0, format!("a job record does not fit the MANIFEST: {what}"));
    state.apply(&edit).map_err(damaged)
}

/// Step 4: makes a new arena for new writes. What was recovered is made durable and sealed, or moved into that arena;
/// then one MANIFEST says so.
fn take_over<M: Medium + Clone>(parts: &mut RecoveredStore<M>) -> Result<()> {
    let mut state = parts.catalog.state().clone();
    // An opening that ended before it wrote the MANIFEST may have used a generation already (INV-3).
    let stray = parts.arenas.present()?.into_iter().max().unwrap_or(0);
    let generation = state.next_generation.max(stray.saturating_add(1));
    let Some(next_generation) = generation.checked_add(1) else {
        return Err(Error::corruption(
            parts.arenas.describe(stray),
            0,
            "an arena with the last generation there can be",
        ));
    };
    // Copied or not: a later recovery must not find a shorter log than the one that this one has copied.
    for immutable in &parts.recovered {
        parts.arenas.make_durable(&immutable.memtable)?;
    }
    // Leftovers are removed first: on a full disk that may be the space that is needed.
    discard_all_but(parts, &state)?;
    remove_leftover_files(parts)?;
    remove_space(&*parts.options.env, &parts.directory)?;
    // The reserves come before the arena, too.
    parts.pool_reserve.set_files(&SegmentSize::of_files(&parts.pool), &state, &parts.reserve);
    parts.reserve_for_recovered()?;
    parts.set_aside_for_recovered()?;
    match parts.reserve.fill() {
        Ok(()) | Err(Error::Full { .. }) => {}
        Err(error) => return Err(error),
    }
    state.closed_at_sequence = None;
    state.medium.boot_id = parts.options.env.boot_id();
    let kind = arena_kind::at_first(parts.options.syncs_writes);
    match parts.arenas.make(generation, parts.options.memtable_bytes, kind) {
        Ok(arena) => {
            let with_arena = StoreState { next_generation, ..state.clone() };
            match take_over_in(parts, arena, generation, with_arena) {
                // The arena may have taken what the MANIFEST needs.
                Err(Error::Full { .. }) => parts.arenas.discard(generation)?,
                done => return done,
            }
        }
        Err(Error::Full { .. }) => {}
        Err(error) => return Err(error),
    }
    // Writes are refused until flushes of what was recovered, or others, have made space. The MANIFEST may need the
    // reserve's space. The MemTable preparer tries again.
    parts.reserve.discard()?;
    state.arenas = sealed(parts, &state);
    write_manifest(parts, &state).map_err(|error| match error {
        Error::Full { path, what } => {
            Error::Full { path, what: format!("{what}; an opening for reading alone needs no space") }
        }
        error => error,
    })
}

/// Goes on in a new arena, into which recovered MemTables move if they are small.
fn take_over_in<M: Medium + Clone>(
    parts: &mut RecoveredStore<M>,
    arena: Arena<M>,
    generation: u64,
    mut state: StoreState,
) -> Result<()> {
    let options = parts.options.memtable::<M>();
    let recovered: Vec<_> = parts.recovered.iter().map(|immutable| &*immutable.memtable).collect();
    let copied_bytes: u64 = recovered.iter().map(|memtable| memtable.copied_bytes(options.links)).sum();
    let is_copied = copied_bytes <= parts.options.memtable_bytes / COPY_UP_TO_PART;
    let copied = if is_copied { &recovered[..] } else { &[] };
    let active = MemTable::copied_from(arena, generation, state.uuid, &options, copied)?;
    // Its header, and what was copied.
    active.sync()?;
    state.arenas = if is_copied { BTreeMap::new() } else { sealed(parts, &state) };
    let length_bytes = active.capacity_bytes();
    state.arenas.insert(generation, ArenaRecord { sealed_last_sequence: None, length_bytes });
    write_manifest(parts, &state)?;
    let (mut totals, mut space) = (Totals::default(), None);
    if is_copied && !parts.recovered.is_empty() {
        let env = &*parts.options.env;
        parts.active_from = state.flushed_through + 1;
        for immutable in parts.recovered.drain(..) {
            totals = totals.plus(&immutable.totals);
            immutable.space.map_or(Ok(()), |space| space.discard(env))?;
        }
        space = ReservedFile::if_there_is(env, &parts.directory, generation, table_bytes(&parts.options, &totals))?;
    }
    parts.active = Some(Filling::new(active, totals, space));
    Ok(())
}

/// The records of the recovered arenas, each with its last sequence number.
fn sealed<M: Medium>(parts: &RecoveredStore<M>, state: &StoreState) -> BTreeMap<u64, ArenaRecord> {
    let seal = |immutable: &Immutable<M>| {
        let generation = immutable.memtable.generation();
        let length_bytes = state.arenas.get(&generation).map_or(0, |record| record.length_bytes);
        (generation, ArenaRecord { sealed_last_sequence: Some(immutable.last_sequence), length_bytes })
    };
    parts.recovered.iter().map(seal).collect()
}

/// Writes the MANIFEST anew. After [`Error::Full`] nothing has changed.
fn write_manifest<M: Medium>(parts: &mut RecoveredStore<M>, state: &StoreState) -> Result<()> {
    let manifest = Manifest::rewrite(&*parts.options.env, &parts.directory, state)?;
    parts.file_bytes_written += manifest.length_bytes();
    parts.catalog = CatalogState::Manifest(manifest);
    Ok(())
}

/// Removes the arenas that the state does not name.
fn discard_all_but<M: Medium + Clone>(parts: &RecoveredStore<M>, state: &StoreState) -> Result<()> {
    let present = parts.arenas.present()?;
    let leftovers = present.into_iter().filter(|generation| !state.arenas.contains_key(generation));
    leftovers.into_iter().try_for_each(|generation| parts.arenas.discard(generation))
}

fn remove_files<M: Medium>(parts: &RecoveredStore<M>, is_leftover: impl Fn(&str) -> bool) -> Result<()> {
    let env = &parts.options.env;
    let entries = env.list_directory(&parts.directory)?.into_iter();
    let mut leftovers = entries.map(|entry| entry.name).filter(|name| is_leftover(name));
    leftovers.try_for_each(|name| env.remove_file(&parts.directory.join(name)))
}

/// Removes table files that the state does not name (outputs of dropped jobs, and files that a compaction had retired),
/// and an unfinished MANIFEST. The MANIFEST that is still in place does not name them either, because jobs that were
/// carried to their end only add files.
fn remove_leftover_files<M: Medium + Clone>(parts: &RecoveredStore<M>) -> Result<()> {
    let state = parts.catalog.state();
    remove_files(parts, |name| match names::kind(name) {
        FileKind::Table(number) => !state.files.contains_key(&number),
        _ => name == slmdb_manifest::TEMPORARY_FILE_NAME,
    })
}

/// Removes what the new MANIFEST no longer names: arenas that were copied, damaged index checkpoints, key segments.
fn remove_leftovers<M: Medium + Clone>(parts: &RecoveredStore<M>) -> Result<()> {
    let state = parts.catalog.state();
    discard_all_but(parts, state)?;
    remove_files(parts, |name| match names::kind(name) {
        FileKind::Checkpoint(number) => state.checkpoints.iter().all(|checkpoint| checkpoint.number != number),
        _ => false,
    })?;
    for extent in parts.pool.extents() {
        if extent.kind == ExtentKind::KeySegment && !state.files.contains_key(&extent.owner) {
            parts.pool.free_extent(extent.offset)?;
        }
    }
    Ok(())
}
