//! Random operations with random options against a `BTreeMap`, on every medium, with reopening in between.

use crate::common::{Home, MEDIA, Model, On, Random, assert_same, assert_verified, contents, rounds, write_batch};
use slmdb::{Compression, Db, DramIndex, MapTables, Options};

/// Keys that have given other stores trouble.
fn key(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => Vec::new(),
        1 => vec![0; random.below(20) as usize],
        2 => vec![0xff; random.below(20) as usize],
        3 => [b"sharing eight and more".as_slice(), &random.below(40).to_be_bytes()].concat(),
        4 => [vec![b'x'; 100], random.below(30).to_string().into_bytes()].concat(),
        5 => vec![b'p'; random.below(60) as usize],
        6 if random.one_in(20) => [vec![random.below(3) as u8; 65_530], random.bytes(1)].concat(),
        _ => format!("key{:05}", random.below(400)).into_bytes(),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    let length = match random.below(30) {
        0 => 0,
        1 => random.below(9000),
        2 if random.one_in(20) => random.below(300_000),
        _ => random.below(200),
    };
    let byte = random.next() as u8;
    if random.one_in(2) { vec![byte; length as usize] } else { random.bytes(length as usize) }
}

fn random_options(home: &Home, random: &mut Random) -> Options {
    let options = home
        .options()
        .memtable_bytes([8 << 10, 64 << 10, 1 << 20][random.below(3) as usize])
        .immutable_memtables_max(1 + random.below(3) as usize)
        .memory_budget_bytes([1 << 10, 1 << 20][random.below(2) as usize])
        .block_bytes([64, 512, 4096][random.below(3) as usize])
        .advanced(|advanced| advanced.restart_interval([1, 3, 16][random.below(3) as usize]))
        .compression(Compression::BUILT_IN[random.below(Compression::BUILT_IN.len() as u64) as usize])
        .advanced(|advanced| {
            advanced.dram_index([DramIndex::MemoryTree, DramIndex::FastFair][random.below(2) as usize])
        })
        .advanced(|advanced| advanced.index_image_keys_min([1, u64::MAX][random.below(2) as usize]))
        .advanced(|advanced| advanced.node_bytes([256, 512, 1024][random.below(3) as usize]))
        .open_tables_max([1, 3, 500][random.below(3) as usize])
        .advanced(|advanced| advanced.map_tables([MapTables::Auto, MapTables::Never][random.below(2) as usize]))
        .advanced(|advanced| advanced.checkpoint_entries([1, 300, 4 << 20][random.below(3) as usize]));
    home.on(options)
}

fn apply(db: &Db, model: &mut Model, random: &mut Random) {
    match random.below(100) {
        0..60 => {
            let (key, value) = (key(random), value(random));
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        60..80 => {
            let key = key(random);
            db.delete(&key).unwrap();
            model.remove(&key);
        }
        80..90 => {
            let count = random.below(20);
            write_batch(db, model, random, count, (key, value));
        }
        90..96 => {
            let key = key(random);
            assert_eq!(db.get(&key).unwrap().as_deref(), model.get(&key).map(Vec::as_slice));
            assert_eq!(db.contains_key(&key).unwrap(), model.contains_key(&key));
        }
        96..98 => check_range(db, model, random),
        98 => {
            let (mut from, mut to) = (key(random), key(random));
            if from > to && random.one_in(2) {
                std::mem::swap(&mut from, &mut to);
            }
            db.delete_range(&from[..]..&to[..]).unwrap();
            model.retain(|key, _| *key < from || to <= *key);
        }
        _ if random.one_in(4) => db.flush().unwrap(),
        _ => db.sync().unwrap(),
    }
}

fn check_range(db: &Db, model: &Model, random: &mut Random) {
    let (mut from, mut to) = (key(random), key(random));
    if from > to {
        std::mem::swap(&mut from, &mut to);
    }
    let mut expected = model.range(from.clone()..to.clone());
    let mut range = db.range(&from[..]..&to[..]).unwrap();
    for _ in 0..random.below(30) {
        let (expected, found) =
            if random.one_in(2) { (expected.next(), range.next()) } else { (expected.next_back(), range.next_back()) };
        let found = found.map(|entry| entry.unwrap());
        let found = found.as_ref().map(|(key, value)| (&key[..], &value[..]));
        assert_eq!(found, expected.map(|(key, value)| (&key[..], &value[..])));
        if found.is_none() {
            break;
        }
    }
}

fn run(on: On, seed: u64, rounds: u64, operations: u64) {
    println!("medium {on:?}, seed {seed}");
    let mut random = Random(seed);
    let home = Home::new(on);
    let mut model = Model::new();
    for round in 0..rounds {
        let db = random_options(&home, &mut random).open(home.store()).unwrap();
        assert_same(&contents(&db).unwrap(), &model, &format!("seed {seed}, round {round}, after opening"));
        for _ in 0..operations {
            apply(&db, &mut model, &mut random);
        }
        assert_same(&contents(&db).unwrap(), &model, &format!("seed {seed}, round {round}, before closing"));
        if random.one_in(2) {
            db.flush().unwrap();
            assert_verified(&db, &format!("seed {seed}, round {round}"));
        }
        db.close().unwrap();
    }
    let db = home.options().read_only(true).open(home.store()).unwrap();
    assert_same(&contents(&db).unwrap(), &model, "read-only");
    assert_verified(&db, "read-only");
}

#[test]
fn random_operations_with_random_options_match_a_model() {
    for on in MEDIA {
        for seed in 0..rounds(2) {
            run(on, seed, 4, 1500);
        }
    }
}

#[test]
fn many_short_openings_match_a_model_and_leave_no_heap_of_files() {
    for on in MEDIA {
        let home = Home::new(on);
        let mut random = Random(99);
        let mut model = Model::new();
        for round in 0..40 {
            let db = home.open();
            assert_same(&contents(&db).unwrap(), &model, &format!("round {round}"));
            for _ in 0..3 {
                let (key, value) = (format!("{:03}", random.below(100)).into_bytes(), random.bytes(20));
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            db.close().unwrap();
        }
        let files = std::fs::read_dir(home.store()).unwrap().count();
        assert!(files <= 4, "{files} files for {} small values", model.len());
    }
}
