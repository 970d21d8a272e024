//! The B+-tree against models, crashes, faults and hostile bytes.
#![allow(clippy::unwrap_used)]

#[path = "../fast_fair_support/mod.rs"]
mod fast_fair_support;

mod bulk;
mod crash;
mod faults;
mod hostile;
mod model;
mod need;
mod order;
mod parts;
mod sampling;
mod stress;
