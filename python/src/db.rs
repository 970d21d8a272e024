//! [`DB`]: an open store.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use slmdb::Options;

use crate::bytes::Bytes;
use crate::options::{
    FilePath, MediumArgument, compaction_policy_of, comparator_of, compression_of, with, with_comparator,
};
use crate::reports::{Approximate, Progress, VerifyReport};
use crate::shared::Shared;
use crate::stats;
use crate::store::Store;
use crate::walk::edges;
use crate::writer::Writer;

/// An open store, which any number of threads may use at once.
///
/// It is closed at the end of its `with` block, by `close`, when nobody refers to it or its iterators any more, or when
/// the interpreter ends. It is of no use in a process that was forked after the opening: there everything raises
/// ClosedError.
#[pyclass(frozen, subclass, extends = Writer, module = "slmdb")]
pub struct DB {
    path: PathBuf,
}

#[pymethods]
impl DB {
    /// Opens the store in the directory `path`. docs/guide/python.md describes the options.
    #[new]
    #[pyo3(signature = (path, *, create_if_missing=true, error_if_exists=false, read_only=false, engine=None, medium=None,
        caches_are_persistent=false, sync=false, comparator=None, comparator_name=None, memory_budget_bytes=None,
        memtable_bytes=None, immutable_memtables_max=None, block_bytes=None, compression="lz4", open_tables_max=None,
        compaction_policy="garbage-first", compaction_threads=None, space_amplification_max=None, pool_initial_bytes=None,
        pool_growth_bytes=None, pool_maximum_bytes=None, shared=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        py: Python<'_>,
        path: FilePath,
        create_if_missing: bool,
        error_if_exists: bool,
        read_only: bool,
        engine: Option<&str>,
        medium: Option<MediumArgument>,
        caches_are_persistent: bool,
        sync: bool,
        comparator: Option<Bound<'_, PyAny>>,
        comparator_name: Option<String>,
        memory_budget_bytes: Option<u64>,
        memtable_bytes: Option<u64>,
        immutable_memtables_max: Option<usize>,
        block_bytes: Option<usize>,
        compression: &str,
        open_tables_max: Option<usize>,
        compaction_policy: &str,
        compaction_threads: Option<usize>,
        space_amplification_max: Option<f64>,
        pool_initial_bytes: Option<u64>,
        pool_growth_bytes: Option<u64>,
        pool_maximum_bytes: Option<u64>,
        shared: Option<Bound<'_, Shared>>,
    ) -> PyResult<PyClassInitializer<DB>> {
        let engine = engine.map(str::parse).transpose().map_err(|error| crate::errors::exception(py, &error))?;
        let comparator = comparator_of(comparator, comparator_name)?;
        let shared = shared.map(|shared| shared.get().inner()).transpose()?;
        let mut options = Options::default()
            .create_if_missing(create_if_missing)
            .error_if_exists(error_if_exists)
            .read_only(read_only)
            .caches_are_persistent(caches_are_persistent)
            .sync(sync)
            .compression(compression_of(compression)?)
            .compaction_policy(compaction_policy_of(compaction_policy)?);
        options = with(options, engine, Options::engine);
        options = with(options, medium.map(|medium| medium.0), Options::medium);
        options = with_comparator(options, comparator.as_ref());
        options = with(options, memory_budget_bytes, Options::memory_budget_bytes);
        options = with(options, memtable_bytes, Options::memtable_bytes);
        options = with(options, immutable_memtables_max, Options::immutable_memtables_max);
        options = with(options, block_bytes, Options::block_bytes);
        options = with(options, open_tables_max, Options::open_tables_max);
        options = with(options, compaction_threads, Options::compaction_threads);
        options = with(options, space_amplification_max, Options::space_amplification_max);
        options = with(options, pool_initial_bytes, Options::pool_initial_bytes);
        options = with(options, pool_growth_bytes, Options::pool_growth_bytes);
        options = with(options, pool_maximum_bytes, Options::pool_maximum_bytes);
        options = with(options, shared, |options, shared| options.shared(&shared));
        let FilePath(path) = path;
        let opened = py.detach(|| options.open(&path));
        if let Some(comparator) = &comparator {
            comparator.check(py)?;
        }
        let db = opened.map_err(|error| crate::errors::exception(py, &error))?;
        Ok(Writer::over(Store::new(db, comparator), Vec::new()).add_subclass(DB { path }))
    }

    /// The directory it was opened at.
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        self.path.as_os_str().into_pyobject(py).map_err(PyErr::from)
    }

    /// Whether it is closed.
    #[getter]
    fn closed(slf: PyRef<'_, Self>) -> bool {
        slf.as_super().store.is_closed()
    }

    /// Closes the store, its iterators and its snapshots, once calls of other threads have come back. Whatever is asked of
    /// them afterwards raises ClosedError. A store that is closed already is no error.
    fn close(slf: PyRef<'_, Self>, py: Python<'_>) -> PyResult<()> {
        slf.as_super().store.close(py)
    }

    /// Makes everything that was written survive a power cut.
    fn sync(slf: PyRef<'_, Self>, py: Python<'_>) -> PyResult<()> {
        slf.as_super().store.run(py, slmdb::Db::sync)
    }

    /// Brings everything that was written into table files. Never needed for safety.
    fn flush(slf: PyRef<'_, Self>, py: Python<'_>) -> PyResult<()> {
        slf.as_super().store.run(py, slmdb::Db::flush)
    }

    /// Merges the table files with keys from `start` on and before `stop`. Never needed: the store does what is worth it.
    #[pyo3(signature = (*, start=None, stop=None))]
    fn compact_range(
        slf: PyRef<'_, Self>,
        py: Python<'_>,
        start: Option<Bytes<'_, '_>>,
        stop: Option<Bytes<'_, '_>>,
    ) -> PyResult<()> {
        let range = edges(start.as_deref(), stop.as_deref());
        slf.as_super().store.run(py, |db| db.compact_range::<&[u8]>(range))
    }

    /// How much there is from the key `start` on and before `stop`, about. Takes some milliseconds at most.
    #[pyo3(signature = (*, start=None, stop=None))]
    fn approximate(
        slf: PyRef<'_, Self>,
        py: Python<'_>,
        start: Option<Bytes<'_, '_>>,
        stop: Option<Bytes<'_, '_>>,
    ) -> PyResult<Approximate> {
        let range = edges(start.as_deref(), stop.as_deref());
        slf.as_super().store.run(py, |db| db.approximate::<&[u8]>(range)).map(Approximate::from)
    }

    /// Makes a copy of the store in `directory`, which is new or empty, while reads and writes go on. The copy shares the
    /// table files.
    fn checkpoint(slf: PyRef<'_, Self>, py: Python<'_>, directory: FilePath) -> PyResult<()> {
        slf.as_super().store.run(py, |db| db.checkpoint(directory.0))
    }

    /// What the store holds and has done, under the names of `slmdb stats --json`.
    fn stats<'py>(slf: PyRef<'_, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = slf.as_super().store.run(py, |db| Ok(db.stats()))?;
        stats::dictionary(py, &stats)
    }

    /// What is known of each table file, under the names of `slmdb stats --files --json`.
    fn table_files<'py>(slf: PyRef<'_, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for file in slf.as_super().store.run(py, |db| Ok(db.table_files()))? {
            list.append(stats::of_table_file(py, &file)?)?;
        }
        Ok(list)
    }

    /// Checks everything there is against everything else. What is wrong is in the report.
    ///
    /// `progress` is called with the bytes that are done and those in all. What it raises is raised in the end.
    #[pyo3(signature = (*, progress=None))]
    fn verify(slf: PyRef<'_, Self>, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<VerifyReport> {
        let mut progress = Progress::new(progress);
        let report =
            slf.as_super().store.run(py, |db| db.verify(&mut |at| progress.tell(at.done_bytes, at.total_bytes)));
        progress.check()?;
        Ok(VerifyReport::of(py, report?))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __exit__(
        slf: PyRef<'_, Self>,
        py: Python<'_>,
        _kind: Bound<'_, PyAny>,
        _raised: Bound<'_, PyAny>,
        _trace: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        slf.as_super().store.close(py)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let state = if slf.as_super().get().store.is_closed() { ", closed" } else { "" };
        let name = slf.get_type().fully_qualified_name()?;
        Ok(format!("<{name} at {}{state}>", slf.get().path.display()))
    }
}
