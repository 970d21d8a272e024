//! Keys and values as Python hands them over.

use std::ops::Deref;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

/// The bytes of an argument. `bytes` can't change and are borrowed; what another thread could change meanwhile is copied.
pub enum Bytes<'a, 'py> {
    /// Those of a `bytes`.
    Borrowed(&'a [u8]),
    /// A copy of those of any other object that has a buffer.
    Copied(Bound<'py, PyBytes>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Bytes<'a, 'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Bytes<'a, 'py>> {
        if let Ok(bytes) = object.extract::<&'a [u8]>() {
            return Ok(Bytes::Borrowed(bytes));
        }
        let view = PyMemoryView::from(&object).map_err(|_| {
            let kind = object.get_type().name().map_or_else(|_| "?".to_string(), |name| name.to_string());
            PyTypeError::new_err(format!("keys and values are bytes, or have a buffer, but this is of type {kind}"))
        })?;
        Ok(Bytes::Copied(view.call_method0("tobytes")?.cast_into::<PyBytes>()?))
    }
}

impl Deref for Bytes<'_, '_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Borrowed(bytes) => bytes,
            Bytes::Copied(bytes) => bytes.as_bytes(),
        }
    }
}
