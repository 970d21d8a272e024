//! The methods of a [`Writer`]: single writes, and what is made of it to write or to read more.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::batch::WriteBatch;
use crate::bytes::Bytes;
use crate::prefixed::PrefixedDB;
use crate::snapshot::Snapshot;
use crate::walk::{edges, range_with_prefix};
use crate::writer::{Writer, write_options};

#[pymethods]
impl Writer {
    /// Sets the value of a key. On return it survives a kill of the process, and with `sync` a power cut.
    ///
    /// `sync` is for this write; without it the store's own `sync` counts.
    #[pyo3(signature = (key, value, *, sync=None))]
    fn put(
        slf: PyRef<'_, Self>,
        py: Python<'_>,
        key: Bytes<'_, '_>,
        value: Bytes<'_, '_>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        let (key, value) = (slf.as_super().whole_key(&key), &*value);
        slf.store.run(py, |db| db.put_with(&key, value, write_options(sync)))
    }

    fn __setitem__(slf: PyRef<'_, Self>, py: Python<'_>, key: Bytes<'_, '_>, value: Bytes<'_, '_>) -> PyResult<()> {
        Self::put(slf, py, key, value, None)
    }

    /// Removes a key and its value. A key without a value is no error. `sync` as in `put`.
    #[pyo3(signature = (key, *, sync=None))]
    fn delete(slf: PyRef<'_, Self>, py: Python<'_>, key: Bytes<'_, '_>, sync: Option<bool>) -> PyResult<()> {
        let key = slf.as_super().whole_key(&key);
        slf.store.run(py, |db| db.delete_with(&key, write_options(sync)))
    }

    /// Removes all keys from `start` on and before `stop`, at one moment. Takes the same time whatever the range holds.
    ///
    /// Without `start` or `stop` there is no bound on that side. `sync` as in `put`.
    #[pyo3(signature = (*, start=None, stop=None, sync=None))]
    fn delete_range(
        slf: PyRef<'_, Self>,
        py: Python<'_>,
        start: Option<Bytes<'_, '_>>,
        stop: Option<Bytes<'_, '_>>,
        sync: Option<bool>,
    ) -> PyResult<()> {
        let range = range_with_prefix(&slf.as_super().prefix, edges(start.as_deref(), stop.as_deref()));
        slf.store.run(py, |db| db.delete_range_with::<Vec<u8>>(range, write_options(sync)))
    }

    /// As a dictionary does it: KeyError if the key has no value. Of two threads that do this at once both may succeed.
    fn __delitem__(slf: PyRef<'_, Self>, py: Python<'_>, key: Bytes<'_, '_>) -> PyResult<()> {
        let whole_key = slf.as_super().whole_key(&key);
        let found = slf.store.run(py, |db| {
            let found = db.contains_key(&whole_key)?;
            if found {
                db.delete(&whole_key)?;
            }
            Ok(found)
        })?;
        if found { Ok(()) } else { Err(PyKeyError::new_err(PyBytes::new(py, &key).unbind())) }
    }

    /// Sets the value of a key that has none. True: it was set, and of all that insert this key at once only here.
    /// False: it had a value, and keeps it. `sync` as in `put`.
    #[pyo3(signature = (key, value, *, sync=None))]
    fn insert_if_absent(
        slf: PyRef<'_, Self>,
        py: Python<'_>,
        key: Bytes<'_, '_>,
        value: Bytes<'_, '_>,
        sync: Option<bool>,
    ) -> PyResult<bool> {
        let (key, value) = (slf.as_super().whole_key(&key), &*value);
        slf.store.run(py, |db| db.insert_if_absent_with(&key, value, write_options(sync)))
    }

    /// Sets the value of a key that has one. True: it was set. False: it had none, and has none. `sync` as in `put`.
    #[pyo3(signature = (key, value, *, sync=None))]
    fn update_if_present(
        slf: PyRef<'_, Self>,
        py: Python<'_>,
        key: Bytes<'_, '_>,
        value: Bytes<'_, '_>,
        sync: Option<bool>,
    ) -> PyResult<bool> {
        let (key, value) = (slf.as_super().whole_key(&key), &*value);
        slf.store.run(py, |db| db.update_if_present_with(&key, value, write_options(sync)))
    }

    /// A batch of changes that take effect together when it is written: at the end of its `with` block, or by `write`.
    ///
    /// An exception in the block discards it; with `transaction=False` it is written nevertheless. `sync` as in `put`.
    #[pyo3(signature = (*, transaction=true, sync=None))]
    fn write_batch(slf: PyRef<'_, Self>, transaction: bool, sync: Option<bool>) -> PyResult<WriteBatch> {
        slf.store.check_open()?;
        Ok(WriteBatch::new(slf.store.clone(), slf.as_super().prefix.clone(), transaction, sync))
    }

    /// The store as it is now, to be read for as long as it is kept.
    fn snapshot(slf: Bound<'_, Self>, py: Python<'_>) -> PyResult<Py<Snapshot>> {
        Py::new(py, Snapshot::of(&slf)?)
    }

    /// The entries whose keys begin with `prefix`, as a store whose keys lack it.
    fn prefixed_db(slf: Bound<'_, Self>, py: Python<'_>, prefix: Bytes<'_, '_>) -> PyResult<Py<PrefixedDB>> {
        Py::new(py, PrefixedDB::of(&slf, &prefix)?)
    }
}
