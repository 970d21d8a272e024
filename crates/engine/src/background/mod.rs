//! Background threads.

pub mod compaction_queue;
pub mod workers;
