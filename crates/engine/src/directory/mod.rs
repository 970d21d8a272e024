//! The directory of a store: opening and locking it, its pool, copying it, destroying it.

pub mod contents;
pub mod destroy;
pub mod home;
pub mod open;
pub mod pool_binding;
pub mod store_copy;

use slmdb_env::Result;
use slmdb_manifest::MediumKind;

use crate::{Capabilities, Options};

/// What opening a directory must know of the engine.
#[derive(Debug, Clone, Copy)]
pub struct EngineKind {
    /// The name that the MANIFEST records.
    pub name: &'static str,
    /// What it does worse than others.
    pub capabilities: Capabilities,
    /// The names of its background threads, beside those that every store has.
    pub threads: &'static [&'static str],
    /// [`slmdb_env::Error::Invalid`] if a pool with these options, and no larger than the given length of a device in
    /// bytes, would refuse every write.
    pub check_pool: fn(&Options, MediumKind, Option<u64>) -> Result<()>,
}
