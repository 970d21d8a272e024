//! [`PrefixedDB`]: a part of a store.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::Bytes;
use crate::db::DB;
use crate::errors::InvalidError;
use crate::writer::Writer;

/// The entries of a store whose keys begin with a prefix, as a store whose keys lack it. Made by `prefixed_db`.
#[pyclass(frozen, subclass, extends = Writer, module = "slmdb")]
pub struct PrefixedDB {
    db: Py<DB>,
}

impl PrefixedDB {
    /// The part of `whole` whose keys begin with `prefix`, which may be a part itself.
    pub fn of(whole: &Bound<'_, Writer>, prefix: &[u8]) -> PyResult<PyClassInitializer<PrefixedDB>> {
        let db = if let Ok(part) = whole.cast::<PrefixedDB>() {
            part.get().db.clone_ref(whole.py())
        } else if let Ok(db) = whole.cast::<DB>() {
            db.clone().unbind()
        } else {
            return Err(PyTypeError::new_err("a part is of a DB, or of a PrefixedDB"));
        };
        let store = whole.get().store.clone();
        store.check_open()?;
        if store.comparator().is_some() {
            return Err(InvalidError::new_err("keys with a prefix are no range in the order of a comparator"));
        }
        let prefix = whole.as_super().get().whole_key(prefix).into_owned();
        Ok(Writer::over(store, prefix).add_subclass(PrefixedDB { db }))
    }
}

#[pymethods]
impl PrefixedDB {
    #[new]
    fn new(db: Bound<'_, Writer>, prefix: Bytes<'_, '_>) -> PyResult<PyClassInitializer<PrefixedDB>> {
        PrefixedDB::of(&db, &prefix)
    }

    /// The DB that this is a part of.
    #[getter]
    fn db(&self, py: Python<'_>) -> Py<DB> {
        self.db.clone_ref(py)
    }

    /// What is in front of each of its keys in the whole store.
    #[getter]
    fn prefix<'py>(slf: &Bound<'py, Self>) -> Bound<'py, PyBytes> {
        PyBytes::new(slf.py(), &slf.as_super().as_super().get().prefix)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("<{} with prefix {}>", slf.get_type().fully_qualified_name()?, Self::prefix(slf).repr()?))
    }
}
