//! The rules by which run files and deletes leave the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_manifest::{FileRecord, MediumKind, MediumRecord, StoreState};

use super::{bytes_max, deletes_below, run_files_done};
use crate::options::LabOptions;

/// A store with run files of these numbers and sequence numbers, and one file on level 1.
fn state(run_files: &[(u32, u64, u64)]) -> StoreState {
    let record = |level, lowest_sequence, highest_sequence| FileRecord {
        length_bytes: 100,
        entries: 1,
        deletes: 0,
        live_keys: 0,
        smallest_key: b"a".to_vec(),
        largest_key: b"z".to_vec(),
        lowest_sequence,
        highest_sequence,
        created_unix_ns: 0,
        level,
    };
    let files = run_files.iter().map(|&(number, lowest, highest)| (number, record(0, lowest, highest)));
    let files = files.chain([(99, record(1, 1, 2))]).collect();
    let medium = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id: [0; 16] };
    StoreState { files, flushed_through: 30, ..StoreState::new([1; 16], "lab", "bytewise", medium) }
}

/// I4. A younger run file may have what replaced an entry of an older one. If it went first, trees that are made again
/// from the files would have the older entry.
#[test]
fn run_files_leave_the_store_oldest_first() {
    // By number the second is the oldest.
    let state = state(&[(7, 11, 20), (3, 21, 30), (9, 3, 10)]);
    assert_eq!(run_files_done(&state, &BTreeMap::from([(9, 1)])), []);
    assert_eq!(run_files_done(&state, &BTreeMap::from([(7, 1)])), [9]);
    assert_eq!(run_files_done(&state, &BTreeMap::from([(3, 1)])), [9, 7]);
    assert_eq!(run_files_done(&state, &BTreeMap::new()), [9, 7, 3]);
}

/// I8. A delete that hides a put of a run file has to stay.
#[test]
fn deletes_stay_while_a_run_file_may_have_what_they_hide() {
    assert_eq!(deletes_below(&state(&[(7, 11, 20), (3, 21, 30), (9, 3, 10)])), 3);
    assert_eq!(deletes_below(&state(&[])), 31);
}

/// With a budget of 128 MiB a store in plain memory took 217.
#[test]
fn in_plain_memory_level_0_is_a_part_of_the_memory_budget() {
    let options = |level_zero_bytes, memory_budget_bytes| Options {
        own: Some(Arc::new(LabOptions { level_zero_bytes, ..LabOptions::default() })),
        memory_budget_bytes,
        ..Options::default()
    };
    let bounds = |options: &Options| [false, true].map(|is_persistent| bytes_max(options, is_persistent));
    assert_eq!(bounds(&options(256 << 20, 128 << 20)), [32 << 20, 256 << 20]);
    assert_eq!(bounds(&options(8 << 10, 128 << 20)), [8 << 10, 8 << 10]);
    assert_eq!(bounds(&options(256 << 20, 0)), [256 << 10, 256 << 20]);
}
