//! The validity check (paper, section 3.3): which entries of table files the index still points to.

use slmdb_env::Result;
use slmdb_table::EntryKind;

use crate::compaction::entry_batch::EntryBatch;
use crate::index::key_index::KeyIndex;

/// For each entry of a batch, whether it is valid, that is, must be kept. `inputs` are the files of the entries. A
/// delete is not kept if the index has its key again, or if it is not above `droppable_through`: index checkpoints cover it,
/// or it hides nothing (INV-18). `dropped_through` rises to the largest number among the latter.
pub(crate) fn check_validity(
    index: &dyn KeyIndex,
    inputs: &[u32],
    batch: &EntryBatch,
    droppable_through: u64,
    dropped_through: &mut u64,
) -> Result<Vec<bool>> {
    let keys: Vec<&[u8]> = batch.entries().map(|(_, entry)| entry.key).collect();
    let (mut entries, mut valid) = (batch.entries(), Vec::with_capacity(keys.len()));
    index.get_each(&keys, &mut |current| {
        let Some((input, entry)) = entries.next() else { return };
        valid.push(match (entry.kind, current) {
            (EntryKind::Put, current) => {
                current.is_some_and(|current| (current.file, current.sequence) == (inputs[input], entry.sequence))
            }
            (EntryKind::Delete, Some(_)) => false,
            (EntryKind::Delete, None) => {
                let is_covered = entry.sequence <= droppable_through;
                if is_covered {
                    *dropped_through = entry.sequence.max(*dropped_through);
                }
                !is_covered
            }
        });
    })?;
    Ok(valid)
}
