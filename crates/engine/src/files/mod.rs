//! The files of a store: their names, their numbers, and open table files.

pub mod caches;
pub mod catalog;
pub mod descriptors;
pub mod file_names;
pub mod file_numbers;
pub mod file_records;
pub mod file_verifier;
pub mod location;
pub mod mapping;
pub mod obsolete_files;
pub mod searched_tables;
pub mod table_cache;
pub mod values_in_order;
