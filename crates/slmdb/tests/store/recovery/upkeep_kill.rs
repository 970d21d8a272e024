//! What is done to whole stores (making, opening, copying, repairing and removing them), killed before each operation on files,
//! once and twice over: what is left opens whole, or is refused by an error that says what to do, and that then does it.
//!
//! (Before every fourth operation, of engines but the first every ninth; before each with `SLMDB_TEST_BUDGET=2`.) From the operation on at which it is killed everything fails; then the machine is taken as a kill, or a power cut, leaves it, with
//! what was stored in the pool up to that moment. Between two operations the simulator looks (`crates/simulator`, `upkeep.rs`).

use std::path::Path;
use std::sync::Arc;

use crate::common::{Model, Random, assert_same, assert_verified, budget, contents, put_or_delete, share};
use slmdb::{Db, ErrorKind, Medium, Options, PoolFate, destroy};
use slmdb_env::{DaxDevice, Env};
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

const STORE: &str = "/stores/db";
const COPY: &str = "/stores/copy";
const POOL: &str = "/pools/pool";
const DEVICE: &str = "/dev/dax0.0";
const DEVICE_BYTES: u64 = 4 << 20;

/// Where the fast tier is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Memory,
    File,
    Device,
}

const ALL: [On; 3] = [On::Memory, On::File, On::Device];

fn machine(on: On) -> MemoryEnv {
    let env = MemoryEnv::new();
    env.create_directory(Path::new("/stores")).unwrap();
    env.sync_directory(Path::new("/")).unwrap();
    env.map_files_in("/pools");
    if on == On::Device {
        let device = DaxDevice { size_bytes: DEVICE_BYTES, alignment_bytes: 64 << 10, is_persistent: true };
        env.add_dax_device(DEVICE, device);
    }
    env
}

fn options(env: &MemoryEnv) -> Options {
    crate::common::options()
        .env(Arc::new(env.clone()))
        .memtable_bytes(8 << 10)
        .memory_budget_bytes(1 << 20)
        .pool_initial_bytes(1 << 20)
        .pool_maximum_bytes(DEVICE_BYTES)
        .advanced(|advanced| advanced.checkpoint_entries(100))
}

fn on(on: On, env: &MemoryEnv) -> Options {
    options(env).medium(match on {
        On::Memory => Medium::Dram,
        On::File => Medium::Emulated { path: POOL.into() },
        On::Device => Medium::Dax { path: DEVICE.into() },
    })
}

/// A store with table files and something in MemTables, compacted or not.
fn store(place: On, is_compacted: bool) -> (MemoryEnv, Model) {
    let (env, mut model, mut random) = (machine(place), Model::new(), Random(3));
    let db = on(place, &env).open(STORE).unwrap();
    for _ in 0..250 {
        let key = format!("key {}", random.below(100)).into_bytes();
        put_or_delete(&db, &mut model, &mut random, key, 200, 6);
    }
    db.flush().unwrap();
    if is_compacted {
        db.compact_range::<&[u8]>(..).unwrap();
    }
    for number in 0..10 {
        db.put(format!("late {number}"), "late").unwrap();
        model.insert(format!("late {number}").into_bytes(), b"late".to_vec());
    }
    db.close().unwrap();
    (env.kill(), model)
}

type Work<'a> = &'a dyn Fn(&MemoryEnv) -> slmdb::Result<()>;

/// At which operations something is killed: every fourth one, of engines but the first every ninth one, and with a larger budget every
/// one.
fn step() -> usize {
    if budget() > 1 { 1 } else { 12 - share(8) as usize }
}

/// What is there after `work` was killed before each of its operations on files, in turn; and last what it leaves at its end.
fn killed(base: &MemoryEnv, work: Work<'_>, each: &mut dyn FnMut(u64, &MemoryEnv)) {
    for (count, operation) in (0..).step_by(step()).enumerate() {
        let env = base.kill();
        env.fail_at(operation, Failure::Io, Repeat::ForGood);
        let done = work(&env);
        let is_through = env.failures_struck() == 0;
        if is_through {
            done.unwrap();
        }
        each(operation, &env.kill());
        if count % 3 == 0 {
            each(operation, &env.crash());
        }
        if is_through {
            return;
        }
    }
}

/// Opens a store that is there, and looks at all of it.
fn look(env: &MemoryEnv, directory: &str) -> slmdb::Result<(Db, Model)> {
    let db = options(env).create_if_missing(false).open(directory)?;
    let found = contents(&db)?;
    Ok((db, found))
}

/// What is emulated in a file makes no claim after a power cut: if it was open, it is refused, and a repair tells what it has lost.
fn is_whole_or_says_so(place: On, env: &MemoryEnv, expected: &Model, context: &str) {
    match options(&env.kill()).read_only(true).open(STORE) {
        Err(error) if place == On::File && error.to_string().contains("the machine restarted") => {
            assert!(error.to_string().contains("slmdb repair"), "{context}: {error}");
            let env = env.kill();
            let report = options(&env).repair(STORE, &mut |_| ()).unwrap();
            let found = look(&env, STORE).unwrap_or_else(|error| panic!("{context}, repaired: {error}")).1;
            assert!(found == *expected || !report.losses.is_empty(), "{context}: what is missing is not told");
            is_whole(&env, STORE, &found, context);
        }
        _ => is_whole(env, STORE, expected, context),
    }
}

fn is_whole(env: &MemoryEnv, directory: &str, expected: &Model, context: &str) {
    for is_read_only in [true, false] {
        let db = options(env).read_only(is_read_only).create_if_missing(false).open(directory);
        let db = db.unwrap_or_else(|error| panic!("{context}, read only {is_read_only}: {error}"));
        assert_same(&contents(&db).unwrap(), expected, context);
        assert_verified(&db, context);
        db.close().unwrap();
    }
}

/// What was damaged before a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Nothing,
    Table,
    PoolIsGone,
    PoolHeader,
    PoolContent,
}

const DAMAGES: [Damage; 5] =
    [Damage::Nothing, Damage::Table, Damage::PoolIsGone, Damage::PoolHeader, Damage::PoolContent];

impl Damage {
    /// Does it; `false` where that can't be.
    fn strike(self, place: On, env: &MemoryEnv) -> bool {
        match (self, place) {
            (Damage::Nothing, _) => {}
            (Damage::Table, _) => {
                let entries = env.list_directory(Path::new(STORE)).unwrap();
                let table = entries.iter().find(|entry| entry.name.ends_with(".sst")).unwrap();
                let path = format!("{STORE}/{}", table.name);
                let mut content = env.content(&path).unwrap();
                content[20] ^= 0x55;
                env.set_content(&path, &content);
            }
            (_, On::Memory) => return false,
            (Damage::PoolIsGone, On::File) => {
                env.remove_file(Path::new(POOL)).unwrap();
                env.sync_directory(Path::new("/pools")).unwrap();
            }
            (Damage::PoolIsGone, On::Device) => {
                use std::os::unix::fs::FileExt;
                env.dax_device_memory(DEVICE).unwrap().write_all_at(&[0; 64 << 10], 0).unwrap();
            }
            (Damage::PoolHeader | Damage::PoolContent, On::File) => {
                let mut content = env.content(POOL).unwrap();
                let at = if self == Damage::PoolHeader { 40 } else { 300 << 10 };
                content[at..at + 4096].iter_mut().for_each(|byte| *byte ^= 0x55);
                env.set_content(POOL, &content);
            }
            // Whose pool it was can't be told from a device any more, so it has to be cleared by hand.
            (Damage::PoolHeader, On::Device) => return false,
            (Damage::PoolContent, On::Device) => {
                use std::os::unix::fs::FileExt;
                env.dax_device_memory(DEVICE).unwrap().write_all_at(&[0x55; 4096], 300 << 10).unwrap();
            }
        }
        true
    }
}

fn repair(env: &MemoryEnv) -> slmdb::Result<()> {
    options(env).repair(STORE, &mut |_| ()).map(drop)
}

/// A store that was repaired, or is as it was before; else it is refused by an error that names `slmdb repair`. A repair that goes on
/// makes of it what one would have made that was not killed.
fn check_repaired(env: &MemoryEnv, before: &[u8], expected: &Model, context: &str) {
    let is_before = env.content(format!("{STORE}/MANIFEST")).unwrap() == before;
    match look(&env.kill(), STORE) {
        Ok((db, found)) => {
            let verified = db.verify(&mut |_| ()).unwrap();
            assert!(is_before || verified.is_clean(), "{context}: verify finds {:?}", verified.findings);
            assert!(is_before || found == *expected, "{context}: opens with {} of {}", found.len(), expected.len());
            assert!(!found.is_empty(), "{context}: opens empty");
        }
        Err(error) => assert!(is_before || error.to_string().contains("slmdb repair"), "{context}: {error}"),
    }
    let again = env.kill();
    repair(&again).unwrap_or_else(|error| panic!("{context}: no repair again: {error}"));
    is_whole(&again, STORE, expected, context);
}

#[test]
fn a_killed_repair_leaves_a_store_whole_or_to_be_repaired_again() {
    for (place, is_compacted) in [(On::Memory, false), (On::File, false), (On::File, true), (On::Device, true)] {
        let (sound, _) = store(place, is_compacted);
        for damage in DAMAGES {
            let base = sound.kill();
            if place == On::File && !is_compacted && damage != Damage::PoolIsGone {
                continue;
            }
            // (With a pool, TLSM has its data there, and it goes with the pool.)
            if crate::common::is_tlsm() && place != On::Memory && damage != Damage::Nothing {
                continue;
            }
            if !damage.strike(place, &base) {
                continue;
            }
            let before = base.content(format!("{STORE}/MANIFEST")).unwrap();
            let expected = {
                let env = base.kill();
                repair(&env).unwrap();
                look(&env, STORE).unwrap().1
            };
            assert!(expected.len() > 40, "{}", expected.len());
            let context = format!("{place:?}, compacted {is_compacted}, {damage:?}");
            let (mut moments, mut twice) = (0, 0);
            killed(&base, &repair, &mut |operation, env| {
                check_repaired(env, &before, &expected, &format!("{context}, killed at {operation}"));
                moments += 1;
                // A second kill, of the repair that goes on: the places differ from moment to moment.
                let before = env.content(format!("{STORE}/MANIFEST")).unwrap();
                let rounds = if operation % 4 == 0 { budget() } else { 0 };
                for again in (0..rounds).map(|round| (operation * 7 + round * 5) % 60) {
                    let env = env.kill();
                    env.fail_at(again, Failure::Io, Repeat::ForGood);
                    let _ = repair(&env);
                    let context = format!("{context}, killed at {operation} and {again}");
                    check_repaired(&env.kill(), &before, &expected, &context);
                    twice += 1;
                }
            });
            assert!(moments * step() > 30 && twice * step() > 9, "{context}: {moments} moments are few, or {twice}");
        }
    }
}

/// The making of a store begins again, and never asks for more.
#[test]
fn a_killed_creation_is_begun_again() {
    for place in ALL {
        let create = |env: &MemoryEnv| on(place, env).open(STORE)?.close();
        killed(&machine(place), &create, &mut |operation, env| {
            let context = format!("{place:?}, killed at {operation}");
            for other in [operation * 3 % 40, operation * 5 % 40] {
                let env = env.kill();
                env.fail_at(other, Failure::Io, Repeat::ForGood);
                let _ = create(&env);
                let env = env.kill();
                match on(place, &env.kill()).open(STORE) {
                    Ok(db) => {
                        assert!(contents(&db).unwrap().is_empty(), "{context}");
                        assert_verified(&db, &context);
                    }
                    Err(_) => is_whole_or_says_so(place, &env, &Model::new(), &context),
                }
            }
            let destroyed = env.kill();
            match destroy(STORE, &options(&destroyed)) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{context}: {error}"),
            }
            assert!(!destroyed.exists(Path::new(POOL)).unwrap(), "{context}: the pool stays");
            create(&destroyed).unwrap_or_else(|error| panic!("{context}, destroyed: {error}"));
        });
    }
}

/// (The file of the pool was made for its lock, while the MANIFEST of the opening that was killed could still lose its name. Then there
/// was a pool of no store, and no store could be made.)
#[test]
fn a_creation_that_is_begun_again_makes_no_pool_before_its_manifest_is_durable() {
    let create = |env: &MemoryEnv| on(On::File, env).open(STORE)?.close();
    killed(&machine(On::File), &create, &mut |operation, env| {
        for other in 0..40 {
            let env = env.kill();
            env.fail_at(other, Failure::Io, Repeat::ForGood);
            let _ = create(&env);
            env.clear_failures();
            // A name may become durable by itself.
            let _ = env.sync_directory(Path::new("/pools"));
            let env = env.crash();
            if let Err(error) = create(&env) {
                let text = error.to_string();
                assert!(text.contains("slmdb repair"), "killed at {operation}, power cut at {other}: {text}");
            }
        }
    });
}

/// Recovery, on `Dram` with the index rebuilt, and where there is a pool also under another boot of the machine.
#[test]
fn a_killed_opening_is_begun_again() {
    for place in ALL {
        let (sound, mut model) = store(place, false);
        let db = options(&sound).open(STORE).unwrap();
        for number in 0..60 {
            db.put(format!("new {number}"), vec![1; 300]).unwrap();
            model.insert(format!("new {number}").into_bytes(), vec![1; 300]);
        }
        db.sync().unwrap();
        db.flush().unwrap();
        db.put("last", "of all").unwrap();
        db.sync().unwrap();
        model.insert(b"last".to_vec(), b"of all".to_vec());
        let mut left = vec![sound.kill()];
        if place != On::File {
            left.push(sound.crash());
        }
        for (base, boot) in left.iter().zip(0..) {
            let reopen = |env: &MemoryEnv| options(env).open(STORE)?.close();
            killed(base, &reopen, &mut |operation, env| {
                let context = format!("{place:?}, boot {boot}, killed at {operation}");
                let again = env.kill();
                again.fail_at(operation * 7 % 50, Failure::Io, Repeat::ForGood);
                let _ = reopen(&again);
                for env in [env, &again] {
                    is_whole_or_says_so(place, &env.kill(), &model, &context);
                }
            });
        }
    }
}

/// A copy that has a MANIFEST is whole, and the store that it is of is in any case.
#[test]
fn a_killed_copy_is_whole_or_none() {
    for place in ALL {
        let (sound, model) = store(place, false);
        let copy = |env: &MemoryEnv| {
            let db = options(env).open(STORE)?;
            db.checkpoint(COPY)?;
            db.close()
        };
        killed(&sound, &copy, &mut |operation, env| {
            let context = format!("{place:?}, killed at {operation}");
            is_whole_or_says_so(place, env, &model, &context);
            let is_there = |name: &str| env.exists(Path::new(&format!("{COPY}/{name}"))).unwrap();
            if is_there("MANIFEST") && !is_there("COPYING") {
                is_whole(&env.kill(), COPY, &model, &context);
            } else {
                let error = look(&env.kill(), COPY).map(|(_, found)| found).unwrap_err();
                assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Corruption), "{context}: {error}");
                // It is made in the same place.
                let env = env.kill();
                if options(&env).open(STORE).is_ok_and(|db| db.checkpoint(COPY).is_ok()) {
                    is_whole(&env, COPY, &model, &context);
                } else {
                    assert_eq!(place, On::File, "{context}: another copy");
                }
            }
        });
    }
}

/// A store that is being removed is whole, or can be removed to the end; then another can be made in its place.
#[test]
fn a_killed_removal_is_begun_again() {
    for place in ALL {
        for damage in [Damage::Nothing, Damage::PoolIsGone] {
            let (sound, model) = store(place, true);
            if !damage.strike(place, &sound) {
                continue;
            }
            let remove = |env: &MemoryEnv| destroy(STORE, &options(env)).map(drop);
            killed(&sound, &remove, &mut |operation, env| {
                let context = format!("{place:?}, {damage:?}, killed at {operation}");
                if env.exists(Path::new(&format!("{STORE}/MANIFEST"))).unwrap() && damage == Damage::Nothing {
                    is_whole(&env.kill(), STORE, &model, &context);
                }
                let (env, again) = (env.kill(), operation * 3 % 25);
                env.fail_at(again, Failure::Io, Repeat::ForGood);
                let _ = remove(&env);
                is_removed(place, &env.kill(), &context);
            });
        }
    }
}

/// A store whose repair was killed can be removed, with both of its pools.
#[test]
fn a_store_whose_repair_was_killed_is_removed_with_its_pools() {
    for place in [On::File, On::Device] {
        let (sound, _) = store(place, true);
        killed(&sound, &repair, &mut |operation, env| {
            is_removed(place, &env.kill(), &format!("{place:?}, repair killed at {operation}"));
        });
    }
}

fn is_removed(place: On, env: &MemoryEnv, context: &str) {
    match destroy(STORE, &options(env)) {
        Ok(destroyed) => assert!(!matches!(destroyed.pool, PoolFate::Left { .. }), "{context}: {destroyed:?}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{context}: {error}"),
    }
    let store = env.list_directory(Path::new(STORE)).unwrap_or_default();
    // (What a repair sets aside is for somebody to look at.)
    assert!(store.iter().all(|entry| entry.name.contains(".damaged")), "{context}: {store:?}");
    assert!(!env.exists(Path::new(POOL)).unwrap(), "{context}: the pool stays");
    on(place, env).open(STORE).unwrap_or_else(|error| panic!("{context}, a new store: {error}"));
}
