//! The pool: the fast tier as one contiguous range of bytes, addressed by 64-bit offsets.
//!
//! A pool is a file on persistent memory (or on anything, for the [`Emulated`](crate::Emulated) medium), a device that is
//! persistent memory, or plain memory. It is mapped once, at a range of addresses reserved for its largest size, so it grows while others read it.
//! Inside there are offsets, never addresses. Three things are to be had:
//!
//! * **words**: aligned 8-byte atomics, the only way to make anything visible ([`Pool::load`], [`Pool::store`],
//!   [`Pool::compare_exchange`]);
//! * **bytes** for what is written before it is published and read-only after ([`Pool::write`], [`Pool::bytes`]);
//! * **extents**: typed pieces of space, 64 KiB and up, from one crash-consistent map ([`Pool::allocate_extent`]).
//!   There is no general-purpose persistent malloc: MemTable arenas and key segments are freed whole, tree nodes come
//!   from [`Blocks`](crate::Blocks).
//!
//! Offsets that were read from the pool itself may be anything in a damaged pool, so everything that takes one checks
//! it and gives [`Error::Corruption`](slmdb_env::Error::Corruption) that names file and offset. [`Pool::kind_at`] and
//! [`Pool::extent_at`] say what is at an offset without a lock and without reading the pool's map, for that very purpose.
//!
//! A pool that is closed by [`Pool::seal`] carries a checksum for every extent that doesn't check itself
//! ([`ExtentKind::checks_itself`]), which the next opening verifies. One that was not is in the state its last stores left it in, in crash order; it opens at once and its words are checked as
//! they are followed.

pub(crate) mod allocate;
mod device;
mod extents;
mod growth_guard;
mod header;
mod image;
mod lifecycle;
mod open_pool;
mod place;
mod seal;
mod space;

pub use allocate::Claim;
pub use growth_guard::GrowthGuard;
pub use image::ImageBinding;
pub use open_pool::{Pool, PoolOptions};
pub use place::{check_direct, check_new_device, creation_finished, has_uuid, openings, remove_pool, remove_pool_on};

pub use crate::extent::{Extent, ExtentKind};
