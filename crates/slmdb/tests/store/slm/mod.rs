//! What only SLM-DB has: its selection of files for compaction, the checkpoints of its index, and stores of its formats that
//! are kept.

mod at_rest;
mod candidates;
mod fixtures;
mod index_checkpoints;
mod index_image;
