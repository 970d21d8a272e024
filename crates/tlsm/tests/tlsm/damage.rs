//! Damage in the pool: an error, or the right answer; and what a repair makes of it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, Loss, Medium, Options, WriteBatch};
use slmdb_env::Error;
use slmdb_manifest::{Manifest, StoreState};
use slmdb_testkit::MemoryEnv;
use slmdb_tlsm::{Tiering, TlsmOptions};

const UNIT_BYTES: u64 = 64 << 10;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct Store {
    _home: tempfile::TempDir,
    directory: PathBuf,
    pool: PathBuf,
}

fn options(store: &Store) -> Options {
    let own = TlsmOptions { tiering: Tiering::None, segment_bytes: UNIT_BYTES, ..TlsmOptions::default() };
    Options { own: Some(Arc::new(own)), medium: Some(Medium::Emulated { path: store.pool.clone() }), ..manual() }
}

/// With small MemTables and a small pool. Nothing is compacted but what is asked for.
fn manual() -> Options {
    Options {
        memtable_bytes: 16 << 10,
        compaction: CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() },
        pool_initial_bytes: 4 << 20,
        pool_growth_bytes: 1 << 20,
        ..Options::default()
    }
}

fn open(store: &Store) -> Result<Arc<dyn Engine>, Error> {
    (slmdb_tlsm::KIND.open)(&options(store), &store.directory, None)
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:04}").into_bytes()
}

/// A closed store with three lists on level 0 and one MemTable.
fn filled() -> (Store, Model) {
    let home = tempfile::tempdir().unwrap();
    let (directory, pool) = (home.path().join("db"), home.path().join("pool"));
    let (store, mut model) = (Store { _home: home, directory, pool }, Model::new());
    let engine = open(&store).unwrap();
    fill(&*engine, &mut model);
    assert!(engine.table_files().iter().all(|run| run.is_in_pool) && engine.table_files().len() >= 3);
    engine.close().unwrap();
    (store, model)
}

/// Makes three lists on level 0, and one MemTable.
fn fill(engine: &dyn Engine, model: &mut Model) {
    for round in 0..3_u32 {
        for number in (0..200).filter(|number| number % (round + 1) == 0) {
            let mut batch = WriteBatch::new();
            if number % 7 == round {
                batch.delete(key(number)).unwrap();
                model.remove(&key(number));
            } else {
                let value = vec![round as u8; 20 + number as usize % 50];
                batch.put(key(number), &value).unwrap();
                model.insert(key(number), value);
            }
            engine.write(&batch, false).unwrap();
        }
        engine.flush().unwrap();
    }
    let mut batch = WriteBatch::new();
    batch.put(b"late", b"late").unwrap();
    model.insert(b"late".to_vec(), b"late".to_vec());
    engine.write(&batch, false).unwrap();
}

/// Where lists and segments begin in a pool: units that begin with a list's magic, and those behind the lists' that hold no arena.
fn lists_and_segments(store: &Store) -> (Vec<u64>, Vec<u64>) {
    let bytes = std::fs::read(&store.pool).unwrap();
    let units = || (1..bytes.len() as u64 / UNIT_BYTES).map(|unit| unit * UNIT_BYTES);
    let begins_with = |at: &u64, what: &[u8]| bytes[*at as usize..].starts_with(what);
    let lists: Vec<u64> = units().filter(|at| begins_with(at, b"LIST")).collect();
    // An entry's key lies behind its front.
    let segments = units().filter(|at| bytes[*at as usize + 22..].starts_with(b"key ")).collect();
    (lists, segments)
}

fn overwrite(store: &Store, at: u64, bytes: &[u8]) {
    std::fs::File::options().write(true).open(&store.pool).unwrap().write_all_at(bytes, at).unwrap();
}

/// What the store holds, by gets and by a scan both ways: right, or errors that name the pool.
fn ask(engine: &dyn Engine, model: &Model) -> usize {
    let mut errors = 0;
    let mut is_error = |error: Error| {
        assert!(matches!(&error, Error::Corruption { file, .. } if file.ends_with("pool")), "{error}");
        errors += 1;
    };
    for number in 0..200 {
        match engine.get(&key(number)) {
            Ok(found) => assert_eq!(found.as_deref(), model.get(&key(number)).map(|value| &value[..]), "{number}"),
            Err(error) => is_error(error),
        }
    }
    let mut cursor = engine.cursor().unwrap();
    let mut moved = cursor.seek_first();
    while moved.is_ok() && cursor.valid() {
        match cursor.value() {
            Ok(value) => assert_eq!(Some(&value[..]), model.get(cursor.key()).map(|value| &value[..])),
            Err(error) => is_error(error),
        }
        moved = cursor.next();
    }
    moved.err().into_iter().for_each(&mut is_error);
    let mut moved = cursor.seek_last();
    while moved.is_ok() && cursor.valid() {
        assert!(model.contains_key(cursor.key()));
        moved = cursor.prev();
    }
    moved.err().into_iter().for_each(is_error);
    errors
}

#[test]
fn what_is_damaged_while_it_is_open_gives_errors_and_nothing_wrong() {
    let (store, model) = filled();
    let (lists, segments) = lists_and_segments(&store);
    assert!(lists.len() >= 3 && segments.len() >= 3, "{lists:?} {segments:?}");
    // (What leads to nodes is checked when a list is opened.)
    for at in segments {
        let before = std::fs::read(&store.pool).unwrap();
        let manifest = std::fs::read(store.directory.join("MANIFEST")).unwrap();
        let engine = open(&store).unwrap();
        assert_eq!(ask(&*engine, &model), 0);
        overwrite(&store, at, &[0xa5; UNIT_BYTES as usize]);
        assert!(ask(&*engine, &model) > 0, "damage at {at} is not noticed");
        let report = engine.verify(&mut |_| ()).unwrap();
        assert!(!report.is_clean(), "damage at {at}");
        drop(engine);
        // Both as they were: a pool that is older than the MANIFEST says is refused.
        std::fs::write(&store.pool, before).unwrap();
        std::fs::write(store.directory.join("MANIFEST"), &manifest).unwrap();
    }
}

#[test]
fn a_byte_that_is_flipped_anywhere_gives_an_error_or_the_right_answer() {
    let (store, model) = filled();
    let sound = std::fs::read(&store.pool).unwrap();
    let manifest = std::fs::read(store.directory.join("MANIFEST")).unwrap();
    let (lists, segments) = lists_and_segments(&store);
    let mut noticed = 0;
    for at in lists.into_iter().chain(segments) {
        for offset in (0..400).step_by(13).chain((400..8000).step_by(331)) {
            let mut bytes = sound.clone();
            bytes[at as usize + offset] ^= 0x20;
            std::fs::write(&store.pool, bytes).unwrap();
            std::fs::write(store.directory.join("MANIFEST"), &manifest).unwrap();
            match open(&store) {
                Ok(engine) => noticed += usize::from(ask(&*engine, &model) > 0),
                Err(Error::Corruption { file, .. }) if file.ends_with("pool") => noticed += 1,
                Err(Error::Unsupported { .. }) => noticed += 1,
                Err(error) => panic!("{at} + {offset}: {error}"),
            }
        }
    }
    assert!(noticed > 50, "{noticed}");
}

fn repair(store: &Store) -> slmdb_engine::RepairReport {
    (slmdb_tlsm::KIND.repair)(&options(store), &store.directory, None, &mut |_| ()).unwrap()
}

fn contents(store: &Store) -> Model {
    contents_of(&*open(store).unwrap())
}

fn contents_of(engine: &dyn Engine) -> Model {
    let report = engine.verify(&mut |_| ()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    let (mut cursor, mut found) = (engine.cursor().unwrap(), Model::new());
    cursor.seek_first().unwrap();
    while cursor.valid() {
        found.insert(cursor.key().to_vec(), cursor.value().unwrap().to_vec());
        cursor.next().unwrap();
    }
    engine.close().unwrap();
    found
}

#[test]
fn a_repair_saves_the_lists_of_a_pool_that_can_be_read() {
    let (store, model) = filled();
    let report = repair(&store);
    assert!(report.losses.is_empty() && report.damage.is_empty(), "{report:#?}");
    assert_eq!(contents(&store), model);
    let engine = open(&store).unwrap();
    assert!(engine.table_files().iter().any(|run| !run.is_in_pool), "lists have become table files");
    engine.close().unwrap();
}

#[test]
fn a_repair_names_each_list_of_a_lost_pool() {
    let (store, _) = filled();
    let engine = open(&store).unwrap();
    let lists: Vec<u32> = engine.table_files().iter().map(|run| run.number).collect();
    engine.close().unwrap();
    drop(engine);
    std::fs::remove_file(&store.pool).unwrap();
    let error = open(&store).err().unwrap().to_string();
    assert!(error.contains("slmdb repair"), "{error}");
    let report = repair(&store);
    let told = report.losses.iter().filter_map(|loss| match loss {
        Loss::List { number, entries, .. } if *entries > 0 => Some(*number),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), lists);
    assert!(report.losses.iter().any(|loss| matches!(loss, Loss::Writes { .. })), "{report:#?}");
    assert!(contents(&store).is_empty());
}

/// The machine restarts while a store is open. Its pool is there, with pages of whatever age: no list of it can be trusted. Level 1 is in
/// table files, which are saved.
#[test]
fn a_repair_names_each_list_of_a_pool_of_another_boot() {
    let (env, home) = (MemoryEnv::new(), PathBuf::from("/"));
    env.map_files_in("/pools");
    let directory = home.join("db");
    let with = |env: &MemoryEnv| {
        let own = TlsmOptions { tiering: Tiering::Leveled { last_in_pool: 0 }, ..TlsmOptions::default() };
        let medium = Some(Medium::Emulated { path: home.join("pools/pool") });
        Options { env: Arc::new(env.clone()), own: Some(Arc::new(own)), medium, ..manual() }
    };
    let open = |env: &MemoryEnv| (slmdb_tlsm::KIND.open)(&with(env), &directory, None);
    let engine = open(&env).unwrap();
    let (mut in_files, mut model) = (Model::new(), Model::new());
    fill(&*engine, &mut in_files);
    engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
    fill(&*engine, &mut model);
    let (lists, files): (Vec<_>, Vec<_>) = engine.table_files().into_iter().partition(|run| run.is_in_pool);
    assert!(lists.len() >= 3 && !files.is_empty(), "{lists:#?} {files:#?}");
    let restarted = env.crash();
    restarted.set_content("/pools/pool", &env.content("/pools/pool").unwrap());
    let error = open(&restarted).err().unwrap().to_string();
    assert!(error.contains("restarted") && error.contains("slmdb repair"), "{error}");

    let report = (slmdb_tlsm::KIND.repair)(&with(&restarted), &directory, None, &mut |_| ()).unwrap();
    let lost = lists.iter().map(|list| Loss::List {
        number: list.number,
        entries: list.entries,
        smallest_key: list.smallest_key.clone(),
        largest_key: list.largest_key.clone(),
        lowest_sequence: list.lowest_sequence,
        highest_sequence: list.highest_sequence,
    });
    let from_sequence = 1 + lists.iter().map(|list| list.highest_sequence).max().unwrap();
    let lost: Vec<_> = [Loss::Writes { from_sequence }].into_iter().chain(lost).collect();
    assert_eq!(report.losses, lost, "{report:#?}");
    let engine = open(&restarted).unwrap();
    assert_eq!(contents_of(&*engine), in_files);
    drop(engine);
    // Closed before, it is no matter.
    let engine = open(&restarted).unwrap();
    fill(&*engine, &mut in_files);
    engine.close().unwrap();
    assert_eq!(contents_of(&*open(&restarted.crash()).unwrap()), in_files);
}

/// Changes what the MANIFEST of a closed store says.
fn forge(store: &Store, change: impl FnOnce(&mut StoreState)) {
    let env = options(store).env;
    let mut state = Manifest::read(&*env, &store.directory).unwrap().state;
    change(&mut state);
    Manifest::rewrite(&*env, &store.directory, &state).unwrap();
}

/// All lists on level 1 have the same keys, and one has other bounds than the MANIFEST says.
#[test]
fn levels_that_contradict_each_other_are_refused() {
    type Forgery = fn(&mut StoreState);
    let on_level_1: Forgery = |state| state.lists.values_mut().for_each(|list| list.level = 1);
    let longer: Forgery = |state| state.lists.first_entry().unwrap().get_mut().largest_key.push(b'!');
    for (forgery, file, what) in
        [(on_level_1, "MANIFEST", "overlap on level 1"), (longer, "pool", "another one than the MANIFEST says")]
    {
        let (store, model) = filled();
        let sound = std::fs::read(store.directory.join("MANIFEST")).unwrap();
        forge(&store, forgery);
        let error = open(&store).err().unwrap();
        assert!(matches!(&error, Error::Corruption { file: of, .. } if of.ends_with(file)), "{error}");
        assert!(error.to_string().contains(what), "{error}");
        std::fs::write(store.directory.join("MANIFEST"), sound).unwrap();
        assert_eq!(contents(&store), model);
    }
}

/// The newest list lies below the older ones, so that gets find what was overwritten.
#[test]
fn a_verification_finds_newer_versions_below_older_ones() {
    let (store, model) = filled();
    forge(&store, |state| {
        let levels = (0..state.lists.len() as u8).take(6).chain(std::iter::repeat(6));
        state.lists.values_mut().zip(levels).for_each(|(list, level)| list.level = level);
    });
    let Ok(engine) = open(&store) else { return };
    let found = engine.get(&key(4)).unwrap();
    assert_ne!(found.as_deref(), model.get(&key(4)).map(|value| &value[..]), "the forgery changes no answer");
    let report = engine.verify(&mut |_| ()).unwrap();
    assert!(!report.is_clean(), "nothing is found");
}

#[test]
fn a_damaged_entry_costs_its_own_key_alone() {
    let (store, model) = filled();
    let (_, segments) = lists_and_segments(&store);
    // The last byte of the first entry's value in the newest list.
    let bytes = std::fs::read(&store.pool).unwrap();
    let at = *segments.last().unwrap();
    let front = &bytes[at as usize..at as usize + 22];
    let (value_bytes, key_bytes) =
        (u32::from_le_bytes(front[16..20].try_into().unwrap()), u16::from_le_bytes(front[20..22].try_into().unwrap()));
    let key_at = at as usize + 22;
    let lost_key = bytes[key_at..key_at + usize::from(key_bytes)].to_vec();
    assert!(value_bytes > 0);
    let value_end = key_at as u64 + u64::from(key_bytes) + u64::from(value_bytes);
    overwrite(&store, value_end - 1, &[bytes[value_end as usize - 1] ^ 1]);
    let report = repair(&store);
    let is_told = |loss: &Loss| matches!(loss, Loss::Key { key, .. } if *key == lost_key);
    assert!(report.losses.len() == 1 && is_told(&report.losses[0]), "{report:#?}");
    let mut left = model;
    left.remove(&lost_key);
    assert_eq!(contents(&store), left);
}

#[test]
fn a_copy_has_files_for_lists() {
    let (store, model) = filled();
    let engine = open(&store).unwrap();
    let copy = store.directory.with_file_name("copy");
    engine.checkpoint(&copy).unwrap();
    engine.close().unwrap();
    let on_dram = Options { medium: None, ..options(&store) };
    let copied = (slmdb_tlsm::KIND.open)(&on_dram, &copy, None).unwrap();
    assert_eq!(ask(&*copied, &model), 0);
    assert!(copied.table_files().iter().all(|run| !run.is_in_pool));
    copied.close().unwrap();
    assert!(Path::new(&copy).join("MANIFEST").exists());
}

#[test]
fn a_cursor_in_damaged_lists_is_on_no_entry() {
    let (store, _) = filled();
    let (lists, segments) = lists_and_segments(&store);
    let engine = open(&store).unwrap();
    let mut cursor = engine.cursor().unwrap();
    cursor.seek(&key(100)).unwrap();
    lists.into_iter().chain(segments).for_each(|at| overwrite(&store, at, &[0xa5; UNIT_BYTES as usize]));
    for go in 0..4 {
        let moved = match go {
            0 => cursor.seek(&key(150)),
            1 => cursor.seek_before(&key(150)),
            2 => cursor.seek_first(),
            _ => cursor.seek_last(),
        };
        assert!(matches!(moved, Err(Error::Corruption { .. })), "{go}: {moved:?}");
        assert!(!cursor.valid(), "{go}");
    }
}
