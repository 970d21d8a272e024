//! [`Writer`]: what a store and a part of it have in common: they can be written to. Its methods are in `writing`.

use std::sync::Arc;

use pyo3::prelude::*;
use slmdb::WriteOptions;

use crate::reader::{Reader, Source};
use crate::store::Store;

/// What can be written to: a DB or a PrefixedDB.
#[pyclass(frozen, subclass, extends = Reader, module = "slmdb")]
pub struct Writer {
    pub(crate) store: Arc<Store>,
}

impl Writer {
    /// What writes to the keys of a store that begin with `prefix`.
    pub fn over(store: Arc<Store>, prefix: Vec<u8>) -> PyClassInitializer<Writer> {
        let reader = Reader { source: Source::Store(store.clone()), prefix };
        PyClassInitializer::from(reader).add_subclass(Writer { store })
    }
}

/// As `sync` says, or as the store does it.
pub fn write_options(sync: Option<bool>) -> WriteOptions {
    sync.map_or_else(WriteOptions::new, |sync| WriteOptions::new().sync(sync))
}
