//! Opening a directory: the lock, the MANIFEST, and whether all that the MANIFEST names is there.
//!
//! When a store is created, the MANIFEST comes first and the pool's header last. A store whose MANIFEST has never named
//! an arena is *virgin*, and its pool is made again, whatever is there of it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use slmdb_env::{DirectoryEntry, Env, Error, Lock, LockMode, Result};
use slmdb_manifest::{FILE_NAME as MANIFEST_NAME, Manifest, MediumKind, StoreState};

use super::{EngineKind, contents, home, pool_binding};
use crate::Options;
use crate::files::file_names as names;
use crate::files::file_names::FileKind;
use crate::files::table_cache::missing;

/// [`Error::Invalid`] if the first part of the path that exists, seen from its end, is no directory.
pub fn check_directory(env: &dyn Env, path: &Path) -> Result<()> {
    if path.as_os_str().is_empty() {
        return Err(Error::invalid("the path of a store is empty; name a directory"));
    }
    for above in env.absolute(path)?.ancestors() {
        match env.is_directory(above)? {
            Some(true) => break,
            Some(false) => return Err(Error::invalid(format!("{} is no directory", above.display()))),
            None => {}
        }
    }
    Ok(())
}

/// A directory that is locked, and the store in it.
pub struct Prepared {
    /// The options, with an environment that holds the directory, and that of the pool.
    pub options: Options,
    /// What the MANIFEST says.
    pub state: StoreState,
    /// The lock of the directory, and of the pool.
    pub lock: Option<Box<dyn Lock>>,
}

/// Takes the lock, makes the store if it is missing and wanted, and checks that it can be opened with these options.
pub fn prepare(engine: &EngineKind, options: &Options, directory: &Path) -> Result<Prepared> {
    if !options.env.exists(&directory.join(MANIFEST_NAME))? {
        check_place(options, directory)?;
        contents::check_outside_stores(&*options.env, directory, "the new store")?;
        pool_binding::check_new(engine, options)?;
        make_directory(&*options.env, directory)?;
    }
    let mut options = options.holding(directory)?;
    let mode = if options.read_only { LockMode::Shared } else { LockMode::Exclusive };
    let lock = options.env.lock(&directory.join(names::LOCK), mode)?;
    // Another process may have made or destroyed a store meanwhile.
    let is_new = !options.env.exists(&directory.join(MANIFEST_NAME))?;
    if is_new {
        check_place(&options, directory)?;
        create_manifest(engine, &options, directory)?;
    } else if options.error_if_exists {
        return Err(Error::invalid(format!("there is a store in {} already", directory.display())));
    }
    let reading = Manifest::read(&*options.env, directory)?;
    let mut state = reading.state.clone();
    check_names(engine, &options, &state, directory)?;
    pool_binding::check_not_in_repair(&state)?;
    home::check_own_pool(&options, directory, &state)?;
    pool_binding::bind(engine, &mut options, &mut state)?;
    let openings = state.home.map_or(0, |home| home.pool_openings);
    home::set_home(&*options.env, directory, &mut state, openings)?;
    // A killed process may not have made the MANIFEST or its name durable. But recovery removes what it does not name, and a
    // pool made for a store that has none would belong to no store. On a full disk, where removing frees space, it is synced
    // in place.
    let make_durable = || match Manifest::rewrite(&*options.env, directory, &reading.state) {
        Err(Error::Full { .. }) => Manifest::make_durable(&*options.env, directory, &reading),
        rewritten => rewritten.map(drop),
    };
    // The lock of a pool that is not there yet makes its file.
    let makes_pool = pool_binding::is_virgin(&state);
    let may_be_left = !is_new && !options.read_only;
    if makes_pool && may_be_left {
        make_durable()?;
    }
    let pool_lock = home::lock_pool(&options, &state)?;
    let has_strays = check_files(&options, directory, &state)?;
    // The record of a clean close may not be durable, either. It gives up nothing but arenas.
    let is_closed = state.closed_at_sequence.is_some();
    let gives_nothing_up = is_closed && state.medium.kind == MediumKind::Dram && !has_strays;
    if !makes_pool && may_be_left && !gives_nothing_up {
        make_durable()?;
    }
    let locks: Vec<_> = std::iter::once(lock).chain(pool_lock).collect();
    Ok(Prepared { options, state, lock: Some(Box::new(locks)) })
}

/// Checks that a store is wanted where there is none, and can be made there.
fn check_place(options: &Options, directory: &Path) -> Result<()> {
    check_empty(options, directory)?;
    if options.read_only || !options.create_if_missing {
        return Err(Error::invalid(format!("there is no store in {}", directory.display())));
    }
    Ok(())
}

/// Makes the directory and its missing ancestors; durable on return, before it has a MANIFEST. An existing directory
/// may come from an opening that was killed while it made the ancestors, so all of them are made durable.
fn make_directory(env: &dyn Env, directory: &Path) -> Result<()> {
    let mut above = directory.ancestors().skip(1).filter(|ancestor| !ancestor.as_os_str().is_empty());
    // The missing ancestors, and the one that they are made in.
    let mut changed = Vec::new();
    for ancestor in &mut above {
        changed.push(ancestor);
        if env.exists(ancestor)? {
            break;
        }
    }
    env.create_directory(directory)?;
    changed.into_iter().try_for_each(|ancestor| env.sync_directory(ancestor))?;
    // Those further above may be of any owner, and are durable unless they were made just now, too.
    above.for_each(|ancestor| drop(env.sync_directory(ancestor)));
    Ok(())
}

/// Fails if anything is in the directory of a store without a MANIFEST: table files and arenas of one that has lost it, the rest
/// of a copy or of a destruction that was cut short, or what is no store's.
fn check_empty(options: &Options, directory: &Path) -> Result<()> {
    let env = &*options.env;
    if !env.exists(directory)? {
        return Ok(());
    }
    let entries = env.list_directory(directory)?;
    if entries.iter().any(|entry| entry.name == names::DESTROYED) {
        let what = format!("the store in {} was being destroyed; destroy it again, to the end", directory.display());
        return Err(Error::invalid(what));
    }
    check_no_copy(options, &entries, directory)?;
    let is_remains = |entry: &&DirectoryEntry| {
        !entry.is_directory && matches!(names::kind(&entry.name), FileKind::Table(_) | FileKind::Arena(_))
    };
    if let Some(remains) = entries.iter().find(is_remains) {
        let what = format!("the MANIFEST is missing, but {} of a store is there", remains.name);
        return Err(Error::corruption(directory.join(MANIFEST_NAME), 0, what));
    }
    match contents::foreign(&entries) {
        None => Ok(()),
        Some(foreign) => Err(Error::invalid(format!(
            "{} holds {}, which is no store's; a store is made in a directory of its own: name an empty or a new one",
            directory.display(),
            foreign.name
        ))),
    }
}

/// [`Error::Invalid`] if a copy that is being made there is not whole.
fn check_no_copy(options: &Options, entries: &[DirectoryEntry], directory: &Path) -> Result<()> {
    if options.is_copy || entries.iter().all(|entry| entry.name != names::UNFINISHED_COPY) {
        return Ok(());
    }
    let directory = directory.display();
    Err(Error::invalid(format!(
        "{directory} holds a copy of a store that was cut short: make it again there, or remove it with `slmdb destroy --db \
         {directory}`"
    )))
}

fn create_manifest(engine: &EngineKind, options: &Options, directory: &Path) -> Result<()> {
    let env = &options.env;
    let mut uuid = [0; 16];
    env.random_bytes(&mut uuid);
    let medium = pool_binding::new_record(options, uuid)?;
    let mut state = StoreState::new(uuid, engine.name, options.comparator.name(), medium);
    home::set_home(&**env, directory, &mut state, 0)?;
    Manifest::create(&**env, directory, &state)?;
    Ok(())
}

/// Refuses another engine or another order of keys, which would find the store in disorder.
pub fn check_names(engine: &EngineKind, options: &Options, state: &StoreState, directory: &Path) -> Result<()> {
    let order = options.comparator.name();
    let unknown = if state.engine != engine.name {
        format!("the store was made by engine {:?}; not by {:?}", state.engine, engine.name)
    } else if state.comparator != order {
        let own = &state.comparator;
        format!("the store's keys are in the order {own:?}, not {order:?}: name the comparator {own:?} to open it")
    } else {
        return Ok(());
    };
    Err(Error::Unsupported { what: unknown, file: Some(directory.join(MANIFEST_NAME)) })
}

/// Checks that every table file of the MANIFEST is there in full length, and that it is no copy that is not whole yet. Returns
/// whether there are arenas that the MANIFEST does not name.
fn check_files(options: &Options, directory: &Path, state: &StoreState) -> Result<bool> {
    let entries = options.env.list_directory(directory)?;
    check_no_copy(options, &entries, directory)?;
    let is_stray = |entry: &DirectoryEntry| match names::kind(&entry.name) {
        FileKind::Arena(generation) => !state.arenas.contains_key(&generation),
        _ => false,
    };
    let has_strays = entries.iter().any(is_stray);
    let lengths: HashMap<PathBuf, u64> =
        entries.into_iter().map(|entry| (directory.join(entry.name), entry.length_bytes)).collect();
    for (&number, record) in &state.files {
        let path = names::table(directory, number);
        match lengths.get(&path) {
            None => return Err(missing(&path)),
            Some(&length_bytes) if length_bytes != record.length_bytes => {
                let what = format!("a table file has {length_bytes} bytes instead of {}", record.length_bytes);
                return Err(Error::corruption(path, length_bytes.min(record.length_bytes), what));
            }
            Some(_) => {}
        }
    }
    Ok(has_strays)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use slmdb_testkit::MemoryEnv;

    use super::*;
    use crate::directory::ANY;

    /// The second opening found the directory, and made nothing durable but its own name.
    #[test]
    fn directories_made_by_a_killed_opening_become_durable() {
        let env = MemoryEnv::new();
        let directory = Path::new("/of/several/levels");
        env.create_directory(directory).unwrap();
        let options = Options { env: Arc::new(env.clone()), ..Options::default() };
        drop(prepare(&ANY, &options, directory).unwrap());
        assert!(env.crash().content(directory.join(MANIFEST_NAME)).is_some());
    }
}
