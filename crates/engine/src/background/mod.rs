//! Background work.

pub mod bell;
pub mod compaction_queue;
pub mod crew;
pub mod workers;
