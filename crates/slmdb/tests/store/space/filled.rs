//! Disk and pool filled to the last byte, by every kind of write: what is too much is refused, and not applied; what was
//! accepted is flushed although nothing is free; reads and deletes go on; and the store does when there is space again.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Home, Model, On, Random, assert_same, assert_verified, contents, eager_compaction, no_compaction};
use slmdb::{CompactionOptions, Db, ErrorKind, Medium, WriteBatch};
use slmdb_env::DaxDevice;
use slmdb_testkit::MemoryEnv;

const MEMTABLE_BYTES: u64 = 32 << 10;
/// Much more than any test here fills.
const PLENTY_BYTES: u64 = 1 << 30;

/// What fills up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filling {
    DiskOnDram,
    DiskOnEmulated,
    PoolOnEmulated,
    /// On a device-dax.
    PoolOnDevice,
    PoolOnDram,
}

const FILLINGS: [Filling; 5] =
    [Filling::DiskOnDram, Filling::DiskOnEmulated, Filling::PoolOnEmulated, Filling::PoolOnDevice, Filling::PoolOnDram];

/// The device of [`Filling::PoolOnDevice`], which has more space than is given to the pool at first.
const DEVICE: &str = "/dev/dax0.0";
const DEVICE_BYTES: u64 = 64 << 20;

/// What it is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Keys of 8 bytes without values.
    Tiny,
    Small,
    /// Values of most of a MemTable.
    Large,
    LongKeys,
    Batches,
    /// Batches and values of several MemTables.
    LargerThanAnArena,
    Overwrites,
    Mixed,
}

const KINDS: [Kind; 8] = [
    Kind::Tiny,
    Kind::Small,
    Kind::Large,
    Kind::LongKeys,
    Kind::Batches,
    Kind::LargerThanAnArena,
    Kind::Overwrites,
    Kind::Mixed,
];

/// Enough for a MANIFEST, and for what an opening sets aside before it.
const MORE_BYTES: u64 = 1 << 20;

/// Whether a store that is full to the last byte takes deletes, and opens again. In LAB-DB each delete is an entry of a run file,
/// which may take more than it frees (docs/internals/lab.md).
fn always_takes_deletes() -> bool {
    crate::common::engine() == slmdb::EngineName::Slm
}

/// Where the store is.
enum Place {
    Memory(MemoryEnv),
    /// Real files, for a pool that a kill leaves as it is.
    Files(Home),
}

struct Machine {
    place: Place,
    filling: Filling,
    /// How much there is of what fills up.
    limit_bytes: u64,
    /// Whether garbage is compacted away.
    compacts: bool,
}

impl Machine {
    fn new(filling: Filling, limit_bytes: u64, compacts: bool) -> Machine {
        let place = match filling {
            Filling::PoolOnEmulated => Place::Files(Home::new(On::Emulated)),
            Filling::PoolOnDevice => {
                let env = MemoryEnv::with_real_clock();
                let device = DaxDevice { size_bytes: DEVICE_BYTES, alignment_bytes: 4096, is_persistent: true };
                env.add_dax_device(DEVICE, device);
                Place::Memory(env)
            }
            _ => Place::Memory(MemoryEnv::with_real_clock()),
        };
        let machine = Machine { place, filling, limit_bytes, compacts };
        machine.limit(limit_bytes);
        machine
    }

    fn limit(&self, bytes: u64) {
        if let (Place::Memory(env), Filling::DiskOnDram | Filling::DiskOnEmulated) = (&self.place, self.filling) {
            env.set_capacity(bytes);
        }
    }

    fn open_with_pool(&self, pool_maximum_bytes: u64) -> Db {
        self.try_open(pool_maximum_bytes).unwrap()
    }

    fn try_open(&self, pool_maximum_bytes: u64) -> slmdb::Result<Db> {
        let compaction = match self.compacts {
            true => CompactionOptions { table_file_bytes: MEMTABLE_BYTES, ..eager_compaction() },
            false => no_compaction(),
        };
        let options = crate::common::options()
            .compaction(compaction)
            .memtable_bytes(MEMTABLE_BYTES)
            .memory_budget_bytes(1 << 16)
            .pool_initial_bytes(1 << 19)
            .pool_growth_bytes(1 << 16)
            .pool_maximum_bytes(pool_maximum_bytes);
        let options = match self.filling {
            Filling::PoolOnDram => crate::common::with_index_in_pool(options),
            _ => options,
        };
        match &self.place {
            Place::Files(home) => home.on(options).open(home.store()),
            Place::Memory(env) => {
                // (What is mapped reaches the files of this environment when it is synced.)
                let options = options.env(Arc::new(env.clone())).sync(true);
                let options = match self.filling {
                    Filling::DiskOnEmulated => options.medium(Medium::Emulated { path: "/pool".into() }),
                    Filling::PoolOnDevice => options.medium(Medium::Dax { path: DEVICE.into() }),
                    _ => options,
                };
                options.open("/db")
            }
        }
    }

    fn is_on_dram(&self) -> bool {
        matches!(self.filling, Filling::DiskOnDram | Filling::PoolOnDram)
    }

    /// What there is at most for the pool.
    fn pool_bytes(&self) -> u64 {
        let is_limited = matches!(self.filling, Filling::PoolOnDram | Filling::PoolOnEmulated | Filling::PoolOnDevice);
        if is_limited { self.limit_bytes } else { PLENTY_BYTES }
    }

    fn open(&self) -> Db {
        self.open_with_pool(self.pool_bytes())
    }

    /// Opens it as full as it is. Where an engine may want space for that, it says so, and opens once it has some.
    fn open_when_full(&self) -> Db {
        match self.try_open(self.pool_bytes()) {
            Err(error) if error.kind() == ErrorKind::Full && !always_takes_deletes() => {
                self.limit(self.limit_bytes + MORE_BYTES);
                self.open()
            }
            opened => opened.unwrap(),
        }
    }

    /// The same with plenty of space.
    fn open_with_space(&self) -> Db {
        self.limit(PLENTY_BYTES);
        self.open_with_pool(PLENTY_BYTES)
    }

    /// As a kill at this moment leaves it. (A pool in the environment in memory is written back at the end only, and a pool file
    /// can't be copied while something is compacted: there the store is closed.)
    fn killed(self, db: Db) -> Machine {
        while db.stats().immutable_memtables > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let place = match &self.place {
            _ if self.filling == Filling::DiskOnEmulated || (self.compacts && !self.is_on_dram()) => {
                db.close().unwrap();
                return self;
            }
            Place::Memory(env) => {
                if let Some(memory) = env.dax_device_memory(DEVICE) {
                    crate::operations::device::at_rest(&db, &memory);
                }
                Place::Memory(env.kill())
            }
            Place::Files(home) => Place::Files(home.copy()),
        };
        let killed = Machine { place, ..self };
        killed.limit(killed.limit_bytes);
        killed
    }
}

/// One change of a write.
type Change = (Vec<u8>, Option<Vec<u8>>);

fn next_write(kind: Kind, number: u64, random: &mut Random) -> Vec<Change> {
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
    let put = |key: Vec<u8>, bytes: u64, random: &mut Random| (key, Some(random.bytes(bytes as usize)));
    match kind {
        Kind::Tiny => vec![(key(number), Some(Vec::new()))],
        Kind::Small => vec![put(key(number), 100, random)],
        Kind::Large => vec![put(key(number), MEMTABLE_BYTES * 3 / 4, random)],
        Kind::LongKeys => {
            let mut long = key(number);
            long.resize(1 + random.below(9000) as usize + 8, 7);
            vec![put(long, 10, random)]
        }
        Kind::Batches => (0..50).map(|part| put(key(number * 50 + part), random.below(60), random)).collect(),
        Kind::LargerThanAnArena if random.one_in(2) => {
            (0..3000).map(|part| put(key(number * 3000 + part), random.below(40), random)).collect()
        }
        Kind::LargerThanAnArena => vec![put(key(number), 3 * MEMTABLE_BYTES, random)],
        Kind::Overwrites => vec![put(key(random.below(40)), 500, random)],
        Kind::Mixed => {
            let kinds = [Kind::Tiny, Kind::Small, Kind::LongKeys, Kind::Batches, Kind::Overwrites];
            let write = next_write(kinds[random.below(5) as usize], number, random);
            if random.one_in(5) { write.into_iter().map(|(key, _)| (key, None)).collect() } else { write }
        }
    }
}

fn write(db: &Db, changes: &[Change]) -> slmdb::Result<()> {
    let mut batch = WriteBatch::new();
    for (key, value) in changes {
        match value {
            Some(value) => batch.put(key, value)?,
            None => batch.delete(key)?,
        }
    }
    db.write(&batch)
}

fn apply(model: &mut Model, changes: Vec<Change>) {
    for (key, value) in changes {
        match value {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
}

/// So many overwrites of the same keys are much more than there is space for, but not for what they leave.
const OVERWRITES: u64 = 6000;

/// Writes until a write is refused. (What only overwrites need not be where garbage is compacted away.)
fn fill(db: &Db, kind: Kind, model: &mut Model, random: &mut Random, context: &str) {
    for number in 0.. {
        let changes = next_write(kind, number + 1000 * model.len() as u64, random);
        match write(db, &changes) {
            Ok(()) => apply(model, changes),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{context}: {error}");
                return;
            }
        }
        if kind == Kind::Overwrites && number == OVERWRITES {
            return;
        }
        assert!(number < 1_000_000, "{context}: never full");
    }
}

fn filled_up(filling: Filling, kind: Kind, limit_bytes: u64, compacts: bool) {
    let context = format!("{filling:?} {kind:?}, {limit_bytes} bytes, compacts: {compacts}");
    let machine = Machine::new(filling, limit_bytes, compacts);
    let mut model = Model::new();
    let mut random = Random(limit_bytes);
    let db = machine.open();
    fill(&db, kind, &mut model, &mut random, &context);
    assert_same(&contents(&db).unwrap(), &model, &context);

    // Nothing that was accepted is stuck.
    db.flush().unwrap_or_else(|error| panic!("{context}: what was accepted can't be flushed: {error}"));
    assert_same(&contents(&db).unwrap(), &model, &format!("{context}, flushed"));
    assert_verified(&db, &context);

    // Each smaller kind still finds what the larger left, to the last byte.
    for kind in [Kind::Small, Kind::Tiny] {
        fill(&db, kind, &mut model, &mut random, &context);
    }
    // Deletes are the way out: a few are always taken, and flushed.
    let doomed: Vec<Vec<u8>> = model.keys().take(5).cloned().collect();
    for key in doomed.iter().filter(|key| key.len() <= 32) {
        match db.delete(key) {
            Ok(()) => drop(model.remove(key)),
            Err(error) if error.kind() == ErrorKind::Full && !always_takes_deletes() => break,
            Err(error) => panic!("{context}: a delete was refused: {error}"),
        }
    }
    db.flush().unwrap_or_else(|error| panic!("{context}: deletes can't be flushed: {error}"));
    assert_same(&contents(&db).unwrap(), &model, &format!("{context}, after deletes"));
    fill(&db, kind, &mut model, &mut random, &context);

    // Killed and opened again, as full as it was; then closed in order.
    let killed = machine.killed(db);
    let db = killed.open_when_full();
    assert_same(&contents(&db).unwrap(), &model, &format!("{context}, killed"));
    db.flush().unwrap_or_else(|error| panic!("{context}: what was recovered can't be flushed: {error}"));
    assert_same(&contents(&db).unwrap(), &model, &format!("{context}, killed and flushed"));
    db.close().unwrap();

    let db = killed.open_with_space();
    assert_same(&contents(&db).unwrap(), &model, &format!("{context}, with space"));
    for number in 0..200_u64 {
        let changes = next_write(Kind::Small, 1 << 40 | number, &mut random);
        write(&db, &changes).unwrap();
        apply(&mut model, changes);
    }
    db.flush().unwrap();
    assert_same(&contents(&db).unwrap(), &model, &format!("{context}, written to again"));
    assert_verified(&db, &context);
}

fn every_kind(filling: Filling) {
    assert!(FILLINGS.contains(&filling));
    for kind in KINDS {
        let first_bytes = 1_500_000;
        // Without compactions, so that overwrites fill it, too; and with them. (Of other engines than the first with them alone.)
        for round in 2 - crate::common::share(2)..2 * crate::common::budget() {
            filled_up(filling, kind, first_bytes + 40_961 * round, round % 2 == 1);
        }
    }
}

#[test]
fn a_disk_filled_to_the_last_byte_on_dram() {
    every_kind(Filling::DiskOnDram);
}

#[test]
fn a_disk_filled_to_the_last_byte_on_emulated() {
    every_kind(Filling::DiskOnEmulated);
}

/// (A delete that needed 309 bytes was refused although 2990 were kept back for deletes: it was to get 4 KiB more, or nothing.)
#[test]
fn a_delete_gets_what_is_kept_back_although_that_is_little() {
    for round in 0..8 * crate::common::budget() {
        filled_up(Filling::DiskOnDram, Kind::LongKeys, 700_000 + 4096 * (round / 4), false);
    }
}

/// Of SLM-DB, whose pool has all keys. Where level 0 goes on to the disk, that is full first.
mod slm {
    use super::*;

    #[test]
    fn a_pool_filled_to_the_last_byte_on_emulated() {
        every_kind(Filling::PoolOnEmulated);
    }

    #[test]
    fn a_pool_filled_to_the_last_byte_on_a_device() {
        every_kind(Filling::PoolOnDevice);
    }

    #[test]
    fn a_pool_filled_to_the_last_byte_on_dram() {
        every_kind(Filling::PoolOnDram);
    }

    /// Their key records take space like those of puts. In a batch, since what comes one by one is flushed before it is too much. And of the
    /// longest keys that make no long fences: where nodes would need more, that is more than enough for the records of deletes.
    #[test]
    fn the_largest_batch_of_deletes_that_a_pool_takes_is_flushed() {
        let home = Home::new(On::Dram);
        let options =
            home.options().pool_initial_bytes(1 << 20).pool_maximum_bytes(32 << 20).compaction(no_compaction());
        let options = crate::common::with_index_in_pool(options);
        let db = options.open(home.store()).unwrap();
        let (mut count, mut refused) = (800_000, 0);
        loop {
            let mut batch = WriteBatch::new();
            (0..count).for_each(|number: u64| batch.delete([&number.to_be_bytes()[..], &[7; 24]].concat()).unwrap());
            match db.write(&batch) {
                Ok(()) => break,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Full, "{count} deletes: {error}"),
            }
            refused += 1;
            count -= count / 20;
        }
        assert!(refused > 0 && count > 50_000, "{count} after {refused} refusals");
        db.flush().unwrap_or_else(|error| panic!("{count} deletes can't be flushed: {error}"));
        assert_eq!(db.table_files().iter().map(|file| file.deletes).sum::<u64>(), count);
        assert_verified(&db, "flushed");
        db.close().unwrap();
    }
}

/// Deletes had taken what the MANIFEST needs that an opening writes. (With long keys it is longer than a table file.)
#[test]
fn a_full_disk_never_keeps_a_killed_store_closed() {
    for (kind, compacts) in KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let machine = Machine::new(Filling::DiskOnDram, 1_500_000, compacts);
        let Place::Memory(env) = &machine.place else { unreachable!("a disk in memory") };
        let mut random = Random(1);
        let db = machine.open();
        fill(&db, kind, &mut Model::new(), &mut random, "filled");
        let mut refused = 0;
        for number in 0..400 * crate::common::budget() {
            // Of keys that are not there, so they free nothing.
            let deleted = db.delete(&next_write(kind, 1 << 40 | number, &mut random)[0].0);
            refused += u64::from(deleted.is_err());
            if number % 40 == 0 || (deleted.is_err() && refused < 10) {
                let killed = Machine { place: Place::Memory(env.kill()), ..machine };
                killed.limit(killed.limit_bytes);
                if let Err(error) = killed.try_open(PLENTY_BYTES)
                    && always_takes_deletes()
                {
                    panic!("{kind:?}, compacts: {compacts}, after {number} deletes, {refused} refused: {error}");
                }
            }
            if number % 80 == 0 {
                assert!(db.flush().is_ok() || !always_takes_deletes(), "{kind:?}: deletes can't be flushed");
            }
            if refused > 100 {
                break;
            }
        }
    }
}
