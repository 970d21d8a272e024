//! The directory of a store: who may open it, what is in it, where its pool is, and how it goes.

pub mod destroy;
pub mod open;
pub mod pool_binding;
pub mod store_copy;

use slmdb_env::Result;
use slmdb_manifest::MediumKind;

use crate::Options;

/// What the opening of a directory must know of the engine that opens it.
#[derive(Debug, Clone, Copy)]
pub struct EngineKind {
    /// The name that the MANIFEST records.
    pub name: &'static str,
    /// [`slmdb_env::Error::Invalid`] if a pool as the options have it, and no larger than the given length of a device in bytes, would
    /// refuse every write.
    pub check_pool: fn(&Options, MediumKind, Option<u64>) -> Result<()>,
}
