//! Compactions: what is merged when ([`slmdb_levels`]), how outputs are written (paper, IV-B), and how far writers are slowed.

pub(crate) mod cleaning;
pub(crate) mod compactor;
pub(crate) mod pace;
pub(crate) mod pool_output;
