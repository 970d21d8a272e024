//! The work that stores are measured by: that of LevelDB's and RocksDB's `db_bench` and of YCSB, and what is measured beside it.
//!
//! To be read in this order: [`store`] (what a store has to be able to do), [`benchmark`] (the benchmarks by name), [`settings`]
//! (how much of them), [`run`] (one phase after the other), `task` (what its threads are given), `work` and `ycsb` (what they
//! do), [`phase`] (what comes of it). Under these lie [`workload`] and `records` (YCSB's); [`keys`], [`values`], [`random`] and
//! [`distributions`]; [`meter`], [`latency`], [`over_time`] and [`system`]; [`place`] says what may be removed. With the
//! feature `flags` there are db_bench's flags for clap.
//!
//! `slmdb bench` is a face of this crate for slmdb; a comparison with other stores has them implement [`Store`] and gets the very
//! same work. Everything random comes from a seed: the same seed asks for the same keys in the same order.
#![forbid(unsafe_code)]

pub mod benchmark;
pub mod description;
pub mod distributions;
pub mod empty;
pub mod error;
#[cfg(feature = "flags")]
pub mod flags;
pub mod keys;
pub mod latency;
pub mod meter;
pub mod over_time;
pub mod phase;
pub mod place;
pub mod random;
mod records;
pub mod run;
pub mod settings;
pub mod slm;
pub mod store;
pub mod system;
mod task;
pub mod values;
mod work;
pub mod workload;
mod ycsb;

pub use benchmark::{BENCHMARKS, Benchmark};
pub use empty::EmptyOpener;
pub use error::{Error, Result};
pub use phase::Phase;
pub use run::{Bench, Outcome, Progress};
pub use settings::Settings;
pub use slm::SlmOpener;
pub use store::{Opener, Store};
