//! Tests that stop a reader or a writer in the middle, and of what no tree shows from outside.

#![allow(clippy::unwrap_used)]

#[cfg(not(loom))]
mod interleave;
#[cfg(loom)]
mod models;
pub(super) mod pause;
#[cfg(not(loom))]
mod shortcuts;
#[cfg(not(loom))]
mod shrinking;
#[cfg(not(loom))]
mod sides;
#[cfg(loom)]
mod split_models;
