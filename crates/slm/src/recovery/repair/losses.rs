//! Which of the unreadable entries are losses.

use std::collections::HashMap;

use slmdb_engine::Loss;
use slmdb_engine::files::file_names as names;
use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_structures::fast_fair::Tree;
use slmdb_sync::epoch;
use slmdb_table::TableReader;

use crate::recovery::repair::Repair;

impl Repair<'_> {
    /// Drops reported losses that were dead, or are whole in another file. At or below `through` a checkpoint shows
    /// what was lost; above it, the deletes in table files do.
    pub(crate) fn forget_what_was_dead<M: Medium>(&mut self, tree: &Tree<M>, through: u64) -> Result<()> {
        let mut unsure: HashMap<Vec<u8>, u64> = HashMap::new();
        for loss in &self.report.losses {
            let Loss::Key { key, sequence } = loss else { continue };
            let guard = epoch::pin();
            let is_there = tree.get(key, &guard)?.is_some_and(|newest| newest.sequence() >= *sequence);
            if *sequence > through && !is_there {
                let newest = unsure.entry(key.clone()).or_insert(*sequence);
                *newest = (*newest).max(*sequence);
            }
        }
        let files = if unsure.is_empty() { Vec::new() } else { self.state.files.keys().copied().collect() };
        for number in files {
            let (path, uuid) = (names::table(&self.directory, number), self.state.files_uuid);
            let order = self.options.comparator.clone();
            let keys = TableReader::open_in_order(self.env(), &path, number, uuid, order)?.key_section()?;
            for entry in keys.newest_entries() {
                let entry = entry?;
                if unsure.get(entry.key).is_some_and(|&lost| lost < entry.sequence) {
                    unsure.remove(entry.key);
                }
            }
        }
        self.report.losses.retain(|loss| match loss {
            Loss::Key { key, sequence } => unsure.get(key) == Some(sequence),
            _ => true,
        });
        Ok(())
    }
}
