//! The operating system as slmdb sees it.
//!
//! Every file operation of every layer goes through [`Env`] and [`File`], and so do the clock, randomness and the boot
//! id. [`OsEnv`] is the real one; tests put another in its place (`crates/testkit`). [`Error`] is the one error type of slmdb.
//!
//! `unsafe` is allowed in three modules: one maps files for reading (`os/mapped.rs`), two make a system call that no safe
//! library has (`os/process.rs`, `os/write_back.rs`).
#![deny(unsafe_code)]

mod environment;
mod error;
mod file;
pub mod os;

pub use environment::{DaxDevice, DirectoryEntry, Env, FileIdentity, Lock, LockMode, OpenMode};
pub use error::{Error, ErrorKind, Result, START_THREAD};
pub use file::{File, Mapped};
pub use os::{OsEnv, process_number};
