//! Tests that look inside.
pub(super) mod pause;
