//! What is read: consistent at one moment, in order, and estimated.

mod consistent_reads;
mod deleted_ranges;
mod estimates;
mod key_orders;
mod linearizable;
mod mapped;
