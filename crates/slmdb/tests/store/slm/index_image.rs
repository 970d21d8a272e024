//! The image of the index that a clean close leaves on `Dram`: whatever file of that name is there, the store holds what
//! it held.

use std::path::Path;
use std::sync::Arc;

use super::index_checkpoints::write;
use crate::common::{Model, Random, assert_same, assert_verified, contents, eager_compaction, options};
use slmdb::{Db, Options};
use slmdb_env::Env;
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

const STORE: &str = "/db";
const IMAGE: &str = "/db/INDEX";

/// Leaves an image of any index.
fn with_image(env: &MemoryEnv) -> Options {
    options()
        .env(Arc::new(env.clone()))
        .memtable_bytes(16 << 10)
        .compaction(eager_compaction())
        .advanced(|advanced| advanced.checkpoint_entries(64).index_image_keys_min(1))
}

fn check(db: &Db, model: &Model, context: &str) {
    assert_same(&contents(db).unwrap(), model, context);
    assert_verified(db, context);
}

/// An opening for reading alone leaves the image.
fn check_read_only(env: &MemoryEnv, model: &Model) {
    let db = with_image(env).read_only(true).open(STORE).unwrap();
    check(&db, model, "read-only");
    drop(db);
    assert!(env.content(IMAGE).is_some(), "an opening for reading alone removed it");
}

#[test]
fn a_clean_close_leaves_an_image_that_the_next_opening_uses_and_removes() {
    let env = MemoryEnv::new();
    let (mut model, mut random) = (Model::new(), Random(5));
    for round in 0..12 {
        let db = with_image(&env).open(STORE).unwrap();
        assert!(env.content(IMAGE).is_none(), "a store that is written to has no image");
        check(&db, &model, &format!("round {round}"));
        write(&db, &mut model, &mut random, 1500);
        db.close().unwrap();
        assert!(env.content(IMAGE).is_some(), "round {round}");
        check_read_only(&env, &model);
    }
    // Without anything that a rebuild needs the index comes from the image alone.
    let entries = env.list_directory(Path::new(STORE)).unwrap();
    for entry in entries.iter().filter(|entry| entry.name.ends_with(".checkpoint")) {
        env.remove_file(&Path::new(STORE).join(&entry.name)).unwrap();
    }
    let read_only = || with_image(&env).read_only(true).open(STORE);
    assert_same(&contents(&read_only().unwrap()).unwrap(), &model, "without checkpoints");
    env.remove_file(Path::new(IMAGE)).unwrap();
    read_only().map(drop).unwrap_err();
}

#[test]
fn an_image_of_another_moment_is_none() {
    let env = MemoryEnv::new();
    let (mut model, mut random, mut images) = (Model::new(), Random(6), Vec::<Vec<u8>>::new());
    for round in 0..8 {
        let db = with_image(&env).open(STORE).unwrap();
        check(&db, &model, &format!("round {round}"));
        write(&db, &mut model, &mut random, 700);
        db.flush().unwrap();
        db.close().unwrap();
        let own = env.content(IMAGE).unwrap();
        for image in &images {
            env.set_content(IMAGE, image);
            let db = with_image(&env).read_only(true).open(STORE).unwrap();
            check(&db, &model, "with an old image");
        }
        env.set_content(IMAGE, &own);
        images.push(own);
        // What a kill leaves has none that is believed, whatever there is.
        let db = with_image(&env).open(STORE).unwrap();
        write(&db, &mut model, &mut random, 300);
        db.sync().unwrap();
        let killed = env.kill();
        db.close().unwrap();
        for image in images.iter().rev().take(2) {
            killed.set_content(IMAGE, image);
            check(&with_image(&killed).read_only(true).open(STORE).unwrap(), &model, "killed, with an old image");
        }
        check(&with_image(&killed).open(STORE).unwrap(), &model, "killed");
    }
}

#[test]
fn a_damaged_image_costs_a_rebuild_and_no_more() {
    let env = MemoryEnv::new();
    let (mut model, mut random) = (Model::new(), Random(7));
    let db = with_image(&env).open(STORE).unwrap();
    write(&db, &mut model, &mut random, 3000);
    db.close().unwrap();
    let image = env.content(IMAGE).unwrap();
    for number in 0..60 {
        let mut damaged = image.clone();
        match number % 3 {
            0 => damaged.truncate(random.below(image.len() as u64) as usize),
            1 => {
                // Most of it is free, and zero.
                let used: Vec<usize> = (0..image.len()).filter(|&at| image[at] != 0).collect();
                damaged[used[random.below(used.len() as u64) as usize]] ^= 1 << random.below(8);
            }
            _ => {
                let page = random.below(image.len() as u64 / 4096) as usize * 4096;
                damaged[page..page + 4096].fill(0);
            }
        }
        env.set_content(IMAGE, &damaged);
        check(&with_image(&env).read_only(true).open(STORE).unwrap(), &model, &format!("damage {number}"));
    }
    env.set_content(IMAGE, &image[..image.len() / 2]);
    check(&with_image(&env).open(STORE).unwrap(), &model, "taken over");
}

#[test]
fn an_image_that_can_t_be_written_or_read_costs_nothing_else() {
    let env = MemoryEnv::new();
    let (mut model, mut random) = (Model::new(), Random(8));
    let close = |model: &mut Model, random: &mut Random, fails: &str| {
        let db = with_image(&env).open(STORE).unwrap();
        write(&db, model, random, 700);
        db.flush().unwrap();
        if !fails.is_empty() {
            env.fail_next(fails, Failure::Full, Repeat::Once);
        }
        db.close().unwrap();
    };
    let struck = env.failures_struck();
    close(&mut model, &mut random, "write /db/INDEX");
    assert_eq!(env.failures_struck(), struck + 1);
    assert!(env.content(IMAGE).is_none(), "an unfinished image is left");
    check(&with_image(&env).read_only(true).open(STORE).unwrap(), &model, "not written");
    close(&mut model, &mut random, "");
    for failure in [Failure::Io, Failure::FlippedBit { seed: 3 }] {
        let struck = env.failures_struck();
        env.fail_next("read /db/INDEX", failure, Repeat::Once);
        check(&with_image(&env).read_only(true).open(STORE).unwrap(), &model, "not read");
        assert_eq!(env.failures_struck(), struck + 1);
    }
}

#[test]
fn a_small_index_has_no_image_and_none_is_made_if_none_is_wanted() {
    for least in [1_000_000, u64::MAX] {
        let env = MemoryEnv::new();
        let options = with_image(&env).advanced(|advanced| advanced.index_image_keys_min(least));
        let db = options.clone().open(STORE).unwrap();
        let (mut model, mut random) = (Model::new(), Random(9));
        write(&db, &mut model, &mut random, 1000);
        db.close().unwrap();
        assert!(env.content(IMAGE).is_none());
        check(&options.open(STORE).unwrap(), &model, "without an image");
    }
}

#[test]
fn a_store_that_is_destroyed_or_repaired_takes_its_image_with_it() {
    let env = MemoryEnv::new();
    let (mut model, mut random) = (Model::new(), Random(10));
    let close = |model: &mut Model, random: &mut Random| {
        let db = with_image(&env).open(STORE).unwrap();
        write(&db, model, random, 1000);
        db.close().unwrap();
        assert!(env.content(IMAGE).is_some());
    };
    close(&mut model, &mut random);
    with_image(&env).repair(STORE, &mut |_| ()).unwrap();
    assert!(env.content(IMAGE).is_none());
    check(&with_image(&env).open(STORE).unwrap(), &model, "repaired");
    close(&mut model, &mut random);
    let destroyed = slmdb::destroy(STORE, &with_image(&env)).unwrap();
    assert!(destroyed.left.is_empty());
    assert!(!env.exists(Path::new(STORE)).unwrap());
}
