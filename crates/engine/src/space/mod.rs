//! Disk space that is allocated before anything is admitted that needs it.

pub mod reserved_file;
