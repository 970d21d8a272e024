//! A copy of the store, made while it is in use.
//!
//! Table files and the engine's own files never change once they are written (INV-26), so the copy shares them: each gets
//! a second name in the copy's directory or, where that is impossible, is copied. The copy has a MANIFEST and an identity
//! of its own. A file says that it is no store until it is whole. It has no pool and no MemTables: it is on `Dram`, and its
//! first opening rebuilds the index from the files.
//!
//! What an engine keeps in no file, it writes into files of the copy. Files are held meanwhile: one that a compaction removes from the store stays in the directory until the copy is
//! made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_env::{DirectoryEntry, Env, Error, OpenMode, Result};
use slmdb_manifest::{Manifest, MediumKind, MediumRecord, StoreState};

use super::open::check_directory;
use super::{EngineKind, contents};
use crate::context::StoreContext;
use crate::files::catalog::Catalog;
use crate::files::file_names as names;
use crate::files::obsolete_files::ObsoleteFiles;
use crate::store::tier::Held;

/// How many bytes are copied at a time where files can't be shared.
const COPY_BYTES: usize = 1 << 20;

/// What a copy is made from.
pub struct StoreCopy<'a> {
    /// Its engine.
    pub kind: &'a EngineKind,
    /// The store.
    pub context: &'a StoreContext,
    /// Its MANIFEST.
    pub catalog: &'a Catalog,
    /// Its obsolete files.
    pub obsolete: &'a ObsoleteFiles,
}

impl StoreCopy<'_> {
    /// See [`crate::Engine::checkpoint`]. `flush` brings everything into table files. While the guard of `hold` lives,
    /// no file of the engine's own is made or removed. `is_complete`: whether all that was written up to a number is there, where
    /// flushes have come so far.
    pub fn make<'h>(
        &self,
        directory: &Path,
        flush: impl Fn() -> Result<()>,
        is_complete: impl Fn(u64) -> bool,
        hold: impl Fn() -> Box<dyn Held + 'h>,
    ) -> Result<()> {
        self.context.health.check_writable()?;
        let env = &self.context.env;
        check_directory(&**env, directory)?;
        if env.resolved(directory)?.starts_with(env.resolved(&self.context.directory)?) {
            let (copy, store) = (directory.display(), self.context.directory.display());
            return Err(Error::invalid(format!(
                "{copy} is inside the store itself, {store}: a copy is made beside it"
            )));
        }
        in_new_directory(&self.context.env, directory, |env, directory| {
            flush()?;
            let shared = self.share_files(&**env, directory, &flush, &is_complete, &hold);
            // Files that were held meanwhile.
            self.obsolete.remove_unpinned();
            let mut state = shared?;
            env.sync_directory(directory)?;

            // An opening for reading only does not make it.
            env.open_file(&directory.join(names::LOCK), OpenMode::CreateOrTruncate)?;
            env.random_bytes(&mut state.uuid);
            as_closed_on_dram(&mut state, env.boot_id());
            Manifest::create(&**env, directory, &state)?;
            Ok(())
        })
    }

    /// Shares the files of this moment with the copy. Returns the state of that moment.
    /// LOCKS: those of `hold`, catalog; those of `flush`
    fn share_files<'h>(
        &self,
        env: &dyn Env,
        directory: &Path,
        flush: &impl Fn() -> Result<()>,
        is_complete: &impl Fn(u64) -> bool,
        hold: &impl Fn() -> Box<dyn Held + 'h>,
    ) -> Result<StoreState> {
        let _held = self.obsolete.hold();
        let (own, mut state) = loop {
            let own = hold();
            let state = self.catalog.lock().state().clone();
            let is_whole = is_complete(state.flushed_through);
            if is_whole && own.holds(&state) {
                break (own, state);
            }
            drop(own);
            if !is_whole {
                flush()?;
            }
        };
        let tables = state.files.keys().map(|&number| names::table(&self.context.directory, number));
        let own_files = (self.kind.own_files)(&state)?.into_iter().map(|(name, _)| self.context.directory.join(name));
        tables.chain(own_files).try_for_each(|from| share(env, &from, directory))?;
        own.write_into(env, directory, &mut state)?;
        Ok(state)
    }
}

/// Makes a copy of a store in `directory`, which must be new or empty, or hold the rest of a copy that was cut short. What is
/// there is a store once this returns: until then a file says that it is none. If `make` fails, what it made is removed.
pub fn in_new_directory(
    env: &Arc<dyn Env>,
    directory: &Path,
    make: impl FnOnce(&Arc<dyn Env>, &Path) -> Result<()>,
) -> Result<()> {
    check_directory(&**env, directory)?;
    let directory = env.absolute(directory)?;
    contents::check_outside_stores(&**env, &directory, "the copy")?;
    let is_new = env.is_directory(&directory)?.is_none();
    env.create_directory(&directory)?;
    directory.parent().map_or(Ok(()), |parent| env.sync_directory(parent))?;
    let env = env.hold_directory(&directory)?;
    let marker = directory.join(names::UNFINISHED_COPY);
    let finish = || env.remove_file(&marker).and_then(|()| env.sync_directory(&directory));
    clear(&*env, &directory)?;
    env.open_file(&marker, OpenMode::CreateOrTruncate)?;
    env.sync_directory(&directory)?;
    let made = make(&env, &directory).and_then(|()| env.sync_directory(&directory));
    made.and_then(|()| finish()).inspect_err(|_| {
        // What can't be removed, another copy or a destruction removes.
        let cleared = clear(&*env, &directory).and_then(|()| finish());
        if is_new && cleared.is_ok() {
            let _ = env.remove_directory(&directory);
        }
    })
}

/// Removes what is there of a copy that was cut short, durably, but for the file that says so. [`Error::Invalid`] if there is anything
/// else.
fn clear(env: &dyn Env, directory: &Path) -> Result<()> {
    let entries = env.list_directory(directory)?;
    let is_unfinished = entries.iter().any(|entry| entry.name == names::UNFINISHED_COPY);
    let is_expected = |entry: &DirectoryEntry| contents::is_nobodys(entry) || is_unfinished && contents::is_own(entry);
    let other = entries.iter().find(|entry| !is_expected(entry));
    if let Some(other) = other {
        let (directory, name) = (directory.display(), &other.name);
        return Err(Error::invalid(format!(
            "{directory} is not empty: it holds {name}; a copy of a store needs a directory of its own"
        )));
    }
    let rest = entries.iter().filter(|entry| contents::is_own(entry) && entry.name != names::UNFINISHED_COPY);
    rest.into_iter().try_for_each(|entry| env.remove_file(&directory.join(&entry.name)))?;
    env.sync_directory(directory)
}

/// Makes a state the copy's: everything is in table files, and there is no pool.
fn as_closed_on_dram(state: &mut StoreState, boot_id: [u8; 16]) {
    state.medium = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id };
    state.home = None;
    state.arenas = BTreeMap::new();
    state.closed_at_sequence = Some(state.flushed_through);
}

/// Gives a file a second name in `directory`, or copies it there, durably.
fn share(env: &dyn Env, from: &Path, directory: &Path) -> Result<()> {
    let to: PathBuf = from.file_name().map_or_else(|| directory.into(), |name| directory.join(name));
    if env.link_file(from, &to)? {
        return Ok(());
    }
    let (source, copy) = (env.open_file(from, OpenMode::Read)?, env.open_file(&to, OpenMode::CreateNew)?);
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    loop {
        let read = source.read_at(&mut buffer, offset)?;
        if read == 0 {
            return copy.sync_data();
        }
        copy.write_at(&buffer[..read], offset)?;
        offset += read as u64;
    }
}
