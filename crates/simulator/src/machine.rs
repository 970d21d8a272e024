//! A machine whose crashes can be made: files in memory, a device of persistent memory, and one record of what happened to both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use slmdb_engine::{
    CompactionOptions, CompactionPolicy, Destroyed, Engine, EngineName, LinkPolicy, Medium, Options, RepairReport,
    Result,
};
use slmdb_env::{DaxDevice, Env, OpenMode};
use slmdb_pmem::UNIT_BYTES;
use slmdb_pmem::{AnyMedium, medium::CACHE_LINE_BYTES};
use slmdb_testkit::{
    DeviceMemory, FileEvent, MemoryEnv, Recording, Simulated, Step,
    medium::{Replay, Stop},
};

use crate::Random;
use crate::call_paths::CallPaths;
use crate::engines;
use crate::files::{Files, FilesImage};

/// Where the store is on every machine.
pub const STORE: &str = "/db";
const DEVICE: &str = "/dev/dax";
/// Where pools in files are, and their directory.
pub const POOL: &str = "/pools/pool";
const POOLS: &str = "/pools";
const DEVICE_BYTES: u64 = 2 << 20;

const LINE_BYTES: usize = CACHE_LINE_BYTES as usize;
const PAGE_BYTES: usize = 4096;
static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// What kind of store is crashed: where its fast tier is, and how it is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// The engine.
    pub engine: EngineName,
    /// Persistent memory; else memory, with MemTables in mapped files.
    pub has_pool: bool,
    /// The pool is a file, which grows; else a device.
    pub in_file: bool,
    /// Links of MemTables persisted, as in the paper.
    pub persists_links: bool,
    /// The paper's way to choose files for compaction.
    pub is_paper: bool,
    /// Two compactions at once.
    pub compacts_twice: bool,
    /// The device holds anything at first, where a new pool does not ask for zeros.
    pub is_dirty: bool,
}

impl Setup {
    /// A setup by chance.
    pub fn of_seed(engine: EngineName, seed: u64, has_pool: bool) -> Setup {
        let mut random = Random(seed ^ 0x5e70);
        Setup {
            engine,
            has_pool,
            // (The device has too little for TLSM's lists.)
            in_file: has_pool && (engine == EngineName::Tlsm || Random(seed ^ 0xf11e).one_in(3)),
            persists_links: has_pool && random.one_in(2),
            is_paper: random.one_in(3),
            compacts_twice: random.one_in(3),
            is_dirty: has_pool && random.one_in(3),
        }
    }

    /// Everything made small, so that little data walks every path.
    pub fn options(self, env: &MemoryEnv) -> Options {
        let policy = if self.is_paper { CompactionPolicy::Paper } else { CompactionPolicy::GarbageFirst };
        Options {
            env: Arc::new(env.clone()),
            engine: Some(self.engine),
            medium: self.has_pool.then(|| match self.in_file {
                // The medium is brought by who records, so what it is called makes no difference.
                true => Medium::Emulated { path: POOL.into() },
                false => Medium::Dax { path: DEVICE.into() },
            }),
            memtable_links: if self.persists_links { LinkPolicy::Persisted } else { LinkPolicy::Rebuilt },
            memtable_bytes: 4 << 10,
            compaction: CompactionOptions {
                policy,
                threads: if self.compacts_twice { 2 } else { 1 },
                table_file_bytes: 1 << 10,
                files_merged_max: 4,
                space_amplification_max: 1.1,
                live_key_threshold: 0.9,
                ..CompactionOptions::default()
            },
            memory_budget_bytes: 1 << 16,
            block_bytes: 256,
            restart_interval: 4,
            node_bytes: 256,
            pool_initial_bytes: 1 << 20,
            pool_growth_bytes: 1 << 20,
            // (In memory. With no more than the device a put was once refused as full on a busy machine, and why is open.)
            pool_maximum_bytes: match (self.has_pool, self.engine) {
                (true, EngineName::Tlsm) => 2 * DEVICE_BYTES,
                (true, _) => DEVICE_BYTES,
                (false, _) => 4 * DEVICE_BYTES,
            },
            checkpoint_entries: 64,
            index_image_keys_min: if self.is_paper { 1 } else { u64::MAX },
            own: engines::own_options(self),
            ..Options::default()
        }
    }
}

/// What a crash left.
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// The files.
    pub files: FilesImage,
    /// The device, from its beginning; what is not there is zero.
    pub pool: Vec<u8>,
    /// After a kill: what a power cut would have left at that moment, and still may, of what nobody writes back meanwhile.
    pub durable: Option<Box<Image>>,
}

impl Image {
    /// A machine on which there was never a store.
    pub fn new(setup: Setup) -> Image {
        let is_dirty = setup.is_dirty && !setup.in_file;
        let mut pool = vec![0; if is_dirty { DEVICE_BYTES as usize } else { 0 }];
        // The first unit has to be zero.
        Random(7).fill(pool.get_mut(UNIT_BYTES as usize..).unwrap_or_default());
        Image { pool, ..Image::default() }
    }

    /// A number for what is in it: equal images have the same, and others hardly ever.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Hash::default();
        for (path, content) in &self.files.files {
            hash.add(path.as_os_str().as_encoded_bytes());
            hash.add(content);
        }
        for directory in &self.files.directories {
            hash.add(directory.as_os_str().as_encoded_bytes());
        }
        for (offset, page) in self.pages() {
            hash.add(&offset.to_le_bytes());
            hash.add(page);
        }
        u64::from(hash.0) << 32 | u64::from(hash.1)
    }

    /// What of the pool's file a power cut can't take any more.
    fn durable_pool_file(&self) -> Vec<u8> {
        let number = self.files.numbers.get(Path::new(POOL));
        let synced = self.durable.as_ref().and_then(|_| self.files.synced.get(number?));
        synced.or_else(|| self.files.files.get(Path::new(POOL))).cloned().unwrap_or_default()
    }

    /// The pages of the pool that are not all zero, each with its offset.
    fn pages(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let pages = self.pool.chunks(PAGE_BYTES).zip((0..).step_by(PAGE_BYTES));
        pages.filter(|(page, _)| *page != &ZEROS[..page.len()]).map(|(page, offset)| (offset, page))
    }

    /// A machine that starts with it.
    pub fn machine(&self, setup: Setup) -> MemoryEnv {
        // What a machine draws at random no other has drawn.
        let env = MemoryEnv::with_seed(self.fingerprint());
        if setup.in_file {
            env.map_files_in(POOLS);
        }
        for directory in &self.files.directories {
            // On a machine in memory these do not fail.
            let _ = env.create_directory(directory);
            let _ = directory.parent().map(|parent| env.sync_directory(parent));
        }
        for (path, content) in &self.files.files {
            env.set_content(path, content);
        }
        if setup.has_pool && !setup.in_file {
            add_device(&env, &self.pool);
        }
        env
    }
}

/// Two checksums, over the same bytes in two orders.
#[derive(Default)]
struct Hash(u32, u32);

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, bytes);
        let length = (bytes.len() as u64).to_le_bytes();
        self.0 = crc32c::crc32c_append(self.0, &length);
        // Not a function of the first: what both have in common is rotated against each other.
        self.1 = crc32c::crc32c_append(self.1.rotate_left(7) ^ self.0.wrapping_mul(0x9e37_79b1), bytes);
    }
}

/// Gives a machine the device, which begins with this content and is zero behind it.
fn add_device(env: &MemoryEnv, content: &[u8]) {
    /// The devices' memory goes from one machine to the next: most of what an image costs would be its memory otherwise.
    static MEMORIES: Mutex<Vec<DeviceMemory>> = Mutex::new(Vec::new());
    static ZEROS: [u8; DEVICE_BYTES as usize] = [0; DEVICE_BYTES as usize];

    let shape = DaxDevice { size_bytes: DEVICE_BYTES, alignment_bytes: 64 << 10, is_persistent: true };
    let mut memories = MEMORIES.lock().unwrap_or_else(PoisonError::into_inner);
    let unused = memories.iter().position(|memory| !memory.is_in_use());
    let memory = unused.map_or_else(|| DeviceMemory::zeroed(DEVICE_BYTES), |index| memories.swap_remove(index));
    drop(memories);
    memory.write(content, 0);
    memory.write(&ZEROS[content.len()..], content.len() as u64);
    env.add_dax_device_in(DEVICE, shape, &memory);
    MEMORIES.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
}

/// A machine whose every step is recorded.
#[derive(Debug)]
pub struct Recorded {
    setup: Setup,
    env: MemoryEnv,
    medium: Simulated,
    recording: Arc<Recording>,
    /// What happened before is how the machine came to be as it was.
    begin: u64,
    /// What the device held then, for sure.
    device: Arc<[u8]>,
}

impl Recorded {
    /// A machine that starts with an image.
    pub fn starting_with(image: &Image, setup: Setup, paths: &CallPaths) -> Recorded {
        let recording = Arc::new(Recording::watched_by(paths.clone()));
        let durable = image.durable.as_deref().unwrap_or(image);
        // The device as it is, the files as they are for sure; then what happened to these.
        let env = Image { files: durable.files.clone(), pool: image.pool.clone(), durable: None }.machine(setup);
        env.record(recording.clone());
        become_image(&env, &durable.files, &image.files).expect("nothing fails on this machine");
        let durable_pool = if setup.in_file { image.durable_pool_file() } else { durable.pool.clone() };
        let medium = Simulated::recording(recording.clone()).with_durable(durable_pool);
        let begin = recording.moment();
        Recorded { setup, env, medium, recording, begin, device: durable.pool.as_slice().into() }
    }

    /// How stores are opened here, without the medium that records.
    pub fn options(&self) -> Options {
        self.setup.options(&self.env)
    }

    /// The medium of the pool, if the store has one.
    fn medium(&self) -> Option<&Simulated> {
        self.setup.has_pool.then_some(&self.medium)
    }

    /// Opens the store.
    pub fn open(&self) -> Result<Arc<dyn Engine>> {
        engines::open(&self.options(), Path::new(STORE), self.medium())
    }

    /// Repairs the store.
    pub fn repair(&self) -> Result<RepairReport> {
        engines::repair(&self.options(), Path::new(STORE), self.medium())
    }

    /// Removes the store.
    pub fn destroy(&self) -> Result<Destroyed> {
        slmdb_engine::directory::destroy::destroy_on(
            &self.options(),
            Path::new(STORE),
            &AnyMedium::other(self.medium.clone()),
        )
    }

    /// The moment that it is.
    pub fn moment(&self) -> u64 {
        self.recording.moment()
    }

    /// What was recorded so far, to be gone through.
    pub fn record(&self) -> Record {
        let files = self.env.records();
        let mut stops: Vec<Stop> = Vec::new();
        for record in files.iter().filter(|record| record.call_path != 0 && record.moment >= self.begin) {
            let (step, done) = match record.event {
                FileEvent::Sync { done, .. } => (Step::SyncFile, done),
                FileEvent::SyncDirectory { done, .. } => (Step::SyncDirectory, done),
                _ => continue,
            };
            stops.push(Stop { moment: record.moment, step, done, call_path: record.call_path });
        }
        let histories = if self.setup.has_pool { self.medium.histories() } else { Vec::new() };
        stops.extend(histories.iter().flat_map(|history| history.stops()));
        stops.sort_unstable_by_key(|stop| stop.moment);
        let end = self.recording.moment();
        let mut files = Files::new(files);
        let mut ahead = files.clone();
        ahead.to_moment(self.begin);
        if let Some(pool) = ahead.number_of(Path::new(POOL)) {
            files = files.with_stores(pool, self.begin);
        }
        let pools = histories.into_iter().map(|history| {
            // One that never was attached has nothing to show.
            let begin = history.begin().unwrap_or(end);
            ahead.to_moment(begin);
            let file = if self.setup.in_file { ahead.number_of(Path::new(POOL)) } else { None };
            RecordedPool { begin, file, replay: history.replay() }
        });
        Record { pools: pools.collect(), files, device: self.device.clone(), stops, end, moment: 0 }
    }
}

/// Brings files from what of them is durable to what a kill has left, without making that durable: each file that is another
/// than before comes to its name as it did, by a rename or as a new one.
fn become_image(env: &MemoryEnv, from: &FilesImage, to: &FilesImage) -> Result<()> {
    to.directories.iter().try_for_each(|directory| env.create_directory(directory))?;
    let old_names: BTreeMap<u64, &PathBuf> = from.numbers.iter().map(|(path, number)| (*number, path)).collect();
    for (path, content) in &to.files {
        let number = to.numbers.get(path);
        if from.numbers.get(path) != number {
            match number.and_then(|number| old_names.get(number)) {
                Some(old) if to.files.contains_key(*old) => drop(env.link_file(old, path)?),
                Some(old) => env.rename(old, path)?,
                None => {
                    let new = if from.files.contains_key(path) { path.with_extension("tmp") } else { path.clone() };
                    let file = env.open_file(&new, OpenMode::CreateNew)?;
                    file.write_at(number.and_then(|number| to.synced.get(number)).map_or(&[][..], |it| it), 0)?;
                    file.sync_data()?;
                    if new != *path {
                        env.rename(&new, path)?;
                    }
                }
            }
        }
        match path == Path::new(POOL) {
            true => change_lines(env, path, content)?,
            false => change_content(env, path, content)?,
        }
    }
    let gone = from.files.keys().filter(|path| !to.files.contains_key(*path) && env.content(path).is_some());
    gone.into_iter().try_for_each(|path| env.remove_file(path))
}

/// Writes what of a file is different, without making it durable.
fn change_content(env: &MemoryEnv, path: &Path, content: &[u8]) -> Result<()> {
    let before = env.content(path).unwrap_or_default();
    let file = env.open_file(path, OpenMode::ReadWrite)?;
    if before.len() != content.len() {
        file.set_length(content.len() as u64)?;
    }
    let is_same = |at: usize| before.get(at).copied().unwrap_or(0) == content[at];
    let mut at = 0;
    while let Some(start) = (at..content.len()).find(|&at| !is_same(at)) {
        at = (start..content.len()).find(|&at| is_same(at)).unwrap_or(content.len());
        file.write_at(&content[start..at], start as u64)?;
    }
    Ok(())
}

/// Stores what of a pool's file is different, without making it durable: each cache line by itself, for a mapping brings whole
/// lines to memory. [`Files::with_stores`] says which writes these are.
fn change_lines(env: &MemoryEnv, path: &Path, content: &[u8]) -> Result<()> {
    let mut before = env.content(path).unwrap_or_default();
    let file = env.open_file(path, OpenMode::ReadWrite)?;
    if before.len() != content.len() {
        file.set_length(content.len() as u64)?;
        before.resize(content.len(), 0);
    }
    let lines = before.chunks(LINE_BYTES).zip(content.chunks(LINE_BYTES));
    for ((before, after), offset) in lines.zip((0..).step_by(LINE_BYTES)) {
        if before != after {
            file.write_at(after, offset)?;
        }
    }
    Ok(())
}

/// A record that can be gone through, forwards.
#[derive(Debug, Clone)]
pub struct Record {
    /// What happened to the files.
    pub files: Files,
    /// What happened to pools: one, if there is any, and where pools are files and made anew, more.
    pub pools: Vec<RecordedPool>,
    /// What the device held at first: what no pool has come to yet still does.
    pub device: Arc<[u8]>,
    /// Where a crash is worth looking at, in order.
    pub stops: Vec<Stop>,
    /// The moment behind the last event.
    pub end: u64,
    /// Where it stands.
    pub moment: u64,
}

/// What happened to a pool.
#[derive(Debug, Clone)]
pub struct RecordedPool {
    /// When it was opened or made.
    pub begin: u64,
    /// The number of its file, if it is in one.
    pub file: Option<u64>,
    /// What happened there.
    pub replay: Replay,
}

impl Record {
    /// The pool that is in use where the record stands, if there is any.
    pub fn pool(&self) -> Option<&Replay> {
        let begun = self.pools.iter().rfind(|pool| pool.begin < self.moment);
        begun.or(self.pools.first()).map(|pool| &pool.replay)
    }

    /// Whether something should be durable here and is not, since a step was left out.
    pub fn owes(&self) -> bool {
        !self.files.owed().is_empty() || self.pool().is_some_and(|pool| pool.owed().next().is_some())
    }

    /// Goes on to a moment.
    pub fn to_moment(&mut self, moment: u64) {
        self.files.to_moment(moment);
        self.pools.iter_mut().for_each(|pool| pool.replay.to_moment(moment));
        self.moment = moment;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Change, Fate};

    /// A machine with a pool in a file, which a kill has left with words that are not durable.
    fn killed() -> (Image, Vec<u8>, Vec<u8>) {
        let durable = vec![0; PAGE_BYTES];
        let mut stored = durable.clone();
        // One word in a line; a line of which every other byte is another; two lines that follow each other.
        stored[8..16].copy_from_slice(&0x0102_0304_0506_0708_u64.to_le_bytes());
        stored[128..192].iter_mut().step_by(2).for_each(|byte| *byte = 7);
        stored[500..560].fill(9);
        let files = |content: &[u8]| FilesImage {
            directories: [PathBuf::from(POOLS)].into(),
            files: [(PathBuf::from(POOL), content.to_vec())].into(),
            numbers: [(PathBuf::from(POOL), 1)].into(),
            synced: [(1, durable.clone())].into(),
        };
        let before = Image { files: files(&durable), ..Image::default() };
        let image = Image { files: files(&stored), durable: Some(Box::new(before)), ..Image::default() };
        (image, durable, stored)
    }

    #[test]
    fn a_line_of_a_killed_pool_is_there_whole_or_not_at_all() {
        let (image, durable, stored) = killed();
        let setup = Setup { in_file: true, ..Setup::of_seed(EngineName::Slm, 0, true) };
        let paths = CallPaths::default();
        let mut record = Recorded::starting_with(&image, setup, &paths).record();
        record.to_moment(record.end);
        let changes = record.files.pending();
        assert_eq!(changes.len(), 4, "a change for each line that is another");
        let fates = [Fate::Dropped, Fate::Torn(1), Fate::Torn(2), Fate::Zeroed, Fate::Garbage(3)];
        let one_by_one = changes.iter().flat_map(|change| fates.map(|fate| (*change, fate)));
        for (one, fate) in one_by_one {
            let image = record.files.image(|change: Change| if change == one { fate } else { Fate::Kept });
            let pool = &image.files[Path::new(POOL)];
            for ((line, durable), stored) in pool.chunks(64).zip(durable.chunks(64)).zip(stored.chunks(64)) {
                assert!(line == durable || line == stored, "{one:?} {fate:?}: {line:?}");
            }
        }
    }
}
