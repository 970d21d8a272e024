//! A workload that does a little of everything, stops at nothing, and says what it was told.

use std::collections::BTreeMap;
use std::sync::Arc;

use slmdb::{CompactionOptions, Db, Error, ErrorKind, Medium, Options, WriteBatch};
use slmdb_env::DaxDevice;
use slmdb_testkit::{Failure, MemoryEnv};

use crate::common::{
    Model, Random, assert_verified, contents, eager_compaction, no_compaction, once_the_lack_has_passed,
};
use crate::history::{Change, History};

pub const STORE: &str = "/db";
const DEVICE: &str = "/dev/dax0.0";
const DEVICE_BYTES: u64 = 4 << 20;

/// Openings, and things done in each.
const ROUNDS: u64 = 2;
const STEPS: u64 = 36;
const KEYS: u64 = 24;

/// What kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    Dram,
    /// With a pool on a device-dax, which a kill and a power cut leave as it is.
    Device,
    /// With a pool in a file, which reaches the disk of the machine in memory when the store is closed, and only then.
    File,
}

/// The least by which a pool grows.
pub const POOL_UNIT_BYTES: u64 = 1 << 16;

impl Store {
    pub fn machine(self) -> MemoryEnv {
        let env = MemoryEnv::new();
        if self == Store::Device {
            let device = DaxDevice { size_bytes: DEVICE_BYTES, alignment_bytes: 4096, is_persistent: true };
            env.add_dax_device(DEVICE, device);
        }
        env
    }

    /// Everything made small, so that little data walks every path.
    pub fn options(self, env: &MemoryEnv) -> Options {
        let options = crate::common::options()
            .env(Arc::new(env.clone()))
            .memtable_bytes(4 << 10)
            .compaction(CompactionOptions { table_file_bytes: 1 << 10, ..eager_compaction() })
            .advanced(|advanced| advanced.checkpoint_entries(64))
            .memory_budget_bytes(1 << 16)
            .advanced(|advanced| advanced.node_bytes(256))
            .pool_initial_bytes(1 << 20)
            .pool_growth_bytes(1 << 16)
            .pool_maximum_bytes(DEVICE_BYTES);
        match self {
            Store::Dram => options,
            Store::Device => options.medium(Medium::Dax { path: DEVICE.into() }),
            Store::File => {
                options.medium(Medium::Emulated { path: "/pool".into() }).pool_initial_bytes(POOL_UNIT_BYTES)
            }
        }
    }
}

/// What came of a workload.
#[derive(Default)]
pub struct Outcome {
    pub history: History,
    /// Copies of the store that were made: the directory, and how many writes are in it.
    pub copies: Vec<(String, usize)>,
    /// How many times something was refused for want of space.
    pub refused_full: u64,
}

/// A store in use.
struct User<'a> {
    db: &'a Db,
    failure: Option<Failure>,
    sync: bool,
    outcome: &'a mut Outcome,
    /// Since the store said that it takes no more writes in this opening.
    is_read_only: bool,
}

/// Whether such an error may come of such a failure (or of a full pool, if nothing else fails).
fn assert_expected(error: &Error, failure: Option<Failure>) {
    let is_expected = match error.kind() {
        ErrorKind::Full => matches!(failure, None | Some(Failure::Full)),
        ErrorKind::Io => failure.is_some(),
        // What was lacking for a moment stops nothing for good.
        ErrorKind::ReadOnly => !matches!(failure, None | Some(Failure::NoDescriptor)),
        // So is a pool that could take no write.
        ErrorKind::Invalid => failure.is_none() && error.to_string().contains("pool_maximum_bytes"),
        ErrorKind::Corruption => matches!(failure, Some(Failure::FlippedBit { .. })),
        _ => false,
    };
    assert!(is_expected, "{error:?}");
}

impl User<'_> {
    /// Notes what became of a write. `Ok(false)`: its condition was not met.
    fn note(&mut self, changes: Vec<Change>, written: slmdb::Result<bool>) {
        match written {
            Ok(true) => {
                assert!(!self.is_read_only, "a write was taken by a store that is read-only");
                self.outcome.history.acknowledged(changes, self.sync);
            }
            Ok(false) => {}
            Err(error) => {
                assert_expected(&error, self.failure);
                match error.kind() {
                    // Nothing of it was applied.
                    ErrorKind::Full => self.outcome.refused_full += 1,
                    ErrorKind::ReadOnly if self.is_read_only => {}
                    kind => {
                        self.is_read_only |= kind == ErrorKind::ReadOnly;
                        self.outcome.history.unsure(changes);
                    }
                }
            }
        }
    }

    fn attempt<T>(&mut self, done: slmdb::Result<T>) -> bool {
        match done {
            Ok(_) => true,
            Err(error) => {
                assert_expected(&error, self.failure);
                false
            }
        }
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        let written = self.db.put(&key, &value).map(|()| true);
        self.note(vec![(key, Some(value))], written);
    }

    fn insert_or_update(&mut self, key: Vec<u8>, value: Vec<u8>, insert: bool) {
        let written =
            if insert { self.db.insert_if_absent(&key, &value) } else { self.db.update_if_present(&key, &value) };
        if let Ok(applied) = written {
            let possible = self.outcome.history.possible(self.outcome.history.len());
            let values = possible.get(&key[..]).cloned().unwrap_or(vec![None]);
            let was_present = insert != applied;
            assert!(values.iter().any(|value| value.is_some() == was_present), "a condition was misjudged");
        }
        self.note(vec![(key, Some(value))], written);
    }

    fn write_batch(&mut self, changes: Vec<Change>) {
        // Of several changes to one key the last counts.
        let changes: Vec<Change> = BTreeMap::from_iter(changes).into_iter().collect();
        let mut batch = WriteBatch::new();
        for (key, value) in &changes {
            match value {
                Some(value) => batch.put(key, value).unwrap(),
                None => batch.delete(key).unwrap(),
            }
        }
        let written = self.db.write(&batch).map(|()| true);
        self.note(changes, written);
    }

    /// What is read is right, or an error.
    fn read(&mut self, key: &[u8]) {
        let read = self.db.get(key);
        if let Ok(value) = &read {
            let possible = self.outcome.history.possible(self.outcome.history.len());
            let is_possible = possible.get(key).map_or(value.is_none(), |values| values.contains(&value.as_deref()));
            assert!(is_possible, "key {} was read with a wrong value", key.escape_ascii());
        }
        self.attempt(read);
    }

    fn read_all(&mut self) {
        let found = contents(self.db);
        if let Ok(found) = &found {
            self.outcome.history.explains(found, self.outcome.history.len()).unwrap();
        }
        self.attempt(found);
    }
}

/// Writes, reads, flushes, compacts, copies, reopens. `None`: no failure is armed, but the pool may be full. After a lack that has
/// passed the store takes writes again without being opened again.
pub fn run(store: Store, options: &Options, env: &MemoryEnv, failure: Option<Failure>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut random = Random(7);
    let mut value = 0_u64;
    for round in 0..ROUNDS {
        // Where a power cut takes nothing, nobody asks for syncs.
        let sync = round != 0;
        let db = match options.clone().sync(sync).open(STORE) {
            Ok(db) => db,
            Err(error) => {
                assert_expected(&error, failure);
                continue;
            }
        };
        let sync = sync || store == Store::Device;
        let mut user = User { db: &db, failure, sync, outcome: &mut outcome, is_read_only: false };
        for step in 0..STEPS {
            let mut key = || format!("key{:02}", random.below(KEYS)).into_bytes();
            // No two are alike.
            let mut next = || {
                value += 1;
                [value.to_be_bytes().as_slice(), &[7; 90]].concat()
            };
            match step % 12 {
                0 | 2 | 3 | 6 | 8 | 10 => user.put(key(), next()),
                4 | 9 => {
                    let key = key();
                    let written = user.db.delete(&key).map(|()| true);
                    user.note(vec![(key, None)], written);
                }
                1 => user.write_batch(vec![(key(), Some(next())), (key(), None), (key(), Some(next()))]),
                5 => user.insert_or_update(key(), next(), true),
                7 => user.insert_or_update(key(), next(), false),
                _ => user.read(&key()),
            }
            let synced = match step {
                8 => user.db.sync(),
                17 => user.db.flush(),
                26 => user.db.compact_range::<&[u8]>(..),
                30 => {
                    let directory = format!("/copy{round}");
                    let copied = user.db.checkpoint(&directory);
                    if copied.is_ok() {
                        user.outcome.copies.push((directory, user.outcome.history.len()));
                    }
                    copied
                }
                _ => continue,
            };
            if user.attempt(synced) {
                user.outcome.history.all_durable();
            }
            user.read_all();
        }
        if failure == Some(Failure::NoDescriptor) && env.failures_struck() > 0 {
            env.clear_failures();
            once_the_lack_has_passed(|| db.put("key00", value.to_be_bytes()));
            outcome.history.acknowledged(vec![(b"key00".to_vec(), Some(value.to_be_bytes().to_vec()))], sync);
            once_the_lack_has_passed(|| db.flush());
            outcome.history.all_durable();
            outcome.history.explains(&contents(&db).unwrap(), outcome.history.len()).unwrap();
            assert_verified(&db, "after a lack");
        }
        let closed = db.close();
        match closed {
            Ok(()) => outcome.history.all_durable(),
            Err(error) => assert_expected(&error, failure),
        }
    }
    outcome
}

/// A store that was killed, with table files and much in its MemTables; all of it durable. What it holds is in the outcome.
pub fn left_by_a_kill(store: Store) -> (MemoryEnv, Outcome) {
    let (env, mut outcome) = (store.machine(), Outcome::default());
    // (Nobody may write to the device while it is copied.)
    let options = store.options(&env).compaction(no_compaction()).sync(true);
    let db = options.open(STORE).unwrap();
    let mut user = User { db: &db, failure: None, sync: true, outcome: &mut outcome, is_read_only: false };
    for number in 0..50 {
        user.put(format!("key{:02}", number % 30).into_bytes(), vec![number; 100]);
        if number % 12 == 11 && number < 36 {
            db.flush().unwrap();
        }
    }
    db.delete("key07").unwrap();
    user.outcome.history.acknowledged(vec![(b"key07".to_vec(), None)], true);
    (env.kill(), outcome)
}

/// Opens a store while something fails, reads it, and is killed, or loses power, at once. (One on a device is closed before.)
pub fn recover(env: &MemoryEnv, store: Store, failure: Failure, outcome: &Outcome) -> [(MemoryEnv, End); 2] {
    let opened = store.options(env).compaction(no_compaction()).open(STORE);
    let found = opened.as_ref().map_err(Error::clone).and_then(contents);
    match found {
        Ok(found) => outcome.history.explains(&found, outcome.history.len()).unwrap(),
        Err(error) => assert_expected(&error, Some(failure)),
    }
    let _open = opened.map(|db| (store == Store::Dram).then_some(db));
    [(env.crash(), End::PowerCut), (env.kill(), End::Kill)]
}

/// How a workload ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Kill,
    PowerCut,
}

/// Opens what is left, looks whether all is there, and uses it.
pub fn check(machine: &MemoryEnv, options: &Options, outcome: &Outcome, end: End, context: &str) {
    let open = |directory: &str| {
        let opened = options.clone().env(Arc::new(machine.clone())).sync(true).open(directory);
        opened.unwrap_or_else(|error| panic!("{context}: {directory} does not open: {error:?}"))
    };
    let explained = |found: &Model, what: &str| {
        let history = &outcome.history;
        let explained = match end {
            End::Kill => history.explains(found, history.len()),
            End::PowerCut => history.explains_after_power_cut(found),
        };
        explained.unwrap_or_else(|wrong| panic!("{context}, {what}: {wrong}"));
    };
    let db = open(STORE);
    let mut found = contents(&db).unwrap();
    explained(&found, "opened");
    assert_verified(&db, context);
    db.put("afterwards", "it works").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    if end == End::Kill {
        return;
    }
    // What a power cut leaves a kill leaves, too.
    found.insert(b"afterwards".to_vec(), b"it works".to_vec());
    let db = open(STORE);
    assert!(contents(&db).unwrap() == found, "{context}: reopened, it holds something else");
    drop(db);
    if let Some((directory, length)) = outcome.copies.last() {
        let options = Store::Dram.options(machine);
        let copy = options.open(directory).unwrap_or_else(|error| panic!("{context}: {directory}: {error:?}"));
        let found = contents(&copy).unwrap();
        let explained = outcome.history.explains(&found, *length);
        explained.unwrap_or_else(|wrong| panic!("{context}, {directory}: {wrong}"));
        assert_verified(&copy, context);
    }
}
