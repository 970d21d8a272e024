//! slmdb for Java: the native half of the package `org.slmdb`, whose other half is in `java/`.
//!
//! - `edge`: the functions that Java calls, and all that is `unsafe`.
//! - `handles`: what Java holds of a store are numbers: the places of objects in a table, with generations.
//! - `objects`: what the numbers stand for, and how they end: a store with all its cursors and snapshots.
//! - `reads`, `writes`, `walk`: the calls that are made often.
//! - `care`: those that keep a store.
//! - `packing`: bytes that cross.
//! - `failure`: what can fail, and how it is caught before it reaches Java.
//!
//! **No Java array crosses.** Each thread of Java has a direct buffer. Java copies the key into it and calls with numbers
//! alone; the value comes back in the same place. So a call asks nothing of the virtual machine, and never stops its collector.
//!
//! **No call ends the virtual machine.** A number that stands for nothing, or for nothing any more, is an exception, and so is
//! a panic. `close` waits until no call uses what it ends.

#![deny(unsafe_code)]

mod care;
mod edge;
mod failure;
mod handles;
mod objects;
mod packing;
mod reads;
mod walk;
mod writes;
