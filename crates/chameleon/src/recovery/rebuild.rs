//! The index, made from the key sections of all table files: of each key the entry with the highest sequence number. That is for a
//! store whose index is lost, and for copies of stores that have theirs in a pool.

use std::collections::HashMap;
use std::sync::Arc;

use slmdb_engine::files::table_cache::Tables;
use slmdb_env::Result;
use slmdb_manifest::{FileRecord, StoreState};
use slmdb_pmem::Claim;
use slmdb_structures::hash::{DramWriter, KeyHasher, Slot, TableBuilder, TableOptions};

use crate::shards::section::{Level, Row, tables_part};
use crate::shards::tables::HashTables;
use crate::shards::{FoundShard, Leads, place_of, slot_of};
use crate::state::TABLE_LOAD_PERCENT;

/// The epoch of tables that a rebuild writes.
const EPOCH: u32 = 1;

/// Makes all shards of a store, in DRAM, and tells how many of their slots lead to each table file.
pub(super) fn rebuild(
    state: &StoreState,
    tables: &Tables,
    hasher: &KeyHasher,
) -> Result<(Vec<FoundShard>, HashMap<u32, Leads>)> {
    let mut shards = FoundShard::all(hasher);
    let mut leads_to = HashMap::new();
    let mut files: Vec<(u32, &FileRecord)> = state.files.iter().map(|(&number, file)| (number, file)).collect();
    files.sort_by_key(|(number, file)| (file.highest_sequence, *number));
    for (number, file) in files {
        let keys = tables.reader(number)?.key_section()?;
        for entry in keys.newest_entries() {
            let entry = entry?;
            let identity = hasher.identity(entry.key);
            let shard = &mut shards[usize::from(identity.shard())];
            let is_newest = match shard.bypass.table().get(&identity) {
                None => true,
                Some(before) => sequence_of(state, tables, entry.key, &before, file)? < entry.sequence,
            };
            if is_newest {
                shard.insert(slot_of(&identity, number, &entry)?, &mut leads_to);
            }
        }
        tables.forget(number);
    }
    Ok((shards, leads_to))
}

/// At most the sequence number of the entry that a slot leads to, if that decides which of two is newer; otherwise that number.
fn sequence_of(state: &StoreState, tables: &Tables, key: &[u8], slot: &Slot, other: &FileRecord) -> Result<u64> {
    let number = slot.place().file;
    match state.files.get(&number) {
        Some(file) if file.highest_sequence < other.lowest_sequence => Ok(file.highest_sequence),
        _ => Ok(tables.entry(number, place_of(slot), key)?.map_or(0, |entry| entry.sequence)),
    }
}

/// Writes tables of the last level of all that was rebuilt, and lets the MANIFEST name them. They take the place of the bypasses.
/// Returns their rows.
pub(super) fn write_last(
    shards: &mut [FoundShard],
    state: &mut StoreState,
    hash_tables: &HashTables,
    hasher: &KeyHasher,
    job_bytes: u64,
) -> Result<Vec<Row>> {
    let (mut rows, mut first) = (Vec::new(), 0);
    while first < shards.len() {
        let number = state.next_file_number;
        let mut builder = TableBuilder::new(TableOptions {
            number,
            uuid: hash_tables.uuid(),
            level: Level::Last as u8,
            epoch: EPOCH,
            shards: hasher.shards(),
            range: first as u32..hasher.shards(),
        })?;
        let begin = first;
        while first < shards.len() && (first == begin || builder.length_bytes() < job_bytes) {
            builder.begin_part(first as u16, TABLE_LOAD_PERCENT)?;
            for slot in shards[first].bypass.slots().filter(|slot| !slot.is_delete()) {
                builder.add(slot)?;
                if let Some(file) = state.files.get_mut(&slot.place().file) {
                    file.live_keys += 1;
                }
            }
            first += 1;
        }
        let finished = builder.finish()?;
        hash_tables.write(&finished, Claim::Ordinary)?;
        state.next_file_number += 1;
        let row = Row { number, epoch: EPOCH, length_bytes: finished.record().length_bytes, level: Level::Last };
        let table = Arc::new(hash_tables.open(&row)?);
        for (at, shard) in shards[begin..first].iter_mut().enumerate() {
            shard.bypass = DramWriter::new(hasher.load_percent((begin + at) as u16), 0);
            (shard.tables, shard.covered_through) = (vec![table.clone()], EPOCH);
        }
        rows.push(row);
    }
    state.engine_section = [tables_part(hasher.shards(), &rows)].into();
    Ok(rows)
}
