//! File scans: the last part of a tree leaves it by run files, the oldest first (paper, section 3.3).

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::{Engine, Options, WriteBatch};
use slmdb_table::Compression;
use slmdb_testkit::MemoryEnv;

use super::passed_over::{STORE, key, open_in};
use crate::level_zero::run_files;
use crate::options::LabOptions;
use crate::tier::Lab;

const FILES: u32 = 8;
const KEYS_PER_FILE: u32 = 30;

/// Small chunks, and files that are as long as their values.
fn open(env: &MemoryEnv, leaf_scan_part: f64) -> Lab {
    let change = |options: Options| Options {
        memtable_bytes: 16 << 10,
        compression: Compression::None,
        own: Some(Arc::new(LabOptions { leaf_scan_part, ..options.own() })),
        ..options
    };
    open_in(env, Path::new(STORE), change).0
}

/// Each run file has keys from all over.
fn fill(store: &Lab) {
    for file in 0..FILES {
        for number in 0..KEYS_PER_FILE {
            let mut batch = WriteBatch::new();
            batch.put(key(number * FILES + file), vec![number as u8; 400]).unwrap();
            store.write(&batch, false).unwrap();
        }
        store.flush().unwrap();
    }
    let _indexing = store.shared.tier.state.level_zero.indexing.lock();
    assert!(store.shared.tier.state.level_zero.switch(&store.shared.parts.catalog).unwrap());
}

fn check(store: &Lab) {
    for file in 0..FILES {
        for number in 0..KEYS_PER_FILE {
            let found = store.get(&key(number * FILES + file)).unwrap();
            assert_eq!(found.as_deref(), Some(&[number as u8; 400][..]), "key {}", number * FILES + file);
        }
    }
    assert!(store.verify(&mut |_| ()).unwrap().is_clean());
}

/// Moves everything chunk by chunk. What there was after each of them: keys in the tree, and run files.
fn move_chunks(store: &Lab) -> Vec<(u64, Vec<u32>)> {
    let mut seen = Vec::new();
    while store.shared.tier.compactor.compact_chunk().unwrap() {
        let files =
            run_files(store.shared.parts.catalog.lock().state()).into_iter().map(|(number, _)| number).collect();
        seen.push((store.shared.tier.state.level_zero.immutable().counts().keys, files));
        check(store);
    }
    seen
}

#[test]
fn the_last_part_of_a_tree_leaves_it_oldest_run_file_first() {
    let env = MemoryEnv::new();
    let store = open(&env, 0.5);
    fill(&store);
    let oldest_first = run_files(store.shared.parts.catalog.lock().state());
    let all_keys = store.shared.tier.state.level_zero.immutable().counts().keys;
    let seen = move_chunks(&store);
    let of_half = seen.iter().filter(|(keys, _)| keys * 2 > all_keys).collect::<Vec<_>>();
    assert!(!of_half.is_empty() && of_half.iter().all(|(_, files)| files.len() == FILES as usize), "{seen:?}");
    let by_file = seen.iter().filter(|(keys, files)| *keys > 0 && files.len() < FILES as usize).collect::<Vec<_>>();
    assert!(!by_file.is_empty(), "{seen:?}");
    for (_, files) in &seen {
        let gone = FILES as usize - files.len();
        let left: Vec<u32> = oldest_first.iter().skip(gone).map(|&(number, _)| number).collect();
        assert_eq!(*files, left);
    }
    assert!(matches!(seen.last(), Some((0, files)) if files.is_empty()), "{seen:?}");
    store.close().unwrap();
    drop(store);
    check(&open(&env, 0.5));
}

/// Without file scans all run files stay to the end.
#[test]
fn leaf_scans_alone_keep_all_run_files_to_the_end() {
    let store = open(&MemoryEnv::new(), 1.0);
    fill(&store);
    let seen = move_chunks(&store);
    let (last, before) = seen.split_last().unwrap();
    assert!(before.iter().all(|(keys, files)| *keys > 0 && files.len() == FILES as usize), "{seen:?}");
    assert_eq!(*last, (0, Vec::new()));
}

/// What an opening finds in the tree is all that it knows of: half of that leaves it by leaf scan.
#[test]
fn an_opening_begins_with_leaf_scans_again() {
    let env = MemoryEnv::new();
    let store = open(&env, 0.5);
    fill(&store);
    while store.shared.tier.state.level_zero.has_compacted_less_than(0.5) {
        assert!(store.shared.tier.compactor.compact_chunk().unwrap());
    }
    store.close().unwrap();
    drop(store);
    let store = open(&env, 0.5);
    assert!(store.shared.tier.state.level_zero.has_compacted_less_than(0.5));
    let seen = move_chunks(&store);
    assert_eq!(seen.first().map(|(_, files)| files.len()), Some(FILES as usize), "{seen:?}");
    assert_eq!(seen.last().map(|(keys, files)| (*keys, files.len())), Some((0, 0)));
}
