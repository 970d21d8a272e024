//! What can go wrong in a measurement.

use std::fmt;

/// Why a benchmark could not be carried out.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// slmdb failed.
    Slmdb(slmdb::Error),
    /// Another store failed: its name, and what it said.
    Peer(String, String),
    /// What was asked for makes no sense. The text ends in what to do.
    Settings(String),
    /// What was asked for is not done, as things are. The text ends in what to do.
    Refused(String),
}

/// A result of the bench.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Slmdb(error) => error.fmt(formatter),
            Error::Peer(store, text) => write!(formatter, "{store}: {text}"),
            Error::Settings(text) | Error::Refused(text) => formatter.write_str(text),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Slmdb(error) => Some(error),
            Error::Peer(..) | Error::Settings(_) | Error::Refused(_) => None,
        }
    }
}

impl From<slmdb::Error> for Error {
    fn from(error: slmdb::Error) -> Error {
        Error::Slmdb(error)
    }
}
