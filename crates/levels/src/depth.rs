//! How many levels there are.

/// Number of levels, level 0 included.
pub const LEVELS_MAX: usize = 7;

/// The deepest level.
pub const LEVEL_LAST: u8 = LEVELS_MAX as u8 - 1;
