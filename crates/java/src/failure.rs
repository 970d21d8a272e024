//! What can fail, and how it is caught before it reaches Java.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use slmdb::Error;

/// Why a call failed.
#[derive(Debug)]
pub enum Failure {
    /// The store says so.
    Store(Error),
    /// The number stands for nothing, or for nothing any more.
    Closed,
    /// slmdb itself is wrong: it panicked, with this message.
    Panic(String),
    /// The virtual machine says so. An exception may be on its way already.
    Java(jni::errors::Error),
}

/// `std::result::Result` with [`Failure`].
pub type Result<T> = std::result::Result<T, Failure>;

/// What Java makes an exception of.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    /// The class of the exception, one of the numbers in `SlmdbException.java`.
    pub kind: i32,
    /// What failed, and what to do.
    pub message: String,
    /// The file; empty if it is about none.
    pub path: String,
    /// The offset of damage, or the process that holds the lock; negative if there is none.
    pub number: i64,
}

impl Failure {
    /// As Java is told.
    pub fn told(&self) -> Told {
        let message = self.to_string();
        let about = |kind, path: &std::path::Path, number| (kind, path.to_string_lossy().into_owned(), number);
        let (kind, path, number) = match self {
            Failure::Store(error) => match error {
                Error::Locked { path, holder } => about(1, path, holder.map_or(-1, i64::from)),
                Error::ReadOnly { .. } => (2, String::new(), -1),
                Error::Full { path, .. } => about(3, path, -1),
                Error::Corruption { file, offset, .. } => about(4, file, i64::try_from(*offset).unwrap_or(i64::MAX)),
                Error::Unsupported { file, .. } => about(5, file.as_deref().unwrap_or("".as_ref()), -1),
                Error::Io { path, .. } => about(7, path, -1),
                // More kinds may come; this one asks the least of a caller.
                _ => (6, String::new(), -1),
            },
            Failure::Closed => (8, String::new(), -1),
            Failure::Panic(_) | Failure::Java(_) => (9, String::new(), -1),
        };
        Told { kind, message, path, number }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Store(error)
    }
}

impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Failure {
        Failure::Java(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Store(error) => write!(to, "{error}; {}", error.advice()),
            Failure::Closed => to.write_str("the store, snapshot, cursor or Shared is closed; open another"),
            Failure::Panic(message) => {
                write!(to, "slmdb has a defect ({message}); close the store and open it again, and report this")
            }
            Failure::Java(error) => write!(to, "the Java virtual machine refused a call of slmdb's: {error}"),
        }
    }
}

/// Runs, and turns a panic into a failure.
///
/// What a panic leaves half done is behind handles: locks and atomics within the store, which are made for threads that
/// panic, or a cursor, which seeks anew after a failure.
#[inline]
pub fn caught<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(of_panic(&*panic)))
}

/// The failure that a panic is.
#[cold]
pub fn of_panic(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    Failure::Panic(text.unwrap_or_else(|| "a panic without a message".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure_with_its_message() {
        for (failure, message) in [
            (caught::<()>(|| panic!("plain")), "plain"),
            (caught::<()>(|| panic!("with {}", 1)), "with 1"),
            (caught::<()>(|| std::panic::panic_any(3)), "without a message"),
        ] {
            let told = failure.unwrap_err().told();
            assert!(told.kind == 9 && told.message.contains(message) && told.message.contains("defect"), "{told:?}");
        }
        assert_eq!(caught(|| Ok(3)).unwrap(), 3);
    }

    #[test]
    fn java_is_told_the_kind_the_file_and_the_number() {
        let damage = Failure::from(Error::corruption("file", 17, "x")).told();
        assert_eq!((damage.kind, damage.path.as_str(), damage.number), (4, "file", 17));
        let locked = Failure::from(Error::Locked { path: "LOCK".into(), holder: Some(3) }).told();
        assert_eq!((locked.kind, locked.path.as_str(), locked.number), (1, "LOCK", 3));
        let invalid = Failure::from(Error::invalid("no")).told();
        assert_eq!((invalid.kind, invalid.path.as_str(), invalid.number), (6, "", -1));
        assert!(invalid.message.contains("correct the request"));
        assert_eq!(Failure::Closed.told().kind, 8);
    }
}
