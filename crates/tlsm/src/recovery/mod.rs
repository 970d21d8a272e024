//! Opening, copies and repair (paper, IV-E). The MANIFEST says which runs are on which level.

pub(crate) mod copy;
pub(crate) mod open;
pub(crate) mod recover;
pub(crate) mod repair;
