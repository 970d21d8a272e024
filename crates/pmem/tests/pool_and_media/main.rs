//! Pools, their blocks and arenas, and the media they lie on.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod arena;
mod blocks;
mod damage;
mod dax;
mod device;
mod image;
mod lacks;
mod media;
mod pool;
mod reserve;
mod simulated;
mod slots;
