//! What openings leave that were cut short, and the next one makes of it.

use std::path::Path;
use std::sync::Arc;

use crate::common::{Model, On, assert_same, assert_verified, contents};
use slmdb::Options;
use slmdb_env::Env;
use slmdb_manifest::Manifest;
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

const STORE: &str = "/db";

/// Puts some keys into a new store, and closes it.
fn put_some(options: Options) -> Model {
    let db = options.open(STORE).unwrap();
    for number in 0..20_u8 {
        db.put([number], [1; 20]).unwrap();
    }
    db.close().unwrap();
    (0..20_u8).map(|number| (vec![number], vec![1; 20])).collect()
}

/// An opening makes its arena, and then tells the MANIFEST. Where it does not come to that, the arena is there under a generation of
/// which the MANIFEST has not heard.
#[test]
fn a_generation_that_was_used_without_telling_is_not_reused() {
    for on in [On::Dram, On::Emulated] {
        let env = MemoryEnv::new();
        let options = |env: &MemoryEnv| {
            let pool = (on == On::Emulated).then(|| "/pool".into());
            let options = crate::common::options().env(Arc::new(env.clone())).medium(on.medium(pool));
            options.memtable_bytes(16 << 10).pool_initial_bytes(1 << 20)
        };
        let state = |env: &MemoryEnv| Manifest::read(env, Path::new(STORE)).unwrap().state;
        let mut model = put_some(options(&env));
        let first = state(&env).next_generation;
        // Each leaves an arena; the next removes it, and takes another generation.
        for attempt in 0..2 {
            // (If there may be something to remove, another rename comes first: it makes what was read durable.)
            let before = u64::from(on == On::Emulated || attempt > 0);
            env.fail_after(before, &format!("rename {STORE}/MANIFEST"), Failure::Io, Repeat::Once);
            options(&env).open(STORE).unwrap_err();
            assert_eq!(env.failures_struck(), attempt + 1, "{on:?}");
            assert_eq!(state(&env).next_generation, first, "{on:?}: the MANIFEST was not told");
            if on == On::Dram {
                let arena = format!("{STORE}/{:010}.arena", first + attempt);
                assert!(env.content(&arena).is_some(), "{arena}");
            }
        }
        let db = options(&env).open(STORE).unwrap();
        let used = *state(&env).arenas.range(first..).next().unwrap().0;
        assert_eq!(used, first + 2, "{on:?}");
        assert_same(&contents(&db).unwrap(), &model, &format!("{on:?}"));
        assert_verified(&db, "opened at last");
        db.put("more", "of it").unwrap();
        model.insert(b"more".to_vec(), b"of it".to_vec());
        db.close().unwrap();
        assert_same(&contents(&options(&env).open(STORE).unwrap()).unwrap(), &model, &format!("{on:?}, again"));
    }
}

/// Found by the simulator: the power went while an opening made its arena, and the arena's file was shorter afterwards than its header said.
#[test]
fn an_arena_that_an_opening_left_cut_short_is_no_damage() {
    let env = MemoryEnv::new();
    let options = |env: &MemoryEnv| crate::common::options().env(Arc::new(env.clone())).memtable_bytes(16 << 10);
    let state = |env: &MemoryEnv| Manifest::read(env, Path::new(STORE)).unwrap().state;
    let model = put_some(options(&env));
    env.fail_next(&format!("rename {STORE}/MANIFEST"), Failure::Io, Repeat::Once);
    options(&env).open(STORE).unwrap_err();
    let arena = format!("{STORE}/{:010}.arena", state(&env).next_generation);
    let whole = env.content(&arena).unwrap();
    for length in [0, 1, 63, 64, 65, 200, 1000, whole.len() - 1] {
        let cut = env.crash();
        cut.set_content(&arena, &whole[..length]);
        let db = options(&cut).open(STORE).unwrap_or_else(|error| panic!("of {length} bytes: {error}"));
        assert_same(&contents(&db).unwrap(), &model, &format!("{length} bytes"));
        assert_verified(&db, "opened");
    }
}

/// A clean close cuts the arena. With a MANIFEST that is older than it, it still says that something is missing.
#[test]
fn an_arena_cut_by_a_close_is_not_overlooked() {
    let env = MemoryEnv::new();
    let options = |env: &MemoryEnv| crate::common::options().env(Arc::new(env.clone())).memtable_bytes(16 << 10);
    let db = options(&env).open(STORE).unwrap();
    db.put("a", "1").unwrap();
    db.close().unwrap();
    let before =
        env.list_directory(Path::new(STORE)).unwrap().into_iter().map(|entry| format!("{STORE}/{}", entry.name));
    let before: Vec<_> = before.map(|path| (env.content(&path).unwrap(), path)).collect();
    let db = options(&env).open(STORE).unwrap();
    db.put("b", "2").unwrap();
    db.close().unwrap();
    for (content, path) in &before {
        env.set_content(path, content);
    }
    let error = options(&env).open(STORE).unwrap_err().to_string();
    assert!(error.contains("goes on where the log ends"), "{error}");
}
