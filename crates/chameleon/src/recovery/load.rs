//! The index, as its tables have it: those of the last level and dumped ones are opened, and what came since is put into bypasses
//! again.

use std::collections::HashMap;
use std::sync::Arc;

use slmdb_engine::files::table_cache::Tables;
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_structures::hash::{DramWriter, KeyHasher};

use crate::shards::section::{Level, Row};
use crate::shards::tables::{HashTables, ShardTable};
use crate::shards::{FoundShard, Index, Leads, slot_of};

/// Makes the index of a store that has these tables.
pub(super) fn load(
    state: &StoreState,
    tables: &Tables,
    hash_tables: &HashTables,
    hasher: KeyHasher,
    rows: Vec<Row>,
    bypass_bytes: u64,
) -> Result<Index> {
    let mut shards = open_tables(&rows, hash_tables, &hasher)?;
    let mut leads_to: HashMap<u32, Leads> = HashMap::new();
    let in_last = state.files.iter().filter(|(_, file)| file.live_keys > 0);
    leads_to.extend(in_last.map(|(&number, file)| (number, Leads { puts: file.live_keys, deletes: 0 })));

    let mut upper: Vec<Row> = rows.iter().filter(|row| !row.is_read_in_place()).copied().collect();
    upper.sort_by_key(|row| row.epoch);
    let open: Vec<Option<ShardTable>> =
        upper.iter().map(|row| row.has_table().then(|| hash_tables.open(row)).transpose()).collect::<Result<_>>()?;
    for (number, shard) in shards.iter_mut().enumerate() {
        let later = upper.iter().zip(&open).filter(|(row, _)| row.epoch > shard.covered_through);
        let of_shard = later.filter_map(|(_, table)| table.as_ref()?.entries_of(number as u16));
        let entries = of_shard.map(u64::from).sum();
        shard.bypass = DramWriter::new(hasher.load_percent(number as u16), entries);
    }
    for (row, table) in upper.iter().zip(&open) {
        match table {
            Some(table) => {
                for number in 0..hasher.shards() as u16 {
                    let shard = &mut shards[usize::from(number)];
                    if row.epoch > shard.covered_through {
                        table.slots(number).try_for_each(|slot| slot.map(|slot| shard.insert(slot, &mut leads_to)))?;
                    }
                }
            }
            None => {
                let keys = tables.reader(row.number)?.key_section()?;
                for entry in keys.newest_entries() {
                    let entry = entry?;
                    let identity = hasher.identity(entry.key);
                    let shard = &mut shards[usize::from(identity.shard())];
                    if row.epoch > shard.covered_through {
                        shard.insert(slot_of(&identity, row.number, &entry)?, &mut leads_to);
                    }
                }
                tables.forget(row.number);
            }
        }
    }
    Ok(Index::new(hasher, shards, rows, leads_to, bypass_bytes))
}

/// The tables of each shard that are read where they lie.
fn open_tables(rows: &[Row], hash_tables: &HashTables, hasher: &KeyHasher) -> Result<Vec<FoundShard>> {
    let mut shards = FoundShard::all(hasher);
    let mut rows: Vec<&Row> = rows.iter().filter(|row| row.is_read_in_place()).collect();
    rows.sort_by_key(|row| row.epoch);
    for row in rows {
        let table = Arc::new(hash_tables.open(row)?);
        for (number, shard) in shards.iter_mut().enumerate() {
            if table.entries_of(number as u16).is_none() {
                continue;
            }
            if row.level == Level::Last {
                shard.tables.clear();
            }
            shard.tables.insert(0, table.clone());
            shard.covered_through = row.epoch;
        }
    }
    Ok(shards)
}
