//! The part of recovery that is the same for any engine: MemTables from their arenas, and the take-over of the store by
//! its new process.

pub mod recovered_log;
pub mod replay;
