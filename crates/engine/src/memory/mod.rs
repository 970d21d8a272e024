//! One budget for all that a store keeps in plain memory.

pub mod budget;
pub mod memory_of_memtables;
