//! Inputs that can't be read: what is between their bounds stays where it is, and all else is compacted.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_engine::events::Listener;
use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, Event, Options, WriteBatch};
use slmdb_env::Error;
use slmdb_levels::Run;
use slmdb_sync::scheduled::Mutex;
use slmdb_testkit::MemoryEnv;

use crate::options::LabOptions;
use crate::tier::Lab;

pub(super) const STORE: &str = "/db";
pub(super) const KEYS: u32 = 200;

/// The files that compactions were given up for.
pub(super) type Told = Arc<Mutex<Vec<PathBuf>>>;

/// A store that compacts only what a test does step by step, with small files and levels.
fn open(env: &MemoryEnv) -> (Lab, Told) {
    open_in(env, Path::new(STORE), |options| options)
}

/// The same in any directory, and with other options.
pub(super) fn open_in(env: &MemoryEnv, directory: &Path, change: impl FnOnce(Options) -> Options) -> (Lab, Told) {
    let told = Told::new(Mutex::new(Vec::new()));
    let into = told.clone();
    let listener = move |event: &Event| {
        if let Event::CompactionGivenUp { cause: Error::Corruption { file, .. }, .. } = event {
            into.lock().push(file.clone());
        }
    };
    let options = Options {
        env: Arc::new(env.clone()),
        memtable_bytes: 64 << 10,
        block_bytes: 256,
        compaction: CompactionOptions {
            policy: CompactionPolicy::Manual,
            table_file_bytes: 4 << 10,
            ..CompactionOptions::default()
        },
        own: Some(Arc::new(LabOptions { level_base_bytes: 8 << 10, level_growth: 2, ..LabOptions::default() })),
        event_listener: Listener(Some(Arc::new(listener))),
        ..Options::default()
    };
    (super::open(&change(options), directory), told)
}

pub(super) fn key(number: u32) -> Vec<u8> {
    format!("key {number:03}").into_bytes()
}

/// (It does not become shorter by compression.)
pub(super) fn value(number: u32, round: u8) -> Vec<u8> {
    let mut state = u64::from(number) << 8 | u64::from(round);
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..400).map(|_| byte()).collect()
}

pub(super) fn put(store: &Lab, number: u32, round: u8) {
    let mut batch = WriteBatch::new();
    batch.put(key(number), value(number, round)).unwrap();
    store.write(&batch, false).unwrap();
}

/// Brings all keys into the immutable tree.
pub(super) fn fill(store: &Lab, round: u8) {
    (0..KEYS).for_each(|number| put(store, number, round));
    store.flush().unwrap();
    let _indexing = store.shared.tier.state.level_zero.indexing.lock();
    assert!(store.shared.tier.state.level_zero.switch(&store.shared.parts.catalog).unwrap());
}

/// Moves all chunks that can be moved. The error, if not all could.
pub(super) fn move_chunks(store: &Lab) -> Result<(), Error> {
    let _chunk = store.shared.tier.compactor.chunk.lock();
    while store.shared.tier.compactor.compact_chunk()? {}
    Ok(())
}

/// The path of a file of a level, and its bounds.
fn file_of(store: &Lab, level: u8) -> (PathBuf, Vec<u8>, Vec<u8>) {
    let version = store.shared.tier.state.levels.current();
    let run = &version.level(level)[version.level(level).len() / 2];
    let (smallest, largest) = (run.record().smallest_key.to_vec(), run.record().largest_key.to_vec());
    (table(run.number()), smallest, largest)
}

pub(super) fn table(number: u32) -> PathBuf {
    Path::new(STORE).join(format!("{number:010}.sst"))
}

/// Damages a byte of a file that is open, and what the store has read of it is forgotten.
pub(super) fn damage(store: &Lab, env: &MemoryEnv, file: &Path, at: usize) {
    let mut bytes = env.content(file).unwrap();
    bytes[at] ^= 4;
    env.set_content(file, &bytes);
    store.shared.parts.tables.caches().set_bytes(0);
}

fn check(store: &Lab, round: impl Fn(&[u8]) -> Option<u8>) {
    for number in 0..KEYS {
        let Some(round) = round(&key(number)) else { continue };
        let found = store.get(&key(number)).unwrap();
        assert_eq!(found.as_deref(), Some(&value(number, round)[..]), "key {number}");
    }
}

/// Waits until listeners were told.
fn told(told: &Told) -> Vec<PathBuf> {
    for _ in 0..100 {
        if !told.lock().is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    told.lock().clone()
}

#[test]
fn an_entry_of_a_run_file_that_cannot_be_read_keeps_nothing_else_in_level_0() {
    let env = MemoryEnv::new();
    let (store, events) = open(&env);
    fill(&store, 1);
    let entry = store.shared.tier.state.level_zero.immutable().get(&key(77)).unwrap().unwrap();
    let run_file = entry.file;
    damage(&store, &env, &table(run_file), entry.offset as usize + 1);
    let error = move_chunks(&store).unwrap_err().to_string();
    assert!(error.contains("slmdb repair") && error.contains(&format!("{run_file:010}.sst")), "{error}");
    assert_eq!(store.shared.tier.state.level_zero.immutable().counts().keys, 1);
    check(&store, |found| (found != key(77)).then_some(1));
    assert!(store.get(&key(77)).is_err());
    assert_eq!(told(&events), [table(run_file)], "it is told once");
    // Written anew, it is not needed any more.
    put(&store, 77, 2);
    store.flush().unwrap();
    move_chunks(&store).unwrap();
    assert_eq!(store.shared.tier.state.level_zero.immutable().counts().keys, 0);
    store.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
    check(&store, |found| Some(if found == key(77) { 2 } else { 1 }));
    store.close().unwrap();
}

#[test]
fn a_file_of_level_1_that_cannot_be_read_keeps_only_what_is_between_its_bounds_in_level_0() {
    let env = MemoryEnv::new();
    let (store, events) = open(&env);
    fill(&store, 1);
    move_chunks(&store).unwrap();
    fill(&store, 2);
    let (file, smallest, largest) = file_of(&store, 1);
    damage(&store, &env, &file, 1);
    let error = move_chunks(&store).unwrap_err().to_string();
    assert!(error.contains("slmdb repair") && error.contains(&file.display().to_string()), "{error}");
    let is_within = |key: &Vec<u8>| smallest <= *key && *key <= largest;
    let within = (0..KEYS).map(key).filter(is_within).count() as u64;
    assert!(0 < within && within < u64::from(KEYS));
    assert_eq!(store.shared.tier.state.level_zero.immutable().counts().keys, within);
    assert_eq!(told(&events), [file], "it is told once");
    check(&store, |_| Some(2));
    // Nor does a chunk reach over it that has nothing in between.
    let put_all = |round, is_wanted: &dyn Fn(&Vec<u8>) -> bool| {
        (0..KEYS).filter(|&number| is_wanted(&key(number))).for_each(|number| put(&store, number, round));
        store.flush().unwrap();
    };
    put_all(3, &is_within);
    move_chunks(&store).unwrap();
    put_all(4, &|key| !is_within(key));
    {
        let _indexing = store.shared.tier.state.level_zero.indexing.lock();
        assert!(store.shared.tier.state.level_zero.switch(&store.shared.parts.catalog).unwrap());
    }
    put_all(5, &is_within);
    move_chunks(&store).unwrap();
    assert_eq!(store.shared.tier.state.level_zero.immutable().counts().keys, 0);
    assert_eq!(told(&events).len(), 1, "it is told once");
    check(&store, |key| Some(if is_within(&key.to_vec()) { 5 } else { 4 }));
    store.close().unwrap();
}

#[test]
fn a_file_of_a_deeper_level_that_cannot_be_read_keeps_only_what_overlaps_it_above() {
    let env = MemoryEnv::new();
    let (store, events) = open(&env);
    let compact_levels = || {
        let (mut done, mut failed) = (0, 0);
        loop {
            match store.shared.tier.compactor.levels.compact_levels() {
                Ok(true) => done += 1,
                Ok(false) => return (done, failed),
                Err(_) => failed += 1,
            }
            assert!(failed < 10, "it is tried again and again");
        }
    };
    fill(&store, 1);
    move_chunks(&store).unwrap();
    compact_levels();
    let deepest = store.shared.tier.state.levels.current().deepest_level((Bound::Unbounded, Bound::Unbounded)).unwrap();
    assert!(deepest > 1);
    let (file, smallest, largest) = file_of(&store, deepest);
    damage(&store, &env, &file, 1);
    fill(&store, 2);
    move_chunks(&store).unwrap();
    let (done, failed) = compact_levels();
    assert!(done > 0 && failed == 1, "{done} {failed}");
    assert_eq!(told(&events), std::slice::from_ref(&file), "it is told once");
    // What the level above still has too much of overlaps it.
    let version = store.shared.tier.state.levels.current();
    assert!(version.level(deepest).iter().any(|run| table(run.number()) == file));
    let elsewhere = version.level(deepest - 1).iter().filter(|run| {
        let record = run.record();
        record.largest_key[..] < smallest[..] || record.smallest_key[..] > largest[..]
    });
    let elsewhere_bytes: u64 = elsewhere.map(|run| run.record().bytes).sum();
    let may_have = store.shared.tier.state.levels.options().target_bytes(deepest - 1);
    assert!(elsewhere_bytes <= may_have, "{elsewhere_bytes} bytes, where {may_have} may be");
    check(&store, |_| Some(2));
    store.close().unwrap();
}
