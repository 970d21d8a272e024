//! [`WriteBatch`]: changes that take effect together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use slmdb::Change;

use crate::bytes::Bytes;
use crate::errors::exception;
use crate::store::Store;
use crate::walk::{edges, range_with_prefix};
use crate::writer::write_options;

/// Changes that take effect together, or not at all. Of several changes to one key the last counts.
#[pyclass(frozen, module = "slmdb")]
pub struct WriteBatch {
    store: Arc<Store>,
    /// What is put in front of keys.
    prefix: Vec<u8>,
    transaction: bool,
    sync: Option<bool>,
    batch: Mutex<slmdb::WriteBatch>,
}

impl WriteBatch {
    /// An empty batch for a store.
    pub fn new(store: Arc<Store>, prefix: Vec<u8>, transaction: bool, sync: Option<bool>) -> WriteBatch {
        WriteBatch { store, prefix, transaction, sync, batch: Mutex::default() }
    }

    /// The changes, for this thread alone. Whoever has them may be waiting for the interpreter's lock.
    fn changes(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, slmdb::WriteBatch>> {
        self.store.check_open()?;
        Ok(self.batch.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner))
    }

    fn change(
        &self,
        py: Python<'_>,
        key: &[u8],
        change: impl FnOnce(&mut slmdb::WriteBatch, &[u8]) -> slmdb::Result<()>,
    ) -> PyResult<()> {
        let mut changes = self.changes(py)?;
        let changed = match self.prefix.as_slice() {
            [] => change(&mut changes, key),
            prefix => change(&mut changes, &[prefix, key].concat()),
        };
        changed.map_err(|error| exception(py, &error))
    }
}

#[pymethods]
impl WriteBatch {
    /// Adds a put.
    fn put(&self, py: Python<'_>, key: Bytes<'_, '_>, value: Bytes<'_, '_>) -> PyResult<()> {
        self.change(py, &key, |changes, key| changes.put(key, &*value))
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_, '_>, value: Bytes<'_, '_>) -> PyResult<()> {
        self.put(py, key, value)
    }

    /// Adds a delete. The key need not have a value.
    fn delete(&self, py: Python<'_>, key: Bytes<'_, '_>) -> PyResult<()> {
        self.change(py, &key, |changes, key| changes.delete(key))
    }

    fn __delitem__(&self, py: Python<'_>, key: Bytes<'_, '_>) -> PyResult<()> {
        self.delete(py, key)
    }

    /// Adds a delete of all keys from `start` on and before `stop`. It removes what was put before, also by this batch.
    #[pyo3(signature = (*, start=None, stop=None))]
    fn delete_range(&self, py: Python<'_>, start: Option<Bytes<'_, '_>>, stop: Option<Bytes<'_, '_>>) -> PyResult<()> {
        let range = range_with_prefix(&self.prefix, edges(start.as_deref(), stop.as_deref()));
        self.changes(py)?.delete_range::<Vec<u8>>(range).map_err(|error| exception(py, &error))
    }

    /// Adds the changes of another batch, with the very keys that they have in the store.
    fn append(&self, py: Python<'_>, source: &WriteBatch) -> PyResult<()> {
        let source = source.changes(py)?.clone();
        let mut changes = self.changes(py)?;
        let mut appended = changes.clone();
        for change in source.iter() {
            let added = match change {
                Change::Put { key, value } => appended.put(key, value),
                Change::Delete { key } => appended.delete(key),
                Change::DeleteRange { range } => appended.delete_range::<&[u8]>(range),
            };
            added.map_err(|error| exception(py, &error))?;
        }
        *changes = appended;
        Ok(())
    }

    /// Takes all changes out again.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.changes(py)?.clear();
        Ok(())
    }

    /// Writes the changes to the store. They stay in the batch.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        self.store.run(py, |db| {
            let changes = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
            db.write_with(&changes, write_options(self.sync))
        })
    }

    /// How many bytes its changes take.
    fn approximate_size(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.changes(py)?.byte_len())
    }

    /// How many changes are in it.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.changes(py)?.len())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Bound<'_, PyAny>,
        _raised: Bound<'_, PyAny>,
        _trace: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if self.transaction && !kind.is_none() {
            // Of a closed store there is nothing to discard, and the exception of the block counts.
            return self.clear(py).or(Ok(()));
        }
        self.write(py)
    }
}
