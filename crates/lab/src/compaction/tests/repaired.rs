//! Repairs of stores whose level 0 was on its way to level 1.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_engine::store::opening::{Found, start};
use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, Loss, Medium, Options, RepairReport, WriteBatch};
use slmdb_env::Env;
use slmdb_manifest::{Manifest, StoreState};
use slmdb_pmem::Persistent;
use slmdb_testkit::MemoryEnv;

use super::backwards;
use crate::KIND;
use crate::level_zero::state::LevelZeroState;
use crate::recovery::open::LabOpening;
use crate::recovery::trees_in_pool;
use crate::tier::Lab;

const STORE: &str = "/db";
const POOL: &str = "/pool";
pub(super) const KEYS: u32 = 200;

fn options(env: &MemoryEnv) -> Options {
    Options {
        env: Arc::new(env.clone()),
        medium: Some(Medium::Emulated { path: POOL.into() }),
        memtable_bytes: 4 << 10,
        block_bytes: 256,
        pool_initial_bytes: 1 << 20,
        pool_growth_bytes: 1 << 20,
        compaction: CompactionOptions {
            policy: CompactionPolicy::Manual,
            table_file_bytes: 4 << 10,
            ..CompactionOptions::default()
        },
        ..Options::default()
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:03}").into_bytes()
}

fn value(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(40)
}

/// A store that compacts only what a test does step by step.
fn open(env: &MemoryEnv) -> Lab {
    open_with(options(env))
}

fn open_with(options: Options) -> Lab {
    let found = Found::of(&KIND, &options, Path::new(STORE)).unwrap();
    let trees = trees_in_pool::find(Persistent::new().into(), &options, &found.state).unwrap();
    start::<LabOpening>(found, trees).unwrap()
}

/// All keys, in the immutable tree, and nothing in the mutable one.
pub(super) fn fill(env: &MemoryEnv) -> Lab {
    filled(open(env))
}

fn filled(store: Lab) -> Lab {
    for number in 0..KEYS {
        let mut batch = WriteBatch::new();
        batch.put(key(number), value(number)).unwrap();
        store.write(&batch, false).unwrap();
    }
    store.flush().unwrap();
    let indexing = store.shared.tier.state.level_zero.indexing.lock();
    assert!(store.shared.tier.state.level_zero.switch(&store.shared.parts.catalog).unwrap());
    drop(indexing);
    store
}

fn state(env: &MemoryEnv) -> StoreState {
    Manifest::read(env, Path::new(STORE)).unwrap().state
}

/// The files of a level.
fn files(env: &MemoryEnv, is_wanted: impl Fn(u8) -> bool) -> Vec<PathBuf> {
    let state = state(env);
    let files = state.files.iter().filter(|(_, file)| is_wanted(file.level));
    files.map(|(number, _)| Path::new(STORE).join(format!("{number:010}.sst"))).collect()
}

/// Damages the first block of a file.
fn damage(env: &MemoryEnv, file: &Path) {
    let mut bytes = env.content(file).unwrap();
    bytes[1] ^= 4;
    env.set_content(file, &bytes);
}

fn repair(env: &MemoryEnv) -> RepairReport {
    (crate::KIND.repair)(&options(env), Path::new(STORE), None, &mut |_| ()).unwrap()
}

/// Opens the store, and checks that it has all keys and is sound. All that is twice what a test changes it with.
fn check_whole(env: &MemoryEnv) {
    for _ in 0..2 {
        let store = open(env);
        for number in 0..KEYS {
            let found = store.get(&key(number)).unwrap();
            assert_eq!(found.as_deref(), Some(&value(number)[..]), "key {number}");
        }
        let report = store.verify(&mut |_| ()).unwrap();
        assert!(report.is_clean(), "{report:#?}");
        // Also once all of it has gone through the levels.
        store.compact_range(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded).unwrap();
        store.close().unwrap();
    }
}

/// A key that has gone to level 1 must not be in the trees of the new pool: its run file may be gone, or is to go.
#[test]
fn a_pool_that_is_lost_while_the_immutable_tree_is_half_compacted_is_made_anew() {
    let env = MemoryEnv::new();
    let store = fill(&env);
    assert!(store.shared.tier.compactor.compact_chunk().unwrap());
    store.close().unwrap();
    drop(store);
    let through = LevelZeroState::of(&state(&env)).unwrap().compacted_through.unwrap();
    let left = (0..KEYS).filter(|number| key(*number) > through).count() as u64;
    assert!(0 < left && left < u64::from(KEYS));
    env.remove_file(Path::new(POOL)).unwrap();
    let report = repair(&env);
    assert!(report.losses.is_empty(), "{report:#?}");
    assert_eq!(report.index_keys, left);
    check_whole(&env);
}

/// The run files still have what level 1 has lost.
#[test]
fn what_a_chunk_took_to_a_file_that_is_lost_comes_back_from_the_run_files() {
    for is_gone in [false, true] {
        let env = MemoryEnv::new();
        let store = fill(&env);
        assert!(store.shared.tier.compactor.compact_chunk().unwrap());
        store.close().unwrap();
        drop(store);
        let on_level_1 = files(&env, |level| level == 1);
        for file in &on_level_1 {
            if is_gone { env.remove_file(file).unwrap() } else { damage(&env, file) }
        }
        let report = repair(&env);
        assert_eq!(report.losses.len(), on_level_1.len(), "{report:#?}");
        assert_eq!(report.index_keys, u64::from(KEYS));
        check_whole(&env);
    }
}

/// A file scan leaves its keys in the run file, and a rebuild of the trees takes them from there. So a delete in their
/// place would hide what level 1 has.
#[test]
fn what_a_file_scan_took_to_level_1_is_not_hidden_by_a_damaged_run_file() {
    let env = MemoryEnv::new();
    let store = fill(&env);
    let run_file = files(&env, |level| level == 0).remove(0);
    let chunk = store.shared.tier.compactor.chunk.lock();
    assert!(store.shared.tier.compactor.compact_oldest_run_file().unwrap());
    drop(chunk);
    // The first key has gone, and others are still there.
    assert_eq!(store.shared.tier.state.level_zero.immutable().get(&key(0)).unwrap(), None);
    store.close().unwrap();
    drop(store);
    damage(&env, &run_file);
    let report = repair(&env);
    assert!(!report.damage.is_empty() && report.losses.is_empty(), "{report:#?}");
    check_whole(&env);
}

/// What a run file has lost may be on level 1 in an older version, and in the pool's new trees it is a delete.
#[test]
fn a_key_that_a_run_file_has_lost_does_not_bring_back_what_a_level_has() {
    for pool_is_lost in [false, true] {
        let env = MemoryEnv::new();
        let store = fill(&env);
        store.compact_range(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(key(7), b"newer").unwrap();
        store.write(&batch, false).unwrap();
        store.flush().unwrap();
        store.close().unwrap();
        drop(store);
        damage(&env, &files(&env, |level| level == 0)[0]);
        if pool_is_lost {
            env.remove_file(Path::new(POOL)).unwrap();
        }
        let report = repair(&env);
        let lost = Loss::Key { key: key(7), sequence: u64::from(KEYS) + 1 };
        assert_eq!(report.losses, [lost]);
        for _ in 0..2 {
            let store = open(&env);
            assert_eq!(store.get(&key(7)).unwrap(), None);
            assert_eq!(store.get(&key(8)).unwrap().as_deref(), Some(&value(8)[..]));
            assert!(store.verify(&mut |_| ()).unwrap().is_clean());
            store.compact_range(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded).unwrap();
            assert_eq!(store.get(&key(7)).unwrap(), None);
            store.close().unwrap();
        }
    }
}

/// An opening takes out of the immutable tree what has gone to level 1, and nothing that comes after it in the store's own order.
#[test]
fn in_another_order_of_keys_an_opening_takes_out_only_what_has_moved() {
    let env = MemoryEnv::new();
    let open = || open_with(Options { comparator: backwards(), ..options(&env) });
    let store = filled(open());
    assert!(store.shared.tier.compactor.compact_chunk().unwrap());
    let left = store.shared.tier.state.level_zero.immutable().counts().keys;
    assert!(0 < left && left < u64::from(KEYS));
    store.close().unwrap();
    drop(store);
    let store = open();
    assert_eq!(store.shared.tier.state.level_zero.immutable().counts().keys, left);
    for number in 0..KEYS {
        let found = store.get(&key(number)).unwrap();
        assert_eq!(found.as_deref(), Some(&value(number)[..]), "key {number}");
    }
    assert!(store.verify(&mut |_| ()).unwrap().is_clean());
}
