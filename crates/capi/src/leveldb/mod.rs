//! LevelDB's C interface over slmdb. `include/leveldb/c.h` says of each function what is heeded and what is only accepted.
//!
//! To be read in this order: [`errors`]; [`options`] and [`request_options`] (how a store is opened, read and written),
//! with what they refer to: [`comparator`], [`filter_policy`], [`cache`], [`env`](mod@env); [`db`], [`snapshot`],
//! [`write_batch`], [`requests`], [`iterator`]; then [`properties`] and [`management`].

pub mod cache;
pub mod comparator;
pub mod db;
pub mod env;
pub mod errors;
pub mod filter_policy;
pub mod iterator;
pub mod management;
pub mod options;
pub mod properties;
pub mod request_options;
pub mod requests;
pub mod snapshot;
pub mod utility;
pub mod write_batch;
