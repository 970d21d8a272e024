//! What MemTables hold that were not flushed goes into table files.

use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_pmem::{Medium, Pool};
use slmdb_structures::memtable::{ExpectedSequence, MemTable, read};

use super::Repair;
use crate::Loss;
use crate::slm::arenas::Arenas;
use crate::slm::flush::table_kind;
use crate::slm::replay::replay_log;

impl Repair<'_> {
    /// Whether the next opening can take the MemTables as they are.
    pub(super) fn log_is_whole<M: Medium + Clone>(&self, pool: &Arc<Pool<M>>) -> bool {
        let arenas = self.arenas(pool);
        replay_log(self.options, &self.state, &arenas).is_ok()
    }

    fn arenas<M: Medium + Clone>(&self, pool: &Arc<Pool<M>>) -> Arenas<M> {
        Arenas::new(pool, self.options.env.clone(), &self.directory, self.options.memtable_bytes)
    }

    /// Step 2: what MemTables hold goes into table files, up to the first thing that is not as it should be.
    pub(super) fn save_log<M: Medium + Clone>(&mut self, pool: &Arc<Pool<M>>) -> Result<()> {
        let arenas = self.arenas(pool);
        let (uuid, order) = (self.state.uuid, self.options.memtable::<M>().order);
        let mut expected = ExpectedSequence::First { flushed_through: self.state.flushed_through };
        let mut damage = None;
        for (generation, record) in std::mem::take(&mut self.state.arenas) {
            let place = arenas.describe(generation);
            if damage.is_none() {
                let saved = arenas
                    .load(generation, Some(record.length_bytes))
                    .and_then(|arena| {
                        arena.ok_or_else(|| Error::corruption(&place, 0, "an arena of the store is missing"))
                    })
                    .and_then(|arena| read(arena, generation, uuid, &order, expected, record.sealed_last_sequence))
                    .and_then(|read| {
                        expected = read.expected_next();
                        read.build()
                    });
                match saved {
                    Ok(replayed) => {
                        if let Some(last) = replayed.last_sequence.filter(|&last| last > self.state.flushed_through) {
                            self.save_memtable(&replayed.memtable)?;
                            self.state.flushed_through = last;
                        }
                    }
                    Err(error @ Error::Corruption { .. }) => damage = Some(error),
                    Err(error) => return Err(error),
                }
            }
            if damage.is_some() && !M::PERSISTENT {
                self.set_aside(place)?;
            }
        }
        let closed_short = self.state.closed_at_sequence.is_some_and(|closed| closed > self.state.flushed_through);
        if damage.is_some() || closed_short {
            self.report.losses.push(Loss::Writes { from_sequence: self.state.flushed_through + 1 });
        }
        self.report.damage.extend(damage);
        self.state.closed_at_sequence = None;
        Ok(())
    }

    fn save_memtable<M: Medium>(&mut self, memtable: &MemTable<M>) -> Result<()> {
        let flushed_through = self.state.flushed_through;
        if !memtable.newest_entries().any(|entry| entry.sequence > flushed_through) {
            return Ok(());
        }
        let (number, mut builder) = self.new_table()?;
        for entry in memtable.newest_entries().filter(|entry| entry.sequence > flushed_through) {
            builder.add(entry.key, entry.sequence, table_kind(entry.kind), entry.value)?;
            self.report.memtable_entries_saved += 1;
        }
        self.add_table(number, builder)
    }
}
