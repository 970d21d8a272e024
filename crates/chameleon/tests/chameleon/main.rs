//! ChameleonDB by itself, on imitated disks.
#![allow(clippy::unwrap_used)]

mod model;
mod upkeep;
