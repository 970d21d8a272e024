//! What is told of damaged files, and what a repair saves.

mod hostile;
mod lost_log;
mod memtables;
mod repair;
