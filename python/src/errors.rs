//! The exceptions: one for each kind of error. `package/slmdb/_errors.py` defines them, for they have two bases each.

use pyo3::prelude::*;
use slmdb::Error;

mod exceptions {
    #![allow(missing_docs, reason = "described where they are defined")]

    use pyo3::import_exception;

    import_exception!(slmdb._errors, ClosedError);
    import_exception!(slmdb._errors, ComparatorError);
    import_exception!(slmdb._errors, CorruptionError);
    import_exception!(slmdb._errors, FullError);
    import_exception!(slmdb._errors, InvalidError);
    import_exception!(slmdb._errors, IOError);
    import_exception!(slmdb._errors, LockedError);
    import_exception!(slmdb._errors, ReadOnlyError);
    import_exception!(slmdb._errors, UnsupportedError);
}

pub use exceptions::{ClosedError, ComparatorError, InvalidError};
use exceptions::{CorruptionError, FullError, IOError, LockedError, ReadOnlyError, UnsupportedError};

/// The exception that says what `error` says.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let message = format!("{error}; {}", error.advice());
    match error {
        Error::Locked { path, holder } => {
            let raised = LockedError::new_err((libc::EAGAIN, message, path.clone().into_os_string()));
            with_attribute(py, raised, "holder", *holder)
        }
        Error::Full { path, .. } => FullError::new_err((libc::ENOSPC, message, path.clone().into_os_string())),
        Error::Io { path, source, .. } => {
            IOError::new_err((source.raw_os_error().unwrap_or(libc::EIO), message, path.clone().into_os_string()))
        }
        Error::Corruption { file, offset, .. } => {
            let raised = CorruptionError::new_err(message);
            with_attribute(py, with_attribute(py, raised, "path", file.to_string_lossy()), "offset", *offset)
        }
        Error::ReadOnly { .. } => ReadOnlyError::new_err(message),
        Error::Unsupported { .. } => UnsupportedError::new_err(message),
        // More kinds may come; this one asks the least of a caller.
        _ => InvalidError::new_err(message),
    }
}

/// The exception with another attribute, or the exception that setting it raised.
fn with_attribute<'py>(py: Python<'py>, raised: PyErr, name: &str, value: impl IntoPyObject<'py>) -> PyErr {
    match raised.value(py).setattr(name, value) {
        Ok(()) => raised,
        Err(other) => other,
    }
}
