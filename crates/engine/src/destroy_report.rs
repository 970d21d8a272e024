//! [`Destroyed`]: what destroying a store has removed.

use std::path::PathBuf;

/// What was removed, and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Destroyed {
    /// Files of the directory that were removed.
    pub files: u64,
    /// Their length, in bytes.
    pub bytes: u64,
    /// What became of the pool.
    pub pool: PoolFate,
    /// Names in the directory that are not the store's. They are left, and so is the directory.
    pub left: Vec<String>,
    /// Whether the directory is left although nothing is in it: it could not be removed, or another one has its path.
    pub is_directory_left: bool,
}

/// What became of a store's pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolFate {
    /// The store had none.
    #[default]
    None,
    /// It was removed.
    Removed(PathBuf),
    /// There was nothing at its path.
    Missing(PathBuf),
    /// What is there is not known to be this store's, and was left alone.
    Left {
        /// The path. `None`: the MANIFEST can't be read, and the options name none.
        path: Option<PathBuf>,
        /// Why.
        why: String,
    },
}
