//! Writes MemTables that were not flushed into table files.

use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_manifest::ArenaRecord;
use slmdb_pmem::{AnyMedium, Pool};
use slmdb_structures::log::{ExpectedSequence, Reading};
use slmdb_structures::memtable::{DeletedRanges, MemTable, replay};
use slmdb_table::{EntryKind, TableCursor, TableReader};

use super::Repair;
use crate::Loss;
use crate::batch::Totals;
use crate::flush::deletes::Deletes;
use crate::recovery::replay::{check_strays, replay_log};
use crate::write::arenas::Arenas;
use crate::write::memtables::Immutable;

impl Repair {
    /// Whether the next opening can take the MemTables as they are.
    pub fn log_is_whole(&mut self, pool: &Arc<Pool<AnyMedium>>) -> bool {
        let arenas = self.arenas(pool);
        let Ok(log) = replay_log(&self.options, &self.state, &arenas) else { return false };
        let ranges = log.memtables.first().and_then(|oldest| oldest.memtable.deleted_ranges());
        self.is_between_parts = ranges.is_some_and(|ranges| ranges.has_number(self.state.flushed_through));
        check_strays(&self.state, &arenas, log.last_sequence).is_ok()
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
            self.save_memtable(replayed.memtable, last)?;
            self.is_between_parts = false;
            self.state.flushed_through = last;
        }
        Ok(expected_next)
    }

    fn save_memtable(&mut self, memtable: MemTable<AnyMedium>, last_sequence: u64) -> Result<()> {
        let deletes = memtable.deleted_ranges().map_or(Ok(Deletes::default()), |ranges| self.deletes_of(&ranges))?;
        let flushed_through = self.state.flushed_through;
        let recovered = Immutable::recovered(Arc::new(memtable), Totals::default(), last_sequence);
        let immutable = Immutable { deletes, flushed_through, ..recovered };
        if immutable.is_empty() {
            return Ok(());
        }
        let (number, mut builder) = self.new_table(self.form)?;
        let mut saved = 0;
        immutable.newest_entries(|entry| {
            saved += 1;
            builder.add(entry.key, entry.sequence, entry.kind, entry.value)
        })?;
        self.report.memtable_entries_saved += saved;
        self.add_table(number, builder, 0)
    }

    /// What deleted ranges come to: deletes of the keys in them that a table file has.
    fn deletes_of(&self, ranges: &DeletedRanges) -> Result<Deletes> {
        let mut keys = Vec::new();
        for &number in self.state.files.keys() {
            let mut see = |key: &[u8], sequence: u64, kind: EntryKind| {
                let deleted_at = if kind == EntryKind::Put { ranges.next_over(key, sequence) } else { None };
                keys.extend(deleted_at.map(|sequence| (key.to_vec(), sequence)));
            };
            // What can't be read is told already.
            match self.open_table(number).and_then(|table| see_newest(table, &mut see)) {
                Err(error) if !matches!(error, Error::Corruption { .. }) => return Err(error),
                _ => {}
            }
        }
        keys.sort_by(|(one, _), (other, _)| ranges.order().compare(one, other));
        keys.dedup_by(|(one, _), (other, _)| one == other);
        let mut deletes = Deletes::default();
        keys.iter().for_each(|(key, sequence)| deletes.add(key, *sequence));
        Ok(deletes)
    }
}

/// Shows the newest version of each key of a table file.
fn see_newest(table: TableReader, see: &mut impl FnMut(&[u8], u64, EntryKind)) -> Result<()> {
    if !table.is_searched_by_key() {
        for entry in table.key_section()?.newest_entries() {
            let entry = entry?;
            see(entry.key, entry.sequence, entry.kind);
        }
        return Ok(());
    }
    let table = Arc::new(table);
    let mut cursor = TableCursor::new(&table, table.clone())?;
    cursor.seek_first()?;
    let mut last = None;
    while cursor.valid() {
        if last.as_deref() != Some(cursor.key()) {
            see(cursor.key(), cursor.sequence(), cursor.kind());
            last = Some(cursor.key().to_vec());
        }
        cursor.next()?;
    }
    Ok(())
}
