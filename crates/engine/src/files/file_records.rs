//! What the MANIFEST records of a table file, and of the edits that add files.

use slmdb_manifest::{Edit, FileRecord, StoreState};
use slmdb_table::Properties;

use crate::TableFile;

/// The record of a table file with these properties and this length, on level 0. All its newest puts count as live.
pub fn file_record(properties: &Properties, length_bytes: u64) -> FileRecord {
    FileRecord {
        length_bytes,
        entries: properties.entries,
        deletes: properties.deletes,
        live_keys: properties.entries - properties.older_versions - properties.deletes,
        smallest_key: properties.smallest_key.clone(),
        largest_key: properties.largest_key.clone(),
        lowest_sequence: properties.lowest_sequence,
        highest_sequence: properties.highest_sequence,
        created_unix_ns: properties.created_unix_ns,
        level: 0,
    }
}

/// Adds to an edit the number of its job and the next file number.
pub fn numbered(state: &StoreState, edit: Edit) -> Edit {
    let added = edit.files_added.iter().chain(&edit.lists_added);
    let next = added.map(|(number, _)| number.saturating_add(1)).fold(state.next_file_number, u32::max);
    Edit { job: state.last_job + 1, next_file_number: Some(next), ..edit }
}

/// What the store tells of a file of which so many keys are live.
pub fn table_file(number: u32, file: &FileRecord, live_keys: u64) -> TableFile {
    TableFile {
        number,
        level: u32::from(file.level),
        is_in_pool: false,
        bytes: file.length_bytes,
        entries: file.entries,
        live_keys,
        deletes: file.deletes,
        smallest_key: file.smallest_key.clone(),
        largest_key: file.largest_key.clone(),
        lowest_sequence: file.lowest_sequence,
        highest_sequence: file.highest_sequence,
        created_unix_ns: file.created_unix_ns,
    }
}
