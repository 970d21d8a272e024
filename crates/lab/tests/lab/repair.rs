//! A repair after any damage to any table file: what is there is the newest, and what is not there was told.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_engine::{CompactionOptions, Engine, Loss, Medium, Options, WriteBatch};
use slmdb_lab::LabOptions;
use slmdb_manifest::Manifest;
use slmdb_testkit::MemoryEnv;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const STORE: &str = "/db";

/// Options with which a few hundred entries go through several levels.
fn options(env: &MemoryEnv, has_pool: bool) -> Options {
    Options {
        env: Arc::new(env.clone()),
        medium: has_pool.then(|| Medium::Emulated { path: "/pool".into() }),
        memtable_bytes: 4 << 10,
        block_bytes: 256,
        pool_initial_bytes: 1 << 20,
        compaction: CompactionOptions { table_file_bytes: 4 << 10, ..CompactionOptions::default() },
        own: Some(Arc::new(LabOptions {
            level_zero_bytes: 8 << 10,
            level_base_bytes: 8 << 10,
            level_growth: 2,
            ..LabOptions::default()
        })),
        ..Options::default()
    }
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// A closed store with keys on level 0 and several levels, most of them in several versions.
fn store(env: &MemoryEnv, has_pool: bool, seed: u64) -> Model {
    let (mut model, mut chance) = (Model::new(), seed);
    let engine = (slmdb_lab::KIND.open)(&options(env, has_pool), Path::new(STORE), None).unwrap();
    for number in 0..1500_u32 {
        let key = format!("key {:03}", random(&mut chance) % 300).into_bytes();
        let mut batch = WriteBatch::new();
        if random(&mut chance).is_multiple_of(5) {
            batch.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = number.to_le_bytes().repeat(1 + random(&mut chance) as usize % 30);
            batch.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        engine.write(&batch, false).unwrap();
    }
    engine.flush().unwrap();
    engine.close().unwrap();
    model
}

fn contents(engine: &dyn Engine) -> Model {
    let (mut found, mut cursor) = (Model::new(), engine.cursor().unwrap());
    cursor.seek_first().unwrap();
    while cursor.valid() {
        found.insert(cursor.key().to_vec(), cursor.value().unwrap().to_vec());
        cursor.next().unwrap();
    }
    found
}

/// Whether a loss says that this key may be gone, and whether it says that an older value may be there instead.
fn tells(losses: &[Loss], key: &[u8]) -> (bool, bool) {
    let (mut gone, mut older) = (false, false);
    for loss in losses {
        match loss {
            Loss::Key { key: lost, .. } => gone |= lost == key,
            Loss::Entries { smallest_key, largest_key, older_may_be_back, .. }
                if &smallest_key[..] <= key && key <= &largest_key[..] =>
            {
                gone = true;
                older |= older_may_be_back;
            }
            Loss::TableFile { smallest_key, largest_key, .. }
                if &smallest_key[..] <= key && key <= &largest_key[..] =>
            {
                (gone, older) = (true, true);
            }
            _ => {}
        }
    }
    (gone, older)
}

#[test]
fn no_older_value_of_what_is_damaged_comes_back_untold() {
    let (mut gone, mut kinds, mut levels) = (0, BTreeSet::new(), BTreeSet::new());
    for seed in 0..4 {
        let has_pool = seed % 2 == 0;
        let env = MemoryEnv::new();
        let model = store(&env, has_pool, seed);
        let files = Manifest::read(&env, Path::new(STORE)).unwrap().state.files;
        levels.extend(files.values().map(|file| file.level));
        let mut chance = seed;
        for (number, record) in files {
            for _ in 0..6 {
                let env = env.kill();
                let path: PathBuf = Path::new(STORE).join(format!("{number:010}.sst"));
                let mut bytes = env.content(&path).unwrap();
                let at = random(&mut chance) as usize % bytes.len();
                bytes[at] ^= 0x10;
                env.set_content(&path, &bytes);
                let context = format!("seed {seed}, byte {at} of file {number} on level {}", record.level);
                let options = options(&env, has_pool);
                let report = (slmdb_lab::KIND.repair)(&options, Path::new(STORE), None, &mut |_| ()).unwrap();
                assert!(!report.damage.is_empty(), "{context}: {report:#?}");
                kinds.extend(report.losses.iter().map(|loss| match loss {
                    Loss::Key { .. } => "key",
                    Loss::Entries { older_may_be_back: false, .. } => "entries",
                    Loss::Entries { .. } => "chunk",
                    _ => "file",
                }));
                // The second time all of it has gone through the levels.
                for round in 0..2 {
                    let engine = (slmdb_lab::KIND.open)(&options, Path::new(STORE), None).unwrap();
                    let found = contents(&*engine);
                    for key in model.keys().chain(found.keys()) {
                        let ((is_told, may_be_older), context) =
                            (tells(&report.losses, key), format!("{context}, {}, round {round}", key.escape_ascii()));
                        match (found.get(key), model.get(key)) {
                            (found, expected) if found == expected => {}
                            (None, Some(_)) => {
                                gone += 1;
                                assert!(is_told, "{context}: is gone, untold: {report:#?}");
                            }
                            _ => assert!(may_be_older, "{context}: is back, untold: {report:#?}"),
                        }
                    }
                    if round == 0 {
                        let verified = engine.verify(&mut |_| ()).unwrap();
                        assert!(verified.is_clean(), "{context}: {verified:#?}");
                        engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
                    }
                    engine.close().unwrap();
                }
            }
        }
    }
    assert!(gone > 0 && levels.len() > 2, "{gone} {levels:?}");
    assert!(kinds.contains("key") && kinds.contains("entries"), "{kinds:?}");
}
