//! Tests that stop a reader or a writer in the middle.

#![allow(clippy::unwrap_used)]

#[cfg(not(loom))]
mod interleave;
#[cfg(loom)]
mod models;
pub(super) mod pause;
#[cfg(loom)]
mod split_models;
