//! [`Heading`]: which way a cursor goes.

use slmdb_structures::fast_fair::Direction;

/// Which way the sources stand: at the cursor's key or beyond it, in this direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heading {
    /// To larger keys.
    Forward,
    /// To smaller keys.
    Backward,
}

impl Heading {
    /// The same, of the index.
    pub(crate) fn direction(self) -> Direction {
        match self {
            Heading::Forward => Direction::Forward,
            Heading::Backward => Direction::Backward,
        }
    }
}
