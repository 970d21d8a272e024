//! A copy of the store, made while it is in use.
//!
//! Table files and index checkpoints never change once they are written, so the copy shares them: each gets a second
//! name in the copy's directory, or, where that can't be, is copied. What the copy has of its own is a MANIFEST with an
//! identity of its own, written last: a copy that was cut short is no store. It has no pool and no MemTables. It is on
//! `Dram`, and its first opening rebuilds the index from the files.
//!
//! Files are held meanwhile: a compaction may take one out of the store, but it stays in the directory until the copy is
//! made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use slmdb_engine::directory::open::check_directory;
use slmdb_engine::files::file_names as names;
use slmdb_env::{Env, Error, OpenMode, Result};
use slmdb_manifest::{Manifest, MediumKind, MediumRecord, StoreState};
use slmdb_pmem::Medium;

use crate::index::retired::Retired;
use crate::store::Store;

/// How much is copied at a time where files can't be shared, in bytes.
const COPY_BYTES: usize = 1 << 20;

impl<M: Medium + Clone> Store<M> {
    /// See [`slmdb_engine::Engine::checkpoint`].
    pub(crate) fn copy_to(&self, directory: &Path) -> Result<()> {
        if self.options.read_only {
            return Err(Error::ReadOnly { cause: "it was opened for reading alone".into() });
        }
        let env = &*self.env;
        check_directory(env, directory)?;
        if env.resolved(directory)?.starts_with(env.resolved(&self.directory)?) {
            let (copy, store) = (directory.display(), self.directory.display());
            return Err(Error::invalid(format!(
                "{copy} is inside the store itself, {store}: a copy is made beside it"
            )));
        }
        self.writes.flush()?;
        let directory = env.absolute(directory)?;
        prepare(env, &directory)?;

        let shared = self.share_files(&directory);
        // What was held meanwhile.
        self.sweep_retired();
        let mut state = shared?;
        env.sync_directory(&directory)?;

        // Opening for reading alone makes none.
        env.open_file(&directory.join(names::LOCK), OpenMode::CreateOrTruncate)?;
        env.random_bytes(&mut state.uuid);
        as_closed_on_dram(&mut state, env.boot_id());
        Manifest::create(env, &directory, &state)?;
        env.sync_directory(&directory)
    }

    /// Shares the files of this moment with the copy; says what the store was at that moment.
    fn share_files(&self, directory: &Path) -> Result<StoreState> {
        let _held = Hold::new(&self.retired);
        // No index checkpoint comes or goes meanwhile.
        let _taking = self.checkpoints.hold();
        let state = self.catalog.lock().state().clone();
        let tables = state.files.keys().map(|&number| names::table(&self.directory, number));
        let checkpoints = state.checkpoints.iter().map(|record| names::checkpoint(&self.directory, record.number));
        tables.chain(checkpoints).try_for_each(|from| share(&*self.env, &from, directory))?;
        Ok(state)
    }
}

/// What the MANIFEST of a copy says: everything is in table files, and there is no pool.
fn as_closed_on_dram(state: &mut StoreState, boot_id: [u8; 16]) {
    state.medium = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id };
    state.arenas = BTreeMap::new();
    state.closed_at_sequence = Some(state.flushed_through);
}

/// Makes the copy's directory, which must be new or empty.
fn prepare(env: &dyn Env, directory: &Path) -> Result<()> {
    if env.exists(directory)? && !env.list_directory(directory)?.is_empty() {
        let what = format!("{} is not empty: a copy of a store needs a directory of its own", directory.display());
        return Err(Error::invalid(what));
    }
    env.create_directory(directory)?;
    directory.parent().map_or(Ok(()), |parent| env.sync_directory(parent))
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

/// As long as there is one, no retired file leaves the directory.
struct Hold<'a>(&'a Retired);

impl<'a> Hold<'a> {
    fn new(retired: &'a Retired) -> Hold<'a> {
        // Whoever chooses files to be removed has done so when this lock is had; the MANIFEST names none of them any more.
        let _sweep = retired.waiting.lock();
        retired.holds.fetch_add(1, Ordering::SeqCst);
        Hold(retired)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::SeqCst);
    }
}
