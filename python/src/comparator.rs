//! Orders of keys that Python defines.

use std::cmp::Ordering;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::ComparatorError;

/// A comparator in Python, called from whatever thread compares keys: those of the store, too. So nobody may wait for the
/// store while holding the interpreter's lock.
pub struct PythonComparator {
    name: String,
    function: Py<PyAny>,
    /// The first exception that it raised.
    failure: Mutex<Option<PyErr>>,
}

impl PythonComparator {
    /// The order in which `function` puts two keys: negative, zero or positive, as in C.
    pub fn new(name: String, function: Py<PyAny>) -> PythonComparator {
        PythonComparator { name, function, failure: Mutex::new(None) }
    }

    /// The order of two keys, as a store has it: keys that the comparator calls equal are ordered by their bytes.
    pub fn order(&self, left: &[u8], right: &[u8]) -> Ordering {
        slmdb::Comparator::compare(self, left, right).then_with(|| left.cmp(right))
    }

    /// An error once the comparator has raised an exception.
    pub fn check(&self, py: Python<'_>) -> PyResult<()> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(cause) = failure.as_ref() else { return Ok(()) };
        let raised = ComparatorError::new_err(format!(
            "the comparator {:?} raised an exception, so keys may be out of order; correct it and repair the store",
            self.name
        ));
        raised.set_cause(py, Some(cause.clone_ref(py)));
        Err(raised)
    }
}

impl slmdb::Comparator for PythonComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        let called = Python::try_attach(|py| {
            let keys = (PyBytes::new(py, left), PyBytes::new(py, right));
            let order = self.function.call1(py, keys).and_then(|order| order.extract::<i64>(py));
            order.map(|order| order.cmp(&0)).map_err(|error| {
                self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            })
        });
        // Without an interpreter, or after an exception, some order has to be told.
        called.and_then(Result::ok).unwrap_or_else(|| left.cmp(right))
    }
}
