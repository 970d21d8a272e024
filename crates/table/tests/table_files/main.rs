//! Table files: their bytes, what reads them, and what damage does.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod by_key;
mod compression;
mod failing_writes;
mod format;
mod hostile_bytes;
mod hostile_index;
mod one_read;
mod order;
mod round_trip;
