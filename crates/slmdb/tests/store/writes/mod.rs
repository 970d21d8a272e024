//! What is written: on a condition, durably, and the log that it lies in.

mod conditional;
mod durability;
mod range_deletes;
mod synced_arenas;
mod void_places;
