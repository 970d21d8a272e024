//! Compactions of levels: what a thread does with a plan, what a full disk makes of that, and what a caller asks for.

pub mod for_space;
pub mod level_jobs;
pub mod level_source;
pub mod outputs;
mod requests;
pub mod unreadable_files;
