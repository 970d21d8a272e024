//! Random edits, reopenings and renewals: what is read is what was written, on both environments.

use std::path::Path;

use crate::common::{DIRECTORY, FILE, Random, budget, machine, read};
use proptest::prelude::*;
use slmdb_env::{Env, Error, OsEnv};
use slmdb_manifest::{Edit, Manifest, StoreState, TEMPORARY_FILE_NAME};

/// Makes a store, then appends, renews, reads and reopens it at random; a model applies the edits.
fn live(env: &dyn Env, directory: &Path, seed: u64, steps: u64) {
    let mut random = Random(seed);
    let mut model = random.state();
    let mut manifest = Manifest::create(env, directory, &model).unwrap();
    let mut edits = 0;
    for _ in 0..steps {
        match random.below(10) {
            0 => {
                manifest.renew(env).unwrap();
                edits = 0;
            }
            1 => {
                model = Manifest::read(env, directory).unwrap().state;
                manifest = Manifest::rewrite(env, directory, &model).unwrap();
                edits = 0;
            }
            _ => {
                let edit = random.edit(&model);
                manifest.append(&edit).unwrap();
                model.apply(&edit).unwrap();
                edits += 1;
            }
        }
        assert_eq!(manifest.state(), &model, "seed {seed}");
        let reading = Manifest::read(env, directory).unwrap();
        assert_eq!(reading.state, model, "seed {seed}");
        assert_eq!((reading.edits, reading.torn_tail), (edits, None), "seed {seed}");
        assert_eq!(reading.length_bytes, manifest.length_bytes(), "seed {seed}");
    }
    assert!(!env.exists(&directory.join(TEMPORARY_FILE_NAME)).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60 * budget() as u32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_was_written_is_read(seed: u64) {
        live(&machine(), Path::new(DIRECTORY), seed, 25);
    }
}

#[test]
fn the_same_on_a_real_file_system() {
    for seed in 0..2 {
        let directory = tempfile::tempdir().unwrap();
        live(&OsEnv::new(), directory.path(), seed, 20);
    }
}

#[test]
fn a_clean_close_lasts_until_the_next_edit() {
    let env = machine();
    let mut manifest = Manifest::create(&env, Path::new(DIRECTORY), &Random(1).state()).unwrap();
    let sequence = manifest.state().flushed_through + 5;
    let close = Edit { closed_at_sequence: Some(sequence), ..Edit::default() };
    manifest.append(&close).unwrap();
    assert_eq!(read(&env).unwrap().state.closed_at_sequence, Some(sequence));
    manifest.renew(&env).unwrap();
    assert_eq!(read(&env).unwrap().state.closed_at_sequence, Some(sequence));
    manifest.append(&Edit::default()).unwrap();
    assert_eq!(read(&env).unwrap().state.closed_at_sequence, None);
    manifest.append(&close).unwrap();
    assert_eq!(read(&env).unwrap().state.closed_at_sequence, Some(sequence));
}

#[test]
fn a_second_store_is_not_made_over_a_first() {
    let (env, state) = (machine(), Random(1).state());
    assert!(!Manifest::exists(&env, Path::new(DIRECTORY)).unwrap());
    Manifest::create(&env, Path::new(DIRECTORY), &state).unwrap();
    assert!(Manifest::exists(&env, Path::new(DIRECTORY)).unwrap());
    let other = Random(2).state();
    assert!(matches!(Manifest::create(&env, Path::new(DIRECTORY), &other), Err(Error::Invalid { .. })));
    assert_eq!(read(&env).unwrap().state, state);
}

#[test]
fn what_can_not_be_read_back_is_not_written() {
    let (env, state) = (machine(), Random(1).state());
    let wrong = StoreState { next_file_number: 0, ..state.clone() };
    assert!(matches!(Manifest::create(&env, Path::new(DIRECTORY), &wrong), Err(Error::Invalid { .. })));
    assert!(!Manifest::exists(&env, Path::new(DIRECTORY)).unwrap());
    let mut manifest = Manifest::create(&env, Path::new(DIRECTORY), &state).unwrap();
    assert!(matches!(Manifest::rewrite(&env, Path::new(DIRECTORY), &wrong), Err(Error::Invalid { .. })));
    let before = env.content(FILE).unwrap();
    let unfit = Edit { files_removed: vec![u32::MAX], ..Edit::default() };
    assert!(matches!(manifest.append(&unfit), Err(Error::Invalid { .. })));
    assert_eq!(env.content(FILE).unwrap(), before);
    // A request that was wrong does not stop the log.
    manifest.append(&Edit::default()).unwrap();
}

#[test]
fn reading_changes_nothing() {
    let env = machine();
    Manifest::create(&env, Path::new(DIRECTORY), &Random(1).state()).unwrap();
    let before = env.operation_count() as usize;
    read(&env).unwrap();
    for operation in &env.operations()[before..] {
        let reads = ["open ", "read ", "look up length "];
        assert!(reads.iter().any(|verb| operation.starts_with(verb)), "{operation}");
    }
}

#[test]
fn what_a_crash_left_of_a_new_file_is_in_nobodys_way() {
    let (env, mut random) = (machine(), Random(3));
    env.set_content("/db/MANIFEST.tmp", &[0xee; 100_000]);
    assert!(read(&env).is_err());
    let mut manifest = Manifest::create(&env, Path::new(DIRECTORY), &random.state()).unwrap();
    env.set_content("/db/MANIFEST.tmp", &[0xee; 100_000]);
    assert_eq!(&read(&env).unwrap().state, manifest.state());
    manifest.renew(&env).unwrap();
    let reading = read(&env).unwrap();
    assert_eq!((&reading.state, reading.torn_tail), (manifest.state(), None));
}
