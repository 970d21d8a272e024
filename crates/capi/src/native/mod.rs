//! slmdb's own C interface. `include/slmdb/c.h` describes it.
//!
//! To be read in this order: [`codes`] (how failures are told) and [`values`] (the words of the interface);
//! [`options`] and [`shared`]; [`store`] (opening and closing), [`reads`], [`writes`], [`write_batch`], [`cursor`], [`snapshot`]; then
//! [`maintenance`] and [`events`].

pub mod codes;
pub mod cursor;
pub mod events;
pub mod maintenance;
pub mod options;
pub mod reads;
pub mod shared;
pub mod snapshot;
pub mod store;
pub mod values;
pub mod write_batch;
pub mod writes;
