//! [`RecoveredLog`]: the MemTables that recovery has found in the arenas, and how a process takes the store over.
//!
//! [Replaying](RecoveredLog::replay) changes nothing. [Taking over](RecoveredLog::take_over) makes a new arena for
//! new writes. What was recovered is made durable and sealed, or moved into the new arena if it is small. Then one
//! rename of the MANIFEST says so. Only after that are leftovers removed that the old MANIFEST may need, and only
//! then are writes taken. So a crash before the rename is recovered as the first one was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use slmdb_env::{Error, Result};
use slmdb_manifest::{ArenaRecord, Manifest, StoreState};
use slmdb_pmem::{AnyMedium, Arena};
use slmdb_structures::log::Log;
use slmdb_structures::memtable::{MemTable, MemTableOptions};

use super::replay::{check_strays, replay_log};
use crate::Options;
use crate::batch::Totals;
use crate::directory::EngineKind;
use crate::files::catalog::CatalogState;
use crate::files::file_names as names;
use crate::files::file_names::FileKind;
use crate::space::allowance::table_bytes;
use crate::space::reserve::Reserve;
use crate::space::reserved_file::{ReservedFile, remove_leftovers as remove_space};
use crate::write::arena_kind;
use crate::write::arenas::Arenas;
use crate::write::expected_prefix::expected_prefix;
use crate::write::memtables::{Filling, Immutable};

/// Recovered MemTables that together take no more than this part of an arena move into the new arena, so that many
/// short openings don't leave many small table files.
const COPY_UP_TO_PART: u64 = 4;

/// What recovery has found in the arenas.
pub struct RecoveredLog {
    /// The options that the store was opened with.
    pub options: Options,
    /// Its directory, as an absolute path.
    pub directory: PathBuf,
    /// Its arenas.
    pub arenas: Arenas,
    /// Its MANIFEST.
    pub catalog: CatalogState,
    /// The MemTable that takes new writes. `None` if the store is read-only, or there was no space for one.
    pub active: Option<Filling>,
    /// The first sequence number that the active MemTable has or would get.
    pub active_from: u64,
    /// The recovered MemTables, oldest first.
    pub memtables: Vec<Immutable>,
    /// The disk space that leads out of a full disk.
    pub reserve: Reserve,
    /// The last sequence number of the log.
    pub last_sequence: u64,
    /// Bytes that recovery has written to files.
    pub file_bytes_written: u64,
}

impl RecoveredLog {
    /// Replays the MemTables from their arenas, in the order of their generations, without a gap in sequence numbers
    /// (INV-3).
    pub fn replay(options: Options, directory: &Path, state: StoreState, arenas: Arenas) -> Result<Box<RecoveredLog>> {
        let log = replay_log(&options, &state, &arenas)?;
        check_strays(&state, &arenas, log.last_sequence)?;
        let reserve = Reserve::new(&options, directory);
        Ok(Box::new(RecoveredLog {
            options,
            directory: directory.into(),
            arenas,
            catalog: CatalogState::ReadOnly(state),
            active: None,
            active_from: log.last_sequence + 1,
            memtables: log.memtables,
            reserve,
            last_sequence: log.last_sequence,
            file_bytes_written: 0,
        }))
    }

    /// Takes the store over for new writes. `provide`: the engine sets its own reserves, and sets aside what the
    /// flushes of the recovered MemTables will need of the pool.
    pub fn take_over(&mut self, provide: impl FnOnce(&RecoveredLog) -> Result<()>) -> Result<()> {
        let mut state = self.catalog.state().clone();
        // An opening that ended before it wrote the MANIFEST may have used a generation already (INV-3).
        let stray = self.arenas.present()?.into_iter().max().unwrap_or(0);
        let generation = state.next_generation.max(stray.saturating_add(1));
        let Some(next_generation) = generation.checked_add(1) else {
            let what = "an arena with the last generation there can be";
            return Err(Error::corruption(self.arenas.describe(stray), 0, what));
        };
        // Copied or not: a later recovery must not find a shorter log than the one that this one has copied.
        for immutable in &self.memtables {
            self.arenas.make_durable(&immutable.memtable)?;
        }
        // Leftovers are removed first: on a full disk that may be the space that is needed.
        self.discard_unnamed_arenas(&state)?;
        self.remove_unnamed_tables()?;
        remove_space(&*self.options.env, &self.directory)?;
        // The reserves come before the arena, too.
        provide(self)?;
        self.set_aside_for_memtables()?;
        // A store among many has no MemTable before it is written to.
        let has_none_yet = self.options.shared.is_some() && self.memtables.is_empty();
        if has_none_yet {
            self.reserve.expect_only(0);
        }
        match self.reserve.fill() {
            Ok(()) | Err(Error::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        state.closed_at_sequence = None;
        state.medium.boot_id = self.options.env.boot_id();
        if has_none_yet {
            state.arenas = BTreeMap::new();
            match self.write_manifest(&state) {
                Err(Error::Full { .. }) => {}
                done => return done,
            }
        }
        let kind = arena_kind::at_first(self.options.syncs_writes);
        match self.arenas.make(generation, self.options.memtable_bytes, kind) {
            Ok(arena) => {
                let with_arena = StoreState { next_generation, ..state.clone() };
                match self.continue_in(arena, generation, with_arena) {
                    // The arena may have taken what the MANIFEST needs.
                    Err(Error::Full { .. }) => self.arenas.discard(generation)?,
                    done => return done,
                }
            }
            Err(Error::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        // Writes are refused until flushes of what was recovered, or others, have made space. The MANIFEST may need the
        // reserve's space. The MemTable preparer tries again.
        self.reserve.discard()?;
        state.arenas = self.sealed(&state);
        self.write_manifest(&state).map_err(|error| match error {
            Error::Full { path, what } => {
                Error::Full { path, what: format!("{what}; an opening for reading alone needs no space") }
            }
            error => error,
        })
    }

    /// Sets aside disk space for the table files of the recovered MemTables, as far as there is any.
    fn set_aside_for_memtables(&mut self) -> Result<()> {
        let (env, directory, options) = (&*self.options.env, &self.directory, &self.options);
        for Immutable { memtable, totals, space, .. } in &mut self.memtables {
            let space_bytes = table_bytes(options, totals);
            *space = ReservedFile::set_aside(env, directory, memtable.generation(), space_bytes)?;
        }
        Ok(())
    }

    /// Goes on in a new arena, into which recovered MemTables move if they are small.
    fn continue_in(&mut self, arena: Arena<AnyMedium>, generation: u64, mut state: StoreState) -> Result<()> {
        let newest_first = self.memtables.iter().rev().map(|immutable| &immutable.memtable);
        let expected_prefix = expected_prefix(newest_first, &state.files);
        let options = MemTableOptions { expected_prefix, ..self.options.memtable(self.arenas.are_in_pool()) };
        let recovered: Vec<&Log<_>> = self.memtables.iter().map(|immutable| &**immutable.memtable).collect();
        let copied_bytes: u64 = recovered.iter().map(|log| log.copied_bytes(options.links.form())).sum();
        let is_copied = copied_bytes <= self.options.memtable_bytes / COPY_UP_TO_PART
            && !recovered.iter().any(|log| log.begins_within_a_record());
        let copied = if is_copied { &recovered[..] } else { &[] };
        let active = MemTable::copied_from(arena, generation, state.uuid, &options, copied)?;
        // Its header, and what was copied.
        active.sync()?;
        state.arenas = if is_copied { BTreeMap::new() } else { self.sealed(&state) };
        let length_bytes = active.capacity_bytes();
        state.arenas.insert(generation, ArenaRecord { sealed_last_sequence: None, length_bytes });
        self.write_manifest(&state)?;
        let (mut totals, mut space) = (Totals::default(), None);
        if is_copied && !self.memtables.is_empty() {
            let env = &*self.options.env;
            self.active_from = state.flushed_through + 1;
            for immutable in self.memtables.drain(..) {
                totals = totals.plus(&immutable.totals);
                immutable.space.map_or(Ok(()), |space| space.discard(env))?;
            }
            space = ReservedFile::set_aside(env, &self.directory, generation, table_bytes(&self.options, &totals))?;
        }
        self.active = Some(Filling::new(active, totals, space));
        Ok(())
    }

    /// What the MemTables may have that are not flushed, by generation.
    pub fn granted(&self) -> Vec<(u64, Totals)> {
        let recovered = self.memtables.iter().map(|immutable| (immutable.memtable.generation(), immutable.totals));
        recovered.chain(self.active.iter().map(|active| (active.memtable.generation(), active.totals))).collect()
    }

    /// The records of the recovered arenas, each with its last sequence number.
    fn sealed(&self, state: &StoreState) -> BTreeMap<u64, ArenaRecord> {
        let seal = |immutable: &Immutable| {
            let generation = immutable.memtable.generation();
            let length_bytes = state.arenas.get(&generation).map_or(0, |record| record.length_bytes);
            (generation, ArenaRecord { sealed_last_sequence: Some(immutable.last_sequence), length_bytes })
        };
        self.memtables.iter().map(seal).collect()
    }

    /// Writes the MANIFEST anew. After [`Error::Full`] nothing has changed.
    fn write_manifest(&mut self, state: &StoreState) -> Result<()> {
        let manifest = Manifest::rewrite(&*self.options.env, &self.directory, state)?;
        self.file_bytes_written += manifest.length_bytes();
        self.catalog = CatalogState::Manifest(manifest);
        Ok(())
    }

    /// Removes what the new MANIFEST no longer names: arenas that were copied, and the engine's own files, as damaged index
    /// checkpoints are, or what a crash has left of a hash table.
    pub fn remove_leftovers(&self, engine: &EngineKind) -> Result<()> {
        let state = self.catalog.state();
        self.discard_unnamed_arenas(state)?;
        let own = (engine.own_files)(state)?;
        let is_own = |name: &str| matches!(names::kind(name), FileKind::Checkpoint(_) | FileKind::HashTable(_));
        self.remove_files(|name| is_own(name) && own.iter().all(|(own, _)| own != name))
    }

    /// Removes the arenas that the state does not name.
    fn discard_unnamed_arenas(&self, state: &StoreState) -> Result<()> {
        let present = self.arenas.present()?;
        let leftovers = present.into_iter().filter(|generation| !state.arenas.contains_key(generation));
        leftovers.into_iter().try_for_each(|generation| self.arenas.discard(generation))
    }

    /// Removes an image of the index, an unfinished MANIFEST, and table files that the state does not name. Such table files
    /// are outputs of dropped jobs, or a compaction had retired them. The MANIFEST that is still in place does not name
    /// them either, because jobs that were carried to their end only add files.
    fn remove_unnamed_tables(&self) -> Result<()> {
        let state = self.catalog.state();
        self.remove_files(|name| match names::kind(name) {
            FileKind::Table(number) => !state.files.contains_key(&number),
            // What an image of the index says is in memory by now, and the index is about to change.
            _ => [slmdb_manifest::TEMPORARY_FILE_NAME, names::INDEX_IMAGE].contains(&name),
        })
    }

    fn remove_files(&self, is_leftover: impl Fn(&str) -> bool) -> Result<()> {
        let env = &self.options.env;
        let entries = env.list_directory(&self.directory)?.into_iter();
        let mut leftovers = entries.map(|entry| entry.name).filter(|name| is_leftover(name));
        leftovers.try_for_each(|name| env.remove_file(&self.directory.join(name)))
    }
}
