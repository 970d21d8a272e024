//! What snapshots see, and what they keep.

mod histories;
mod random;
