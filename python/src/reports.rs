//! What verifying, repairing, destroying and estimating tell.

use std::path::Path;

use pyo3::prelude::*;
use slmdb::PoolFate;

use crate::errors::exception;

/// What `verify` has found.
#[pyclass(frozen, get_all, module = "slmdb")]
pub struct VerifyReport {
    /// What is wrong, as exceptions that were not raised. Empty: nothing is.
    findings: Vec<Py<PyAny>>,
    /// Table files that were read from end to end.
    table_files_checked: u64,
    /// Their bytes.
    table_bytes_checked: u64,
    /// Entries in them, each of which was compared with the index.
    entries_checked: u64,
    /// Keys in the index, each of which was compared with its table file.
    index_keys_checked: u64,
    /// Entries in MemTables.
    memtable_entries: u64,
}

impl VerifyReport {
    /// For Python.
    pub fn of(py: Python<'_>, report: slmdb::VerifyReport) -> VerifyReport {
        VerifyReport {
            findings: exceptions(py, &report.findings),
            table_files_checked: report.table_files_checked,
            table_bytes_checked: report.table_bytes_checked,
            entries_checked: report.entries_checked,
            index_keys_checked: report.index_keys_checked,
            memtable_entries: report.memtable_entries,
        }
    }
}

#[pymethods]
impl VerifyReport {
    /// Whether nothing was found.
    #[getter]
    fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    fn __repr__(&self) -> String {
        format!("<slmdb.VerifyReport: {} findings in {} entries>", self.findings.len(), self.entries_checked)
    }
}

/// What `repair` has made, and what it could not save.
#[pyclass(frozen, get_all, module = "slmdb")]
pub struct RepairReport {
    /// Table files that were read from end to end.
    table_files_checked: u64,
    /// Entries that were in MemTables and are in table files now.
    memtable_entries_saved: u64,
    /// Keys in the new index.
    index_keys: u64,
    /// The new pool, if the store has one.
    pool: Option<String>,
    /// What was damaged, as exceptions that were not raised.
    damage: Vec<Py<PyAny>>,
    /// What could not be saved, in words. Empty: everything was.
    losses: Vec<String>,
    /// Damaged files, under their new names.
    set_aside: Vec<String>,
    /// The pool of the store that this one is a copy of, if it had no pool of its own. Nothing of it was changed.
    left_pool: Option<String>,
}

impl RepairReport {
    /// For Python.
    pub fn of(py: Python<'_>, report: slmdb::RepairReport) -> RepairReport {
        RepairReport {
            table_files_checked: report.table_files_checked,
            memtable_entries_saved: report.memtable_entries_saved,
            index_keys: report.index_keys,
            pool: report.pool.as_deref().map(text),
            damage: exceptions(py, &report.damage),
            losses: report.losses.iter().map(ToString::to_string).collect(),
            set_aside: report.set_aside.iter().map(|path| text(path)).collect(),
            left_pool: report.left_pool.as_deref().map(text),
        }
    }
}

#[pymethods]
impl RepairReport {
    fn __repr__(&self) -> String {
        format!("<slmdb.RepairReport: {} keys, {} losses>", self.index_keys, self.losses.len())
    }
}

/// What `destroy` has removed, and what it has left.
#[pyclass(frozen, get_all, module = "slmdb")]
pub struct Destroyed {
    /// Files of the directory that were removed.
    files: u64,
    /// Their length, in bytes.
    bytes: u64,
    /// What became of the pool, in words. `None`: the store had none.
    pool: Option<String>,
    /// Names in the directory that are not the store's. They are left, and so is the directory.
    left: Vec<String>,
    /// Whether the directory is left although nothing is in it.
    is_directory_left: bool,
}

impl Destroyed {
    /// For Python.
    pub fn of(destroyed: slmdb::Destroyed) -> Destroyed {
        let slmdb::Destroyed { files, bytes, pool, left, is_directory_left } = destroyed;
        let pool = match pool {
            PoolFate::None => None,
            PoolFate::Removed(path) => Some(format!("removed {}", path.display())),
            PoolFate::Missing(path) => Some(format!("there was nothing at {}", path.display())),
            PoolFate::Left { path, why } => {
                Some(format!("left {}: {why}", path.as_deref().map_or_else(|| "it".to_string(), text)))
            }
            // There may be other fates later.
            other => Some(format!("{other:?}")),
        };
        Destroyed { files, bytes, pool, left, is_directory_left }
    }
}

#[pymethods]
impl Destroyed {
    fn __repr__(&self) -> String {
        format!("<slmdb.Destroyed: {} files, {} bytes>", self.files, self.bytes)
    }
}

/// The approximate size of a range.
#[pyclass(frozen, get_all, module = "slmdb")]
pub struct Approximate {
    /// Keys that have a value.
    keys: u64,
    /// Bytes of table files that their entries take.
    table_bytes: u64,
    /// Bytes of keys and values in MemTables, superseded ones included.
    memtable_bytes: u64,
}

impl From<slmdb::Approximate> for Approximate {
    fn from(about: slmdb::Approximate) -> Approximate {
        Approximate { keys: about.keys, table_bytes: about.table_bytes, memtable_bytes: about.memtable_bytes }
    }
}

#[pymethods]
impl Approximate {
    fn __repr__(&self) -> String {
        let Approximate { keys, table_bytes, memtable_bytes } = self;
        format!("<slmdb.Approximate: {keys} keys, {table_bytes} bytes in table files, {memtable_bytes} in MemTables>")
    }
}

/// Tells a function of two numbers (bytes done, bytes in all) of the progress, and remembers the first exception that it
/// raises, or a signal does. Then it tells nothing more.
pub struct Progress {
    function: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Progress {
    /// To `function`.
    pub fn new(function: Option<Py<PyAny>>) -> Progress {
        Progress { function, raised: None }
    }

    /// Tells it, from a thread without the interpreter's lock.
    pub fn tell(&mut self, done_bytes: u64, total_bytes: u64) {
        if self.raised.is_some() {
            return;
        }
        let told = Python::attach(|py| {
            py.check_signals()?;
            match &self.function {
                Some(function) => function.call1(py, (done_bytes, total_bytes)).map(drop),
                None => Ok(()),
            }
        });
        self.raised = told.err();
    }

    /// The exception, if there was one.
    pub fn check(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
    }
}

fn exceptions(py: Python<'_>, errors: &[slmdb::Error]) -> Vec<Py<PyAny>> {
    errors.iter().map(|error| exception(py, error).into_value(py).into_any()).collect()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
