//! Table files: their bytes, what reads them, and what damage does.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod compression;
mod failing_writes;
mod format;
mod hostile_bytes;
mod one_read;
mod order;
mod round_trip;
