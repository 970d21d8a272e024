//! What an opening makes of level 0 when some of it has gone to level 1: on `Dram` it has nothing but the run files.

use std::ops::Bound;
use std::path::Path;

use slmdb_engine::{Engine, Options, WriteBatch};
use slmdb_manifest::Manifest;
use slmdb_table::EntryKind;
use slmdb_testkit::MemoryEnv;

use super::backwards;
use super::passed_over::{KEYS, STORE, damage, fill, key, move_chunks, open_in, put, table, value};
use crate::level_zero::run_files;
use crate::tier::Lab;

fn open(env: &MemoryEnv) -> Lab {
    open_in(env, Path::new(STORE), |options| options).0
}

fn delete(store: &Lab, number: u32) {
    let mut batch = WriteBatch::new();
    batch.delete(key(number)).unwrap();
    store.write(&batch, false).unwrap();
}

/// Lets the trees change their roles.
fn switch(store: &Lab) {
    let _indexing = store.shared.tier.state.level_zero.indexing.lock();
    assert!(store.shared.tier.state.level_zero.switch(&store.shared.parts.catalog).unwrap());
}

/// The numbers of the run files that the MANIFEST has, oldest first.
fn run_files_of(store: &Lab) -> Vec<u32> {
    run_files(store.shared.parts.catalog.lock().state()).into_iter().map(|(number, _)| number).collect()
}

fn check(store: &Lab, context: &str, expected: impl Fn(u32) -> Option<u8>) {
    for number in 0..KEYS {
        let found = store.get(&key(number)).unwrap();
        let expected = expected(number).map(|round| value(number, round));
        assert!(found.as_deref() == expected.as_deref(), "{context}: key {number}: {:?} bytes", found.map(|v| v.len()));
    }
    let report = store.verify(&mut |_| ()).unwrap();
    assert!(report.is_clean(), "{context}: {report:#?}");
}

/// Moves all that can be moved to level 1 while an entry of the oldest run file can't be read: that one stays. Then it can be read
/// again.
fn move_all_but_one(store: &Lab, env: &MemoryEnv, number: u32) {
    let entry = store.shared.tier.state.level_zero.immutable().get(&key(number)).unwrap().unwrap();
    let oldest = run_files_of(store).first().copied();
    assert_eq!(oldest, Some(entry.file), "it lies in the oldest run file");
    let file = table(entry.file);
    let whole = env.content(&file).unwrap();
    damage(store, env, &file, entry.offset as usize + 1);
    assert!(move_chunks(store).is_err());
    assert_eq!(store.shared.tier.state.level_zero.immutable().counts().keys, 1);
    env.set_content(&file, &whole);
    store.shared.parts.tables.caches().set_bytes(0);
}

/// Younger run files stay as long as an older one does. Else a rebuild of the trees would find there what the younger ones have
/// replaced, and readers look into the trees first (I4, trap 2).
#[test]
fn a_stale_put_does_not_come_back_when_the_trees_are_made_again() {
    let env = MemoryEnv::new();
    let store = open(&env);
    (0..KEYS).for_each(|number| put(&store, number, 1));
    store.flush().unwrap();
    (1..KEYS).for_each(|number| put(&store, number, 2));
    store.flush().unwrap();
    switch(&store);
    let before = run_files_of(&store);
    move_all_but_one(&store, &env, 0);
    assert_eq!(run_files_of(&store), before, "a younger run file has gone before an older one");
    let expected = |number| Some(if number == 0 { 1 } else { 2 });
    check(&store, "moved", expected);
    store.close().unwrap();
    drop(store);
    let store = open(&env);
    check(&store, "opened again", expected);
    store.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
    check(&store, "compacted", expected);
    assert_eq!(run_files_of(&store), []);
    store.close().unwrap();
}

/// A delete stays in the levels as long as a run file may have what it hides (I8, trap 3). A copy of the store has the run files
/// alone, too.
#[test]
fn a_delete_is_not_dropped_while_a_run_file_has_an_old_put() {
    let env = MemoryEnv::new();
    let store = open(&env);
    (0..KEYS).for_each(|number| put(&store, number, 1));
    store.flush().unwrap();
    (1..100).for_each(|number| delete(&store, number));
    store.flush().unwrap();
    switch(&store);
    move_all_but_one(&store, &env, 0);
    let in_levels = |store: &Lab, number| {
        let found = store.shared.tier.state.levels.current().get(&key(number), u64::MAX).unwrap();
        found.map(|found| found.kind)
    };
    for number in 1..100 {
        assert_eq!(in_levels(&store, number), Some(EntryKind::Delete), "key {number}");
    }
    let expected = |number| if (1..100).contains(&number) { None } else { Some(1) };
    check(&store, "moved", expected);
    store.checkpoint(Path::new("/copy")).unwrap();
    let (copy, _) = open_in(&env, Path::new("/copy"), |options| options);
    check(&copy, "the copy", expected);
    copy.close().unwrap();
    store.close().unwrap();
    drop(store);
    let store = open(&env);
    check(&store, "opened again", expected);
    // When no run file is left, it is dropped.
    store.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
    for number in 1..100 {
        assert_eq!(in_levels(&store, number), None, "key {number}");
    }
    check(&store, "compacted", expected);
    store.close().unwrap();
}

/// How far one tree was compacted says nothing of the tree that is compacted next.
#[test]
fn a_switch_forgets_how_far_the_tree_before_it_was_compacted() {
    let env = MemoryEnv::new();
    let store = open(&env);
    fill(&store, 1);
    move_chunks(&store).unwrap();
    fill(&store, 2);
    check(&store, "switched", |_| Some(2));
    store.close().unwrap();
    drop(store);
    check(&open(&env), "opened again", |_| Some(2));
}

/// The first sequence number that a flush has after a switch is one more than the last before it. Its run file belongs to the
/// mutable tree: of the immutable one an opening would leave out what has gone to level 1.
#[test]
fn a_run_file_with_the_next_number_after_a_switch_is_of_the_mutable_tree() {
    let env = MemoryEnv::new();
    // A chunk has as much as a MemTable.
    let open = || open_in(&env, Path::new(STORE), |options| Options { memtable_bytes: 32 << 10, ..options }).0;
    let store = open();
    fill(&store, 1);
    let chunk = store.shared.tier.compactor.chunk.lock();
    assert!(store.shared.tier.compactor.compact_chunk().unwrap());
    drop(chunk);
    assert!(store.shared.tier.state.level_zero.immutable().counts().keys > 0, "not only a part was moved");
    put(&store, 0, 2);
    store.flush().unwrap();
    let expected = |number| Some(if number == 0 { 2 } else { 1 });
    check(&store, "flushed", expected);
    store.close().unwrap();
    drop(store);
    let store = open();
    assert!(store.shared.tier.state.level_zero.mutable().get(&key(0)).unwrap().is_some());
    check(&store, "opened again", expected);
}

/// Trees do not change their roles while the immutable one has keys: they would be gone.
#[test]
fn a_tree_that_has_keys_does_not_become_the_mutable_one() {
    let env = MemoryEnv::new();
    let store = open(&env);
    fill(&store, 1);
    put(&store, 0, 2);
    store.flush().unwrap();
    let epoch = store.shared.tier.state.level_zero.epoch();
    {
        let _indexing = store.shared.tier.state.level_zero.indexing.lock();
        assert!(!store.shared.tier.state.level_zero.switch(&store.shared.parts.catalog).unwrap());
    }
    assert_eq!(store.shared.tier.state.level_zero.epoch(), epoch);
    check(&store, "not switched", |number| Some(if number == 0 { 2 } else { 1 }));
    store.close().unwrap();
}

/// A tree that is begun again has the next epoch: so no leaf of its past is taken for its own.
#[test]
fn each_tree_has_the_epoch_in_which_it_was_begun() {
    let env = MemoryEnv::new();
    let mut store = open(&env);
    for round in 1..4 {
        fill(&store, round);
        let check = |store: &Lab| {
            let epoch = store.shared.tier.state.level_zero.epoch();
            assert_eq!(epoch, u32::from(round));
            let epochs = store.shared.tier.state.level_zero.trees().map(|tree| tree.epoch());
            assert_eq!(epochs, [epoch, epoch - 1]);
        };
        check(&store);
        store.close().unwrap();
        drop(store);
        store = open(&env);
        check(&store);
        move_chunks(&store).unwrap();
    }
}

/// What is before and behind the end of the last chunk is a matter of the store's own order of keys (trap 12).
#[test]
fn in_another_order_of_keys_an_opening_has_what_no_chunk_has_moved() {
    let env = MemoryEnv::new();
    let change = |options| Options {
        comparator: backwards(),
        // A chunk has as much as a MemTable.
        memtable_bytes: 32 << 10,
        ..options
    };
    let open = || open_in(&env, Path::new(STORE), change).0;
    let store = open();
    fill(&store, 1);
    let chunk = store.shared.tier.compactor.chunk.lock();
    assert!(store.shared.tier.compactor.compact_chunk().unwrap());
    drop(chunk);
    let left = store.shared.tier.state.level_zero.immutable().counts().keys;
    assert!(0 < left && left < u64::from(KEYS));
    check(&store, "moved", |_| Some(1));
    store.close().unwrap();
    drop(store);
    let store = open();
    assert_eq!(store.shared.tier.state.level_zero.immutable().counts().keys, left);
    check(&store, "opened again", |_| Some(1));
    move_chunks(&store).unwrap();
    check(&store, "all moved", |_| Some(1));
    store.close().unwrap();
}

/// Levels and run files keep no live counts. What is common to all engines must not go by them (trap 18).
#[test]
fn no_file_has_a_live_count() {
    let env = MemoryEnv::new();
    let store = open(&env);
    fill(&store, 1);
    move_chunks(&store).unwrap();
    fill(&store, 2);
    store.close().unwrap();
    let files = Manifest::read(&env, Path::new(STORE)).unwrap().state.files;
    assert!(files.values().any(|file| file.level == 0) && files.values().any(|file| file.level == 1));
    assert!(files.values().all(|file| file.live_keys == 0), "{files:#?}");
}
