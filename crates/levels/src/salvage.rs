//! Repair: what can be read of damaged table files of levels.
//!
//! Such a file has no list of its keys. So of a block that can't be read nobody knows which keys it had, only between
//! which they lie. They are told as [`Loss::Entries`]. That no older value of theirs comes back, deeper levels are asked
//! which keys they have in between, and the file's filter whether the block may have had them. If so, a delete takes the
//! block's place. Its number is one above what it hides: whatever the block had was that new at least, and whatever
//! upper levels have is newer still.
//!
//! About one such delete in a hundred hides a value that the block had nothing newer of. That key lies between those that
//! are told.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use slmdb_engine::Loss;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::repair::{DamagedTable, LostKeys, Repair};
use slmdb_env::{Error, Result};
use slmdb_manifest::{FileRecord, StoreState};
use slmdb_order::KeyOrder;
use slmdb_table::{EntryKind, Gap, SalvagedPart, Slice, TableBuilder, TableCursor, TableForm, TableReader};

/// Replaces the damaged files of all levels, each by a new one with what can be read of it. REQUIRES: damaged files of
/// level 0 are [saved](Repair::save_run_files) already, if they are not searched by key.
pub fn save_level_files(repair: &mut Repair) -> Result<()> {
    let mut damaged = std::mem::take(&mut repair.damaged_tables);
    // The deepest first: upper ones ask those below what they have.
    damaged.sort_by_key(|table| (std::cmp::Reverse(table.record.level), table.record.highest_sequence));
    damaged.iter().try_for_each(|table| save(repair, table))
}

/// The value that a key has with just this sequence number in a level, if it can be read.
pub fn value_in_levels(
    tables: &Tables,
    state: &StoreState,
    order: &KeyOrder,
    key: &[u8],
    sequence: u64,
) -> Option<Slice> {
    let may_have = |record: &FileRecord| {
        record.level > 0
            && (record.lowest_sequence..=record.highest_sequence).contains(&sequence)
            && order.compare(&record.smallest_key, key).is_le()
            && order.compare(key, &record.largest_key).is_le()
    };
    let files = state.files.iter().filter(|(_, record)| may_have(record));
    let mut found = files.filter_map(|(&number, _)| tables.find(number, key, sequence).ok().flatten());
    let found = found.find(|found| found.sequence == sequence && found.kind == EntryKind::Put)?;
    Some(found.value)
}

fn save(repair: &mut Repair, table: &DamagedTable) -> Result<()> {
    let mut gaps = Vec::new();
    table.reader.salvage(&mut |part| {
        if let SalvagedPart::Gap(gap) = part {
            gaps.push(gap);
        }
        Ok(())
    })?;
    let deletes = deletes_for(repair, table, &gaps)?;
    let mut writer = Writer { repair, deletes: deletes.into_iter().peekable(), filling: None, last: None };
    table.reader.salvage(&mut |part| match part {
        SalvagedPart::Block(block) => {
            let mut cursor = block.cursor();
            cursor.seek_first()?;
            while cursor.valid() {
                writer.add(cursor.key(), cursor.sequence(), cursor.kind(), cursor.value())?;
                cursor.next()?;
            }
            Ok(())
        }
        SalvagedPart::Gap(_) => Ok(()),
    })?;
    let new = writer.end()?;
    for gap in gaps {
        repair.report.losses.push(Loss::Entries {
            number: table.number,
            entries: gap.entries,
            older_may_be_back: !gap.knows_keys(),
            smallest_key: match gap.from {
                Bound::Included(key) | Bound::Excluded(key) => key,
                Bound::Unbounded => Vec::new(),
            },
            largest_key: gap.through,
        });
    }
    repair.replace(table.number, &table.record, new)
}

/// The deletes that take the place of what can't be read, in the order of keys.
fn deletes_for(repair: &Repair, table: &DamagedTable, gaps: &[Gap]) -> Result<Vec<(Vec<u8>, u64)>> {
    // The numbers of what they hide.
    let mut hidden = LostKeys::new();
    for gap in gaps.iter().filter(|gap| gap.knows_keys()) {
        let mut seen = HashSet::new();
        for (level, number) in deeper_files(&repair.state, &table.record) {
            let record = &repair.state.files[&number];
            let order = &repair.options.comparator;
            let overlaps = order.is_from(&record.largest_key, gap.from.as_ref().map(Vec::as_slice))
                && order.compare(&record.smallest_key, &gap.through).is_le();
            if overlaps {
                tracing::debug!(level, number, "asked for keys of a block that can't be read");
                keys_of_gap(gap, order, &Arc::new(repair.open_table(number)?), &mut seen, &mut hidden)?;
            }
        }
    }
    // What upper levels have anew is hidden already.
    for (&number, _) in repair.state.files.iter().filter(|(_, record)| is_above(record, &table.record)) {
        match repair.open_table(number) {
            Ok(upper) => repair.take_out_replaced_in(&upper, &mut hidden)?,
            Err(Error::Corruption { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    // Runs of level 0 stand in the order of their numbers, so the new one keeps to those that the old one had.
    let lowest = if table.record.level == 0 { table.record.lowest_sequence } else { 0 };
    let mut deletes: BTreeMap<Vec<u8>, u64> =
        hidden.into_iter().map(|(key, hidden)| (key, lowest.max(hidden + 1))).collect();
    for gap in gaps {
        if let Some(sequence) = gap.goes_on_at {
            let of_key = deletes.entry(gap.through.clone()).or_insert(sequence);
            *of_key = sequence.max(*of_key);
        }
    }
    let mut deletes: Vec<(Vec<u8>, u64)> = deletes.into_iter().collect();
    deletes.sort_by(|(left, _), (right, _)| repair.options.comparator.compare(left, right));
    Ok(deletes)
}

/// The files below this one, upper levels first. On level 0 older files are below newer ones.
fn deeper_files(state: &StoreState, record: &FileRecord) -> Vec<(u8, u32)> {
    let deeper = state.files.iter().filter(|(_, other)| is_above(record, other));
    let mut files: Vec<(u8, u32)> = deeper.map(|(&number, other)| (other.level, number)).collect();
    files.sort_unstable();
    files
}

/// Whether readers ask a file before another one.
fn is_above(record: &FileRecord, other: &FileRecord) -> bool {
    let is_newer = record.level == 0 && record.lowest_sequence >= other.highest_sequence;
    record.level < other.level || (record.level == other.level && is_newer)
}

/// Collects the puts of a deeper file whose keys a gap may have had.
fn keys_of_gap(
    gap: &Gap,
    order: &KeyOrder,
    deeper: &Arc<TableReader>,
    seen: &mut HashSet<Vec<u8>>,
    hidden: &mut LostKeys,
) -> Result<()> {
    let mut cursor = TableCursor::new(deeper, deeper.clone())?;
    match &gap.from {
        Bound::Included(from) | Bound::Excluded(from) => cursor.seek(from)?,
        Bound::Unbounded => cursor.seek_first()?,
    }
    while cursor.valid() && order.compare(cursor.key(), &gap.through).is_le() {
        // Of a key the newest version comes first.
        if gap.may_have(order, cursor.key()) && seen.insert(cursor.key().to_vec()) && cursor.kind() == EntryKind::Put {
            let newest = hidden.entry(cursor.key().to_vec()).or_insert(0);
            *newest = cursor.sequence().max(*newest);
        }
        cursor.next()?;
    }
    Ok(())
}

/// Writes the newest version of each key into a new file.
struct Writer<'w, D: Iterator<Item = (Vec<u8>, u64)>> {
    repair: &'w mut Repair,
    deletes: std::iter::Peekable<D>,
    /// None before the first entry.
    filling: Option<(u32, TableBuilder)>,
    /// The last key that was written.
    last: Option<Vec<u8>>,
}

impl<D: Iterator<Item = (Vec<u8>, u64)>> Writer<'_, D> {
    /// Adds an entry, after the deletes that stand before it.
    fn add(&mut self, key: &[u8], sequence: u64, kind: EntryKind, value: &[u8]) -> Result<()> {
        let order = self.repair.options.comparator.clone();
        let is_before =
            |delete: &(Vec<u8>, u64)| order.compare(&delete.0, key).is_lt() || (delete.0 == key && delete.1 > sequence);
        while let Some((key, sequence)) = self.deletes.next_if(is_before) {
            self.write(&key, sequence, EntryKind::Delete, &[])?;
        }
        self.deletes.next_if(|delete| delete.0 == key);
        self.write(key, sequence, kind, value)
    }

    fn write(&mut self, key: &[u8], sequence: u64, kind: EntryKind, value: &[u8]) -> Result<()> {
        if self.last.as_deref() == Some(key) {
            // An older version: no reader asks for it any more.
            return Ok(());
        }
        self.last = Some(key.to_vec());
        let (_, builder) = match &mut self.filling {
            Some(filling) => filling,
            None => {
                let begun = self.repair.new_table(TableForm::LEVELS)?;
                self.filling.insert(begun)
            }
        };
        builder.add(key, sequence, kind, value)
    }

    /// Adds the last deletes. Returns the file, if there is one.
    fn end(mut self) -> Result<Option<(u32, TableBuilder)>> {
        while let Some((key, sequence)) = self.deletes.next() {
            self.write(&key, sequence, EntryKind::Delete, &[])?;
        }
        Ok(self.filling)
    }
}
