//! The index, made from the key sections of all table files: of each key the entry with the highest sequence number.

use slmdb_engine::Options;
use slmdb_engine::files::table_cache::Tables;
use slmdb_env::Result;
use slmdb_manifest::{FileRecord, StoreState};
use slmdb_structures::hash::Slot;

use crate::index::{Index, place_of, slot_of};
use crate::options::ChameleonOptions;

/// Makes the index of a store. Its secret is the store's own UUID of files.
pub(super) fn rebuild(options: &Options, state: &StoreState, tables: &Tables) -> Result<Index> {
    let index = Index::new(&state.files_uuid, options.own::<ChameleonOptions>().shards)?;
    let mut files: Vec<(u32, &FileRecord)> = state.files.iter().map(|(&number, file)| (number, file)).collect();
    files.sort_by_key(|(number, file)| (file.highest_sequence, *number));
    for (number, file) in files {
        let keys = tables.reader(number)?.key_section()?;
        let mut writers = index.writers.lock();
        for entry in keys.newest_entries() {
            let entry = entry?;
            let identity = index.identity(entry.key);
            let is_newest = match index.find_identity(&identity) {
                None => true,
                Some(before) => sequence_of(state, tables, entry.key, &before, file)? < entry.sequence,
            };
            if is_newest {
                writers.insert(&identity, slot_of(&identity, number, &entry)?);
            }
        }
        tables.forget(number);
    }
    Ok(index)
}

/// At most the sequence number of the entry that a slot leads to, if that decides which of two is newer; otherwise that number.
fn sequence_of(state: &StoreState, tables: &Tables, key: &[u8], slot: &Slot, other: &FileRecord) -> Result<u64> {
    let number = slot.place().file;
    match state.files.get(&number) {
        Some(file) if file.highest_sequence < other.lowest_sequence => Ok(file.highest_sequence),
        _ => Ok(tables.entry(number, place_of(slot), key)?.map_or(0, |entry| entry.sequence)),
    }
}
