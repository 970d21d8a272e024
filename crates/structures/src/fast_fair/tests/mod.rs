//! Tests that stop a reader or a writer in the middle.

mod interleave;
pub(super) mod pause;
