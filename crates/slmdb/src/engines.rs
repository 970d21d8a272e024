//! The engines of this build, and which of them opens a store: the one that made it, and for a new one the one that the
//! options name.

use std::path::{Path, PathBuf};

use slmdb_engine::directory::EngineKind;
use slmdb_engine::{EngineName, Error, Options, Result};
use slmdb_manifest::{FILE_NAME, Manifest};

/// The engines of this build. To add one, name it here.
pub const ENGINES: &[&EngineKind] = &[
    &slmdb_slm::KIND,
    #[cfg(feature = "lab")]
    &slmdb_lab::KIND,
    #[cfg(feature = "tlsm")]
    &slmdb_tlsm::KIND,
    #[cfg(feature = "chameleon")]
    &slmdb_chameleon::KIND,
];

/// The names of these.
pub fn names() -> impl Iterator<Item = EngineName> {
    EngineName::ALL.into_iter().filter(|name| ENGINES.iter().any(|kind| kind.name == name.as_str()))
}

/// The engine of this name. [`Error::Unsupported`]: this build lacks it.
pub fn of_name(name: EngineName) -> Result<&'static EngineKind> {
    let named = ENGINES.iter().find(|kind| kind.name == name.as_str());
    named.copied().ok_or_else(|| lacking(name.as_str(), None))
}

/// The engine of the store in `directory`, or of the one that is to be made there. Changes nothing.
///
/// Where there is no MANIFEST that can be read, it is the one that the options name: it has more to say about what is there.
pub(crate) fn of_store(options: &Options, directory: &Path) -> Result<&'static EngineKind> {
    let asked = options.engine;
    let path = directory.join(FILE_NAME);
    let Ok(reading) = Manifest::read_file(&*options.env, &path) else { return of_name(asked.unwrap_or_default()) };
    let recorded = reading.state.engine;
    match recorded.parse::<EngineName>() {
        Err(_) => Err(lacking(&recorded, Some(path))),
        Ok(own) if asked.is_some_and(|asked| asked != own) => Err(Error::invalid(format!(
            "the store was made by the engine {own}, and keeps it: open it without naming another"
        ))),
        Ok(own) => of_name(own),
    }
}

fn lacking(engine: &str, file: Option<PathBuf>) -> Error {
    Error::Unsupported { what: format!("this build lacks the engine {engine:?}"), file }
}
