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

use slmdb_env::{Env, Error, OpenMode, Result};
use slmdb_manifest::{Manifest, MediumKind, MediumRecord, StoreState};

use super::open::check_directory;
use crate::context::StoreContext;
use crate::files::catalog::Catalog;
use crate::files::file_names as names;
use crate::files::obsolete_files::ObsoleteFiles;

/// How much is copied at a time where files can't be shared, in bytes.
const COPY_BYTES: usize = 1 << 20;

/// What a copy is made of.
pub struct StoreCopy<'a> {
    /// The store.
    pub context: &'a StoreContext,
    /// Its MANIFEST.
    pub catalog: &'a Catalog,
    /// Its obsolete files.
    pub obsolete: &'a ObsoleteFiles,
}

impl StoreCopy<'_> {
    /// See [`crate::Engine::checkpoint`]. `flush` brings all into table files; as long as what `hold` returns is held, no index
    /// checkpoint comes or goes.
    pub fn make<H>(&self, directory: &Path, flush: impl FnOnce() -> Result<()>, hold: impl Fn() -> H) -> Result<()> {
        if self.context.options.read_only {
            return Err(Error::ReadOnly { cause: "it was opened for reading alone".into() });
        }
        let env = &*self.context.env;
        check_directory(env, directory)?;
        if env.resolved(directory)?.starts_with(env.resolved(&self.context.directory)?) {
            let (copy, store) = (directory.display(), self.context.directory.display());
            return Err(Error::invalid(format!(
                "{copy} is inside the store itself, {store}: a copy is made beside it"
            )));
        }
        flush()?;
        let directory = env.absolute(directory)?;
        prepare(env, &directory)?;

        let shared = self.share_files(&directory, hold);
        // What was held meanwhile.
        self.obsolete.remove_unpinned();
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
    fn share_files<H>(&self, directory: &Path, hold: impl Fn() -> H) -> Result<StoreState> {
        let _held = self.obsolete.hold();
        let _checkpoints = hold();
        let state = self.catalog.lock().state().clone();
        let tables = state.files.keys().map(|&number| names::table(&self.context.directory, number));
        let checkpoints =
            state.checkpoints.iter().map(|record| names::checkpoint(&self.context.directory, record.number));
        tables.chain(checkpoints).try_for_each(|from| share(&*self.context.env, &from, directory))?;
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
