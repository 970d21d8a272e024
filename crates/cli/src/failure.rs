//! How a command ends: [`Exit`] when it did what it was asked, [`Failure`] when it could not.
//!
//! A failure is one line on standard error, `slmdb: KIND: what happened [FILE@OFFSET]: cause; what to do`, and an exit
//! code by which scripts can tell a wrong question (2) from a store that could not answer (3). A reader that has gone
//! away (`slmdb scan … | head`) is no failure: the command ends quietly.

use std::fmt::{self, Write as _};
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use slmdb::{Error, ErrorKind};

/// A result that failed, or a command's outcome.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// How a command ended that did what it was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done: 0.
    Done,
    /// The answer is no: `get` of a missing key, a conditional write that did not apply, `verify` that found damage. 1.
    No,
    /// The shell's end: the highest code of its answers.
    Answered(u8),
}

impl Exit {
    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::No => 1,
            Exit::Answered(code) => code,
        }
    }
}

/// Why a command could not do what it was asked to do.
#[derive(Debug)]
pub enum Failure {
    /// The reader of the output has gone away. Ends quietly, with 0.
    ClosedPipe,
    /// Standard output, or the file that data was to go to, could not be written.
    Output {
        /// What the command had done by then, if it changed anything or found something out.
        done: Option<String>,
        /// The file; none for standard output.
        file: Option<PathBuf>,
        /// Why not.
        source: io::Error,
    },
    /// A signal asked the process to end, and the command has brought to an end what it had in hand and told so: 128 and
    /// the signal's number, as if it had been the end at once.
    Interrupted(u8),
    /// The same as another failure, which leaves something behind: what, in a few words.
    Leaving(Box<Failure>, String),
    /// `--help` or `--version`: not a failure, but the end of parsing. Text for standard output.
    Help(String),
    /// The command line does not say something that can be done: what is wrong, and what to do.
    Usage(String),
    /// The store failed.
    Store(Error),
    /// The command itself found something wrong: the kind, and a text that ends in what to do.
    Told(ErrorKind, String),
}

impl Failure {
    /// A wrong command line. `what` ends in what to do about it.
    pub fn usage(what: impl Into<String>) -> Failure {
        Failure::Usage(what.into())
    }

    /// Input or state that can't be worked with. `what` ends in what to do about it.
    pub fn invalid(what: impl Into<String>) -> Failure {
        Failure::Told(ErrorKind::Invalid, what.into())
    }

    /// Something this version can't do. `what` ends in what to do about it.
    pub fn unsupported(what: impl Into<String>) -> Failure {
        Failure::Told(ErrorKind::Unsupported, what.into())
    }

    /// The operating system failed on `path`.
    pub fn io(operation: &'static str, path: impl AsRef<Path>, source: io::Error) -> Failure {
        Failure::Store(Error::io(operation, path, source))
    }

    /// The same; if it is an output that could not be written, with what had been `done` before.
    pub fn after(self, done: impl Into<String>) -> Failure {
        match self {
            Failure::Output { file, source, .. } => Failure::Output { done: Some(done.into()), file, source },
            other => other,
        }
    }

    /// The same, which leaves `what` behind.
    pub fn leaving(self, what: impl Into<String>) -> Failure {
        Failure::Leaving(Box::new(self), what.into())
    }

    /// The exit code it stands for.
    pub fn code(&self) -> u8 {
        match self {
            Failure::ClosedPipe | Failure::Help(_) => 0,
            Failure::Interrupted(signal) => 128 + signal,
            Failure::Leaving(failure, _) => failure.code(),
            Failure::Usage(_) => 2,
            Failure::Output { .. } | Failure::Store(_) | Failure::Told(..) => 3,
        }
    }

    /// `KIND: what happened [FILE@OFFSET]: cause; what to do`, in one line. Empty when there is nothing to say.
    pub fn line(&self) -> String {
        let text = match self {
            Failure::ClosedPipe | Failure::Help(_) => String::new(),
            Failure::Interrupted(signal) => format!("io: interrupted by signal {signal}; give the command again"),
            Failure::Usage(what) => format!("usage: {what}"),
            Failure::Leaving(failure, what) => format!("{}; {what}", failure.line()),
            Failure::Output { done, file, source } => {
                let done = done.as_ref().map_or_else(String::new, |done| format!("{done}, but "));
                let (kind, advice) = match source.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                        (ErrorKind::Full, "free some space there")
                    }
                    _ => (ErrorKind::Io, advice_on(source).unwrap_or("look at where it goes")),
                };
                let kind = kind.name();
                let output = file.as_ref().map_or_else(
                    || "standard output could not be written".to_string(),
                    |file| format!("the output could not be written [{}]", file.display()),
                );
                format!("{kind}: {done}{output}: {source}; {advice}, or send it elsewhere")
            }
            Failure::Store(error) => format!("{}: {error}; {}", error.kind().name(), advice(error)),
            Failure::Told(kind, what) => format!("{}: {what}", kind.name()),
        };
        one_line(&text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.line())
    }
}

/// So that a reader or a writer can hand one through an [`io::Error`].
impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Store(error)
    }
}

impl From<slmdb_bench::Error> for Failure {
    fn from(error: slmdb_bench::Error) -> Failure {
        match error {
            slmdb_bench::Error::Slmdb(error) => Failure::Store(error),
            slmdb_bench::Error::Settings(text) => Failure::Usage(text),
            other => Failure::invalid(other.to_string()),
        }
    }
}

/// What to do about a store's error, in a command's terms.
fn advice(error: &Error) -> &'static str {
    match error {
        Error::Io { source, .. } => advice_on(source).unwrap_or(error.advice()),
        Error::Full { path, .. } if path.extension().is_some_and(|extension| extension == "arena") => {
            "free some space, or have a smaller MemTable with --memtable; nothing was written"
        }
        _ => error.advice(),
    }
}

/// What to do about an error of the system that says by itself what is missing.
fn advice_on(error: &io::Error) -> Option<&'static str> {
    Some(match error.kind() {
        io::ErrorKind::NotFound => "there is nothing at this path: correct it, or make what is missing",
        io::ErrorKind::PermissionDenied => {
            "this user may not do that there: change the permissions, or give the command as another user"
        }
        io::ErrorKind::IsADirectory => "this is a directory: name a file",
        io::ErrorKind::NotADirectory => "a part of the path is no directory: correct it",
        io::ErrorKind::FileTooLarge => {
            "the file may not grow further: raise the limit on the size of files (ulimit -f), or use another file system"
        }
        io::ErrorKind::InvalidFilename => "shorten the name: one has at most 255 bytes, with its path 4,095",
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system is mounted for reading: mount it for writing, or use another"
        }
        _ => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::MFILE) => "too many files are open: raise the limit (ulimit -n)",
            Some(Errno::LOOP) => "symbolic links go round in circles: correct them",
            _ => return None,
        },
    })
}

/// `text` with control characters escaped, so that a file name with a line feed in it can't make two lines of one.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            // What is left of the control characters is below 0x20, 0x7f, or from 0x80 to 0x9f.
            control if control.is_control() => {
                let _ = write!(line, "\\u{{{:x}}}", u32::from(control));
            }
            plain => line.push(plain),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_tell_a_wrong_question_from_a_failure() {
        assert_eq!(Failure::ClosedPipe.code(), 0);
        assert_eq!(Failure::usage("x").code(), 2);
        assert_eq!(Failure::invalid("x").code(), 3);
        assert_eq!(Failure::from(Error::invalid("x")).code(), 3);
    }

    #[test]
    fn what_the_system_says_is_missing_is_said_to_be_missing() {
        for (errno, advice) in [
            (Errno::NOENT, "nothing at this path"),
            (Errno::ACCESS, "permissions"),
            (Errno::PERM, "permissions"),
            (Errno::ISDIR, "name a file"),
            (Errno::NOTDIR, "no directory"),
            (Errno::FBIG, "ulimit -f"),
            (Errno::NAMETOOLONG, "shorten"),
            (Errno::ROFS, "mounted for reading"),
            (Errno::MFILE, "ulimit -n"),
            (Errno::LOOP, "symbolic links"),
            (Errno::NOSPC, "free some space"),
            (Errno::DQUOT, "free some space"),
            (Errno::IO, "the device"),
        ] {
            let line = Failure::io("open", "/a/file", errno.into()).line();
            assert!(line.contains(advice) && line.contains("[/a/file]"), "{line}");
        }
    }

    #[test]
    fn a_failure_is_one_line_whatever_is_in_it() {
        let failure = Failure::from(Error::corruption("a\nb", 7, "wrong\tchecksum\u{7f}"));
        let expected = "corruption: damage found [a\\nb@7]: wrong\\tchecksum\\u{7f}; ";
        assert!(failure.line().starts_with(expected), "{}", failure.line());
        assert!(!failure.line().contains('\n'));
    }
}
