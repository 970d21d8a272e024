//! LAB-DB by itself, on imitated disks and pools.
#![allow(clippy::unwrap_used)]

mod model;
mod regressions;
mod repair;
mod unreadable;
