//! Runs that lie in persistent memory (paper, IV-A): lists, and the segments in which their entries lie. Beside them, on the same
//! levels, there may be table files.

pub(crate) mod job_lists;
pub(crate) mod pool_run;
pub(crate) mod run;
pub(crate) mod segments;
