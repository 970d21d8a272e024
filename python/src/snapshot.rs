//! [`Snapshot`]: a store as it was at one moment.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::reader::{Reader, Source};
use crate::store::Held;
use crate::writer::Writer;

/// The store as it was when `snapshot` was called, whatever has been written since.
///
/// It may be kept for long: writers go on. Close it to give back what it keeps; then it raises ClosedError.
#[pyclass(frozen, subclass, extends = Reader, module = "slmdb")]
pub struct Snapshot {
    held: Arc<Held<slmdb::Snapshot>>,
}

impl Snapshot {
    /// A snapshot of `writer`.
    pub fn of(writer: &Bound<'_, Writer>) -> PyResult<PyClassInitializer<Snapshot>> {
        let held = writer.get().store.hold(writer.py(), slmdb::Db::snapshot)?;
        let prefix = writer.as_super().get().prefix.clone();
        let reader = Reader { source: Source::Snapshot(held.clone()), prefix };
        Ok(PyClassInitializer::from(reader).add_subclass(Snapshot { held }))
    }
}

#[pymethods]
impl Snapshot {
    #[new]
    fn new(db: Bound<'_, Writer>) -> PyResult<PyClassInitializer<Snapshot>> {
        Snapshot::of(&db)
    }

    /// The number of the last write that it sees.
    #[getter]
    fn sequence_number(&self, py: Python<'_>) -> PyResult<u64> {
        self.held.run(py, "snapshot", |snapshot| Ok(snapshot.sequence_number()))
    }

    /// Gives back what it keeps of the store. Iterators of it go on.
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
