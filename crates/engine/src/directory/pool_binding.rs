//! Binding the fast tier: which medium a store has, where its pool is, and whether the pool there is its own.
//!
//! A store keeps the medium it was made with. The MANIFEST records it, with the pool's path and UUID, so later openings
//! need not name them. Options that name them must name the same medium; the pool may have been moved. What is emulated
//! (latency, bandwidth, the write unit) and whether the machine's caches survive a power cut belongs to the opening,
//! not to the store.
//! Whether a directory is a copy, and the pool another store's, is told in `directory/home.rs`.

use std::path::Path;

use slmdb_env::{Env, Error, Result};
use slmdb_manifest::{FILE_NAME as MANIFEST_NAME, MediumKind, MediumRecord, StoreState};
use slmdb_pmem::pool::{ImageBinding, check_direct, check_new_device, openings};
use slmdb_pmem::{AnyMedium, Pool, PoolOptions};

use super::EngineKind;
use super::contents::check_outside_stores;
use crate::{Medium, Options};

/// A pool, and whether it was just made.
pub enum FoundPool {
    /// Just made, and empty.
    New(Pool<AnyMedium>),
    /// Found.
    Old(Pool<AnyMedium>),
}

/// Checks, before anything is made, that the options describe a fast tier that a new store can have.
pub fn check_new(engine: &EngineKind, options: &Options) -> Result<()> {
    let medium = options.medium.as_ref().unwrap_or(&Medium::Dram);
    let path = options.pool_path()?;
    check_opening(engine, options, medium.kind(), path.as_deref())?;
    let Some(path) = path else { return Ok(()) };
    check_outside_stores(&*options.env, &path, "the pool")?;
    check_free(&*options.env, &path)?;
    match medium.kind() {
        MediumKind::Dax => check_direct(&*options.env, &path),
        _ => Ok(()),
    }
}

/// The fast tier of a new store, for its MANIFEST.
pub fn new_record(options: &Options, uuid: [u8; 16]) -> Result<MediumRecord> {
    let env = &*options.env;
    let medium = options.medium.as_ref().unwrap_or(&Medium::Dram);
    let pool_path = options.pool_path()?;
    if let Some(path) = &pool_path {
        check_free(env, path)?;
    }
    let pool_uuid = pool_path.is_some().then_some(uuid);
    Ok(MediumRecord { kind: medium.kind(), pool_path, pool_uuid, boot_id: env.boot_id() })
}

/// Reconciles the medium that the options name, if any, with the store's own. From here on the options' environment holds
/// the directory of the pool.
pub fn bind(engine: &EngineKind, options: &mut Options, state: &mut StoreState) -> Result<()> {
    let kind = state.medium.kind;
    if let Some(asked) = &options.medium {
        if asked.kind() != kind {
            return Err(Error::invalid(format!(
                "the store's fast tier is {kind:?}, not {:?}: a store keeps the medium it was made with; open it without \
                 naming one",
                asked.kind()
            )));
        }
        if let Some(path) = options.pool_path()? {
            // Opening the pool checks that it is this store's.
            state.medium.pool_path = Some(path);
        }
    }
    hold_pool(options, state.medium.pool_path.as_deref())?;
    check_opening(engine, options, kind, state.medium.pool_path.as_deref())
}

/// Holds the directory of a pool, if it is there.
pub(crate) fn hold_pool(options: &mut Options, pool: Option<&Path>) -> Result<()> {
    if let Some(directory) = pool.and_then(Path::parent)
        && options.env.is_directory(directory)? == Some(true)
    {
        *options = options.holding(directory)?;
    }
    Ok(())
}

/// Checks that the options of this opening make sense on such a medium.
fn check_opening(engine: &EngineKind, options: &Options, kind: MediumKind, pool: Option<&Path>) -> Result<()> {
    if !options.emulation.is_nothing() && kind != MediumKind::Emulated {
        let what = format!("latency and bandwidth are emulated on an Emulated fast tier only; this one is {kind:?}");
        return Err(Error::invalid(what));
    }
    if options.caches_are_persistent && kind != MediumKind::Dax {
        let what = format!("persistent caches (eADR) matter to a fast tier on Dax only; this one is {kind:?}");
        return Err(Error::invalid(what));
    }
    let device = pool.map(|path| options.env.dax_device(path)).transpose()?.flatten();
    (engine.check_pool)(options, kind, device.map(|device| device.size_bytes))
}

/// Checks that a pool can be made there: nothing exists at the path, or a device-dax that holds nothing.
pub(super) fn check_free(env: &dyn Env, path: &Path) -> Result<()> {
    if check_new_device(env, path)? || !env.exists(path)? {
        return Ok(());
    }
    let what = format!(
        "{} exists already; the pool of a new store is made by it, in a file that is not there",
        path.display()
    );
    Err(Error::invalid(what))
}

/// The pool of a `Dram` store: empty memory.
pub fn in_memory(options: &Options, state: &StoreState) -> Result<Pool<AnyMedium>> {
    Pool::anonymous(AnyMedium::dram(), &pool_options(options, state.uuid))
}

/// The pool of a `Dram` store from an image with this binding. `None` if there is no such image.
pub fn image(
    options: &Options,
    state: &StoreState,
    path: &Path,
    binding: &ImageBinding,
) -> Result<Option<Pool<AnyMedium>>> {
    Pool::open_image(&*options.env, path, AnyMedium::dram(), &pool_options(options, state.uuid), binding)
}

/// Makes the pool of a store, as the MANIFEST has it. Replaces what an earlier attempt left there, and nothing else.
pub fn new_pool(medium: AnyMedium, options: &Options, state: &StoreState) -> Result<Pool<AnyMedium>> {
    let (env, (path, uuid)) = (&*options.env, pool_of(state)?);
    let pool = Pool::create(env, path, medium, &pool_options(options, uuid))?;
    // The store has not made the name of a device.
    if env.dax_device(path)?.is_none() {
        path.parent().map_or(Ok(()), |directory| env.sync_directory(directory))?;
    }
    Ok(pool)
}

/// Opens the pool that a store had, at `path`, for reading only: no byte of it changes.
pub fn old_pool(medium: AnyMedium, options: &Options, state: &StoreState, path: &Path) -> Result<Pool<AnyMedium>> {
    let (_, uuid) = pool_of(state)?;
    Pool::open(&*options.env, path, medium, &pool_options(options, uuid), true)
}

/// The path and UUID of a store's pool.
fn pool_of(state: &StoreState) -> Result<(&Path, [u8; 16])> {
    match (&state.medium.pool_path, state.medium.pool_uuid) {
        (Some(path), Some(uuid)) => Ok((path, uuid)),
        _ => Err(Error::corruption(MANIFEST_NAME, 0, "the MANIFEST names no pool for a store that needs one")),
    }
}

/// Refuses a store that has no index and no pool, because a repair of it was cut short.
pub fn check_not_in_repair(state: &StoreState) -> Result<()> {
    if state.unfinished_repair.is_none() {
        return Ok(());
    }
    Err(Error::invalid(
        "a repair of this store was cut short, and it has no index since: let `slmdb repair` make it again",
    ))
}

/// The pool of a store that has one: opened, or made if the store is virgin.
pub fn find_pool(medium: AnyMedium, options: &Options, state: &StoreState) -> Result<FoundPool> {
    let env = &*options.env;
    let (path, uuid) = pool_of(state)?;
    let pool_options = pool_options(options, uuid);
    if is_virgin(state) {
        if options.read_only {
            return Err(Error::invalid(
                "the store's creation was cut short: open it for writing once, which finishes it",
            ));
        }
        return new_pool(medium, options, state).map(FoundPool::New);
    }
    if !env.exists(path)? {
        return Err(wants_another_pool(format!("the store's pool {} is missing", path.display())));
    }
    // An older copy lacks what was written since, and says so nowhere else.
    let openings_min = state.home.map_or(0, |home| home.pool_openings);
    if openings(env, path)?.is_some_and(|openings| openings < openings_min) {
        let what = format!("{} is an older copy of the store's pool, without what was written since", path.display());
        return Err(wants_another_pool(what));
    }
    let pool = Pool::open(env, path, medium, &pool_options, options.read_only).map_err(|error| match error {
        Error::Invalid { what } => wants_another_pool(what),
        other => other,
    });
    pool.map(FoundPool::Old)
}

fn pool_options(options: &Options, uuid: [u8; 16]) -> PoolOptions {
    PoolOptions {
        initial_bytes: options.pool_initial_bytes,
        growth_bytes: options.pool_growth_bytes,
        maximum_bytes: options.pool_maximum_bytes,
        uuid,
    }
}

fn wants_another_pool(what: String) -> Error {
    Error::invalid(format!(
        "{what}: name the pool's new place, or let `slmdb repair` make it anew from what can be read"
    ))
}

/// Whether nothing was ever written to the store, so that its creation may not have reached the pool.
pub fn is_virgin(state: &StoreState) -> bool {
    state.next_generation == 1 && state.arenas.is_empty() && state.runs().next().is_none()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use slmdb_env::ErrorKind;
    use slmdb_pmem::Emulation;
    use slmdb_testkit::MemoryEnv;

    use super::*;
    use crate::directory::ANY;

    const KINDS: [MediumKind; 3] = [MediumKind::Dram, MediumKind::Emulated, MediumKind::Dax];

    fn state(kind: MediumKind) -> StoreState {
        let pool_path = (kind != MediumKind::Dram).then(|| PathBuf::from("/old"));
        let pool_uuid = pool_path.is_some().then_some([1; 16]);
        StoreState::new([1; 16], "slm", "bytewise", MediumRecord { kind, pool_path, pool_uuid, boot_id: [0; 16] })
    }

    fn options(medium: Option<Medium>) -> Options {
        Options { medium, env: Arc::new(MemoryEnv::new()), ..Options::default() }
    }

    fn medium(kind: MediumKind, path: &str) -> Medium {
        match kind {
            MediumKind::Dram => Medium::Dram,
            MediumKind::Emulated => Medium::Emulated { path: path.into() },
            MediumKind::Dax => Medium::Dax { path: path.into() },
        }
    }

    #[test]
    fn a_store_keeps_its_medium_and_may_move_its_pool() {
        for kind in KINDS {
            let mut found = state(kind);
            bind(&ANY, &mut options(None), &mut found).unwrap();
            assert_eq!(found, state(kind));
            for asked in KINDS {
                let mut found = state(kind);
                let bound = bind(&ANY, &mut options(Some(medium(asked, "/new"))), &mut found);
                if asked == kind {
                    bound.unwrap();
                    let path = (kind != MediumKind::Dram).then(|| PathBuf::from("/new"));
                    assert_eq!(found.medium.pool_path, path);
                } else {
                    let error = bound.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Invalid);
                    let text = error.to_string();
                    assert!(text.contains(&format!("{kind:?}, not {asked:?}")), "{text}");
                }
            }
        }
    }

    #[test]
    fn emulation_fits_emulated_and_persistent_caches_fit_dax() {
        let emulation = Emulation { latency_ns: 1, ..Emulation::default() };
        for kind in KINDS {
            let emulating = bind(&ANY, &mut Options { emulation, ..options(None) }, &mut state(kind));
            assert_eq!(emulating.is_ok(), kind == MediumKind::Emulated);
            let fences_only =
                bind(&ANY, &mut Options { caches_are_persistent: true, ..options(None) }, &mut state(kind));
            assert_eq!(fences_only.is_ok(), kind == MediumKind::Dax);
            let new = check_new(&ANY, &Options { emulation, ..options(Some(medium(kind, "/new"))) });
            assert_eq!(new.is_ok(), kind == MediumKind::Emulated);
        }
    }

    #[test]
    fn the_name_of_a_new_pool_outlives_a_power_cut() {
        let env = MemoryEnv::new();
        let directory = Path::new("/pools");
        env.create_directory(directory).unwrap();
        env.sync_directory(Path::new("/")).unwrap();
        let medium = Some(Medium::Emulated { path: directory.join("pool") });
        let options = Options { env: Arc::new(env.clone()), ..options(medium) };
        let (path, uuid) = (Some(directory.join("pool")), Some([3; 16]));
        let record = MediumRecord { kind: MediumKind::Emulated, pool_path: path, pool_uuid: uuid, boot_id: [0; 16] };
        let state = StoreState::new([3; 16], "slm", "bytewise", record);
        new_pool(slmdb_pmem::Emulated::new().into(), &options, &state).unwrap();
        assert!(env.crash().content(directory.join("pool")).is_some(), "the pool has lost its name");
    }

    #[test]
    fn a_new_store_takes_nobodys_file() {
        let env = MemoryEnv::new();
        env.set_content("/taken", b"");
        for kind in [MediumKind::Emulated, MediumKind::Dax] {
            let options = Options { env: Arc::new(env.clone()), ..options(Some(medium(kind, "/taken"))) };
            assert_eq!(check_new(&ANY, &options).unwrap_err().kind(), ErrorKind::Invalid);
            assert_eq!(new_record(&options, [2; 16]).unwrap_err().kind(), ErrorKind::Invalid);
        }
        let options = Options { env: Arc::new(env), ..options(Some(medium(MediumKind::Emulated, "/free"))) };
        check_new(&ANY, &options).unwrap();
        let record = new_record(&options, [2; 16]).unwrap();
        assert_eq!((record.pool_path, record.pool_uuid), (Some(PathBuf::from("/free")), Some([2; 16])));
    }
}
