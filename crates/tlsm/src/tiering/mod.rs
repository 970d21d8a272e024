//! Tiering (paper, IV-D): which runs lie in persistent memory, and which in files.

pub(crate) mod demotion;
pub(crate) mod policy;
