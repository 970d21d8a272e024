//! What the tests of the interface share: temporary stores on every medium, seeded randomness, a model.
#![allow(dead_code)] // every test file uses its own part of it

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use slmdb::{CompactionOptions, CompactionPolicy, Db, EngineName, Medium, Options, Shared, SharedOptions, WriteBatch};
use tempfile::TempDir;

/// What a store should hold.
pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Compaction of tiny files, nearly as often as there is anything to gain.
pub fn eager_compaction() -> CompactionOptions {
    CompactionOptions {
        table_file_bytes: 4 << 10,
        files_merged_max: 4,
        space_amplification_max: 1.1,
        live_key_threshold: 0.9,
        ..Default::default()
    }
}

/// No compaction unless it is asked for: for tests that count files, or look at what is being written.
pub fn no_compaction() -> CompactionOptions {
    CompactionOptions { policy: CompactionPolicy::Manual, ..Default::default() }
}

/// The engines that every test runs on: all that this build has.
///
/// A test program is about one of them, and runs itself again for each other one ([`every_other_engine_passes`]).
pub fn engines() -> Vec<EngineName> {
    slmdb::engines::names().collect()
}

/// Names another engine than the first to a test program.
const ENGINE: &str = "SLMDB_TEST_ENGINE";

/// With this in the environment all stores of a test program share. (`docs/testing.md`)
const SHARED: &str = "SLMDB_TEST_SHARED";

/// Whether all stores of this program share.
pub fn shares() -> bool {
    std::env::var_os(SHARED).is_some()
}

fn shared() -> &'static Arc<Shared> {
    static OF_ALL: OnceLock<Arc<Shared>> = OnceLock::new();
    OF_ALL.get_or_init(|| Shared::new(SharedOptions::default()).unwrap())
}

/// The engine that this run is about.
pub fn engine() -> EngineName {
    std::env::var(ENGINE).map_or(engines()[0], |name| name.parse().unwrap())
}

/// Options with that engine: whoever makes a store begins with these. (A machine in memory copies a pool with each crash: it is not
/// to grow by much.)
pub fn options() -> Options {
    let options = Options::default().engine(engine()).pool_growth_bytes(1 << 20);
    let options = if shares() { options.shared(shared()) } else { options };
    #[cfg(feature = "lab")]
    let options = options.advanced(|advanced| advanced.lab(small_levels()));
    #[cfg(feature = "tlsm")]
    let options = match engine() {
        EngineName::Tlsm => options.advanced(|advanced| advanced.tlsm(small_lists())),
        _ => options,
    };
    #[cfg(feature = "chameleon")]
    let options = match engine() {
        EngineName::Chameleon => options.advanced(|advanced| advanced.chameleon(small_bypasses())),
        _ => options,
    };
    options
}

/// So small that a few dozen keys leave LAB-DB's level 0, and a few hundred entries go through several levels. Where only
/// what is asked for is compacted, level 0 keeps some thousand keys.
#[cfg(feature = "lab")]
fn small_levels() -> slmdb::LabOptions {
    slmdb::LabOptions {
        level_zero_bytes: 256 << 10,
        level_zero_compaction_at: 1.0 / 128.0,
        leaf_scan_part: 0.8,
        level_base_bytes: 32 << 10,
        level_growth: 4,
    }
}

/// So small that a few hundred entries go through several levels, and some of them leave the pool.
#[cfg(feature = "tlsm")]
fn small_lists() -> slmdb::TlsmOptions {
    slmdb::TlsmOptions {
        fast_tier_bytes: 1 << 20,
        segment_bytes: 64 << 10,
        level_base_bytes: 32 << 10,
        level_growth: 4,
        level_zero_runs: 2,
        ..slmdb::TlsmOptions::default()
    }
}

/// So small that a few dozen keys fill a bypass.
#[cfg(feature = "chameleon")]
fn small_bypasses() -> slmdb::ChameleonOptions {
    slmdb::ChameleonOptions {
        bypass_bytes: Some(1),
        dumped_tables_max: 2,
        dumped_above: 1,
        job_bytes: 16 << 10,
        ..slmdb::ChameleonOptions::default()
    }
}

/// The same options, where the first few hundred keys stay in LAB-DB's level 0.
pub fn with_a_larger_level_zero(options: Options) -> Options {
    #[cfg(feature = "lab")]
    let options = match engine() {
        EngineName::Lab => options.advanced(|advanced| {
            advanced.lab(slmdb::LabOptions { level_zero_compaction_at: 1.0 / 8.0, ..small_levels() })
        }),
        _ => options,
    };
    options
}

/// The same options, where SLM-DB's index is in the pool on `Dram`, too, which then can be full.
pub fn with_index_in_pool(options: Options) -> Options {
    options.advanced(|advanced| advanced.dram_index(slmdb::DramIndex::FastFair))
}

/// Whether this run is about TLSM.
pub fn is_tlsm() -> bool {
    engine() == EngineName::Tlsm
}

/// Whether a store on `Dram` has nothing in a pool but what counts as memory anyway.
pub fn needs_no_pool_on_dram() -> bool {
    engine() != EngineName::Lab
}

/// Whether what snapshots see lies in the same files and lists as the rest, so that nothing is kept beside.
pub fn keeps_versions_in_place() -> bool {
    matches!(engine(), EngineName::Tlsm | EngineName::Chameleon)
}

/// The media on which flushes make table files. With a pool those of TLSM make lists there, and its own tests damage these.
pub fn media_with_files() -> Vec<On> {
    MEDIA.into_iter().filter(|on| flushes_to_files(*on)).collect()
}

/// Whether flushes on this medium make table files.
pub fn flushes_to_files(on: On) -> bool {
    !is_tlsm() || on == On::Dram
}

/// Runs this test program again for each engine but the first. What is in a folder with another engine's name is left out.
pub fn every_other_engine_passes() {
    // (What is run again does not do so again.)
    if std::env::var_os(ENGINE).is_some() {
        return;
    }
    let folder = |engine: &EngineName| format!("{engine}::");
    for engine in &engines()[1..] {
        let engines = engines();
        let others = engines.iter().filter(|other| *other != engine).flat_map(|other| ["--skip".into(), folder(other)]);
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        let status = program.args(others).env(ENGINE, engine.as_str()).status().unwrap();
        assert!(status.success(), "with the engine {engine}: {status}");
    }
}

/// The media that every test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    Dram,
    Emulated,
    Dax,
    /// On a real device-dax, of which there is one: a test has it for itself.
    DaxDevice,
}

/// Those that there are here: [`On::Dax`] where `SLMDB_TEST_DAX` names a directory on a DAX file system, as
/// `scripts/dax-machine test` does.
pub struct Media;

pub const MEDIA: Media = Media;

impl IntoIterator for Media {
    type Item = On;
    type IntoIter = std::vec::IntoIter<On>;

    fn into_iter(self) -> Self::IntoIter {
        let mut media = vec![On::Dram, On::Emulated];
        media.extend(dax_directory().map(|_| On::Dax));
        media.into_iter()
    }
}

/// Where pools are on real persistent memory.
pub fn dax_directory() -> Option<PathBuf> {
    std::env::var_os("SLMDB_TEST_DAX").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// A real device-dax, where `SLMDB_TEST_DAX_DEVICE` names one that holds nothing.
pub fn dax_device() -> Option<PathBuf> {
    std::env::var_os("SLMDB_TEST_DAX_DEVICE").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// A real device-dax that a test has its store's pool on; free for others again when this is dropped.
pub struct DeviceOfTests {
    device: PathBuf,
    store: PathBuf,
}

impl DeviceOfTests {
    pub fn new(device: &Path, store: &Path) -> DeviceOfTests {
        DeviceOfTests { device: device.to_path_buf(), store: store.to_path_buf() }
    }
}

impl Drop for DeviceOfTests {
    fn drop(&mut self) {
        let env = slmdb_env::OsEnv::new();
        if let Ok(manifest) = slmdb_manifest::Manifest::read(&env, &self.store) {
            let freed = slmdb_pmem::pool::remove_pool(&env, &self.device, manifest.state.uuid);
            assert!(freed.is_ok() || std::thread::panicking(), "{freed:?}");
        }
    }
}

impl On {
    /// The medium with a pool; `Dram` has none.
    pub fn medium(self, pool: Option<PathBuf>) -> Medium {
        match (self, pool) {
            (On::Dram, None) => Medium::Dram,
            (On::Emulated, Some(path)) => Medium::Emulated { path },
            (On::Dax | On::DaxDevice, Some(path)) => Medium::Dax { path },
            (on, pool) => panic!("{on:?} with the pool {pool:?}"),
        }
    }
}

/// A directory for a store and one for its pool; both go when this is dropped, after failures too.
pub struct Home {
    pub on: On,
    device: Option<DeviceOfTests>,
    directory: TempDir,
    pool: Option<TempDir>,
}

/// Free space that a test wants to see in the temporary directory, in bytes.
const SPACE_BYTES: u64 = 512 << 20;

/// Free space that a test's pool wants to see in `/dev/shm`, in bytes; with less it goes to the temporary directory.
const POOL_SPACE_BYTES: u64 = 1 << 30;

impl Home {
    pub fn new(on: On) -> Home {
        let env = slmdb_env::OsEnv::new();
        let free_bytes = slmdb_env::Env::available_bytes(&env, &std::env::temp_dir()).unwrap();
        assert!(free_bytes >= SPACE_BYTES, "{} needs {SPACE_BYTES} bytes free", std::env::temp_dir().display());
        let directory = tempfile::Builder::new().prefix("slmdb-test-").tempdir().unwrap();
        let builder = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix("slmdb-test-");
            builder
        };
        let pool = match on {
            On::Dram | On::DaxDevice => None,
            On::Emulated => {
                let shm = Path::new("/dev/shm");
                let roomy =
                    slmdb_env::Env::available_bytes(&env, shm).is_ok_and(|free_bytes| free_bytes >= POOL_SPACE_BYTES);
                let shared = roomy.then(|| builder().tempdir_in(shm).ok()).flatten();
                Some(shared.unwrap_or_else(|| builder().tempdir().unwrap()))
            }
            On::Dax => Some(builder().tempdir_in(dax_directory().unwrap()).unwrap()),
        };
        let device =
            (on == On::DaxDevice).then(|| DeviceOfTests::new(&dax_device().unwrap(), &directory.path().join("db")));
        Home { on, device, directory, pool }
    }

    pub fn store(&self) -> PathBuf {
        self.directory.path().join("db")
    }

    pub fn pool(&self) -> Option<PathBuf> {
        let device = self.device.as_ref().map(|device| device.device.clone());
        device.or_else(|| self.pool.as_ref().map(|directory| directory.path().join("pool")))
    }

    /// Options for this home, with everything made small so that little data walks every path.
    pub fn options(&self) -> Options {
        let options = options()
            .memtable_bytes(64 << 10)
            .pool_initial_bytes(4 << 20)
            .pool_growth_bytes(1 << 20)
            .pool_maximum_bytes(4 << 30)
            .memory_budget_bytes(1 << 20);
        self.on(options)
    }

    /// The same options on this home's medium.
    pub fn on(&self, options: Options) -> Options {
        options.medium(self.on.medium(self.pool()))
    }

    pub fn open(&self) -> Db {
        self.options().open(self.store()).unwrap()
    }

    /// A copy of the closed store, with a pool of its own.
    pub fn copy(&self) -> Home {
        let copy = Home::new(self.on);
        std::fs::create_dir(copy.store()).unwrap();
        for entry in std::fs::read_dir(self.store()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.store().join(entry.file_name())).unwrap();
        }
        if let (Some(from), Some(to)) = (self.pool(), copy.pool()) {
            std::fs::copy(from, to).unwrap();
        }
        copy
    }
}

/// A small generator with a seed (SplitMix64): the same numbers on every machine.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// How much longer than by default random tests run: `SLMDB_TEST_BUDGET`.
pub fn budget() -> u64 {
    std::env::var("SLMDB_TEST_BUDGET").ok().and_then(|text| text.parse().ok()).unwrap_or(1).max(1)
}

/// All of these on the first engine, a third on others, which have the same store above them.
pub fn share(on_first: u64) -> u64 {
    if engine() == engines()[0] { on_first } else { on_first.div_ceil(3) }
}

/// How many rounds of chance alone a random test makes: its share, and more with `SLMDB_TEST_BUDGET`.
pub fn rounds(on_first: u64) -> u64 {
    budget() * share(on_first)
}

/// Everything in the store, by a forward scan; compared with a backward one.
pub fn contents(db: &Db) -> slmdb::Result<Model> {
    let mut forward = Model::new();
    let mut last: Option<Vec<u8>> = None;
    for entry in db.iter()? {
        let (key, value) = entry?;
        assert!(last.as_deref() < Some(&key), "keys out of order: {:?} then {:?}", last, &key[..]);
        last = Some(key.to_vec());
        forward.insert(key.to_vec(), value.to_vec());
    }
    let mut backward = Model::new();
    for entry in db.iter()?.rev() {
        let (key, value) = entry?;
        assert!(backward.insert(key.to_vec(), value.to_vec()).is_none(), "a key twice");
    }
    assert_eq!(forward.len(), backward.len(), "forwards and backwards differ");
    assert!(forward == backward, "forwards and backwards differ");
    Ok(forward)
}

/// Compares without printing whole stores.
#[track_caller]
pub fn assert_same(found: &Model, expected: &Model, context: &str) {
    for (key, value) in expected {
        match found.get(key) {
            None => panic!("{context}: key {} is missing", key.escape_ascii()),
            Some(other) if other != value => panic!("{context}: key {} has a wrong value", key.escape_ascii()),
            Some(_) => {}
        }
    }
    for key in found.keys() {
        assert!(expected.contains_key(key), "{context}: key {} should not be there", key.escape_ascii());
    }
}

/// `verify` finds nothing.
#[track_caller]
pub fn assert_verified(db: &Db, context: &str) {
    let report = db.verify(&mut |_| ()).unwrap();
    assert!(report.is_clean(), "{context}: {:#?}", report.findings);
}

/// Puts a value of fewer than `value_bytes` bytes at random, or, once in `chances` times, deletes.
pub fn put_or_delete(db: &Db, model: &mut Model, random: &mut Random, key: Vec<u8>, value_bytes: u64, chances: u64) {
    if random.one_in(chances) {
        db.delete(&key).unwrap();
        model.remove(&key);
    } else {
        let length = random.below(value_bytes) as usize;
        let value = random.bytes(length);
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    }
}

/// Makes a key, or a value, at random.
pub type Make = fn(&mut Random) -> Vec<u8>;

/// Writes a batch of so many puts and deletes, of keys and values made like this.
pub fn write_batch(db: &Db, model: &mut Model, random: &mut Random, count: u64, (key, value): (Make, Make)) {
    let mut batch = WriteBatch::new();
    for _ in 0..count {
        let key = key(random);
        if random.one_in(3) {
            batch.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let value = value(random);
            batch.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
    db.write(&batch).unwrap();
}

/// Waits until something has become so, a minute at most.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never came to pass: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Does it until it succeeds, a minute at most: what has just begun may still be told of a lack that has passed meanwhile. Nothing else
/// may be wrong.
#[track_caller]
pub fn once_the_lack_has_passed<T>(mut attempt: impl FnMut() -> slmdb::Result<T>) -> T {
    let mut done = None;
    wait_until("a lack has passed", || match attempt() {
        Ok(value) => {
            done = Some(value);
            true
        }
        Err(error) => {
            assert!(error.is_passing_lack(), "{error:?}");
            false
        }
    });
    done.unwrap()
}

/// If nothing moves for so long, it never will.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// Sets what others look at when it goes, after a panic too: else they would not end, and nobody would learn of it.
pub struct SetAtEnd<'a>(pub &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Ends the process, and says why. (What a test prints is kept back until it ends, and this one does not.)
pub fn abort_with(why: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "{why}");
    std::process::abort();
}

/// Ends the process when nothing has moved for too long: threads that wait for ever can't be ended otherwise.
pub fn watched<T>(context: &str, moves: &AtomicU64, run: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = (moves.load(Ordering::Relaxed), Instant::now());
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                let now = moves.load(Ordering::Relaxed);
                if now != last.0 {
                    last = (now, Instant::now());
                } else if last.1.elapsed() > STUCK_AFTER {
                    abort_with(&format!("{context}: nothing has moved for {STUCK_AFTER:?}"));
                }
            }
        });
        let _done = SetAtEnd(&done);
        run()
    })
}
