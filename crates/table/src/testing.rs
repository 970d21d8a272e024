//! How the tests of this crate are run: the same everywhere and every time, unless asked otherwise.
//!
//! `SLMDB_TEST_BUDGET` (default 1) multiplies how much is tried; `SLMDB_TEST_SEED` (default 0) chooses what is. A failure
//! prints the smallest input that fails.

use proptest::test_runner::{Config, RngSeed};

/// `SLMDB_TEST_BUDGET` times `count`, at least one.
pub fn budgeted(count: u32) -> u32 {
    let budget: f64 = std::env::var("SLMDB_TEST_BUDGET").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    ((f64::from(count) * budget) as u32).max(1)
}

/// For a property that is tried on `cases` inputs.
pub fn config(cases: u32) -> Config {
    let seed = std::env::var("SLMDB_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let defaults = Config { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    Config { cases: budgeted(cases), ..defaults }
}
