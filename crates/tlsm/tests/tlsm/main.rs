//! TLSM by itself, on imitated disks and pools.
#![allow(clippy::unwrap_used)]

mod damage;
mod filled;
mod model;
mod openings;
mod readers;
mod space;
mod versions;
