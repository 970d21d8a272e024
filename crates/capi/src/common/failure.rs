//! What can fail, and how it is caught before it reaches C.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use slmdb::Error;

/// Why a call failed.
#[derive(Debug, Clone)]
pub enum Failure {
    /// The store says so.
    Store(Error),
    /// The handle's store was closed.
    Closed,
    /// slmdb itself is wrong: it panicked, with this message.
    Panic(String),
}

/// `std::result::Result` with [`Failure`].
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// There is no memory for an answer.
    #[cold]
    pub fn no_memory(length_bytes: usize) -> Failure {
        let source = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        Failure::Store(Error::io("allocate", format!("{length_bytes} bytes"), source))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Store(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Store(error) => write!(to, "{error}; {}", error.advice()),
            Failure::Closed => to.write_str("the store was closed; open it again"),
            Failure::Panic(message) => {
                write!(to, "slmdb has a defect ({message}); close the store and open it again, and report this")
            }
        }
    }
}

/// Runs, and turns a panic into a failure.
///
/// What a panic leaves half done is behind handles: locks and atomics within the store, which are made for threads that
/// panic, or an object of one thread, which the header tells to give back after an error.
#[inline]
pub fn caught<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(Failure::Panic(message_of(&*panic))))
}

#[cold]
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_string())
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
            let failure = failure.unwrap_err();
            assert!(matches!(&failure, Failure::Panic(said) if said.contains(message)), "{failure}");
            assert!(failure.to_string().contains("defect"), "{failure}");
        }
        assert_eq!(caught(|| Ok(3)).unwrap(), 3);
    }
}
