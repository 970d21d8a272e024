//! [`EntryIterator`]: entries of a range, one after the other, both ways.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use slmdb::Slice;

use crate::bytes::Bytes;
use crate::store::Held;
use crate::walk::{Walk, Way};

/// What an iterator gives of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// Key and value.
    Entries,
    /// The key.
    Keys,
    /// The value.
    Values,
    /// `None`, once for each.
    Nothing,
}

impl Parts {
    /// With keys, with values, with both or neither.
    pub fn new(include_key: bool, include_value: bool) -> Parts {
        match (include_key, include_value) {
            (true, true) => Parts::Entries,
            (true, false) => Parts::Keys,
            (false, true) => Parts::Values,
            (false, false) => Parts::Nothing,
        }
    }

    /// Whether values are read.
    pub fn has_values(self) -> bool {
        matches!(self, Parts::Entries | Parts::Values)
    }
}

/// A place between two entries of a range, of the store as it was when this was made.
///
/// `next` gives the entry behind the place and moves past it, `prev` the one in front of it. So `prev` after `next` gives
/// the same entry again. With `reverse`, `next` goes to smaller keys and `prev` to larger ones.
#[pyclass(frozen, name = "Iterator", module = "slmdb")]
pub struct EntryIterator {
    held: Arc<Held<Mutex<Walk>>>,
    prefix: Vec<u8>,
    parts: Parts,
    way: Way,
}

impl EntryIterator {
    /// An iterator over what `held` walks on. `prefix` is taken from keys.
    pub fn new(held: Arc<Held<Mutex<Walk>>>, prefix: Vec<u8>, parts: Parts, way: Way) -> EntryIterator {
        EntryIterator { held, prefix, parts, way }
    }

    fn step<'py>(&self, py: Python<'py>, way: Way) -> PyResult<Option<Bound<'py, PyAny>>> {
        let entry = match self.held.run_at_once(|walk| walk.try_lock().ok()?.step_ahead(way)) {
            Some(entry) => Some(entry),
            None => self.held.run(py, "iterator", |walk| alone(walk).step(way))?,
        };
        entry.map(|(key, value)| self.item(py, &key, &value)).transpose()
    }

    fn item<'py>(&self, py: Python<'py>, key: &Slice, value: &Slice) -> PyResult<Bound<'py, PyAny>> {
        let key = || PyBytes::new(py, key.get(self.prefix.len()..).unwrap_or_default());
        let value = || PyBytes::new(py, value);
        match self.parts {
            Parts::Entries => Ok((key(), value()).into_pyobject(py)?.into_any()),
            Parts::Keys => Ok(key().into_any()),
            Parts::Values => Ok(value().into_any()),
            Parts::Nothing => Ok(py.None().into_bound(py)),
        }
    }
}

/// The walk, for this thread alone.
fn alone(walk: &Mutex<Walk>) -> MutexGuard<'_, Walk> {
    walk.lock().unwrap_or_else(PoisonError::into_inner)
}

#[pymethods]
impl EntryIterator {
    /// So that annotations can say what it gives.
    #[classmethod]
    fn __class_getitem__<'py>(class: &Bound<'py, PyType>, item: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        class.py().import("types")?.getattr("GenericAlias")?.call1((class, item))
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.step(py, self.way)
    }

    /// Moves one step back, and gives the entry that it passes. StopIteration at the beginning.
    fn prev<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py, self.way.back())?.ok_or_else(|| pyo3::exceptions::PyStopIteration::new_err(()))
    }

    /// Moves in front of the first entry whose key is at or after `target` in order of keys, within the bounds.
    fn seek(&self, py: Python<'_>, target: Bytes<'_, '_>) -> PyResult<()> {
        let target = [self.prefix.as_slice(), &target].concat();
        self.held.run(py, "iterator", |walk| {
            alone(walk).seek(&target);
            Ok(())
        })
    }

    /// Moves to the lower bound: in front of the entry with the smallest key.
    fn seek_to_start(&self, py: Python<'_>) -> PyResult<()> {
        self.held.run(py, "iterator", |walk| {
            alone(walk).seek_start();
            Ok(())
        })
    }

    /// Moves to the upper bound: behind the entry with the largest key.
    fn seek_to_stop(&self, py: Python<'_>) -> PyResult<()> {
        self.held.run(py, "iterator", |walk| {
            alone(walk).seek_stop();
            Ok(())
        })
    }

    /// Gives back what it keeps of the store. Whatever is asked of it afterwards raises ClosedError.
    fn close(&self, py: Python<'_>) {
        self.held.close(py);
    }

    /// Whether it is closed, or the store is.
    #[getter]
    fn closed(&self) -> bool {
        self.held.is_closed()
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __exit__(&self, py: Python<'_>, _kind: Bound<'_, PyAny>, _raised: Bound<'_, PyAny>, _trace: Bound<'_, PyAny>) {
        self.held.close(py);
    }
}
