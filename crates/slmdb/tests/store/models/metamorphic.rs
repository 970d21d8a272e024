//! Everything at random, against a model: writes of every kind, reads both ways, snapshots and iterators that are held,
//! flushes, compactions that were asked for and such that were not, index checkpoints, verifications, clean closes, kills and power cuts, with
//! options that are drawn anew for each opening and so small that every path is walked all the time.
//!
//! On `Dram` the machine is one in memory, which can be copied as a kill or a power cut would leave it, at any operation
//! that its background threads have come to. A pool can't be copied so; there kills are for `kill.rs`.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::common::{Home, MEDIA, Model, On, Random, assert_same, assert_verified, budget, contents, wait_until};
use slmdb::{
    CompactionOptions, CompactionPolicy, Compression, Db, DramIndex, MapTables, Options, Range, Snapshot, WriteBatch,
};
use slmdb_testkit::MemoryEnv;

/// How many steps a run has.
const STEPS: u64 = 1500;

/// Where the store is.
enum Machine {
    Memory(MemoryEnv),
    Files(Home),
}

impl Machine {
    fn new(on: On) -> Machine {
        if on == On::Dram { Machine::Memory(MemoryEnv::new()) } else { Machine::Files(Home::new(on)) }
    }

    fn open(&self, options: &Options) -> Db {
        match self {
            Machine::Memory(env) => options.clone().env(Arc::new(env.clone())).open("/db"),
            Machine::Files(home) => home.on(options.clone()).open(home.store()),
        }
        .unwrap()
    }

    /// How many table files the directory has.
    fn table_files(&self) -> usize {
        let is_table = |name: &str| name.ends_with(".sst");
        match self {
            Machine::Memory(env) => {
                let listed = slmdb_env::Env::list_directory(env, std::path::Path::new("/db")).unwrap();
                listed.iter().filter(|entry| is_table(&entry.name)).count()
            }
            Machine::Files(home) => {
                let listed = std::fs::read_dir(home.store()).unwrap();
                listed.filter(|entry| is_table(entry.as_ref().unwrap().file_name().to_str().unwrap())).count()
            }
        }
    }
}

fn one_of<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

/// Options for one opening. What is of the store and not of the opening follows from `seed`.
fn options(random: &mut Random, seed: u64) -> Options {
    let compaction = CompactionOptions {
        policy: one_of(
            random,
            &[
                CompactionPolicy::GarbageFirst,
                CompactionPolicy::GarbageFirst,
                CompactionPolicy::Paper,
                CompactionPolicy::Manual,
            ],
        ),
        threads: one_of(random, &[1, 2, 3]),
        table_file_bytes: one_of(random, &[1 << 10, 2 << 10, 4 << 10]),
        files_merged_max: 1 + random.below(8) as usize,
        live_key_threshold: one_of(random, &[0.5, 0.8, 0.95]),
        ..Default::default()
    };
    crate::common::options()
        .memtable_bytes(one_of(random, &[4 << 10, 8 << 10, 16 << 10]))
        .immutable_memtables_max(1 + random.below(3) as usize)
        .memory_budget_bytes(one_of(random, &[1 << 10, 64 << 10, 1 << 20]))
        .block_bytes(one_of(random, &[64, 256, 4096]))
        .advanced(|advanced| advanced.restart_interval(one_of(random, &[1, 4, 16])))
        .compression(one_of(random, &[Compression::None, Compression::Lz4]))
        .open_tables_max(1 + random.below(4) as usize)
        .advanced(|advanced| advanced.map_tables(if random.one_in(2) { MapTables::Auto } else { MapTables::Never }))
        .advanced(|advanced| advanced.dram_index(one_of(random, &[DramIndex::MemoryTree, DramIndex::FastFair])))
        .advanced(|advanced| advanced.node_bytes(if seed.is_multiple_of(2) { 256 } else { 512 }))
        .advanced(|advanced| advanced.checkpoint_entries(one_of(random, &[20, 200, 2000])))
        .pool_initial_bytes(2 << 20)
        .pool_growth_bytes(1 << 20)
        .pool_maximum_bytes(1 << 30)
        .compaction(compaction)
}

fn key(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0 => vec![b'k'; random.below(40) as usize],
        1..4 => format!("hot{}", random.below(4)).into_bytes(),
        4 => format!("long{:0600}", random.below(6)).into_bytes(),
        _ => format!("k{:03}", random.below(300)).into_bytes(),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    let length = if random.one_in(80) { random.below(9000) } else { random.below(120) };
    let mut value = vec![b' '; length as usize];
    let number = random.next().to_le_bytes();
    let told = value.len().min(8);
    value[..told].copy_from_slice(&number[..told]);
    value
}

/// A part of the keys, as bounds.
fn bounds(random: &mut Random) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let (one, other) = (key(random), key(random));
    let (from, to) = if one <= other { (one, other) } else { (other, one) };
    let from = match random.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(from),
        _ => Bound::Excluded(from),
    };
    // Both ends excluded at one key is no range to a model.
    let to = match random.below(3) {
        0 => Bound::Unbounded,
        _ if matches!(&from, Bound::Excluded(from) if *from == to) => Bound::Unbounded,
        1 => Bound::Included(to),
        _ => Bound::Excluded(to),
    };
    (from, to)
}

/// Bounds that have some keys between them, or any number.
fn few_or_many(random: &mut Random) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    if random.one_in(5) {
        return bounds(random);
    }
    let from = random.below(300);
    let name = |number: u64| format!("k{number:03}").into_bytes();
    (Bound::Included(name(from)), Bound::Excluded(name(from + random.below(30))))
}

/// An iterator that is held, and what it still has to give.
struct HeldRange {
    range: Range,
    rest: std::collections::VecDeque<(Vec<u8>, Vec<u8>)>,
}

impl HeldRange {
    fn new(range: Range, model: &Model, bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> HeldRange {
        let rest = model.range::<Vec<u8>, _>(bounds.clone()).map(|(key, value)| (key.clone(), value.clone()));
        HeldRange { range, rest: rest.collect() }
    }

    /// Takes some entries from its ends; false when there are no more.
    #[track_caller]
    fn take_some(&mut self, random: &mut Random, most: u64, context: &str) -> bool {
        for _ in 0..1 + random.below(most) {
            let (found, expected) = if random.one_in(3) {
                (self.range.next_back(), self.rest.pop_back())
            } else {
                (self.range.next(), self.rest.pop_front())
            };
            let found = found.map(|entry| entry.unwrap_or_else(|error| panic!("{context}: an iterator: {error:?}")));
            let found_key = found.as_ref().map(|(key, _)| key.escape_ascii().to_string());
            let expected_key = expected.as_ref().map(|(key, _)| key.escape_ascii().to_string());
            assert_eq!(found_key, expected_key, "{context}: an iterator");
            if let (Some((key, value)), Some((_, expected))) = (&found, &expected) {
                assert!(**value == **expected, "{context}: an iterator has a wrong value for {}", key.escape_ascii());
            }
            if expected.is_none() {
                return false;
            }
        }
        true
    }
}

/// A snapshot that is held, and what it sees.
struct HeldSnapshot {
    snapshot: Snapshot,
    model: Model,
}

impl HeldSnapshot {
    #[track_caller]
    fn look(&self, random: &mut Random, context: &str) {
        for _ in 0..4 {
            let key = key(random);
            let found = self.snapshot.get(&key).unwrap_or_else(|error| panic!("{context}: a snapshot: {error:?}"));
            assert!(
                found.as_deref() == self.model.get(&key).map(Vec::as_slice),
                "{context}: the snapshot at {} has a wrong value for {}",
                self.snapshot.sequence_number(),
                key.escape_ascii()
            );
        }
        if random.one_in(3) {
            let bounds = bounds(random);
            let mut held = HeldRange::new(self.snapshot.range(bounds.clone()).unwrap(), &self.model, &bounds);
            while held.take_some(random, 50, context) {}
        }
    }
}

/// A store at work, with what it should hold.
struct Run {
    machine: Machine,
    random: Random,
    seed: u64,
    db: Option<Db>,
    model: Model,
    snapshots: Vec<HeldSnapshot>,
    ranges: Vec<HeldRange>,
    context: String,
    /// Compactions and flushes of all openings.
    compactions: u64,
    flushes: u64,
}

impl Run {
    fn new(on: On, seed: u64) -> Run {
        let (machine, mut random) = (Machine::new(on), Random(seed));
        let db = Some(machine.open(&options(&mut random, seed)));
        Run {
            machine,
            random,
            seed,
            db,
            model: Model::new(),
            snapshots: Vec::new(),
            ranges: Vec::new(),
            context: String::new(),
            compactions: 0,
            flushes: 0,
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn change(&mut self) {
        let (key, value) = (key(&mut self.random), value(&mut self.random));
        if self.random.one_in(30) {
            return self.delete_range();
        }
        let db = self.db.as_ref().unwrap();
        match self.random.below(12) {
            0..5 => {
                db.put(&key, &value).unwrap();
                self.model.insert(key, value);
            }
            5..8 => {
                db.delete(&key).unwrap();
                self.model.remove(&key);
            }
            8 => self.batch(),
            9 | 10 => {
                let applied = db.insert_if_absent(&key, &value).unwrap();
                assert_eq!(applied, !self.model.contains_key(&key), "{}: insert_if_absent", self.context);
                self.model.entry(key).or_insert(value);
            }
            _ => {
                let applied = db.update_if_present(&key, &value).unwrap();
                assert_eq!(applied, self.model.contains_key(&key), "{}: update_if_present", self.context);
                self.model.entry(key).and_modify(|old| *old = value);
            }
        }
    }

    fn delete_range(&mut self) {
        let range = few_or_many(&mut self.random);
        self.db().delete_range(range.clone()).unwrap();
        self.model.retain(|key, _| !range.contains(key));
    }

    fn batch(&mut self) {
        let mut batch = WriteBatch::new();
        let most = if self.random.one_in(10) { 200 } else { 10 };
        for _ in 0..self.random.below(most) {
            let key = key(&mut self.random);
            if self.random.one_in(20) {
                let range = few_or_many(&mut self.random);
                batch.delete_range(range.clone()).unwrap();
                self.model.retain(|key, _| !range.contains(key));
            } else if self.random.one_in(3) {
                batch.delete(&key).unwrap();
                self.model.remove(&key);
            } else {
                let value = value(&mut self.random);
                batch.put(&key, &value).unwrap();
                self.model.insert(key, value);
            }
        }
        self.db().write(&batch).unwrap();
    }

    fn look(&mut self) {
        for _ in 0..5 {
            let key = key(&mut self.random);
            let found = self.db().get(&key).unwrap_or_else(|error| panic!("{}: get: {error:?}", self.context));
            let expected = self.model.get(&key).map(Vec::as_slice);
            assert!(found.as_deref() == expected, "{}: wrong value for {}", self.context, key.escape_ascii());
            assert_eq!(self.db().contains_key(&key).unwrap(), expected.is_some(), "{}", self.context);
        }
    }

    fn hold(&mut self) {
        let random = &mut self.random;
        let db = self.db.as_ref().unwrap();
        if random.one_in(2) && self.snapshots.len() < 6 {
            self.snapshots.push(HeldSnapshot { snapshot: db.snapshot().unwrap(), model: self.model.clone() });
        } else if self.ranges.len() < 6 {
            let bounds = bounds(random);
            let (range, model) = match self.snapshots.first() {
                Some(held) if random.one_in(2) => (held.snapshot.range(bounds.clone()).unwrap(), &held.model),
                _ => (db.range(bounds.clone()).unwrap(), &self.model),
            };
            self.ranges.push(HeldRange::new(range, model, &bounds));
        }
    }

    fn use_what_is_held(&mut self) {
        let (random, context) = (&mut self.random, &self.context);
        self.ranges.retain_mut(|held| held.take_some(random, 20, context));
        self.snapshots.iter().for_each(|held| held.look(random, context));
        if random.one_in(6) && !self.snapshots.is_empty() {
            self.snapshots.swap_remove(random.below(self.snapshots.len() as u64) as usize);
        }
        if random.one_in(6) && !self.ranges.is_empty() {
            self.ranges.swap_remove(random.below(self.ranges.len() as u64) as usize);
        }
    }

    /// Ends the present opening, in one way or another, and begins another.
    fn open_again(&mut self) {
        let options = options(&mut self.random, self.seed);
        let db = self.db.take().unwrap();
        let counted = db.stats().since_open;
        self.compactions += counted.compactions;
        self.flushes += counted.flushes;
        let (after, way) = match (&self.machine, self.random.below(3)) {
            (Machine::Memory(env), way @ (0 | 1)) => {
                // Arenas are mapped; in memory it takes a sync for that to reach the file.
                db.sync().unwrap();
                if way == 0 { (Some(env.kill()), "; killed") } else { (Some(env.crash()), "; power cut") }
            }
            _ => (None, "; closed"),
        };
        self.context += way;
        if self.random.one_in(2) {
            db.close().unwrap_or_else(|error| panic!("{}: close: {error:?}", self.context));
            // What is held is still good.
            self.use_what_is_held();
        } else {
            drop(db);
        }
        self.snapshots.clear();
        self.ranges.clear();
        if let Some(env) = after {
            self.machine = Machine::Memory(env);
            if self.random.one_in(3) {
                let db = self.machine.open(&options.clone().read_only(true));
                self.check(&db, "read-only");
            }
        }
        let db = self.machine.open(&options);
        self.check(&db, "opened again");
        self.db = Some(db);
    }

    #[track_caller]
    fn check(&self, db: &Db, what: &str) {
        let context = format!("{}: {what}", self.context);
        assert_same(&contents(db).unwrap_or_else(|error| panic!("{context}: {error:?}")), &self.model, &context);
        assert_verified(db, &context);
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..60 => self.change(),
            60..75 => self.look(),
            75..81 => self.hold(),
            81..91 => self.use_what_is_held(),
            91..94 => self.db().flush().unwrap(),
            94 | 95 => {
                let bounds = bounds(&mut self.random);
                self.db().compact_range(bounds).unwrap_or_else(|error| panic!("{}: {error:?}", self.context));
            }
            96 => assert_verified(self.db(), &self.context),
            97 => assert_same(&contents(self.db()).unwrap(), &self.model, &self.context),
            98 if self.random.one_in(2) => self.open_again(),
            _ => (0..100).for_each(|_| self.change()),
        }
    }

    fn end(mut self) {
        self.context += "; at the end";
        self.use_what_is_held();
        self.snapshots.clear();
        self.ranges.clear();
        self.check(self.db(), "with nothing held");
        self.db().compact_range::<&[u8]>(..).unwrap();
        self.check(self.db(), "compacted");
        let stats = self.db().stats();
        assert_eq!((stats.open_snapshots, stats.open_cursors, stats.replaced_records_kept), (0, 0, 0));
        self.open_again();
        // What nobody holds any more is gone, once what an opening finds to compact is done (small files, once more).
        wait_until(&format!("{}: the store's table files and no others", self.context), || {
            self.machine.table_files() == self.db().table_files().iter().filter(|file| !file.is_in_pool).count()
        });
        assert!(
            self.compactions > 10 && self.flushes > 10,
            "{} compactions, {} flushes",
            self.compactions,
            self.flushes
        );
    }
}

fn run(on: On, seed: u64) {
    let mut run = Run::new(on, seed);
    for step in 0..STEPS {
        run.context = format!("{on:?}, seed {seed}, step {step}");
        run.step();
    }
    run.end();
}

#[test]
fn everything_at_random_agrees_with_a_model() {
    let first = std::env::var("SLMDB_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    for seed in first..first + budget() {
        for on in MEDIA {
            run(on, seed);
        }
    }
}
