//! Compactions (paper, IV-B): what a level has too much of goes to the next.

pub(crate) mod compactor;
pub(crate) mod pace;
