//! Compaction where space is short: what was filled by overwrites goes on taking them, kills in between change nothing; and
//! inputs that can't be read, or outputs that can't be synced, cost nothing but their compaction, or the store's writes.
//! (`reclaim.rs` has the deletes.)

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::machine::{Machine, STORE, VALUE_BYTES, fill, key, put, scarce, tables, two_files, value_bytes};
use crate::common::{Model, Random, assert_same, assert_verified, contents, eager_compaction, wait_until, watched};
use slmdb::{ErrorKind, Event};
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

/// A third of what there is space for is overwritten for ever: no write is refused, for its garbage can be compacted away.
#[test]
fn overwrites_of_the_same_keys_are_never_refused() {
    for &scarce in scarce() {
        let context = format!("{scarce:?}");
        let moves = AtomicU64::new(0);
        watched(&context, &moves, || {
            let limit_bytes = 3 << 19;
            let keys = {
                let machine = Machine::new(scarce, limit_bytes);
                let db = machine.open();
                fill(&db, &mut Model::new(), &mut Random(1), value_bytes(scarce), &moves) / 3
            };
            assert!(keys > 50, "{context}: a store of {keys} keys");
            let mut machine = Machine::new(scarce, limit_bytes);
            let (mut model, mut random) = (Model::new(), Random(2));
            for round in 0..3 {
                let db = machine.open();
                for write in 0..8 * keys * crate::common::budget() {
                    let (key, value) = (key(random.below(keys)), random.bytes(value_bytes(scarce)));
                    put(&db, &mut model, key, value)
                        .unwrap_or_else(|error| panic!("{context}, round {round}, write {write}: {error}"));
                    moves.fetch_add(1, Ordering::Relaxed);
                }
                assert_same(&contents(&db).unwrap(), &model, &context);
                if round == 1 {
                    assert_verified(&db, &context);
                    machine = machine.killed(db);
                } else {
                    db.close().unwrap();
                }
            }
            let db = machine.open();
            assert_same(&contents(&db).unwrap(), &model, &context);
            assert_verified(&db, &context);
        });
    }
}

#[test]
fn an_input_that_cannot_be_read_is_left_alone_and_told() {
    for flipped in [false, true] {
        let env = MemoryEnv::with_real_clock();
        let given_up = Arc::new(Mutex::new(Vec::new()));
        let into = given_up.clone();
        let options = crate::common::options().env(Arc::new(env.clone())).sync(true).compaction(eager_compaction());
        let options = options.event_listener(move |event: &Event| {
            if let Event::CompactionGivenUp { inputs, cause, .. } = event {
                into.lock().unwrap().push((inputs.clone(), cause.kind()));
            }
        });
        let db = crate::common::with_a_larger_level_zero(options).open(STORE).unwrap();
        let (mut model, mut random) = (Model::new(), Random(5));
        for number in 0..200 {
            put(&db, &mut model, key(number), random.bytes(VALUE_BYTES)).unwrap();
        }
        db.flush().unwrap();
        let table = format!("{STORE}/{}", tables(&env)[0]);
        if flipped {
            // In the blocks of values: the last of them alone is still needed.
            let mut bytes = env.content(&table).unwrap();
            bytes[..60_000].iter_mut().for_each(|byte| *byte ^= 0x10);
            env.set_content(&table, &bytes);
        } else {
            env.fail_next(&format!("read {table}"), Failure::Io, Repeat::ForGood);
        }
        for number in (0..190).chain(2000..3000) {
            put(&db, &mut model, key(number), random.bytes(VALUE_BYTES)).unwrap();
        }
        db.flush().unwrap();
        wait_until("nobody was told", || !given_up.lock().unwrap().is_empty());
        // It is not tried again and again, and the store goes on.
        for number in 1000..1100 {
            db.put(key(number), [1; 10]).unwrap();
        }
        db.flush().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let expected = if flipped { ErrorKind::Corruption } else { ErrorKind::Io };
        let told = given_up.lock().unwrap().clone();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].1, expected, "{told:?}");
        assert_eq!(db.get(key(3)).unwrap().as_deref(), model.get(&key(3)).map(|value| &value[..]));
        assert_eq!(db.get(key(1003)).unwrap().as_deref(), Some(&[1; 10][..]));
        if flipped {
            let report = db.verify(&mut |_| ()).unwrap();
            assert!(!report.findings.is_empty(), "verify says nothing of it");
        }
        assert!(tables(&env).iter().any(|name| table.ends_with(name.as_str())), "the input is gone");
        db.close().unwrap();
        env.clear_failures();
    }
}

/// A failed sync of a compaction stops writes and deletes nothing.
#[test]
fn a_failed_compaction_stops_writes_and_deletes_nothing() {
    for operation in ["sync", "write"] {
        let env = MemoryEnv::with_real_clock();
        let model = two_files(&env);
        let before = tables(&env);
        env.fail_next(&format!("{operation} {STORE}/0000000003.sst"), Failure::Io, Repeat::Once);
        let options = crate::common::options().env(Arc::new(env.clone())).sync(true).compaction(eager_compaction());
        let db = options.clone().open(STORE).unwrap();
        let mut refused = None;
        wait_until("the failure did not stop writes", || {
            refused = db.put("k", "v").err();
            refused.is_some()
        });
        let refused = refused.unwrap();
        assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
        assert!(refused.to_string().contains("0000000003.sst"), "the cause is not told: {refused}");
        assert_eq!(env.failures_struck(), 1);
        for (key, value) in &model {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
        }
        let after = tables(&env);
        assert!(before.iter().all(|name| after.contains(name)), "{before:?} became {after:?}");
        assert!(after.contains(&"0000000003.sst".to_owned()), "the unfinished output was deleted");
        assert!(db.compact_range::<&[u8]>(..).is_err());
        let _ = db.close();
        for env in [env.crash(), env.kill()] {
            let db = options.clone().env(Arc::new(env)).open(STORE).unwrap();
            db.delete("k").unwrap();
            assert_same(&contents(&db).unwrap(), &model, operation);
            assert_verified(&db, operation);
            db.compact_range::<&[u8]>(..).unwrap();
            assert_same(&contents(&db).unwrap(), &model, operation);
            assert_verified(&db, operation);
        }
    }
}
