//! Tests that stop a reader or a writer in the middle.

#![allow(clippy::unwrap_used)]

mod interleave;
pub(super) mod pause;
