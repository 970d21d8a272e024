//! Section 3.2: the B+-tree index in persistent memory, the compaction log, and what readers still see of the past.

pub(crate) mod compaction_log;
pub(crate) mod index_iterator;
pub(crate) mod insertion;
pub(crate) mod key_segments;
pub(crate) mod location;
pub(crate) mod obsolete_files;
pub(crate) mod replaced_records;
pub(crate) mod retired;
pub(crate) mod snapshots;
