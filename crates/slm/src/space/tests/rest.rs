//! What a store at rest gives back, beside writers, and when an operation of it fails.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use slmdb_engine::space::rest::LONG_REST;
use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, Options, WriteBatch};
use slmdb_env::Env;
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

use crate::recovery::open;
use crate::tier::Slm;

const DIRECTORY: &str = "/db";
const KEYS_OF_A_SPARE: u64 = 200;

fn options(env: &MemoryEnv, policy: CompactionPolicy) -> Options {
    Options {
        env: Arc::new(env.clone()),
        memtable_bytes: 64 << 10,
        compaction: CompactionOptions { policy, table_file_bytes: 64 << 10, ..CompactionOptions::default() },
        ..Options::default()
    }
}

fn put(store: &Slm, number: u64) -> slmdb_env::Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(number.to_be_bytes(), [number as u8; 200])?;
    store.write(&batch, false)
}

fn assert_has_all(store: &Slm, keys: u64, context: &str) {
    for number in 0..keys {
        let value = store.get(&number.to_be_bytes()).unwrap();
        assert_eq!(value.as_deref(), Some(&[number as u8; 200][..]), "{number}, {context}");
    }
}

/// Whatever it takes from writers, they get again, and what is admitted has its space (INV-30).
#[test]
fn a_store_that_rests_for_moments_gives_back_what_writers_need_again() {
    const PUTS: u64 = 20_000;
    const PUTS_BETWEEN_RESTS: u64 = 25;
    let env = MemoryEnv::new();
    let store = open::on_dram(&options(&env, CompactionPolicy::default()), Path::new(DIRECTORY)).unwrap();
    let writes = &store.shared.parts.writes;
    let has_spare = || writes.memtables.lock().spare.is_some();
    let mut given_back = 0;
    for number in 0..PUTS {
        put(&store, number).unwrap();
        if number % PUTS_BETWEEN_RESTS == 0 {
            let had_spare = has_spare();
            // It looks, and looks again after a rest by its clock. The next puts meet what it does then.
            for _ in 0..2 {
                writes.wake();
                std::thread::sleep(Duration::from_micros(300));
                env.advance_clock(2 * LONG_REST.as_nanos() as u64);
            }
            given_back += u64::from(had_spare && !has_spare());
        }
    }
    assert!(given_back > 3, "{given_back}");
    store.flush().unwrap();
    assert_has_all(&store, PUTS, "at the end");
    store.close().unwrap();
}

/// A store with recycled arenas and a spare, in which nothing happens by itself.
fn with_a_spare(env: &MemoryEnv) -> Slm {
    let store = open::on_dram(&options(env, CompactionPolicy::Manual), Path::new(DIRECTORY)).unwrap();
    (0..2 * KEYS_OF_A_SPARE).for_each(|number| put(&store, number).unwrap());
    store.flush().unwrap();
    (2 * KEYS_OF_A_SPARE..3 * KEYS_OF_A_SPARE).for_each(|number| put(&store, number).unwrap());
    store.sync().unwrap();
    let mut before = None;
    for _ in 0..3000 {
        let (has_spare, now) =
            (store.shared.parts.writes.memtables.lock().spare.is_some(), Some(env.operation_count()));
        if has_spare && before == now {
            return store;
        }
        before = now;
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no spare was made in a minute");
}

#[test]
fn giving_back_may_fail_or_be_cut_short_at_each_of_its_operations() {
    let arenas = |env: &MemoryEnv| {
        let entries = env.list_directory(Path::new(DIRECTORY)).unwrap();
        entries.iter().filter(|entry| entry.name.ends_with(".arena")).count()
    };
    for failure in [Failure::Io, Failure::Full, Failure::ArrivedYetFailed] {
        let mut passed = 0;
        loop {
            let context = format!("{failure:?} at operation {passed}");
            let env = MemoryEnv::new();
            let store = with_a_spare(&env);
            assert!(arenas(&env) > 1, "{context}");
            env.fail_at(env.operation_count() + passed, failure, Repeat::Once);
            let given = store.shared.parts.space.give_back_at_rest();
            let images = [env.kill(), env.crash()];
            let (is_over, is_lasting) =
                (env.failures_struck() == 0, matches!(&given, Err(error) if !error.may_be_tried_again()));
            env.clear_failures();
            assert_has_all(&store, 3 * KEYS_OF_A_SPARE, &context);
            match given {
                // The preparer ends the store.
                Err(error) if is_lasting => store.shared.parts.context.fail(error),
                // How much is free was not known, or it may be tried again.
                Ok(false) | Err(_) => assert!(store.shared.parts.space.give_back_at_rest().unwrap(), "{context}"),
                Ok(true) => {}
            }
            assert!(is_lasting || arenas(&env) == 1, "{context}: {} arenas", arenas(&env));
            let written = put(&store, 3 * KEYS_OF_A_SPARE);
            assert_eq!(written.is_err(), is_lasting, "{context}: {written:?}");
            drop(store);
            for image in images {
                let options = options(&image, CompactionPolicy::Manual);
                let store = open::on_dram(&options, Path::new(DIRECTORY)).unwrap();
                assert_has_all(&store, 3 * KEYS_OF_A_SPARE, &context);
                put(&store, 3 * KEYS_OF_A_SPARE).unwrap();
                store.close().unwrap();
            }
            if is_over {
                break;
            }
            passed += 1;
        }
        assert!(passed > 2, "{failure:?}: {passed}");
    }
}
