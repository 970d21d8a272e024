//! Every operation of creating, appending and renewing made to fail in every way, and every torn append.
//!
//! After each failure the machine is looked at three times: as it is (a reader in another process), after the process
//! was killed, and after a power cut. What was acknowledged is there, what failed is there wholly or not at all.

use std::path::Path;

use crate::common::{DIRECTORY, FILE, Random, budget, machine, machine_with, read};
use slmdb_env::{Env, Error, ErrorKind, OpenMode};
use slmdb_manifest::{Excess, Manifest, StoreState, TEMPORARY_FILE_NAME};
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

const FAILURES: [Failure; 4] = [Failure::Io, Failure::Full, Failure::ShortWrite, Failure::FailedSync];

/// Runs `scenario` with the k-th of its operations failing, for every k, every failure, once and for good. `prepare`
/// makes the machine it starts from. Counts how often a failure struck.
fn with_every_failure<T>(prepare: impl Fn() -> (MemoryEnv, T), scenario: impl Fn(&MemoryEnv, T, &str)) -> u64 {
    let mut struck = 0;
    for failure in FAILURES {
        for repeat in [Repeat::Once, Repeat::ForGood] {
            for k in 0.. {
                let (env, prepared) = prepare();
                env.fail_at(env.operation_count() + k, failure, repeat);
                scenario(&env, prepared, &format!("{failure:?} {repeat:?} at {k}"));
                if env.failures_struck() == 0 {
                    break;
                }
                struck += env.failures_struck();
            }
        }
    }
    struck
}

/// The same machine seen in three ways, with nothing failing any more.
fn views(env: &MemoryEnv) -> [(&'static str, MemoryEnv); 3] {
    env.clear_failures();
    [("as it is", env.clone()), ("after a kill", env.kill()), ("after a power cut", env.crash())]
}

/// A MANIFEST with an edit or two, all of it acknowledged.
fn opened(seed: u64) -> (MemoryEnv, (Manifest, Random)) {
    let (env, mut random) = (machine(), Random(seed));
    let mut manifest = Manifest::create(&env, Path::new(DIRECTORY), &random.state()).unwrap();
    for _ in 0..2 {
        manifest.append(&random.edit(manifest.state())).unwrap();
    }
    (env, (manifest, random))
}

#[test]
fn creating() {
    let state = Random(1).state();
    let struck = with_every_failure(
        || (machine(), ()),
        |env, (), what| {
            let created = Manifest::create(env, Path::new(DIRECTORY), &state).map(drop);
            for (view, env) in views(env) {
                match read(&env) {
                    Ok(reading) => assert_eq!((reading.state, reading.torn_tail), (state.clone(), None)),
                    Err(error) => {
                        assert!(created.is_err(), "{what}, {view}: {error:?}");
                        assert!(env.content(FILE).is_none(), "{what}, {view}: {error:?}");
                    }
                }
                // Whatever is left, creation can be done again.
                Manifest::rewrite(&env, Path::new(DIRECTORY), &state).unwrap();
                assert_eq!(read(&env.crash()).unwrap().state, state, "{what}, {view}");
            }
        },
    );
    assert!(struck > 10, "{struck}");
}

#[test]
fn rewriting() {
    let other = Random(77).state();
    let struck = with_every_failure(
        || opened(5),
        |env, (manifest, _), what| {
            let old = manifest.state().clone();
            let rewritten = Manifest::rewrite(env, Path::new(DIRECTORY), &other).map(drop);
            for (view, env) in views(env) {
                let reading = read(&env).unwrap_or_else(|error| panic!("{what}, {view}: {error:?}"));
                assert_eq!(reading.torn_tail, None);
                let is_old = reading.state == old && rewritten.is_err();
                assert!(reading.state == other || is_old, "{what}, {view}");
            }
        },
    );
    assert!(struck > 10, "{struck}");
}

/// Appends go on after a failure, as a careless engine's would: they must all be refused, or be in order.
#[test]
fn appending() {
    for seed in 0..3 * budget() {
        let struck = with_every_failure(
            || opened(seed),
            |env, (manifest, random), what| {
                append_all(env, manifest, random, &format!("seed {seed}, {what}"));
            },
        );
        assert!(struck > 20, "{struck}");
    }
}

fn append_all(env: &MemoryEnv, mut manifest: Manifest, mut random: Random, what: &str) {
    let mut acknowledged = manifest.state().clone();
    let mut perhaps: Option<StoreState> = None;
    for _ in 0..4 {
        let edit = random.edit_with_keys(&acknowledged, 300);
        let mut after = acknowledged.clone();
        after.apply(&edit).unwrap();
        match manifest.append(&edit) {
            Ok(()) => {
                assert!(perhaps.is_none(), "{what}: an append after a failed one");
                acknowledged = after;
            }
            // Nothing was written, and the next may succeed.
            Err(Error::Full { .. }) if perhaps.is_none() && is_refused_allocation(env) => {}
            Err(Error::ReadOnly { cause }) => {
                assert!(perhaps.is_some(), "{what}: {cause}");
                assert!(cause.contains("MANIFEST"), "{what}: {cause}");
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Full), "{what}: {error:?}");
                assert!(perhaps.is_none(), "{what}: {error:?}");
                perhaps = Some(after);
            }
        }
        assert_eq!(manifest.state(), &acknowledged, "{what}");
    }
    for (view, env) in views(env) {
        let reading = read(&env).unwrap_or_else(|error| panic!("{what}, {view}: {error:?}"));
        let is_expected = reading.state == acknowledged || Some(&reading.state) == perhaps.as_ref();
        assert!(is_expected, "{what}, {view}");
        // And a reopened one goes on from there.
        let mut again = Manifest::rewrite(&env, Path::new(DIRECTORY), &reading.state).unwrap();
        again.append(&random.edit(&reading.state)).unwrap();
        assert_eq!(&read(&env.crash()).unwrap().state, again.state(), "{what}, {view}");
    }
}

fn is_refused_allocation(env: &MemoryEnv) -> bool {
    env.operations().last().is_some_and(|last| last.starts_with("allocate "))
}

#[test]
fn renewing() {
    let struck = with_every_failure(
        || opened(9),
        |env, (mut manifest, mut random), what| {
            let renewed = manifest.renew(env);
            let tried_to_rename = env.operations().last().is_some_and(|last| last.starts_with("rename "));
            env.clear_failures();
            let before = manifest.state().clone();
            let appended = manifest.append(&random.edit(&before));
            match renewed {
                Ok(()) => appended.unwrap(),
                Err(Error::Full { .. }) if !tried_to_rename => appended.unwrap(),
                Err(_) => assert!(matches!(appended, Err(Error::ReadOnly { .. })), "{what}: {appended:?}"),
            }
            for (view, env) in views(env) {
                let reading = read(&env).unwrap_or_else(|error| panic!("{what}, {view}: {error:?}"));
                assert_eq!(&reading.state, manifest.state(), "{what}, {view}");
            }
        },
    );
    assert!(struck > 10, "{struck}");
}

/// A renewal that could not open the directory, to sync it, left a log that took no more edits.
#[test]
fn a_renewal_that_lacks_descriptors_is_tried_again_or_settled() {
    let mut unsettled = 0;
    for place in 0.. {
        let (env, (mut manifest, mut random)) = opened(11);
        env.fail_after(place, "", Failure::NoDescriptor, Repeat::ForGood);
        let renewed = manifest.renew(&env);
        let struck = env.failures_struck();
        assert_eq!(renewed.is_err(), struck > 0 && manifest.settle(&env).is_err() || place == 0, "{renewed:?}");
        if manifest.settle(&env).is_err() {
            unsettled += 1;
            let edit = random.edit(manifest.state());
            assert!(matches!(manifest.append(&edit), Err(Error::Invalid { .. })), "a power cut could lose it");
        }
        env.clear_failures();
        manifest.settle(&env).unwrap();
        for _ in 0..3 {
            manifest.append(&random.edit(manifest.state())).unwrap();
            assert_eq!(&read(&env.crash()).unwrap().state, manifest.state(), "after a power cut");
            manifest.renew(&env).unwrap();
        }
        if struck == 0 {
            break;
        }
    }
    assert!(unsettled > 0);
}

#[test]
fn a_full_disk_is_survived() {
    let (env, (mut manifest, mut random)) = opened(3);
    env.set_capacity(env.content(FILE).unwrap().len() as u64);
    let before = manifest.state().clone();
    let edit = random.edit_with_keys(&before, 300);
    assert!(matches!(manifest.append(&edit), Err(Error::Full { .. })));
    assert!(matches!(manifest.renew(&env), Err(Error::Full { .. })));
    assert!(env.content(Path::new(DIRECTORY).join(TEMPORARY_FILE_NAME)).is_none(), "it takes no space");
    assert_eq!((manifest.state(), &read(&env).unwrap().state), (&before, &before));
    env.set_capacity(u64::MAX);
    manifest.append(&edit).unwrap();
    manifest.renew(&env).unwrap();
    manifest.append(&random.edit(manifest.state())).unwrap();
    assert_eq!(&read(&env.crash()).unwrap().state, manifest.state());
}

#[test]
fn a_long_log_is_renewed_and_on_a_full_disk_later() {
    let (env, (mut manifest, mut random)) = opened(4);
    let begun_bytes = manifest.length_bytes();
    let mut grow = |manifest: &mut Manifest, until_bytes: u64| {
        while manifest.length_bytes() < until_bytes {
            assert!(!manifest.renew_if_long(&env, Excess::Usual).unwrap(), "not long yet: {}", manifest.length_bytes());
            // Where space is scarce it is sooner.
            let is_long_when_full = manifest.length_bytes() >= (16 << 10).max(2 * begun_bytes);
            assert_eq!(manifest.is_long(Excess::OnFullDisk), is_long_when_full, "{}", manifest.length_bytes());
            manifest.append(&random.edit(manifest.state())).unwrap();
        }
    };
    let long_bytes = (64 << 10).max(8 * begun_bytes);
    grow(&mut manifest, long_bytes);
    env.set_capacity(env.content(FILE).unwrap().len() as u64);
    assert!(!manifest.renew_if_long(&env, Excess::Usual).unwrap());
    assert!(env.content(Path::new(DIRECTORY).join(TEMPORARY_FILE_NAME)).is_none(), "it takes no space");
    env.set_capacity(u64::MAX);
    let full_at_bytes = manifest.length_bytes();
    grow(&mut manifest, full_at_bytes + full_at_bytes / 4);
    let state = manifest.state().clone();
    assert!(manifest.renew_if_long(&env, Excess::Usual).unwrap());
    assert!(manifest.length_bytes() < long_bytes / 4, "{}", manifest.length_bytes());
    assert_eq!((manifest.state(), &read(&env.crash()).unwrap().state), (&state, &state));
}

/// A power cut while a record is written leaves any part of it, at any place: what is missing may be cut off, zeros, or
/// whatever the disk had there.
#[test]
fn torn_appends() {
    const SECTOR_BYTES: usize = 512;
    let (env, (mut manifest, mut random)) = opened(6);
    let (before, before_bytes) = (manifest.state().clone(), env.content(FILE).unwrap());
    let edit = loop {
        let edit = random.edit_with_keys(&before, 4000);
        if edit.files_added.len() > 1 {
            break edit;
        }
    };
    manifest.append(&edit).unwrap();
    let (after, whole) = (manifest.state().clone(), env.content(FILE).unwrap());
    let start = before_bytes.len();
    assert!(whole.len() - start > 4 * SECTOR_BYTES);
    let check = |bytes: &[u8], what: String| {
        let reading = read(&machine_with(bytes)).unwrap_or_else(|error| panic!("{what}: {error:?}"));
        if bytes == whole {
            assert_eq!((reading.state, reading.torn_tail), (after.clone(), None), "{what}");
        } else {
            let torn_tail = (bytes.len() > start).then_some(start as u64);
            assert_eq!((reading.state, reading.torn_tail), (before.clone(), torn_tail), "{what}");
        }
    };
    for length in start..=whole.len() {
        let part = &whole[..length];
        check(part, format!("cut to {length}"));
        let mut zeros = part.to_vec();
        zeros.resize(whole.len(), 0);
        check(&zeros, format!("zeros from {length}"));
    }
    for seed in 0..500 * budget() {
        let mut random = Random(seed);
        let filler = random.next() as u8;
        let mut torn = whole.clone();
        for sector in (start / SECTOR_BYTES..=whole.len() / SECTOR_BYTES).filter(|_| random.one_in(2)) {
            let from = (sector * SECTOR_BYTES).max(start);
            let to = ((sector + 1) * SECTOR_BYTES).min(whole.len());
            torn[from..to].fill(if seed % 2 == 0 { 0 } else { filler });
        }
        check(&torn, format!("seed {seed}"));
    }
}

/// What a kill leaves between an append's writing and its sync.
#[test]
fn an_edit_that_was_never_synced_is_made_durable_in_place() {
    let (env, (mut manifest, mut random)) = opened(5);
    let before = env.content(FILE).unwrap();
    manifest.append(&random.edit(manifest.state())).unwrap();
    let after = env.content(FILE).unwrap();
    env.set_content(FILE, &before);
    let file = env.open_file(Path::new(FILE), OpenMode::ReadWrite).unwrap();
    file.write_at(&after[before.len()..], before.len() as u64).unwrap();

    let reading = Manifest::read(&env, Path::new(DIRECTORY)).unwrap();
    assert_eq!(reading.state, *manifest.state());
    assert_ne!(read(&env.crash()).unwrap().state, *manifest.state(), "a power cut takes it back");
    Manifest::make_durable(&env, Path::new(DIRECTORY), &reading).unwrap();
    assert_eq!(read(&env.crash()).unwrap().state, *manifest.state());
    assert_eq!(env.content(FILE).unwrap(), after, "not a byte is another");
}
