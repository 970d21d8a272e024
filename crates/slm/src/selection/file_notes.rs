//! [`FileNotes`]: what is known of table files beside the MANIFEST, since the store was opened.

use std::collections::BTreeSet;

use slmdb_engine::{CompactionChoices, lock_order};
use slmdb_manifest::StoreState;
use slmdb_sync::scheduled::Mutex;

use crate::compaction::plan::{CompactionReason, CompactionResult, Plan};
use crate::selection::seeks::FileCounts;

/// What is known of table files beside the MANIFEST.
#[derive(Debug)]
pub(crate) struct FileNotes {
    /// How often cursors have turned to each file.
    pub(crate) seeks: FileCounts,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    /// The files that seeks have named.
    sought: BTreeSet<u32>,
    /// Small files that came out of a merge of small files that left no fewer: another merge would do no better.
    no_larger: BTreeSet<u32>,
    choices: CompactionChoices,
}

impl Default for FileNotes {
    fn default() -> FileNotes {
        FileNotes { seeks: FileCounts::default(), notes: Mutex::ranked(lock_order::CANDIDATES, Notes::default()) }
    }
}

impl FileNotes {
    /// Notes that cursors turn to a file too often. Returns whether that is news.
    /// LOCKS: compaction candidates
    pub(crate) fn name_sought(&self, file: u32) -> bool {
        let mut notes = self.notes.lock();
        let is_news = notes.sought.insert(file);
        notes.choices.by_seeks.candidates += u64::from(is_news);
        is_news
    }

    /// Files that seeks have named.
    pub(crate) fn sought(&self) -> BTreeSet<u32> {
        self.notes.lock().sought.clone()
    }

    /// Small files that another merge of small files would not improve.
    pub(crate) fn no_larger(&self) -> BTreeSet<u32> {
        self.notes.lock().no_larger.clone()
    }

    /// Drops files that are gone.
    /// LOCKS: compaction candidates
    pub(crate) fn refresh(&self, state: &StoreState) {
        let mut notes = self.notes.lock();
        notes.sought.retain(|number| state.files.contains_key(number));
        notes.no_larger.retain(|number| state.files.contains_key(number));
    }

    /// Notes what a compaction has made of its inputs.
    pub(crate) fn compacted(&self, plan: &Plan, made: &CompactionResult) {
        let notes = &mut *self.notes.lock();
        if plan.reason == CompactionReason::SmallFiles && 2 * made.files.len() > plan.inputs.len() {
            notes.no_larger.extend(&made.files);
        }
        let inputs = plan.inputs.len() as u64;
        notes.choices.all.candidates += if made.has_given_way { 0 } else { inputs };
        made.credit(&mut notes.choices.all, inputs, made.input_bytes, made.bytes_written);
        if plan.reason == CompactionReason::Order {
            made.credit(&mut notes.choices.by_seeks, inputs, made.input_bytes, made.bytes_written);
        }
    }

    /// The counters for `stats`.
    pub(crate) fn choices(&self) -> CompactionChoices {
        self.notes.lock().choices
    }
}
