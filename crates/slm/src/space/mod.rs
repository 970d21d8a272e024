//! Space on the disk and in the pool: what is admitted, what is kept back, and what happens when there is none.

pub(crate) mod admission;
pub(crate) mod ballast;
pub(crate) mod commit;
pub(crate) mod compaction_reserve;
pub(crate) mod kept_back;
pub(crate) mod passing_lacks;
pub(crate) mod pool_reserve;
