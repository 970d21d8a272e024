//! What openings leave that were cut short, and the next one makes of it.

use std::path::Path;
use std::sync::Arc;

use crate::common::{Model, On, assert_same, assert_verified, contents};
use slmdb_env::memory::{Failure, MemoryEnv, Repeat};
use slmdb_manifest::Manifest;

const STORE: &str = "/db";

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
        let mut model = Model::new();
        let db = options(&env).open(STORE).unwrap();
        for number in 0..20_u8 {
            db.put([number], [1; 20]).unwrap();
            model.insert(vec![number], vec![1; 20]);
        }
        db.close().unwrap();
        let first = state(&env).next_generation;
        // Each leaves an arena; the next removes it, and takes another generation.
        for attempt in 0..2 {
            env.fail_next(&format!("rename {STORE}/MANIFEST"), Failure::Io, Repeat::Once);
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
