//! slmdb for Python: what the package `slmdb` is made of. The package's own files are in `package/`, its documentation in
//! `docs/guide/python.md`.
#![forbid(unsafe_code)]

use pyo3::prelude::*;
use slmdb::Options;

mod batch;
mod bytes;
mod comparator;
mod db;
mod errors;
mod iterator;
mod options;
mod prefixed;
mod reader;
mod reports;
mod shared;
mod snapshot;
mod stats;
mod store;
mod walk;
mod writer;
mod writing;

use options::{FilePath, MediumArgument, comparator_of, with, with_comparator};
use reports::{Destroyed, Progress, RepairReport};

/// Makes a store that nobody has open whole again, from what can be read of it.
///
/// The report says what could not be saved. `medium` names a pool that was moved. A comparator must be the store's own.
/// `progress` is called with the bytes that are done and those in all. What it raises is raised in the end.
#[pyfunction]
#[pyo3(signature = (path, *, medium=None, comparator=None, comparator_name=None, progress=None))]
fn repair(
    py: Python<'_>,
    path: FilePath,
    medium: Option<MediumArgument>,
    comparator: Option<Bound<'_, PyAny>>,
    comparator_name: Option<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<RepairReport> {
    let comparator = comparator_of(comparator, comparator_name)?;
    let options = with(Options::default(), medium.map(|medium| medium.0), Options::medium);
    let options = with_comparator(options, comparator.as_ref());
    let mut progress = Progress::new(progress);
    let report = py.detach(|| options.repair(&path.0, &mut |at| progress.tell(at.done_bytes, at.total_bytes)));
    if let Some(comparator) = &comparator {
        comparator.check(py)?;
    }
    progress.check()?;
    Ok(RepairReport::of(py, report.map_err(|error| errors::exception(py, &error))?))
}

/// Removes the store in the directory `path`, its pool, and the directory if nothing else is in it.
///
/// `medium` names a pool that was moved. A store that is open raises LockedError.
#[pyfunction]
#[pyo3(signature = (path, *, medium=None))]
fn destroy(py: Python<'_>, path: FilePath, medium: Option<MediumArgument>) -> PyResult<Destroyed> {
    let options = with(Options::default(), medium.map(|medium| medium.0), Options::medium);
    let destroyed = py.detach(|| slmdb::destroy(&path.0, &options));
    destroyed.map(Destroyed::of).map_err(|error| errors::exception(py, &error))
}

/// What the package is made of.
#[pymodule]
mod _slmdb {
    #[pymodule_export]
    use super::batch::WriteBatch;
    #[pymodule_export]
    use super::db::DB;
    #[pymodule_export]
    use super::iterator::EntryIterator;
    #[pymodule_export]
    use super::prefixed::PrefixedDB;
    #[pymodule_export]
    use super::reader::Reader;
    #[pymodule_export]
    use super::reports::{Approximate, Destroyed, RepairReport, VerifyReport};
    #[pymodule_export]
    use super::shared::Shared;
    #[pymodule_export]
    use super::snapshot::Snapshot;
    #[pymodule_export]
    use super::store::{_close_all, _forked};
    #[pymodule_export]
    use super::writer::Writer;
    #[pymodule_export]
    use super::{destroy, repair};

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name that Python gives it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
