//! What a store promises, through its public interface, a folder a promise: one program, so that there is one to link. What
//! has to have a process of its own stands beside it.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod cases;
mod compaction;
mod damage;
mod models;
mod operations;
mod reads;
mod recovery;
mod regressions;
mod slm;
mod snapshots;
mod space;
mod writes;

#[test]
fn every_other_engine_passes() {
    common::every_other_engine_passes();
}
