//! [`Shared`]: what stores of a process have in common.

use std::sync::Arc;

use pyo3::prelude::*;
use slmdb::SharedOptions;

use crate::errors::exception;
use crate::store::{Process, closed, without_interpreter};

/// Background threads, memory and open table files that several stores have in common: `DB(path, shared=shared)`.
///
/// `threads` is how many compactions run at once, from 1 to 4. The default is 2, with 256 MiB and 500 open table files. What
/// can't be raises InvalidError.
///
/// It lives as long as somebody refers to it, or a store is open that was opened with it. It is of no use in a process that
/// was forked after it was made: there an opening with it raises ClosedError.
#[pyclass(frozen, module = "slmdb")]
pub struct Shared {
    /// `Some` until it is dropped.
    inner: Option<Arc<slmdb::Shared>>,
    process: Process,
}

impl Shared {
    /// What an opening takes.
    pub fn inner(&self) -> PyResult<Arc<slmdb::Shared>> {
        self.process.check("the Shared was made")?;
        self.inner.clone().ok_or_else(|| closed("Shared"))
    }
}

#[pymethods]
impl Shared {
    /// For stores that take so much together.
    #[new]
    #[pyo3(signature = (*, memory_budget_bytes=None, threads=None, open_tables_max=None))]
    fn new(
        py: Python<'_>,
        memory_budget_bytes: Option<u64>,
        threads: Option<usize>,
        open_tables_max: Option<usize>,
    ) -> PyResult<Shared> {
        let defaults = SharedOptions::default();
        let options = SharedOptions {
            memory_budget_bytes: memory_budget_bytes.unwrap_or(defaults.memory_budget_bytes),
            threads: threads.unwrap_or(defaults.threads),
            open_tables_max: open_tables_max.unwrap_or(defaults.open_tables_max),
        };
        let shared = slmdb::Shared::new(options).map_err(|error| exception(py, &error))?;
        Ok(Shared { inner: Some(shared), process: Process::this() })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let inner = self.inner.take();
        if self.process.is_other() {
            std::mem::forget(inner);
        } else {
            // It waits for its threads, if nobody else has it.
            without_interpreter(|| drop(inner));
        }
    }
}
