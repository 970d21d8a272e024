//! What only SLM-DB has: its selection of files for compaction, and the checkpoints of its index.

mod at_rest;
mod candidates;
mod index_checkpoints;
mod index_image;
