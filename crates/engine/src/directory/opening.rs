//! Opening a store, whichever engine has it: the directory, then the medium, then the engine's recovery, then the
//! background threads.

use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Error, Lock, Result};
use slmdb_manifest::{MediumKind, StoreState};
use slmdb_pmem::{Medium, Persistent};
use tracing::field::Empty;
use tracing::info_span;

use super::EngineKind;
use super::open::{Prepared, check_directory, prepare};
use crate::background::workers::Workers;
use crate::observe::spans::timed;
use crate::space::memtable_bytes::memtable_bytes;
use crate::{Engine, Options};

/// What an engine adds to an opening.
pub trait Opening {
    /// The engine.
    const KIND: EngineKind;

    /// Recovers and starts a store on `Dram`.
    fn on_dram(found: Found<'_>) -> Result<Arc<dyn Engine>>;

    /// Recovers and starts a store that has a pool, on this medium.
    fn in_pool<M: Medium + Clone>(found: Found<'_>, medium: M) -> Result<Arc<dyn Engine>>;
}

/// What an opening has found before the engine looks at it.
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
    pub fn of<'d>(engine: &EngineKind, options: &Options, directory: &'d Path) -> Result<Found<'d>> {
        options.check()?;
        let workers = Workers::of(options)?;
        let Prepared { mut options, state, lock } = prepare(engine, options, directory)?;
        options.memtable_bytes = memtable_bytes(&options, directory);
        Ok(Found { options, directory, state, lock, workers })
    }
}

/// Opens, recovers or makes a store, on the medium that its MANIFEST names.
pub fn open<O: Opening>(options: &Options, directory: &Path) -> Result<Arc<dyn Engine>> {
    let env = &*options.env;
    check_directory(env, directory)?;
    let directory = env.absolute(directory)?;
    let span = info_span!("open", directory = %directory.display(), read_only = options.read_only, ms = Empty);
    timed(env, span, || on_its_medium::<O>(Found::of(&O::KIND, options, &directory)?))
}

/// Opens, recovers or makes a store that has a pool, on a medium that the caller brings.
pub fn open_on<O: Opening, M: Medium + Clone>(
    options: &Options,
    directory: &Path,
    medium: M,
) -> Result<Arc<dyn Engine>> {
    check_directory(&*options.env, directory)?;
    let directory = options.env.absolute(directory)?;
    let found = Found::of(&O::KIND, options, &directory)?;
    if found.state.medium.kind == MediumKind::Dram {
        return Err(Error::invalid("a store on Dram has no pool that could be on another medium"));
    }
    O::in_pool(found, medium)
}

fn on_its_medium<O: Opening>(found: Found<'_>) -> Result<Arc<dyn Engine>> {
    let options = &found.options;
    let (unit_bytes, emulation) = (options.media_unit_bytes, options.emulation);
    let caches_are_persistent = options.caches_are_persistent;
    // One medium type for both kinds without delays, so that the engine is compiled once for them.
    let medium = match found.state.medium.kind {
        MediumKind::Dram => return O::on_dram(found),
        MediumKind::Emulated if !emulation.is_nothing() => {
            return O::in_pool(found, Persistent::emulating(&emulation).with_unit(unit_bytes)?);
        }
        MediumKind::Emulated => Persistent::new(),
        MediumKind::Dax => Persistent::dax(caches_are_persistent)?,
    };
    O::in_pool(found, medium.with_unit(unit_bytes)?)
}
