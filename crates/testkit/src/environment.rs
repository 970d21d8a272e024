//! [`MemoryEnv`]: a machine in memory, for tests. Nothing in it depends on time, chance or the real file system.
//!
//! Five things make it more than a map of byte vectors, each a seam for tests of faults and crashes:
//!
//! - **Every operation that can fail has a number**, counted from 0, and a line in a log ([`MemoryEnv::operations`]).
//!   [`MemoryEnv::fail_at`] makes the k-th go wrong in a chosen way: running one piece of work for k = 0, 1, 2, … until
//!   no failure strikes any more walks through every place where it can fail.
//! - **It knows what is durable.** A file's content is, once the file is synced; a name is, once its directory is
//!   synced (and the directory's own name in turn, up to the root, which always is). [`MemoryEnv::crash`]
//!   gives the machine as a power cut would leave it at worst: all that was synced and nothing else.
//!   [`MemoryEnv::kill`] gives what the death of the process leaves: everything but the locks.
//! - **A failed sync loses data for good**, as on Linux: what was dirty then is thought clean afterwards, so that a
//!   second sync reports success and yet has written nothing. Code that tries again is found out by the next power cut.
//! - **It calls others, if asked** ([`MemoryEnv::call_before`]), before it gives a file a name or makes its content durable: they look, or do
//!   what else should have happened by then.
//! - **It records, if asked** ([`MemoryEnv::record`]), everything that happens to its files, in one order with what others record
//!   ([`Recording`]); from that a simulator makes every state that a crash could leave.
//!
//! Clock and randomness are deterministic: time moves on by a microsecond with every question and by
//! [`MemoryEnv::advance_clock`]; random bytes follow from the seed. Relative paths start at `/`, and there are no links.
//! Only files can be renamed. Files have no descriptors, so what is usually mapped is read into memory, and what is stored there
//! is told the file at once ([`File::store_mapped`]); those in some directories do ([`MemoryEnv::map_files_in`]), and a device-dax
//! ([`MemoryEnv::add_dax_device`]) can be mapped and nothing else.

mod device;
mod disk;
mod faults;
mod file;
mod history;
mod interception;
mod mapped;
mod mapped_for_reading;
mod slow;

pub use device::DeviceMemory;
pub use faults::{Failure, Repeat};
pub use history::{FileEvent, FileRecord};

use std::collections::BTreeMap;
use std::fs::File as StdFile;
use std::io::ErrorKind as IoErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use slmdb_env::{DaxDevice, DirectoryEntry, Env, Error, File, FileIdentity, Lock, LockMode, OpenMode, Result};
use slmdb_sync::scheduled::point;

use crate::{Random, Recording, Step};
use device::Device;
use disk::{Disk, Node};
use faults::{Effect, Script};
use file::{MemoryFile, MemoryLock};
use history::Recorder;
use interception::Interceptions;
use slow::Slow;

/// What the clock shows at first: a moment of the year 2023.
const CLOCK_START_UNIX_NS: u64 = 1_700_000_000_000_000_000;
/// How far the clock moves whenever somebody looks at it.
const CLOCK_STEP_NS: u64 = 1_000;

/// How much memory the machine could give at first, in bytes: more than any test's files take.
const MEMORY_TO_GIVE_BYTES: u64 = 1 << 40;

/// A machine in memory. Clones are the same machine.
#[derive(Debug, Clone)]
pub struct MemoryEnv {
    machine: Arc<Mutex<Machine>>,
}

/// What the clones share. Locked before any [`Node`], never after one.
#[derive(Debug)]
struct Machine {
    disk: Disk,
    devices: BTreeMap<PathBuf, Device>,
    script: Script,
    clock_ns: u64,
    /// When the clocks were looked at last, if they go on by themselves.
    looked_at: Option<Instant>,
    random: Random,
    boot: u64,
    recorder: Option<Recorder>,
    interceptions: Interceptions,
    slow: Slow,
    memory_to_give_bytes: Option<u64>,
}

impl Default for MemoryEnv {
    fn default() -> MemoryEnv {
        MemoryEnv::new()
    }
}

impl MemoryEnv {
    /// An empty machine with seed 0: only the directory `/`.
    pub fn new() -> MemoryEnv {
        MemoryEnv::with_seed(0)
    }

    /// An empty machine whose clocks also go on by themselves. A store that slows writers needs that: where a sleep takes no time, each
    /// write sleeps as long as it may.
    pub fn with_real_clock() -> MemoryEnv {
        let env = MemoryEnv::new();
        env.machine().looked_at = Some(Instant::now());
        env
    }

    /// An empty machine whose random bytes follow from `seed`.
    pub fn with_seed(seed: u64) -> MemoryEnv {
        MemoryEnv::of(Machine {
            disk: Disk::new(),
            devices: BTreeMap::new(),
            script: Script::default(),
            clock_ns: 0,
            looked_at: None,
            random: Random(seed),
            boot: 1,
            recorder: None,
            interceptions: Interceptions::default(),
            slow: Slow::default(),
            memory_to_give_bytes: Some(MEMORY_TO_GIVE_BYTES),
        })
    }

    fn of(machine: Machine) -> MemoryEnv {
        MemoryEnv { machine: Arc::new(Mutex::new(machine)) }
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For what others see in the order in which it happens.
    fn machine_in_turn(&self) -> MutexGuard<'_, Machine> {
        point();
        self.machine()
    }

    /// Lets an operation fail: the first one, numbered `operation_number` or later, that `failure` can strike; with
    /// [`Repeat::ForGood`] all such operations from there on. Failures add up.
    pub fn fail_at(&self, operation_number: u64, failure: Failure, repeat: Repeat) {
        self.machine().script.arm((operation_number, 0), "", failure, repeat);
    }

    /// Lets an operation fail, once so many have passed that `failure` could have struck and whose lines begin like `what`: with
    /// 0, 1, 2, … each place is tried once, while [`MemoryEnv::fail_at`] comes to the same one from several numbers.
    pub fn fail_after(&self, passed: u64, what: &str, failure: Failure, repeat: Repeat) {
        self.machine().script.arm((0, passed), what, failure, repeat);
    }

    /// Lets the next operation fail whose line in the log begins like this (`allocate /db/MANIFEST`) and that `failure` can
    /// strike; with [`Repeat::ForGood`] all such operations. For when several threads are at work, so that numbers say
    /// little.
    pub fn fail_next(&self, what: &str, failure: Failure, repeat: Repeat) {
        self.machine().script.arm((0, 0), what, failure, repeat);
    }

    /// Lets nothing fail any more.
    pub fn clear_failures(&self) {
        self.machine().script.disarm();
    }

    /// How many operations have been made to fail so far.
    pub fn failures_struck(&self) -> u64 {
        self.machine().script.struck
    }

    /// How many operations there were so far, which is the number the next one gets.
    pub fn operation_count(&self) -> u64 {
        self.machine().script.log.len() as u64
    }

    /// All operations so far, in order: the line at index k tells about operation k. Those that were made to fail say
    /// so at the end.
    pub fn operations(&self) -> Vec<String> {
        self.machine().script.log.clone()
    }

    /// Limits what all files together may hold, in bytes; at first there is no limit. What would go beyond it gets
    /// [`Error::Full`] and does nothing.
    pub fn set_capacity(&self, capacity_bytes: u64) {
        self.machine().disk.capacity_bytes = capacity_bytes;
    }

    /// What [`Env::memory_to_give_bytes`] says from now on; at first it is more than all files take.
    pub fn set_memory_to_give(&self, bytes: Option<u64>) {
        self.machine().memory_to_give_bytes = bytes;
    }

    /// What [`File::takes_space_at_once`] says from now on; at first it does.
    pub fn set_takes_space_at_once(&self, does: bool) {
        self.machine().disk.takes_space_at_once = does;
    }

    /// Whether a file may get a second name; at first it may.
    pub fn set_shares_names(&self, shares_names: bool) {
        self.machine().disk.shares_names = shares_names;
    }

    /// Moves both clocks on.
    pub fn advance_clock(&self, ns: u64) {
        self.machine().clock_ns += ns;
    }

    /// A file's present content, synced or not. Not an operation.
    pub fn content(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.machine().disk.content(&normal(path.as_ref()))
    }

    /// Replaces a file's content (or makes the file and its directories) behind everybody's back: durable at once. Not
    /// an operation.
    pub fn set_content(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        self.machine().disk.set_content(&normal(path.as_ref()), bytes);
    }

    /// Makes a directory, durably; the files that are made in it from here on have descriptors and can be mapped. What is stored to a
    /// mapping is there after a kill, and after a power cut once the file was synced. Not an operation.
    pub fn map_files_in(&self, directory: impl AsRef<Path>) {
        let directory = normal(directory.as_ref());
        let mut machine = self.machine();
        machine.disk.make_parents(&directory.join("file"));
        machine.disk.mapped_directories.insert(directory);
    }

    /// Gives the machine a device-dax at `path`, whose directories are made and durable. What is returned is its memory,
    /// zero at first, to be looked at and changed behind everybody's back. A kill and a power cut leave all that was stored
    /// there, written back or not. Not an operation.
    ///
    /// # Panics
    ///
    /// If the system has no memory that can be mapped like a file.
    pub fn add_dax_device(&self, path: impl AsRef<Path>, device: DaxDevice) -> StdFile {
        let device = Device::new(device);
        let memory = device.memory();
        self.insert_device(path.as_ref(), device);
        memory
    }

    /// Gives the machine a device-dax with this memory, which holds whatever it holds; else like
    /// [`MemoryEnv::add_dax_device`].
    ///
    /// # Panics
    ///
    /// If the memory is not as long as the device, or in use.
    pub fn add_dax_device_in(&self, path: impl AsRef<Path>, device: DaxDevice, memory: &DeviceMemory) {
        self.insert_device(path.as_ref(), Device::of(device, memory));
    }

    fn insert_device(&self, path: &Path, device: Device) {
        let path = normal(path);
        let mut machine = self.machine();
        machine.disk.make_parents(&path);
        machine.devices.insert(path, device);
    }

    /// The memory of a device-dax, as [`MemoryEnv::add_dax_device`] gave it: for a machine that was killed or crashed it is
    /// another. Not an operation.
    pub fn dax_device_memory(&self, path: impl AsRef<Path>) -> Option<StdFile> {
        self.machine().devices.get(&normal(path.as_ref())).map(Device::memory)
    }

    /// Records everything that happens to the files from here on. What is there must be durable: it is recorded as made and
    /// synced now. Not an operation.
    pub fn record(&self, recording: Arc<Recording>) {
        let mut machine = self.machine();
        let mut recorder = Recorder { recording, records: Vec::new() };
        machine.disk.events().into_iter().for_each(|event| recorder.push(event));
        machine.recorder = Some(recorder);
    }

    /// What was recorded so far. Not an operation.
    pub fn records(&self) -> Vec<FileRecord> {
        self.machine().recorder.as_ref().map_or_else(Vec::new, |recorder| recorder.records.clone())
    }

    /// The machine after a power cut at this moment, with a new boot id: what was synced is there, nothing else is.
    /// This machine goes on untouched; no failures are armed on the new one, and its operations count from 0.
    pub fn crash(&self) -> MemoryEnv {
        let machine = self.machine();
        MemoryEnv::of(machine.restarted(machine.disk.durable(), machine.boot + 1))
    }

    /// The machine after the process that used it was killed at this moment: all is there as it was written, synced or
    /// not, and no lock is held. Otherwise like [`MemoryEnv::crash`], but the boot stays the same.
    pub fn kill(&self) -> MemoryEnv {
        let machine = self.machine();
        MemoryEnv::of(machine.restarted(machine.disk.copied(), machine.boot))
    }
}

impl Machine {
    fn restarted(&self, disk: Disk, boot: u64) -> Machine {
        Machine {
            disk,
            devices: self.devices.iter().map(|(path, device)| (path.clone(), device.copied())).collect(),
            script: Script::default(),
            clock_ns: self.clock_ns,
            looked_at: self.looked_at,
            // Another stream, so that what follows does not repeat what this machine goes on to draw.
            random: Random(self.random.0 ^ 0x5851_f42d_4c95_7f2d),
            boot,
            recorder: None,
            interceptions: Interceptions::default(),
            slow: Slow::default(),
            memory_to_give_bytes: self.memory_to_give_bytes,
        }
    }

    fn note(&mut self, event: impl FnOnce() -> FileEvent) {
        if let Some(recorder) = &mut self.recorder {
            recorder.push(event());
        }
    }

    /// Notes a sync; says whether it is to be done.
    fn note_sync(&mut self, step: Step, event: impl FnOnce(bool) -> FileEvent) -> bool {
        self.recorder.as_mut().is_none_or(|recorder| recorder.push_sync(step, event))
    }

    /// Notes that a file may have become longer than it was, with zeros.
    fn note_length(&mut self, node: &Node, length_before: u64) {
        let (file, length_bytes) = (node.number(), node.lock().length_bytes());
        if length_bytes != length_before {
            self.note(|| FileEvent::SetLength { file, length_bytes });
        }
    }

    fn ticked_ns(&mut self) -> u64 {
        self.clock_ns += CLOCK_STEP_NS;
        if let Some(looked_at) = &mut self.looked_at {
            let now = Instant::now();
            self.clock_ns += now.duration_since(*looked_at).as_nanos() as u64;
            *looked_at = now;
        }
        self.clock_ns
    }
}

/// An absolute path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut result = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => result.push(name),
            Component::ParentDir => drop(result.pop()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    result
}

impl Env for MemoryEnv {
    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        // A cache may open a file that is read while others wait for it.
        let mut machine = if mode == OpenMode::Read { self.machine() } else { self.machine_in_turn() };
        let (effect, operation) = match mode {
            OpenMode::Read | OpenMode::ReadWrite => (Effect::LooksUp, "open"),
            OpenMode::CreateNew | OpenMode::CreateOrTruncate => (Effect::TakesSpace, "create"),
        };
        let outcome = machine.script.begin(effect, operation, path, "")?;
        if let Some(device) = machine.devices.get(&normal(path)) {
            let file = device.open(path, mode).map_err(|kind| Error::io(operation, path, kind.into()))?;
            return Ok(Arc::new(file));
        }
        let full_path = normal(path);
        let before = machine.disk.find(&full_path).map(|node| node.lock().length_bytes());
        let node = machine.disk.open(&full_path, mode).map_err(|kind| Error::io(operation, path, kind.into()))?;
        match before {
            None => machine.note(|| FileEvent::Name { file: node.number(), path: full_path }),
            Some(length_before) => machine.note_length(&node, length_before),
        }
        let (path_buf, writable) = (path.to_path_buf(), mode != OpenMode::Read);
        let mapped = node.lock().mapped();
        let file: Arc<dyn File> = Arc::new(MemoryFile { env: self.clone(), path: path_buf, node, writable, mapped });
        outcome.end(path, file)
    }

    /// Directories can't be moved here, so a path always leads to the same one.
    fn hold_directory(&self, directory: &Path) -> Result<Arc<dyn Env>> {
        let mut machine = self.machine();
        let outcome = machine.script.begin(Effect::LooksUp, "open directory", directory, "")?;
        if !machine.disk.is_directory(&normal(directory)) {
            return Err(Error::io("open directory", directory, IoErrorKind::NotFound.into()));
        }
        outcome.end(directory, Arc::new(self.clone()))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut machine = self.machine_in_turn();
        let outcome = machine.script.begin(Effect::TakesSpace, "rename", from, &format!(" to {}", to.display()))?;
        let (old, new) = (normal(from), normal(to));
        machine.disk.rename(&old, &new).map_err(|kind| Error::io("rename", from, kind.into()))?;
        if let Some(file) = machine.disk.find(&new).map(Node::number) {
            machine.note(|| FileEvent::Rename { file, from: old, to: new });
        }
        outcome.end(from, ())
    }

    fn link_file(&self, from: &Path, to: &Path) -> Result<bool> {
        self.intercept("link", from);
        let mut machine = self.machine_in_turn();
        let outcome = machine.script.begin(Effect::TakesSpace, "link", from, &format!(" to {}", to.display()))?;
        if !machine.disk.shares_names {
            return outcome.end(from, false);
        }
        let path = normal(to);
        machine.disk.link(&normal(from), &path).map_err(|kind| Error::io("link", from, kind.into()))?;
        if let Some(file) = machine.disk.find(&path).map(Node::number) {
            machine.note(|| FileEvent::Name { file, path });
        }
        outcome.end(from, true)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        let mut machine = self.machine_in_turn();
        let outcome = machine.script.begin(Effect::Removes, "remove", path, "")?;
        let full_path = normal(path);
        let file = machine.disk.find(&full_path).map(Node::number);
        machine.disk.remove_file(&full_path).map_err(|kind| Error::io("remove", path, kind.into()))?;
        if let Some(file) = file {
            machine.note(|| FileEvent::Remove { file, path: full_path });
        }
        outcome.end(path, ())
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        let mut machine = self.machine_in_turn();
        let outcome = machine.script.begin(Effect::TakesSpace, "create directory", path, "")?;
        let full_path = normal(path);
        let missing: Vec<PathBuf> =
            full_path.ancestors().filter(|above| !machine.disk.exists(above)).map(Path::to_path_buf).collect();
        let made = machine.disk.create_directory(&full_path);
        made.map_err(|kind| Error::io("create directory", path, kind.into()))?;
        missing.into_iter().rev().for_each(|path| machine.note(|| FileEvent::CreateDirectory { path }));
        outcome.end(path, ())
    }

    fn remove_directory(&self, path: &Path) -> Result<bool> {
        let mut machine = self.machine_in_turn();
        let outcome = machine.script.begin(Effect::Removes, "remove directory", path, "")?;
        let full_path = normal(path);
        let removed = machine.disk.remove_directory(&full_path);
        let removed = removed.map_err(|kind| Error::io("remove directory", path, kind.into()))?;
        if removed {
            machine.note(|| FileEvent::RemoveDirectory { path: full_path });
        }
        outcome.end(path, removed)
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        let mut machine = self.machine_in_turn();
        let outcome = machine.script.begin(Effect::Syncs, "sync directory", path, "")?;
        let path_noted = normal(path);
        if machine.note_sync(Step::SyncDirectory, |done| FileEvent::SyncDirectory { path: path_noted, done }) {
            let synced = machine.disk.sync_directory(&normal(path));
            synced.map_err(|kind| Error::io("sync directory", path, kind.into()))?;
        }
        outcome.end(path, ())
    }

    /// In the order of the names.
    fn list_directory(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        let mut machine = self.machine();
        let _ = machine.script.begin(Effect::LooksUp, "list directory", path, "")?;
        machine.disk.list(&normal(path)).map_err(|kind| Error::io("list directory", path, kind.into()))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let mut machine = self.machine();
        let _ = machine.script.begin(Effect::LooksUp, "look up", path, "")?;
        let path = normal(path);
        Ok(machine.devices.contains_key(&path) || machine.disk.exists(&path))
    }

    fn dax_device(&self, path: &Path) -> Result<Option<DaxDevice>> {
        let mut machine = self.machine();
        let _ = machine.script.begin(Effect::LooksUp, "look up", path, "")?;
        Ok(machine.devices.get(&normal(path)).map(Device::shape))
    }

    /// Follows from the path, since directories can't be moved here.
    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        let mut machine = self.machine();
        let _ = machine.script.begin(Effect::LooksUp, "look up", path, "")?;
        let add = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let inode = normal(path).as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, add);
        Ok(FileIdentity { inode, born_ns: 0 })
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        Ok(normal(path))
    }

    fn is_directory(&self, path: &Path) -> Result<Option<bool>> {
        let mut machine = self.machine();
        let _ = machine.script.begin(Effect::LooksUp, "look up", path, "")?;
        let path = normal(path);
        let exists = machine.devices.contains_key(&path) || machine.disk.exists(&path);
        Ok(exists.then(|| machine.disk.is_directory(&path)))
    }

    fn resolved(&self, path: &Path) -> Result<PathBuf> {
        self.absolute(path)
    }

    /// The holder is always this process.
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn Lock>> {
        let mut machine = self.machine_in_turn();
        let effect = if mode == LockMode::Exclusive { Effect::TakesSpace } else { Effect::LooksUp };
        let outcome = machine.script.begin(effect, "lock", path, &format!(" {mode:?}"))?;
        let failed = |kind: IoErrorKind| Error::io("lock", path, kind.into());
        let full_path = normal(path);
        if machine.devices.contains_key(&full_path) {
            return Err(failed(IoErrorKind::Unsupported));
        }
        let node = match machine.disk.open(&full_path, OpenMode::ReadWrite) {
            Err(IoErrorKind::NotFound) if mode == LockMode::Exclusive => {
                let made = machine.disk.open(&full_path, OpenMode::CreateNew);
                if let Ok(node) = &made {
                    machine.note(|| FileEvent::Name { file: node.number(), path: full_path.clone() });
                }
                made
            }
            other => other,
        }
        .map_err(failed)?;
        if !node.lock().holders.add(mode) {
            return Err(Error::Locked { path: path.to_path_buf(), holder: Some(std::process::id()) });
        }
        if mode == LockMode::Exclusive {
            node.lock().replace(format!("{}\n", std::process::id()).as_bytes());
        }
        // (The lock is let go of again if its taker learns of an error.)
        let lock: Box<dyn Lock> = Box::new(MemoryLock { node, mode });
        outcome.end(path, lock)
    }

    fn available_bytes(&self, path: &Path) -> Result<u64> {
        let mut machine = self.machine();
        let _ = machine.script.begin(Effect::LooksUp, "look up free space", path, "")?;
        Ok(machine.disk.available_bytes())
    }

    fn memory_to_give_bytes(&self) -> Option<u64> {
        self.machine().memory_to_give_bytes
    }

    fn unix_time_ns(&self) -> u64 {
        CLOCK_START_UNIX_NS + self.machine().ticked_ns()
    }

    fn monotonic_ns(&self) -> u64 {
        self.machine().ticked_ns()
    }

    fn boot_id(&self) -> [u8; 16] {
        u128::from(self.machine().boot).to_be_bytes()
    }

    fn random_bytes(&self, bytes: &mut [u8]) {
        self.machine().random.fill(bytes);
    }
}

#[cfg(test)]
mod tests;
