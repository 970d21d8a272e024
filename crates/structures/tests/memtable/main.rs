//! The MemTable against models, crashes and hostile bytes.
#![allow(clippy::unwrap_used)]

#[path = "../memtable_support/mod.rs"]
mod memtable_support;

mod crash;
mod links;
mod model;
mod order;
mod replay;
mod stress;
