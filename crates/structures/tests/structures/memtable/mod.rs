//! The MemTable.

mod crash;
mod links;
mod model;
mod order;
mod replay;
mod stress;
mod support;
