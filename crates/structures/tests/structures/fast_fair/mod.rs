//! The FAST and FAIR B+-tree and its key segments.

mod bulk;
mod crash;
mod faults;
mod hostile;
mod model;
mod order;
mod parts;
mod stress;
pub mod support;
