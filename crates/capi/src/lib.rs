//! slmdb for C: `libslmdb`, with two sets of functions.
//!
//! - [`leveldb`]: the 68 functions of LevelDB's C interface, so that a program that was made for `libleveldb` runs on
//!   slmdb. `include/leveldb/c.h` declares them.
//! - [`native`]: slmdb's own, with what LevelDB has not. `include/slmdb/c.h` declares them.
//!
//! The headers say what each function does, and are what users read. A test compares them with this code. Both sets
//! share [`common`]: how arguments are read, memory is handed over and failures are caught.
//!
//! **Nothing unwinds into the caller.** A function that calls the store catches a panic and answers as after an error. In
//! the others a panic would end the process, as Rust does it for every `extern "C"` function.
//!
//! **Rules.** Rust can't check what C passes. Each `unsafe` block names the rule of the headers that it rests on:
//!
//! - HANDLE: a handle is null, or came from the function that makes its kind and has not been given back. No other
//!   thread uses it meanwhile in a way that the header forbids.
//! - BYTES: a pointer with a length leads to that many bytes, which nobody changes during the call. It may be null if
//!   the length is 0.
//! - TEXT: a text is null, or ends with a zero byte.
//! - PLACE: a place for an answer is null or may be written to.
//! - CALLBACK: a function that the caller passes may be called as its comment in the header says.

// The names are those of C.
#![allow(non_camel_case_types)]
// The rules above are those of every function.
#![allow(clippy::missing_safety_doc)]

pub mod common;
pub mod leveldb;
pub mod native;
