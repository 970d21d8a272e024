//! Section 3.3: selective compaction, from the chosen files to the new ones.

pub(crate) mod compactor;
pub(crate) mod controller;
pub(crate) mod entry_batch;
pub(crate) mod inputs;
pub(crate) mod merge;
pub(crate) mod next_compaction;
pub(crate) mod order_schedule;
pub(crate) mod outputs;
pub(crate) mod pace;
pub(crate) mod plan;
pub(crate) mod queue;
pub(crate) mod repointing;
pub(crate) mod requests;
pub(crate) mod validity_check;
