//! Crashes of both tiers at once, for tests of slmdb.
//!
//! A store runs on a [machine] in memory that records everything: each store, flush and fence of the pool, and each
//! operation on files, in one order. From that record every state is made that a kill or a power cut could have left at any
//! moment ([`picks`]), for the pool and for the [files] apart; each is opened, and an [oracle] looks whether what was acknowledged
//! is there, nothing else is, and the store goes on. Openings are recorded and crashed in turn. [`explore`] decides where to look.
//!
//! The simulator [proves itself](self_test): each place in the code that flushes, fences or syncs is switched off, and it has to
//! notice. `docs/testing.md` says what is looked at, `docs/measured/tests.md` what it has shown.
#![forbid(unsafe_code)]

pub mod call_paths;
pub mod crashed;
pub mod engines;
pub mod explore;
pub mod failure;
pub mod files;
pub mod layers;
pub mod machine;
pub mod oracle;
pub mod picks;
pub mod self_test;
pub mod upkeep;
pub mod workload;

use slmdb_testkit::Random;
