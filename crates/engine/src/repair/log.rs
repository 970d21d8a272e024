//! Writes MemTables that were not flushed into table files.

use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_manifest::ArenaRecord;
use slmdb_pmem::{AnyMedium, Pool};
use slmdb_structures::log::{ExpectedSequence, Reading};
use slmdb_structures::memtable::{MemTable, replay};

use super::Repair;
use crate::Loss;
use crate::recovery::replay::{check_strays, replay_log};
use crate::write::arenas::Arenas;

impl Repair {
    /// Whether the next opening can take the MemTables as they are.
    pub fn log_is_whole(&self, pool: &Arc<Pool<AnyMedium>>) -> bool {
        let arenas = self.arenas(pool);
        let replayed = replay_log(&self.options, &self.state, &arenas);
        replayed.and_then(|log| check_strays(&self.state, &arenas, log.last_sequence)).is_ok()
    }

    fn arenas(&self, pool: &Arc<Pool<AnyMedium>>) -> Arenas {
        Arenas::new(pool, self.options.env.clone(), &self.directory, self.options.memtable_bytes)
    }

    /// Step 2: writes MemTables into table files, up to the first damage. At the end of the log an arena may follow
    /// that the MANIFEST does not name, if this MANIFEST is not the newest.
    pub fn save_log(&mut self, pool: &Arc<Pool<AnyMedium>>) -> Result<()> {
        let arenas = self.arenas(pool);
        let mut expected = ExpectedSequence::First { flushed_through: self.state.flushed_through };
        let mut damage = None;
        for (generation, record) in std::mem::take(&mut self.state.arenas) {
            if damage.is_none() {
                match self.save_arena(&arenas, generation, Some(&record), expected) {
                    Ok(next) => expected = next,
                    Err(error @ Error::Corruption { .. }) => damage = Some(error),
                    Err(error) => return Err(error),
                }
            }
            if damage.is_some() && !arenas.are_in_pool() {
                self.set_aside(arenas.describe(generation))?;
            }
        }
        let mut strays = arenas.present()?;
        strays.retain(|&generation| generation >= self.state.next_generation);
        strays.sort_unstable();
        for generation in strays {
            let expected = ExpectedSequence::First { flushed_through: self.state.flushed_through };
            let saved = if damage.is_none() {
                self.save_arena(&arenas, generation, None, expected).map(drop)
            } else {
                let what = "an arena that the MANIFEST does not know, behind the end of what can be read";
                Err(Error::corruption(arenas.describe(generation), 0, what))
            };
            match saved {
                Ok(()) => {}
                Err(error @ Error::Corruption { .. }) => {
                    damage.get_or_insert(error);
                    if !arenas.are_in_pool() {
                        self.set_aside(arenas.describe(generation))?;
                    }
                }
                Err(error) => return Err(error),
            }
            // From now on it counts as given up.
            self.state.next_generation = self.state.next_generation.max(generation.saturating_add(1));
        }
        let closed_short = self.state.closed_at_sequence.is_some_and(|closed| closed > self.state.flushed_through);
        if damage.is_some() || closed_short {
            self.report.losses.push(Loss::Writes { from_sequence: self.state.flushed_through + 1 });
        }
        self.report.damage.extend(damage);
        self.state.closed_at_sequence = None;
        Ok(())
    }

    /// Saves what an arena holds where the log is expected to go on. `record` is `None` for an arena that the MANIFEST
    /// does not name. Returns how the log goes on behind it.
    fn save_arena(
        &mut self,
        arenas: &Arenas,
        generation: u64,
        record: Option<&ArenaRecord>,
        expected: ExpectedSequence,
    ) -> Result<ExpectedSequence> {
        let Some(arena) = arenas.load(generation, record.map(|record| record.length_bytes))? else {
            let missing = || Error::corruption(arenas.describe(generation), 0, "an arena of the store is missing");
            return record.map_or(Ok(expected), |_| Err(missing()));
        };
        let order = self.options.comparator.clone();
        let sealed_last_sequence = record.and_then(|record| record.sealed_last_sequence);
        let replayed = replay(arena, generation, self.state.uuid, &order, expected, sealed_last_sequence)?;
        let Reading { last_sequence, expected_next, .. } = replayed.reading;
        if let Some(last) = last_sequence.filter(|&last| last > self.state.flushed_through) {
            self.save_memtable(&replayed.memtable)?;
            self.state.flushed_through = last;
        }
        Ok(expected_next)
    }

    fn save_memtable(&mut self, memtable: &MemTable<AnyMedium>) -> Result<()> {
        let flushed_through = self.state.flushed_through;
        if !memtable.newest_entries().any(|entry| entry.sequence > flushed_through) {
            return Ok(());
        }
        let (number, mut builder) = self.new_table(self.form)?;
        for entry in memtable.newest_entries().filter(|entry| entry.sequence > flushed_through) {
            builder.add(entry.key, entry.sequence, entry.kind, entry.value)?;
            self.report.memtable_entries_saved += 1;
        }
        self.add_table(number, builder, 0)
    }
}
