//! Which engine opens a store: the one that made it, and for a new one the one that the options name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_engine::{Destroyed, Engine, EngineName, Error, Options, RepairProgress, RepairReport, Result, directory};
use slmdb_manifest::{FILE_NAME, Manifest};

/// Opens, recovers or makes a store.
pub(crate) fn open(options: &Options, directory: &Path) -> Result<Arc<dyn Engine>> {
    match of_store(options, directory)? {
        EngineName::Slm => slmdb_slm::open(options, directory),
        #[cfg(feature = "lab")]
        EngineName::Lab => slmdb_lab::open(options, directory),
        other => Err(lacking(other.as_str(), None)),
    }
}

/// Repairs a store.
pub(crate) fn repair(
    options: &Options,
    directory: &Path,
    progress: &mut dyn FnMut(RepairProgress),
) -> Result<RepairReport> {
    match of_store(options, directory)? {
        EngineName::Slm => slmdb_slm::repair(options, directory, progress),
        #[cfg(feature = "lab")]
        EngineName::Lab => slmdb_lab::repair(options, directory, progress),
        other => Err(lacking(other.as_str(), None)),
    }
}

/// Removes a store.
pub(crate) fn destroy(options: &Options, directory: &Path) -> Result<Destroyed> {
    match of_store(options, directory)? {
        EngineName::Slm => directory::destroy::destroy(options, directory),
        #[cfg(feature = "lab")]
        EngineName::Lab => directory::destroy::destroy(options, directory),
        other => Err(lacking(other.as_str(), None)),
    }
}

/// The engine of the store in `directory`, or of the one that is to be made there. Changes nothing.
///
/// Where there is no MANIFEST that can be read, it is the one that the options name: it has more to say about what is there.
fn of_store(options: &Options, directory: &Path) -> Result<EngineName> {
    let asked = options.engine;
    let path = directory.join(FILE_NAME);
    let Ok(reading) = Manifest::read_file(&*options.env, &path) else { return Ok(asked.unwrap_or_default()) };
    let recorded = reading.state.engine;
    match recorded.parse::<EngineName>() {
        Err(_) => Err(lacking(&recorded, Some(path))),
        Ok(own) if asked.is_some_and(|asked| asked != own) => Err(Error::invalid(format!(
            "the store was made by the engine {own}, and keeps it: open it without naming another"
        ))),
        Ok(own) => Ok(own),
    }
}

fn lacking(engine: &str, file: Option<PathBuf>) -> Error {
    Error::Unsupported { what: format!("this build lacks the engine {engine:?}"), file }
}
