//! Crashes at every place of workloads with several writers, flushes, compactions and checkpoints, of the pool and the files at
//! once. `SLMDB_TEST_BUDGET=20` looks at twenty times as much; `scripts/torture` at as much as one likes.
//!
//! Under `--cfg shuttle` (`scripts/threads`) the threads take turns as the seed says, and other things are tested.
#![allow(clippy::unwrap_used, reason = "a test stops where something fails")]

#[cfg(not(shuttle))]
mod images;
#[cfg(shuttle)]
mod schedules;

fn budget() -> u64 {
    std::env::var("SLMDB_TEST_BUDGET").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}
