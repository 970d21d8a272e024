//! [`Reader`]: what a store, a part of it and a snapshot have in common: they can be read.

use std::borrow::Cow;
use std::ops::Bound as Edge;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use slmdb::{Slice, Snapshot};

use crate::bytes::Bytes;
use crate::errors::InvalidError;
use crate::iterator::{EntryIterator, Parts};
use crate::store::{Held, Store};
use crate::walk::{Bounds, Walk, Way, range_of_prefix, range_with_prefix};

/// What is read.
#[derive(Clone)]
pub enum Source {
    /// The store as it is at each moment.
    Store(Arc<Store>),
    /// The store as it was at one.
    Snapshot(Arc<Held<Snapshot>>),
}

/// What can be read: a DB, a PrefixedDB or a Snapshot.
#[pyclass(frozen, subclass, module = "slmdb")]
pub struct Reader {
    pub(crate) source: Source,
    /// What is in front of every key. It is added to keys that are asked for, and taken from those that are returned.
    pub(crate) prefix: Vec<u8>,
}

/// A range of keys, as it was asked for.
struct Span<'a, 'py> {
    start: Option<Bytes<'a, 'py>>,
    stop: Option<Bytes<'a, 'py>>,
    include_start: bool,
    include_stop: bool,
    prefix: Option<Bytes<'a, 'py>>,
    reverse: bool,
}

impl Source {
    /// The store that is read.
    pub fn store(&self) -> &Arc<Store> {
        match self {
            Source::Store(store) => store,
            Source::Snapshot(held) => held.store(),
        }
    }

    fn get(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Slice>> {
        match self {
            Source::Store(store) => store.run(py, |db| db.get(key)),
            Source::Snapshot(held) => held.run(py, "snapshot", |snapshot| snapshot.get(key)),
        }
    }

    fn contains_key(&self, py: Python<'_>, key: &[u8]) -> PyResult<bool> {
        match self {
            Source::Store(store) => store.run(py, |db| db.contains_key(key)),
            Source::Snapshot(held) => held.run(py, "snapshot", |snapshot| snapshot.contains_key(key)),
        }
    }
}

impl Reader {
    /// A key as the store has it.
    pub fn whole_key<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        match self.prefix.as_slice() {
            [] => Cow::Borrowed(key),
            prefix => Cow::Owned([prefix, key].concat()),
        }
    }

    /// The bounds, in the store's keys, of a range of this one's.
    fn bounds(&self, span: &Span<'_, '_>) -> PyResult<Bounds> {
        if span.prefix.is_some() && (span.start.is_some() || span.stop.is_some()) {
            return Err(PyTypeError::new_err("`prefix` can't be used together with `start` or `stop`"));
        }
        let has_prefix = !self.prefix.is_empty() || span.prefix.as_ref().is_some_and(|prefix| !prefix.is_empty());
        if has_prefix && self.source.store().comparator().is_some() {
            return Err(InvalidError::new_err(
                "keys with a prefix are no range in the order of a comparator; use `start` and `stop`",
            ));
        }
        if let Some(prefix) = &span.prefix {
            return Ok(range_of_prefix(&self.whole_key(prefix)));
        }
        let lower = edge(span.start.as_deref(), span.include_start);
        let upper = edge(span.stop.as_deref(), span.include_stop);
        Ok(range_with_prefix(&self.prefix, (lower, upper)))
    }

    fn iterate(&self, py: Python<'_>, span: Span<'_, '_>, parts: Parts) -> PyResult<EntryIterator> {
        let bounds = self.bounds(&span)?;
        let way = if span.reverse { Way::Backward } else { Way::Forward };
        let comparator = self.source.store().comparator().cloned();
        let walk = |cursor| Mutex::new(Walk::new(cursor, comparator, bounds, parts.has_values(), way));
        let held = match &self.source {
            Source::Store(store) => store.hold(py, |db| Ok(walk(db.cursor()?)))?,
            Source::Snapshot(held) => held.hold(py, "snapshot", |snapshot| Ok(walk(snapshot.cursor()?)))?,
        };
        Ok(EntryIterator::new(held, self.prefix.clone(), parts, way))
    }

    fn all(&self, py: Python<'_>, reverse: bool) -> PyResult<EntryIterator> {
        let span = Span { start: None, stop: None, include_start: true, include_stop: false, prefix: None, reverse };
        self.iterate(py, span, Parts::Keys)
    }
}

fn edge(key: Option<&[u8]>, is_included: bool) -> Edge<&[u8]> {
    match key {
        None => Edge::Unbounded,
        Some(key) if is_included => Edge::Included(key),
        Some(key) => Edge::Excluded(key),
    }
}

#[pymethods]
impl Reader {
    /// The value of a key, or `default` if it has none.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_, '_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.source.get(py, &self.whole_key(&key))?;
        Ok(value.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Bytes<'_, '_>) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.source.get(py, &self.whole_key(&key))?;
        let value = value.ok_or_else(|| PyKeyError::new_err(PyBytes::new(py, &key).unbind()))?;
        Ok(PyBytes::new(py, &value))
    }

    /// Reads no table file.
    fn __contains__(&self, py: Python<'_>, key: Bytes<'_, '_>) -> PyResult<bool> {
        self.source.contains_key(py, &self.whole_key(&key))
    }

    /// An iterator over the entries of a range, as they are now, which can be moved both ways.
    ///
    /// It gives pairs of key and value; without one of `include_key` and `include_value` only the other. `start` and
    /// `stop` are its bounds in order of keys, whichever way it goes: `start` is in it, and `stop` is not, unless
    /// `include_start` and `include_stop` say otherwise. `prefix` stands for the keys that begin with it. With `reverse`
    /// it goes from the end.
    #[pyo3(signature = (*, start=None, stop=None, include_start=true, include_stop=false, prefix=None, reverse=false,
        include_key=true, include_value=true))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn iterator(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_, '_>>,
        stop: Option<Bytes<'_, '_>>,
        include_start: bool,
        include_stop: bool,
        prefix: Option<Bytes<'_, '_>>,
        reverse: bool,
        include_key: bool,
        include_value: bool,
    ) -> PyResult<EntryIterator> {
        let parts = Parts::new(include_key, include_value);
        self.iterate(py, Span { start, stop, include_start, include_stop, prefix, reverse }, parts)
    }

    /// An iterator over the keys of a range, as `iterator` makes it. Reads no table file.
    #[pyo3(signature = (*, start=None, stop=None, include_start=true, include_stop=false, prefix=None, reverse=false))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn keys(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_, '_>>,
        stop: Option<Bytes<'_, '_>>,
        include_start: bool,
        include_stop: bool,
        prefix: Option<Bytes<'_, '_>>,
        reverse: bool,
    ) -> PyResult<EntryIterator> {
        self.iterate(py, Span { start, stop, include_start, include_stop, prefix, reverse }, Parts::Keys)
    }

    /// An iterator over the values of a range, as `iterator` makes it.
    #[pyo3(signature = (*, start=None, stop=None, include_start=true, include_stop=false, prefix=None, reverse=false))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn values(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_, '_>>,
        stop: Option<Bytes<'_, '_>>,
        include_start: bool,
        include_stop: bool,
        prefix: Option<Bytes<'_, '_>>,
        reverse: bool,
    ) -> PyResult<EntryIterator> {
        self.iterate(py, Span { start, stop, include_start, include_stop, prefix, reverse }, Parts::Values)
    }

    /// An iterator over the pairs of key and value of a range, as `iterator` makes it.
    #[pyo3(signature = (*, start=None, stop=None, include_start=true, include_stop=false, prefix=None, reverse=false))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_, '_>>,
        stop: Option<Bytes<'_, '_>>,
        include_start: bool,
        include_stop: bool,
        prefix: Option<Bytes<'_, '_>>,
        reverse: bool,
    ) -> PyResult<EntryIterator> {
        self.iterate(py, Span { start, stop, include_start, include_stop, prefix, reverse }, Parts::Entries)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<EntryIterator> {
        self.all(py, false)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<EntryIterator> {
        self.all(py, true)
    }
}
