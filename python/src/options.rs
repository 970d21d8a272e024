//! How a store is opened: Python's keyword arguments as slmdb's options.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use slmdb::{CompactionPolicy, Compression, Medium, Options};

use crate::comparator::PythonComparator;

/// A path: `str`, `bytes` or an object with `__fspath__`.
pub struct FilePath(pub PathBuf);

impl<'py> FromPyObject<'_, 'py> for FilePath {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<FilePath> {
        let bytes: Vec<u8> = object.py().import("os")?.call_method1("fsencode", (object,))?.extract()?;
        Ok(FilePath(PathBuf::from(OsString::from_vec(bytes))))
    }
}

/// `dram`, `emulated:PATH` or `dax:PATH`.
pub struct MediumArgument(pub Medium);

impl<'py> FromPyObject<'_, 'py> for MediumArgument {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<MediumArgument> {
        let text: String = object.extract()?;
        let medium = match text.split_once(':') {
            None if text == "dram" => Medium::Dram,
            Some(("emulated", path)) if !path.is_empty() => Medium::Emulated { path: path.into() },
            Some(("dax", path)) if !path.is_empty() => Medium::Dax { path: path.into() },
            _ => {
                let message = format!("`medium` is \"dram\", \"emulated:PATH\" or \"dax:PATH\", not {text:?}");
                return Err(PyValueError::new_err(message));
            }
        };
        Ok(MediumArgument(medium))
    }
}

/// The compression of that name.
pub fn compression_of(name: &str) -> PyResult<Compression> {
    match name {
        "none" => Ok(Compression::None),
        "lz4" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::Zstd),
        _ => Err(PyValueError::new_err(format!("`compression` is \"none\", \"lz4\" or \"zstd\", not {name:?}"))),
    }
}

/// The policy of compaction of that name.
pub fn compaction_policy_of(name: &str) -> PyResult<CompactionPolicy> {
    match name {
        "garbage-first" => Ok(CompactionPolicy::GarbageFirst),
        "manual" => Ok(CompactionPolicy::Manual),
        "paper" => Ok(CompactionPolicy::Paper),
        _ => {
            let message = format!("`compaction_policy` is \"garbage-first\", \"manual\" or \"paper\", not {name:?}");
            Err(PyValueError::new_err(message))
        }
    }
}

/// The comparator, if there is one. It and its name go together.
pub fn comparator_of(
    comparator: Option<Bound<'_, PyAny>>,
    name: Option<String>,
) -> PyResult<Option<Arc<PythonComparator>>> {
    match (comparator, name) {
        (None, None) => Ok(None),
        (Some(comparator), Some(name)) if comparator.is_callable() => {
            Ok(Some(Arc::new(PythonComparator::new(name, comparator.unbind()))))
        }
        (Some(_), Some(_)) => Err(PyTypeError::new_err("`comparator` is a function of two keys")),
        _ => Err(PyValueError::new_err("`comparator` and `comparator_name` go together; give both or neither")),
    }
}

/// A comparator that the engine and the binding share.
struct SharedComparator(Arc<PythonComparator>);

impl slmdb::Comparator for SharedComparator {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> std::cmp::Ordering {
        self.0.compare(left, right)
    }
}

/// The options with this order of keys.
pub fn with_comparator(options: Options, comparator: Option<&Arc<PythonComparator>>) -> Options {
    match comparator {
        Some(comparator) => options.comparator(SharedComparator(comparator.clone())),
        None => options,
    }
}

/// The options with another one set, if it was given.
pub fn with<T>(options: Options, given: Option<T>, set: impl FnOnce(Options, T) -> Options) -> Options {
    match given {
        Some(value) => set(options, value),
        None => options,
    }
}
