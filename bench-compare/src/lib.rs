//! slmdb beside the stores people use: the same work (`slmdb-bench`), each store in a process of its own, in turns.
//!
//! To be read in this order: [`footing`] (what all stores are given), [`spec`] and [`engine_options`] (which stores, by what
//! names), [`peers`] (the others, behind `slmdb_bench::Store`), [`step`] (what they do), [`arguments`], [`turns`] (who runs
//! when), [`child`] (one store in one process), [`confinement`] (its memory limit), [`loop_device`] (its disk), [`summary`],
//! [`table`] and [`about`] (what comes of it), [`picture`] (of it, for README); `plot` and [`chart`] (numbers as bars), [`paper`]
//! (a paper's evaluation, as a page) and [`designs`] (slmdb's designs side by side).
//!
//! `unsafe` is in the modules that speak to C libraries, and nowhere else: `peers/c_store.rs`, `leveldb.rs`, `rocksdb.rs`,
//! `lmdb.rs`.
#![deny(unsafe_code)]

pub mod about;
pub mod arguments;
pub mod chart;
pub mod child;
pub mod confinement;
pub mod designs;
pub mod engine_options;
pub mod footing;
pub mod loop_device;
pub mod paper;
pub mod peers;
pub mod picture;
mod plot;
pub mod spec;
pub mod step;
pub mod summary;
pub mod table;
pub mod turns;
