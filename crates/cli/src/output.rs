//! Where data goes ([`Output`]: standard output, or a file) and where words for people go ([`tell`]: standard error).
//!
//! Rust's start-up code makes writing to a pipe without a reader an error instead of a deadly signal; here it becomes
//! [`Failure::ClosedPipe`], which ends a command quietly. Nothing is printed with macros that would panic instead.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 64 * 1024;

/// What standard output is called.
const STANDARD_OUTPUT: &str = "standard output";

/// A buffered stream of data whose errors are failures of the command.
pub struct Output {
    writer: BufWriter<Box<dyn Write>>,
    path: PathBuf,
}

impl Output {
    /// Standard output.
    pub fn standard() -> Output {
        Output::to(Box::new(io::stdout().lock()), PathBuf::from(STANDARD_OUTPUT))
    }

    /// A new file, or an old one emptied.
    pub fn file(path: &Path) -> Result<Output> {
        let file = File::create(path).map_err(|error| Failure::io("create", path, error))?;
        Ok(Output::to(Box::new(file), path.to_path_buf()))
    }

    fn to(writer: Box<dyn Write>, path: PathBuf) -> Output {
        Output { writer: BufWriter::with_capacity(BUFFER_BYTES, writer), path }
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

    /// Hands everything to the system. Must end every use: only here do the last errors show.
    pub fn flush(&mut self) -> Result<()> {
        let flushed = self.writer.flush();
        flushed.map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
        _ if path == Path::new(STANDARD_OUTPUT) => Failure::Output { done: None, source: error },
        _ => Failure::io("write", path, error),
    }
}

/// Prints `text` on standard output.
pub fn print(text: &str) -> Result<()> {
    let mut output = Output::standard();
    output.write(text.as_bytes())?;
    output.flush()
}

/// Says a line to people. That nobody can hear it is no reason to fail.
pub fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Says a line only if somebody sits there to read it; scripts get silence.
pub fn tell_people(line: &str) {
    if io::stderr().is_terminal() {
        tell(line);
    }
}
