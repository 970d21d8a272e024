//! Where records come from: a file, or standard input.
//!
//! Reading ends with a [`Failure::Interrupted`] when a signal asks the process to end, also while it waits. Between what has been
//! read and what is waited for, a command may store what it has ([`Input::storing`]): who stops feeding a pipe finds
//! everything in the store.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::interruption::Interruption;

/// An open input.
pub struct Input {
    file: File,
    interruption: Interruption,
    /// What it is called in messages.
    pub name: PathBuf,
    /// Its length, if it has one.
    pub length_bytes: Option<u64>,
}

impl Input {
    /// Standard input.
    pub fn standard() -> Result<Input> {
        let name = PathBuf::from("standard input");
        // Unbuffered, so that what waits to be read can be seen from outside.
        let file = io::stdin().as_fd().try_clone_to_owned().map_err(|error| Failure::io("open", &name, error))?;
        Input::new(file.into(), name)
    }

    /// The file at `path`.
    pub fn open(path: &Path) -> Result<Input> {
        let file = File::open(path).map_err(|error| Failure::io("open", path, error))?;
        Input::new(file, path.to_path_buf())
    }

    fn new(file: File, name: PathBuf) -> Result<Input> {
        let failed = |error| Failure::io("open", &name, error);
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        let length_bytes = metadata.is_file().then_some(metadata.len());
        let interruption =
            Interruption::watch().map_err(|error| Failure::io("listen for signals", "this process", error))?;
        Ok(Input { file, interruption, name, length_bytes })
    }

    /// The same, and `store` is called whenever reading would have to wait, `seen` with the number of bytes read so far.
    pub fn storing(&self, store: impl FnMut() -> Result<()>, seen: impl FnMut(u64)) -> impl Read {
        Storing { input: self, store, seen, read_bytes: 0 }
    }

    /// What an error in reading means: a failure that it carries, or that the input can't be read.
    pub fn failure(&self, error: io::Error) -> Failure {
        error.downcast::<Failure>().unwrap_or_else(|error| Failure::io("read", &self.name, error))
    }
}

impl Read for &Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.interruption.wait_for(self.file.as_fd())?;
        (&self.file).read(buffer)
    }
}

struct Storing<'i, S, N> {
    input: &'i Input,
    store: S,
    seen: N,
    read_bytes: u64,
}

impl<S: FnMut() -> Result<()>, N: FnMut(u64)> Read for Storing<'_, S, N> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.input.interruption.is_ready(self.input.file.as_fd())? {
            (self.store)().map_err(io::Error::other)?;
        }
        let mut input = self.input;
        let read_bytes = input.read(buffer)?;
        self.read_bytes += read_bytes as u64;
        (self.seen)(self.read_bytes);
        Ok(read_bytes)
    }
}
