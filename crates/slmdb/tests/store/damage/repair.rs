//! Repair: whatever file of a store is lost or damaged, what can be read comes back, what can't is told, and the store opens
//! and verifies clean afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{Home, Model, On, Random, assert_same, assert_verified, contents, no_compaction, wait_until};
use slmdb::{Db, Error, Loss, Medium, Options, RepairReport};
use slmdb_env::Env;
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

fn options(home: &Home) -> Options {
    home.options().memtable_bytes(16 << 10).advanced(|advanced| advanced.checkpoint_entries(200))
}

/// A store of some table files, with something in MemTables; closed.
fn store(home: &Home, seed: u64) -> Model {
    let (mut model, mut random) = (Model::new(), Random(seed));
    let db = options(home).open(home.store()).unwrap();
    for number in 0..3000_u32 {
        let key = format!("key {:04}", random.below(900)).into_bytes();
        if random.one_in(4) {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = number.to_be_bytes().repeat(1 + random.below(12) as usize);
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
    db.flush().unwrap();
    for number in 0..40 {
        let key = format!("late {number}").into_bytes();
        db.put(&key, b"late").unwrap();
        model.insert(key, b"late".to_vec());
    }
    db.close().unwrap();
    model
}

fn repair(home: &Home) -> RepairReport {
    let (mut last, mut calls) = (0, 0);
    let report = options(home)
        .repair(home.store(), &mut |so_far| {
            assert!(so_far.done_bytes <= so_far.total_bytes && so_far.done_bytes >= last);
            (last, calls) = (so_far.done_bytes, calls + 1);
        })
        .unwrap();
    assert!(calls > 0);
    report
}

fn open(home: &Home) -> Db {
    let db = options(home).open(home.store()).unwrap();
    assert_verified(&db, "after a repair");
    db
}

fn tables(home: &Home) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home.store()).unwrap().map(|entry| entry.unwrap().path());
    let mut tables: Vec<_> = entries.filter(|path| path.extension().is_some_and(|found| found == "sst")).collect();
    tables.sort();
    tables
}

#[test]
fn a_sound_store_is_the_same_afterwards() {
    for on in crate::common::MEDIA {
        let home = Home::new(on);
        let model = store(&home, 1);
        for _ in 0..2 {
            let report = repair(&home);
            assert!(report.losses.is_empty() && report.damage.is_empty(), "{report:#?}");
            assert_same(&contents(&open(&home)).unwrap(), &model, "repaired");
        }
    }
}

#[test]
fn a_closed_log_that_has_lost_its_end_is_told() {
    let home = Home::new(On::Dram);
    let db = options(&home).open(home.store()).unwrap();
    let mut model = Model::new();
    for number in 1..=20 {
        let (key, value) = (format!("key {number:02}").into_bytes(), format!("value {number:02} of 20").into_bytes());
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    }
    db.close().unwrap();
    let entries = std::fs::read_dir(home.store()).unwrap().map(|entry| entry.unwrap().path());
    let arena = entries.into_iter().find(|path| path.extension().is_some_and(|found| found == "arena")).unwrap();
    let mut bytes = std::fs::read(&arena).unwrap();
    let last = model.pop_last().unwrap().1;
    let at = bytes.windows(last.len()).position(|window| window == last).unwrap();
    bytes[at..at + last.len()].fill(0);
    std::fs::write(&arena, bytes).unwrap();

    let refused = options(&home).open(home.store()).unwrap_err();
    assert!(matches!(&refused, Error::Corruption { what, .. } if what.contains("was closed at 20")), "{refused}");
    let report = repair(&home);
    assert_eq!(report.losses, [Loss::Writes { from_sequence: 20 }], "{report:#?}");
    assert_same(&contents(&open(&home)).unwrap(), &model, "without the last");
}

#[test]
fn a_lost_pool_costs_what_was_not_flushed_and_nothing_else() {
    if !crate::common::flushes_to_files(On::Emulated) {
        return;
    }
    for damage in 0..3 {
        let home = Home::new(On::Emulated);
        let model = store(&home, 2);
        let pool = home.pool().unwrap();
        match damage {
            0 => std::fs::remove_file(&pool).unwrap(),
            1 => std::fs::write(&pool, b"no pool").unwrap(),
            _ => {
                let mut bytes = std::fs::read(&pool).unwrap();
                bytes[..4096].fill(0);
                std::fs::write(&pool, bytes).unwrap();
            }
        }
        assert!(options(&home).open(home.store()).is_err());
        let report = repair(&home);
        assert!(matches!(report.losses[..], [Loss::Writes { from_sequence: 3001 }]), "{report:#?}");
        assert_eq!(report.pool.as_ref(), Some(&pool));
        assert_eq!(report.set_aside.len(), usize::from(damage > 0));
        let db = open(&home);
        let flushed: Model = model.into_iter().filter(|(key, _)| !key.starts_with(b"late")).collect();
        assert_same(&contents(&db).unwrap(), &flushed, "flushed");
        db.put("more", "of it").unwrap();
        db.close().unwrap();
        assert_eq!(open(&home).get("more").unwrap().unwrap(), b"of it"[..]);
    }
}

/// Damaged blocks cost their own keys and no older value comes back.
#[test]
fn damaged_blocks_cost_their_own_keys_alone() {
    for on in crate::common::media_with_files() {
        let home = Home::new(on);
        let model = store(&home, 3);
        let mut losses = 0;
        for path in tables(&home) {
            let mut bytes = std::fs::read(&path).unwrap();
            // In the first block, however short the file is: in its key section it would cost all keys.
            bytes[1] ^= 4;
            std::fs::write(&path, bytes).unwrap();
        }
        let report = repair(&home);
        assert_eq!(report.set_aside.len(), report.table_files_checked as usize + usize::from(on != On::Dram));
        let (mut left, found) = (model.clone(), contents(&open(&home)).unwrap());
        for loss in &report.losses {
            match loss {
                Loss::Key { key, .. } => assert!(left.remove(key).is_some(), "{loss}: it had been deleted"),
                // The file has no list of its keys.
                Loss::Entries { smallest_key, largest_key, older_may_be_back: false, .. } => {
                    let is_told = |key: &Vec<u8>| smallest_key <= key && key <= largest_key;
                    left.retain(|key, _| !is_told(key) || found.contains_key(key));
                }
                _ => panic!("{loss}"),
            }
            losses += 1;
        }
        assert!(losses > 0 && !left.is_empty());
        assert_same(&found, &left, "what was not damaged");
    }
}

#[test]
fn lost_table_files_are_told_and_no_deleted_key_comes_back() {
    for on in crate::common::media_with_files() {
        let home = Home::new(on);
        let model = store(&home, 4);
        let tables = tables(&home);
        std::fs::remove_file(&tables[tables.len() / 2]).unwrap();
        assert!(options(&home).open(home.store()).is_err());
        let report = repair(&home);
        let files: Vec<_> = report.losses.iter().filter(|loss| matches!(loss, Loss::TableFile { .. })).collect();
        assert_eq!(files.len(), 1, "{report:#?}");
        for (key, value) in contents(&open(&home)).unwrap() {
            // Where no checkpoint tells, an older value may be back; the report says so.
            if model.get(&key) != Some(&value) {
                let Loss::TableFile { smallest_key, largest_key, .. } = files[0] else { unreachable!() };
                assert!(*smallest_key <= key && key <= *largest_key, "{}", key.escape_ascii());
            }
        }
    }
}

#[test]
fn without_a_manifest_there_is_a_clear_refusal() {
    let home = Home::new(On::Dram);
    store(&home, 5);
    std::fs::remove_file(home.store().join("MANIFEST")).unwrap();
    let error = options(&home).repair(home.store(), &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("MANIFEST"), "{error}");
}

/// A repair that was cut short is begun again and tells the same.
#[test]
fn a_repair_that_was_cut_short_is_begun_again() {
    if !crate::common::flushes_to_files(On::Emulated) {
        return;
    }
    for pool_is_lost in [false, true] {
        cut_short_everywhere(pool_is_lost);
    }
}

/// Repairs a store with a damaged file, and without its pool or with it, and cuts that short at every seventh operation.
fn cut_short_everywhere(pool_is_lost: bool) {
    let on = |env: &MemoryEnv| {
        let medium = Medium::Emulated { path: "/pool".into() };
        let options = crate::common::options().env(Arc::new(env.clone())).medium(medium).memtable_bytes(16 << 10);
        options.pool_initial_bytes(4 << 20).pool_growth_bytes(1 << 20).compaction(crate::common::no_compaction())
    };
    let env = MemoryEnv::new();
    let db = on(&env).open("/db").unwrap();
    let key = |number: u32| format!("key {number:03}").into_bytes();
    for round in 0..2_u8 {
        (0..200).for_each(|number| db.put(key(number), [round; 50]).unwrap());
        db.flush().unwrap();
    }
    db.put("late", "late").unwrap();
    db.close().unwrap();
    let newest = "/db/0000000002.sst";
    let mut bytes = env.content(newest).unwrap();
    bytes[1] ^= 4;
    env.set_content(newest, &bytes);
    if pool_is_lost {
        env.remove_file(Path::new("/pool")).unwrap();
    }
    let (mut cut_short, mut through) = (0, 0);
    for k in (0..).step_by(7) {
        let env = env.kill();
        env.fail_at(env.operation_count() + k, Failure::Io, Repeat::ForGood);
        let first = on(&env).repair("/db", &mut |_| ());
        let struck = env.failures_struck() > 0;
        env.clear_failures();
        let env = env.kill();
        let report = if struck { on(&env).repair("/db", &mut |_| ()).unwrap() } else { first.unwrap() };
        cut_short += u64::from(struck);
        let db = on(&env).open("/db").unwrap();
        assert_verified(&db, &format!("cut short at {k}"));
        let left = contents(&db).unwrap();
        assert_eq!(left.contains_key(&b"late"[..]), !pool_is_lost);
        let is_lost = |number: &u32| !left.contains_key(&key(*number));
        let lost: Vec<_> = (0..200).filter(is_lost).map(key).collect();
        assert!(!lost.is_empty() && lost.len() < 200, "cut short at {k}: {}", lost.len());
        assert!(left.values().all(|value| value[..] != [0; 50]), "cut short at {k}: an older value is back");
        // Once it is through it has nothing to tell any more.
        if !report.damage.is_empty() {
            let mut writes = 0;
            let told = report.losses.iter().filter_map(|loss| match loss {
                Loss::Key { key, .. } => Some(key.clone()),
                Loss::Writes { from_sequence: 401 } if pool_is_lost => {
                    writes += 1;
                    None
                }
                other => panic!("cut short at {k}: {other}"),
            });
            assert_eq!(told.collect::<Vec<_>>(), lost, "cut short at {k}");
            assert_eq!(writes, u64::from(pool_is_lost), "cut short at {k}: the writes that are lost with the pool");
        } else {
            through += 1;
        }
        if !struck {
            break;
        }
    }
    assert!(cut_short > 10 && through < 3, "{cut_short} {through}");
}

/// The arena goes on where the log ends, so opening refuses the MANIFEST; a repair left the arena where it was and the store refused.
#[test]
fn a_repair_saves_an_arena_that_the_manifest_does_not_know() {
    use slmdb_manifest::Manifest;
    for on in crate::common::MEDIA {
        let home = Home::new(on);
        let mut model = store(&home, 6);
        let db = open(&home);
        let before = Manifest::read(&slmdb_env::OsEnv::new(), &home.store()).unwrap().state;
        for number in 0..20 {
            let (key, value) = (format!("unknown {number}").into_bytes(), b"and yet there".to_vec());
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        db.close().unwrap();
        // The MANIFEST as it was before the newest arena was made.
        let env = slmdb_env::OsEnv::new();
        let mut state = Manifest::read(&env, &home.store()).unwrap().state;
        let newest = *state.arenas.keys().next_back().unwrap();
        state.arenas.remove(&newest);
        state.next_generation = newest;
        state.closed_at_sequence = None;
        assert_eq!(state.flushed_through, before.flushed_through, "there was no flush meanwhile");
        Manifest::rewrite(&env, &home.store(), &state).unwrap();
        if on == On::Dram {
            // Only a clean close cuts it.
            let arena = home.store().join(format!("{newest:010}.arena"));
            std::fs::File::options().write(true).open(arena).unwrap().set_len(16 << 10).unwrap();
        }
        let error = options(&home).open(home.store()).unwrap_err();
        assert!(error.to_string().contains("the MANIFEST does not know it"), "{error}");
        let report = repair(&home);
        assert!(report.losses.is_empty(), "{report:#?}");
        assert_same(&contents(&open(&home)).unwrap(), &model, "repaired");
    }
}

/// They were kept, and `verify` went on finding them.
#[test]
fn a_repair_corrects_what_the_manifest_says_of_table_files() {
    use slmdb_manifest::Manifest;
    for on in crate::common::media_with_files() {
        let home = Home::new(on);
        let model = store(&home, 7);
        let env = slmdb_env::OsEnv::new();
        let mut state = Manifest::read(&env, &home.store()).unwrap().state;
        let record = state.files.values_mut().next().unwrap();
        record.entries += 1;
        record.deletes = 0;
        record.largest_key.push(b'z');
        Manifest::rewrite(&env, &home.store(), &state).unwrap();
        let report = repair(&home);
        assert!(report.losses.is_empty() && report.damage.len() == 1, "{report:#?}");
        assert!(report.damage[0].to_string().contains("MANIFEST"), "{report:#?}");
        assert_same(&contents(&open(&home)).unwrap(), &model, "repaired");
    }
}

/// Only SLM-DB has checkpoints of an index.
mod slm {
    use super::*;

    /// It says which deletes were dropped. So a repair takes all for dropped, and tells of it; no key is lost.
    #[test]
    fn a_section_of_the_manifest_that_makes_no_sense_is_done_without() {
        use slmdb_manifest::Manifest;
        for on in crate::common::MEDIA {
            let (home, env) = (Home::new(on), slmdb_env::OsEnv::new());
            let options = home.options();
            let db = options.clone().open(home.store()).unwrap();
            (0..50_u8).for_each(|number| db.put([number], [number]).unwrap());
            db.flush().unwrap();
            db.close().unwrap();
            let mut state = Manifest::read(&env, &home.store()).unwrap().state;
            state.engine_section.insert(3, vec![1]);
            Manifest::rewrite(&env, &home.store(), &state).unwrap();
            let error = options.open(home.store()).unwrap_err();
            assert!(error.to_string().contains("half a number"), "{on:?}: {error}");
            let report = options.repair(home.store(), &mut |_| ()).unwrap();
            assert!(report.damage.iter().any(|damage| damage.to_string().contains("half a number")), "{on:?}");
            assert!(matches!(report.losses[..], [Loss::Deletes { through_sequence: 50 }]), "{on:?}: {report:#?}");
            let db = options.open(home.store()).unwrap();
            assert_eq!(contents(&db).unwrap().len(), 50, "{on:?}");
            assert_verified(&db, "repaired");
        }
    }

    /// Of what a repair has lost there are older versions. The repair's index checkpoint says that they are dead; without it nobody does.
    #[test]
    fn no_older_version_of_what_a_repair_lost_comes_back_untold() {
        use slmdb_manifest::Manifest;
        use slmdb_slm::manifest_section::Section;
        for on in crate::common::MEDIA {
            let (home, env) = (Home::new(on), slmdb_env::OsEnv::new());
            let options =
                home.options().advanced(|advanced| advanced.checkpoint_entries(1)).compaction(no_compaction());
            let db = options.open(home.store()).unwrap();
            for round in 0..2_u8 {
                (0..50_u8).for_each(|number| db.put([number], [round]).unwrap());
                db.flush().unwrap();
            }
            wait_until("an index checkpoint of all there is", || {
                // (It may be written anew at this moment.)
                let state = Manifest::read(&env, &home.store()).map(|reading| reading.state);
                state.is_ok_and(|state| {
                    Section::of(&state).unwrap().checkpoints.last().is_some_and(|newest| newest.through == 100)
                })
            });
            db.close().unwrap();
            let tables = tables(&home);
            assert_eq!(tables.len(), 2, "{on:?}");
            std::fs::remove_file(&tables[1]).unwrap();
            let repair = || options.repair(home.store(), &mut |_| ()).unwrap();
            let report = repair();
            assert!(matches!(report.losses[0], Loss::TableFile { number: 2, .. }), "{on:?}: {report:#?}");
            let db = options.open(home.store()).unwrap();
            assert!(contents(&db).unwrap().is_empty(), "{on:?}: the checkpoint told of newer versions");
            assert_verified(&db, "repaired");
            db.close().unwrap();

            let state = Manifest::read(&env, &home.store()).unwrap().state;
            let checkpoints = Section::of(&state).unwrap().checkpoints;
            let [checkpoint] = checkpoints[..] else { panic!("{on:?}: {checkpoints:?}") };
            let checkpoint = home.store().join(format!("{:010}.checkpoint", checkpoint.number));
            std::fs::remove_file(&checkpoint).unwrap();
            let opened = options.open(home.store());
            if on == On::Dram {
                let error = opened.unwrap_err();
                assert!(matches!(&error, Error::Corruption { file, .. } if *file == checkpoint), "{on:?}: {error}");
            } else {
                // The pool says so, too.
                assert!(contents(&opened.unwrap()).unwrap().is_empty(), "{on:?}");
            }
            let report = repair();
            assert_eq!(report.losses, [Loss::Deletes { through_sequence: 100 }], "{on:?}");
            let db = options.open(home.store()).unwrap();
            assert!(
                contents(&db).unwrap().values().all(|value| value[..] == [0]),
                "{on:?}: they may be back, as was told"
            );
            assert_verified(&db, "repaired again");
        }
    }
}
