//! Verification: every table file from end to end ([`FileVerifier`]); the index against the key sections of all files; the directory
//! against the MANIFEST. Commits of flushes and collections wait meanwhile. Reads and writes don't.

use std::collections::HashMap;

use slmdb_engine::files::file_names as names;
use slmdb_engine::files::file_verifier::FileVerifier;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::{VerifyProgress, VerifyReport};
use slmdb_env::{Error, Result};
use slmdb_manifest::FILE_NAME as MANIFEST_NAME;
use slmdb_structures::hash::{Identity, Slot};

use crate::shards::{Writers, slot_of};
use crate::state::ChameleonState;

/// See [`slmdb_engine::Engine::verify`].
/// LOCKS: memtables; indexing (tried); catalog
pub(crate) fn verify(
    store: &Parts,
    state: &ChameleonState,
    progress: &mut dyn FnMut(VerifyProgress),
) -> Result<VerifyReport> {
    let files: FileVerifier = store.file_verifier();
    let writers = store.writes.take_from_jobs(|| Ok(state.index.writers.try_lock()))?;
    let under_way = files.under_way();
    let named = files.catalog.lock().state().clone();
    let mut report = VerifyReport::default();
    store.writes.verify_memtables(&mut report);
    report.findings.extend(state.pool.verify());
    // Of each identity the newest entry of all files.
    let mut newest: HashMap<Identity, (u64, Slot)> = HashMap::new();
    let mut are_all_read = true;
    files.verify_tables(&named.files, &mut report, progress, |number, reader, report| {
        report.entries_checked += reader.properties().entries;
        if let Err(error) = note_newest(state, number, reader, &mut newest) {
            are_all_read = false;
            report.findings.push(error);
        }
    });
    are_all_read &= report.findings.is_empty();
    let finding =
        |number: u32, what: String| Error::corruption(names::table(&store.context.directory, number), 0, what);
    verify_hash_tables(state, &writers, &mut report);
    for shard in state.index.shards() {
        let checked = state.index.slots(shard, |slot| {
            let found = newest.remove(&slot.identity(shard)).map(|(_, slot)| slot);
            // (A delete whose entry has gone stays in the index until its shard is merged; and an opening may find an older delete of a
            // key than the newest.)
            let is_right = found == Some(slot) || (slot.is_delete() && found.is_none_or(|found| found.is_delete()));
            if are_all_read && !is_right {
                let what = "the index leads to an entry that is not the newest of its key, or not there".to_string();
                report.findings.push(finding(slot.place().file, what));
            }
        });
        // (It was told above.)
        are_all_read &= checked.is_ok();
    }
    // (What the index does not have was deleted.)
    newest.retain(|_, (_, slot)| !slot.is_delete());
    if are_all_read && let Some((_, slot)) = newest.values().next() {
        let what = format!("{} keys of table files are missing in the index", newest.len());
        report.findings.push(finding(slot.place().file, what));
    }
    if let Some((number, _)) = named.files.iter().find(|(_, file)| file.level != 0) {
        let what = format!("table file {number} is on a level, which this engine has not");
        report.findings.push(Error::corruption(store.context.directory.join(MANIFEST_NAME), 0, what));
    }
    files.find_stray_tables(&named.files, &under_way, |_| false, &mut report)?;
    files.limit_findings(&mut report);
    Ok(report)
}

/// Reads all hash tables from end to end.
fn verify_hash_tables(state: &ChameleonState, writers: &Writers, report: &mut VerifyReport) {
    for row in writers.rows().iter().filter(|row| row.has_table()) {
        match state.hash_tables.open(row) {
            Ok(table) => report.findings.extend(table.verify()),
            Err(error) => report.findings.push(error),
        }
    }
}

fn note_newest(
    state: &ChameleonState,
    number: u32,
    reader: &slmdb_table::TableReader,
    newest: &mut HashMap<Identity, (u64, Slot)>,
) -> Result<()> {
    for entry in reader.key_section()?.newest_entries() {
        let entry = entry?;
        let identity = state.index.identity(entry.key);
        let found = (entry.sequence, slot_of(&identity, number, &entry)?);
        let known = newest.entry(identity).or_insert(found);
        if known.0 < found.0 {
            *known = found;
        }
    }
    Ok(())
}
