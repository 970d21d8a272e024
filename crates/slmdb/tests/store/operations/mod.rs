//! The interface, promise by promise, and what is done to whole stores.

mod copy;
mod destroy;
pub(crate) mod device;
mod engines;
mod events;
mod fixtures;
mod forked;
mod interface;
mod moved;
mod refusals;
mod zstd;
