//! [`Heading`]: the direction in which a cursor goes.

/// The direction in which a cursor goes. Its sources stand at the cursor's key, or beyond it in this direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heading {
    /// To larger keys.
    Forward,
    /// To smaller keys.
    Backward,
}
