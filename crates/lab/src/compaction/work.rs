//! What one compaction is to do, and what it has done.

use std::sync::Arc;

use slmdb_env::Error;
use slmdb_levels::{Run, TableRun};

/// What a compaction is to do.
pub(super) struct Work {
    pub(super) chosen_by: &'static str,
    pub(super) inputs: Vec<u32>,
    pub(super) input_bytes: u64,
}

/// What it has done.
#[derive(Default)]
pub(super) struct Done {
    pub(super) outputs: Vec<u32>,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    /// The table file of an input that can't be read.
    pub(super) unreadable: Option<u32>,
}

impl Done {
    /// Notes that an input of this table file can't be read, unless that may pass.
    pub(super) fn note_unreadable(&mut self, file: u32, error: &Error) {
        self.unreadable = (!error.may_be_tried_again()).then_some(file);
    }

    pub(super) fn record(&mut self, outputs: &[Arc<TableRun>], bytes_read: u64) {
        self.outputs = outputs.iter().map(|run| run.number()).collect();
        self.bytes_written = outputs.iter().map(|run| run.record().bytes).sum();
        self.bytes_read = bytes_read;
    }
}
