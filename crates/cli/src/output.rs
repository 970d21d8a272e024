//! Where data goes ([`Output`]: standard output, or a file) and where words for people go ([`tell`], and [`report`] for
//! failures: standard error).
//!
//! Rust's start-up code makes writing to a pipe without a reader an error instead of a deadly signal; here it becomes
//! [`Failure::ClosedPipe`], which ends a command quietly. Nothing is printed with macros that would panic instead.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::replacement::{Replacement, Target};

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 64 * 1024;

/// What standard output is called.
const STANDARD_OUTPUT: &str = "standard output";

/// A buffered stream of data whose errors are failures of the command.
pub struct Output {
    writer: BufWriter<Sink>,
    path: PathBuf,
}

/// Where it goes.
enum Sink {
    Standard(StdoutLock<'static>),
    Straight(File),
    Beside(Box<Replacement>),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Standard(output) => output.write(bytes),
            Sink::Straight(file) => file.write(bytes),
            Sink::Beside(replacement) => replacement.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Standard(output) => output.flush(),
            Sink::Straight(_) | Sink::Beside(_) => Ok(()),
        }
    }
}

impl Output {
    /// Standard output.
    pub fn standard() -> Output {
        Output::to(Sink::Standard(io::stdout().lock()), PathBuf::from(STANDARD_OUTPUT))
    }

    /// The file at `path`, which is there once [`Output::finish`] has put it there. Pipes and devices are written at once.
    pub fn file(path: &Path) -> Result<Output> {
        let sink = match Target::of(path)? {
            Target::Beside(replacement) => Sink::Beside(replacement),
            Target::Straight(file) => Sink::Straight(file),
        };
        Ok(Output::to(sink, path.to_path_buf()))
    }

    fn to(sink: Sink, path: PathBuf) -> Output {
        Output { writer: BufWriter::with_capacity(BUFFER_BYTES, sink), path }
    }

    /// Adds `bytes`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.writer.write_all(bytes);
        written.map_err(|error| failed(&self.path, error))
    }

    /// Adds `text` and a line feed.
    pub fn line(&mut self, text: &str) -> Result<()> {
        self.write(text.as_bytes())?;
        self.write(b"\n")
    }

    /// Hands everything to the system. Must end every use but that of a file: only here do the last errors show.
    pub fn flush(&mut self) -> Result<()> {
        let flushed = self.writer.flush();
        flushed.map_err(|error| failed(&self.path, error))
    }

    /// The same, and puts a file in its place.
    pub fn finish(self) -> Result<()> {
        let Output { writer, path } = self;
        let put = match writer.into_inner() {
            Ok(Sink::Beside(replacement)) => replacement.put_in_place(),
            Ok(mut sink) => sink.flush(),
            Err(error) => Err(error.into_error()),
        };
        put.map_err(|error| failed(&path, error))
    }

    /// What stands under a file's name if it can't be finished; none if that is what was written.
    pub fn what_stays(&self) -> Option<&'static str> {
        match self.writer.get_ref() {
            Sink::Beside(replacement) => Some(replacement.what_stays()),
            Sink::Standard(_) | Sink::Straight(_) => None,
        }
    }
}

fn failed(path: &Path, error: io::Error) -> Failure {
    match error.downcast::<Failure>() {
        Ok(failure) => failure,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
        Err(source) => {
            let file = (path != Path::new(STANDARD_OUTPUT)).then(|| path.to_path_buf());
            Failure::Output { done: None, file, source }
        }
    }
}

/// Prints `text` on standard output.
fn print(text: &str) -> Result<()> {
    let mut output = Output::standard();
    output.write(text.as_bytes())?;
    output.flush()
}

/// Says a line to people. That nobody can hear it is no reason to fail.
pub fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Tells people about a failure and gives the process's exit code.
pub fn report(failure: Failure) -> u8 {
    match &failure {
        Failure::ClosedPipe | Failure::Interrupted(_) => failure.code(),
        Failure::Help(text) => match print(text) {
            Ok(()) => 0,
            Err(failure) => report(failure),
        },
        _ => {
            tell(&format!("slmdb: {}", failure.line()));
            failure.code()
        }
    }
}

/// Says a line only if somebody sits there to read it; scripts get silence.
pub fn tell_people(line: &str) {
    if io::stderr().is_terminal() {
        tell(line);
    }
}
