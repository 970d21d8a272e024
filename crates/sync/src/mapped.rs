//! Atomics in memory that somebody else has laid out: words of the pool, links of the skiplist.
//!
//! Such an atomic is made by a cast of an address, and is as large as what it holds. In an ordinary build these are the
//! standard library's (under shuttle with a place to be interrupted at before each operation). Under loom what a checker has to know of an
//! atomic, which values were stored by whom and who has seen them, lies in a table beside, by address; the memory itself
//! always has the newest value, for readers of bytes.
//!
//! Words are followed by loom only in the ranges given to `watch`: what a small model is about, and not all of a pool. The
//! others behave as if everything was done in one order. Links are always followed.
//!
//! Plain bytes are not. But [`overwritten`] begins the watched words of a range anew, so that loom stops where a thread reads a
//! word of, say, a new node without having been told in an orderly way (release and acquire) that the node is there.

#[cfg(shuttle)]
pub use crate::scheduled::atomic::{AtomicPtr, AtomicU64};
#[cfg(not(any(loom, shuttle)))]
pub use std::sync::atomic::{AtomicPtr, AtomicU64};

#[cfg(loom)]
mod checked;
#[cfg(loom)]
pub use checked::{AtomicPtr, AtomicU64, overwritten, reset, watch, write_alone, zeroed};

/// Says that this thread, which alone knew of a range, has written it as bytes.
#[cfg(not(loom))]
#[inline(always)]
pub fn overwritten(_start: *const u8, _bytes: &[u8]) {}

/// As [`overwritten`], with zeros.
#[cfg(not(loom))]
#[inline(always)]
pub fn zeroed(_start: *const u8, _length_bytes: usize) {}
