//! What both interfaces share: [`arguments`] that C passes, [`memory`] that goes to C, [`failure`]s and how they are caught, and
//! the order of keys by a function of C ([`order`]).

pub mod arguments;
pub mod failure;
pub mod memory;
pub mod order;
