//! What the structures promise, through their public interface: one program, so that there is one to compile and link. What
//! has to have a process of its own stands beside it.
#![allow(clippy::unwrap_used)]

mod fast_fair;
mod hash;
mod hooked;
mod hybrid_tree;
mod list;
mod log;
mod memory_tree;
mod memtable;
mod reads;
mod sampling;
