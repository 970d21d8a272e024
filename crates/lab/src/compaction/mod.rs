//! Sections 3.2 to 3.4: chunks of level 0 go to level 1, and what levels have too much of goes deeper.

pub(crate) mod chunk;
pub(crate) mod compactor;
mod for_space;
mod garbage;
mod level_zero_compaction;
pub(crate) mod pace;
mod requests;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod unreadable;
