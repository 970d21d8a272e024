//! Which of the unreadable entries are losses.

use std::collections::HashMap;

use slmdb_env::{Error, Result};
use slmdb_table::TableReader;

use super::Repair;
use crate::Loss;

/// Keys that may be lost, each with the highest number of what could not be read of it.
pub type LostKeys = HashMap<Vec<u8>, u64>;

impl Repair {
    /// The keys that are told as lost so far.
    pub fn lost_keys(&self) -> LostKeys {
        let mut lost = LostKeys::new();
        for loss in &self.report.losses {
            let Loss::Key { key, sequence } = loss else { continue };
            let newest = lost.entry(key.clone()).or_insert(*sequence);
            *newest = (*newest).max(*sequence);
        }
        lost
    }

    /// Takes out keys of which a table file of the store has a newer version: what could not be read was dead.
    pub fn take_out_replaced(&self, lost: &mut LostKeys) -> Result<()> {
        let files = if lost.is_empty() { Vec::new() } else { self.state.files.keys().copied().collect() };
        for number in files {
            self.take_out_replaced_in(&self.open_table(number)?, lost)?;
        }
        Ok(())
    }

    /// Takes out keys of which this table file has a newer version. What can't be read of it replaces nothing.
    pub fn take_out_replaced_in(&self, table: &TableReader, lost: &mut LostKeys) -> Result<()> {
        if table.is_searched_by_key() {
            let mut failure = None;
            lost.retain(|key, sequence| match table.find(key, u64::MAX, &table) {
                Ok(found) => found.is_none_or(|found| found.sequence <= *sequence),
                Err(Error::Corruption { .. }) => true,
                Err(error) => {
                    failure = Some(error);
                    true
                }
            });
            return failure.map_or(Ok(()), Err);
        }
        for entry in table.key_section()?.newest_entries() {
            let entry = entry?;
            if lost.get(entry.key).is_some_and(|&lost| lost < entry.sequence) {
                lost.remove(entry.key);
            }
        }
        Ok(())
    }

    /// Leaves only these keys among those that are told as lost.
    pub fn tell_lost_keys(&mut self, lost: &LostKeys) {
        self.report.losses.retain(|loss| match loss {
            Loss::Key { key, sequence } => lost.get(key) == Some(sequence),
            _ => true,
        });
    }
}
