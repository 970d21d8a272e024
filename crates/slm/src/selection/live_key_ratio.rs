//! The live-key ratio (paper, section 3.3): the part of a table file's entries that the index still points to. Deletes
//! that are still needed count beside them, because they keep older versions of their keys dead.

use slmdb_manifest::FileRecord;

/// Entries of a file that are garbage: superseded puts, and deletes that may be dropped.
pub(crate) fn garbage(file: &FileRecord, deletes_droppable_through: u64) -> u64 {
    let is_covered = file.highest_sequence <= deletes_droppable_through;
    let needed = file.live_keys + if is_covered { 0 } else { file.deletes };
    file.entries.saturating_sub(needed)
}

/// Whether a file has puts that are superseded, which a delete may have to keep dead.
pub(crate) fn has_superseded_puts(file: &FileRecord) -> bool {
    file.entries > file.live_keys + file.deletes
}

/// Garbage as a part of its entries.
pub(crate) fn garbage_part(file: &FileRecord, deletes_droppable_through: u64) -> f64 {
    garbage(file, deletes_droppable_through) as f64 / file.entries.max(1) as f64
}

/// The part of a file's entries that is needed.
pub(crate) fn needed_part(file: &FileRecord, deletes_droppable_through: u64) -> f64 {
    1.0 - garbage_part(file, deletes_droppable_through)
}
