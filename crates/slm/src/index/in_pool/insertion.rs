//! Putting a table file's keys into the index (paper, section 3.2 «B+-tree insertion»), and pointing those of a compaction's output to it
//! (section 3.3).

use std::collections::BTreeMap;

use slmdb_engine::files::location::Location;
use slmdb_env::Result;
use slmdb_pmem::{AnyMedium, Pool};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::space_bounds::ENTRIES_UNDER_ONE_GUARD;
use slmdb_structures::fast_fair::{Decision, KeyRecord, Segment, Tree, set_replaced_file};
use slmdb_sync::epoch;

use super::location::location;

/// Swings the index to the records of a segment, in key order: a put replaces what is older, a delete removes it.
/// Returns how the live counts of other files change.
///
/// Doing it again after a crash in the middle does only what is missing: a record that the index points to already
/// stays. The number of the file that it replaced is in the record, and durable before the swing (INV-8).
///
/// `note` is called before a record is replaced, with its key, the location of its value, and the sequence number of
/// the record that takes its place.
pub(crate) fn insert_segment(
    tree: &Tree<AnyMedium>,
    pool: &Pool<AnyMedium>,
    segment: &Segment,
    note: &dyn Fn(&[u8], Location, u64),
) -> Result<BTreeMap<u32, i64>> {
    let offsets: Vec<u64> = {
        let guard = epoch::pin();
        segment.records(pool, &guard).map(|record| record.map(|record| record.offset())).collect::<Result<_>>()?
    };
    let mut live_changes = BTreeMap::new();
    for part in offsets.chunks(ENTRIES_UNDER_ONE_GUARD) {
        let guard = epoch::pin();
        let records: Vec<KeyRecord<'_>> =
            part.iter().map(|&offset| KeyRecord::at(pool, offset, &guard)).collect::<Result<_>>()?;
        tree.update_sorted(records.iter().map(|record| record.key()), |index, current| {
            let record = &records[index];
            if let Some(current) = current {
                // One version in two files: a compaction has copied it. The file with the larger number has it
                // (INV-17).
                if (current.sequence(), current.file()) >= (record.sequence(), record.file()) {
                    return Ok(Decision::Keep);
                }
                note(record.key(), location(&current), record.sequence());
                set_replaced_file(pool, record.offset(), current.file())?;
            }
            Ok(match record.kind() {
                EntryKind::Put => Decision::Put(record.offset()),
                EntryKind::Delete => Decision::Remove,
            })
        })?;
        for record in records.iter().filter(|record| record.replaced_file() != 0) {
            *live_changes.entry(record.replaced_file()).or_insert(0) -= 1;
        }
        guard.flush();
    }
    Ok(live_changes)
}

/// Moves the index to the records of a compaction's output, where it has the same versions elsewhere (INV-15). Returns
/// the number of keys by the file they came from. Doing it again after a crash in the middle does only what is missing,
/// and counts all.
pub(crate) fn repoint_to(
    tree: &Tree<AnyMedium>,
    pool: &Pool<AnyMedium>,
    segment: &Segment,
) -> Result<BTreeMap<u32, u64>> {
    let offsets: Vec<u64> = {
        let guard = epoch::pin();
        let puts = segment
            .records(pool, &guard)
            .filter(|record| record.as_ref().map_or(true, |record| record.kind() == EntryKind::Put));
        puts.map(|record| record.map(|record| record.offset())).collect::<Result<_>>()?
    };
    let mut moved = BTreeMap::new();
    for part in offsets.chunks(ENTRIES_UNDER_ONE_GUARD) {
        let guard = epoch::pin();
        let records: Vec<KeyRecord<'_>> =
            part.iter().map(|&offset| KeyRecord::at(pool, offset, &guard)).collect::<Result<_>>()?;
        tree.swap_sorted(records.iter().map(|record| record.key()), |index, current| {
            let record = &records[index];
            // One version in two outputs: an earlier compaction was given up on the way. The later output has it
            // (INV-17), also when a recovery that was cut short has moved it there and begins anew with the earlier
            // one.
            if current.sequence() != record.sequence() || current.file() >= record.file() {
                return Ok(None);
            }
            set_replaced_file(pool, record.offset(), current.file())?;
            Ok(Some(record.offset()))
        })?;
        for record in records.iter().filter(|record| record.replaced_file() != 0) {
            *moved.entry(record.replaced_file()).or_insert(0) += 1;
        }
        guard.flush();
    }
    Ok(moved)
}
