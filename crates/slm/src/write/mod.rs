//! What writers need soon, made before they need it.

pub(crate) mod memtable_preparer;
