//! What a crash may leave of files.
//!
//! A [`Files`] goes through what a [`MemoryEnv`](slmdb_testkit::MemoryEnv) has recorded, and makes images at any moment on the
//! way. An image is what was synced, and of everything that happened since the last sync *of that file or directory* whatever
//! is picked, change by change: kept, dropped, torn at sectors of 512 bytes, zeroed, or garbage (but for bytes that were written over with the
//! same). How long a file is, is picked apart from what is in it, and a name apart from both.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_testkit::{FileEvent, FileRecord};

use crate::Random;

const SECTOR_BYTES: u64 = 512;

/// What becomes of one change that no sync has covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is there.
    Kept,
    /// It never happened.
    Dropped,
    /// Of the sectors that were written, some by chance; of everything else that is `Dropped`.
    Torn(u64),
    /// Zeros where it was written; of everything else that is `Kept`.
    Zeroed,
    /// Anything where it was written; of everything else that is `Kept`.
    Garbage(u64),
}

impl Fate {
    /// The fate of what is there whole or not at all.
    fn of_whole(self) -> Fate {
        match self {
            Fate::Dropped | Fate::Torn(_) => Fate::Dropped,
            Fate::Kept | Fate::Zeroed | Fate::Garbage(_) => Fate::Kept,
        }
    }
}

/// What a change is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangeOf {
    /// A file's content.
    Content,
    /// A file's length.
    Length,
    /// The names in a directory.
    Name,
}

/// A change that no sync has covered: the moment at which it happened, and what it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Change {
    /// When it happened.
    pub moment: u64,
    /// What it is of. (A write that makes a file longer is two changes.)
    pub of: ChangeOf,
}

/// All files after a crash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesImage {
    /// The directories, those above before those in them.
    pub directories: BTreeSet<PathBuf>,
    /// The files' contents by name.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// The files' numbers by name, and what of each file is synced: what a machine needs to go on from here as after a kill.
    pub numbers: BTreeMap<PathBuf, u64>,
    /// What of each file is synced, by number.
    pub synced: BTreeMap<u64, Vec<u8>>,
}

impl FilesImage {
    /// Puts what was stored to a mapping of this file into its content, as far as that goes; and what of it is durable.
    pub(crate) fn lay_over(&mut self, number: u64, stored: &[u8], durable: &[u8]) {
        let put = |content: &mut Vec<u8>, bytes: &[u8]| {
            let length = content.len().min(bytes.len());
            content[..length].copy_from_slice(&bytes[..length]);
        };
        let names = self.numbers.iter().filter(|(_, file)| **file == number).map(|(name, _)| name);
        for name in names {
            self.files.get_mut(name).into_iter().for_each(|content| put(content, stored));
        }
        self.synced.get_mut(&number).into_iter().for_each(|content| put(content, durable));
    }
}

/// Goes through the record of what happened to files.
#[derive(Debug, Clone)]
pub struct Files {
    records: Arc<[FileRecord]>,
    index: usize,
    files: HashMap<u64, File>,
    names: Names,
    durable_names: Names,
    pending_names: Vec<(u64, NameChange)>,
    /// The moments of changes that a sync would have covered which was left out.
    owed: HashSet<u64>,
    /// The file whose writes before a moment were stores to a mapping, and the moment.
    stores: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Default)]
struct Names {
    files: BTreeMap<PathBuf, u64>,
    directories: BTreeSet<PathBuf>,
}

#[derive(Debug, Clone, Default)]
struct File {
    durable: Vec<u8>,
    seen: Vec<u8>,
    pending: Vec<(u64, FileChange)>,
}

#[derive(Debug, Clone)]
enum FileChange {
    Write { offset: u64, bytes: Arc<[u8]>, lengthens: bool },
    Length(u64),
}

#[derive(Debug, Clone)]
enum NameChange {
    Name { file: u64, path: PathBuf },
    Rename { file: u64, from: PathBuf, to: PathBuf },
    Remove { file: u64, path: PathBuf },
    CreateDirectory { path: PathBuf },
    RemoveDirectory { path: PathBuf },
}

impl Files {
    /// Stands before the first of these records.
    pub fn new(records: Vec<FileRecord>) -> Files {
        Files {
            records: records.into(),
            index: 0,
            files: HashMap::new(),
            names: Names::default(),
            durable_names: Names::default(),
            pending_names: Vec::new(),
            owed: HashSet::new(),
            stores: None,
        }
    }

    /// Takes what was written to a file before a moment for stores to a mapping of it, a cache line each. A power cut takes or
    /// leaves such a line whole.
    pub fn with_stores(self, file: u64, before: u64) -> Files {
        Files { stores: Some((file, before)), ..self }
    }

    /// Goes on to a moment: what happened before it is behind.
    pub fn to_moment(&mut self, moment: u64) {
        let records = self.records.clone();
        while let Some(record) = records.get(self.index).filter(|record| record.moment < moment) {
            self.index += 1;
            self.step(record.moment, &record.event);
        }
    }

    /// The number of the file that has this name here.
    pub fn number_of(&self, path: &Path) -> Option<u64> {
        self.names.files.get(path).copied()
    }

    /// What has happened up to here, in words.
    pub fn trace(&self) -> Vec<String> {
        let line = |record: &FileRecord| match &record.event {
            FileEvent::Write { file, offset_bytes, bytes } => {
                format!("{}: write {} bytes at {offset_bytes} of file {file}", record.moment, bytes.len())
            }
            other => format!("{}: {other:?}", record.moment),
        };
        self.records[..self.index].iter().map(line).collect()
    }

    /// The changes that no sync has covered, in the order in which they happened.
    pub fn pending(&self) -> Vec<Change> {
        let mut pending: Vec<_> =
            self.pending_names.iter().map(|&(moment, _)| Change { moment, of: ChangeOf::Name }).collect();
        for (moment, change) in self.files.values().flat_map(|file| &file.pending) {
            let (content, length) = match change {
                FileChange::Write { lengthens, .. } => (true, *lengthens),
                FileChange::Length(_) => (false, true),
            };
            pending.extend(content.then_some(Change { moment: *moment, of: ChangeOf::Content }));
            pending.extend(length.then_some(Change { moment: *moment, of: ChangeOf::Length }));
        }
        pending.sort_unstable();
        pending
    }

    /// Those of them that a sync would have covered which was left out.
    pub fn owed(&self) -> Vec<Change> {
        if self.owed.is_empty() {
            return Vec::new();
        }
        self.pending().into_iter().filter(|change| self.owed.contains(&change.moment)).collect()
    }

    /// What the end of the process leaves: everything.
    pub fn everything(&self) -> FilesImage {
        let content = |file: &u64| self.files.get(file).map(|file| file.seen.clone()).unwrap_or_default();
        let synced = |file: &u64| Some((*file, self.files.get(file)?.durable.clone()));
        let image = self.names.image(content);
        let synced = image.numbers.values().filter_map(synced).collect();
        FilesImage { synced, ..image }
    }

    /// What a power cut leaves, with this fate for each change that no sync has covered.
    pub fn image(&self, mut fate: impl FnMut(Change) -> Fate) -> FilesImage {
        let mut names = self.durable_names.clone();
        for (moment, change) in &self.pending_names {
            if fate(Change { moment: *moment, of: ChangeOf::Name }).of_whole() == Fate::Kept {
                names.apply(change);
            }
        }
        let contents: BTreeMap<u64, Vec<u8>> =
            names.files.values().map(|number| (*number, self.content(*number, &mut fate))).collect();
        names.image(|file| contents.get(file).cloned().unwrap_or_default())
    }

    fn content(&self, number: u64, fate: &mut impl FnMut(Change) -> Fate) -> Vec<u8> {
        let Some(file) = self.files.get(&number) else { return Vec::new() };
        let mut content = file.durable.clone();
        let mut length = content.len();
        for (moment, change) in &file.pending {
            let of_length = |fate: &mut dyn FnMut(Change) -> Fate| {
                fate(Change { moment: *moment, of: ChangeOf::Length }).of_whole() == Fate::Kept
            };
            match change {
                FileChange::Length(new) => {
                    if of_length(fate) {
                        length = *new as usize;
                        let cut = length.min(content.len());
                        content[cut..].fill(0);
                    }
                }
                FileChange::Write { offset, bytes, lengthens } => {
                    let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                    if content.len() < end {
                        content.resize(end, 0);
                    }
                    let place = &mut content[start..end];
                    let is_store = self.stores.is_some_and(|(file, before)| file == number && *moment < before);
                    let fate_of_write = fate(Change { moment: *moment, of: ChangeOf::Content });
                    match if is_store { fate_of_write.of_whole() } else { fate_of_write } {
                        Fate::Kept => place.copy_from_slice(bytes),
                        Fate::Dropped => {}
                        Fate::Torn(seed) => tear(place, bytes, *offset, seed),
                        Fate::Zeroed => spoil(place, bytes, &vec![0; bytes.len()]),
                        Fate::Garbage(seed) => {
                            let mut garbage = vec![0; bytes.len()];
                            Random(seed ^ moment).fill(&mut garbage);
                            spoil(place, bytes, &garbage);
                        }
                    }
                    if *lengthens && of_length(fate) {
                        length = length.max(end);
                    }
                }
            }
        }
        content.resize(length, 0);
        content
    }

    fn step(&mut self, moment: u64, event: &FileEvent) {
        match event {
            FileEvent::Name { file, path } => {
                self.files.entry(*file).or_default();
                self.name(moment, NameChange::Name { file: *file, path: path.clone() });
            }
            FileEvent::Rename { file, from, to } => {
                self.name(moment, NameChange::Rename { file: *file, from: from.clone(), to: to.clone() });
            }
            FileEvent::Remove { file, path } => {
                self.name(moment, NameChange::Remove { file: *file, path: path.clone() });
            }
            FileEvent::CreateDirectory { path } => {
                self.name(moment, NameChange::CreateDirectory { path: path.clone() });
            }
            FileEvent::RemoveDirectory { path } => {
                self.name(moment, NameChange::RemoveDirectory { path: path.clone() });
            }
            FileEvent::Write { file, offset_bytes, bytes } => {
                let file = self.files.entry(*file).or_default();
                let (start, end) = (*offset_bytes as usize, *offset_bytes as usize + bytes.len());
                let lengthens = end > file.seen.len();
                if lengthens {
                    file.seen.resize(end, 0);
                }
                file.seen[start..end].copy_from_slice(bytes);
                file.pending
                    .push((moment, FileChange::Write { offset: *offset_bytes, bytes: bytes.clone(), lengthens }));
            }
            FileEvent::SetLength { file, length_bytes } => {
                let file = self.files.entry(*file).or_default();
                file.seen.resize(*length_bytes as usize, 0);
                file.pending.push((moment, FileChange::Length(*length_bytes)));
            }
            FileEvent::Sync { file, done } => {
                let Some(file) = self.files.get_mut(file) else { return };
                if *done {
                    file.durable.clone_from(&file.seen);
                    file.pending.clear();
                } else {
                    self.owed.extend(file.pending.iter().map(|(moment, _)| *moment));
                }
            }
            FileEvent::SyncDirectory { path, done } => {
                if *done {
                    self.sync_directory(path);
                } else {
                    let inside = self.pending_names.iter().filter(|(_, change)| change.path().parent() == Some(path));
                    self.owed.extend(inside.map(|(moment, _)| *moment));
                }
            }
        }
    }

    fn name(&mut self, moment: u64, change: NameChange) {
        self.names.apply(&change);
        self.pending_names.push((moment, change));
    }

    fn sync_directory(&mut self, path: &Path) {
        let (names, durable) = (&self.names, &mut self.durable_names);
        let inside = |name: &Path| name.parent() == Some(path);
        durable.files.retain(|name, _| !inside(name));
        durable
            .files
            .extend(names.files.iter().filter(|(name, _)| inside(name)).map(|(name, file)| (name.clone(), *file)));
        durable.directories.retain(|name| !inside(name));
        durable.directories.extend(names.directories.iter().filter(|name| inside(name)).cloned());
        self.pending_names.retain(|(_, change)| !inside(change.path()));
    }
}

impl NameChange {
    fn path(&self) -> &Path {
        match self {
            NameChange::Name { path, .. }
            | NameChange::Rename { to: path, .. }
            | NameChange::Remove { path, .. }
            | NameChange::CreateDirectory { path }
            | NameChange::RemoveDirectory { path } => path,
        }
    }
}

impl Names {
    /// Applies a change by itself, whatever became of those before it.
    fn apply(&mut self, change: &NameChange) {
        match change {
            NameChange::Name { file, path } => drop(self.files.insert(path.clone(), *file)),
            NameChange::Rename { file, from, to } => {
                self.take(*file, from);
                self.files.insert(to.clone(), *file);
            }
            NameChange::Remove { file, path } => self.take(*file, path),
            NameChange::CreateDirectory { path } => drop(self.directories.insert(path.clone())),
            NameChange::RemoveDirectory { path } => drop(self.directories.remove(path)),
        }
    }

    /// Takes a name away if this file has it.
    fn take(&mut self, file: u64, path: &Path) {
        if self.files.get(path) == Some(&file) {
            self.files.remove(path);
        }
    }

    /// What can be reached from the root.
    fn image(&self, mut content: impl FnMut(&u64) -> Vec<u8>) -> FilesImage {
        let reachable = |path: &Path| {
            path.ancestors().skip(1).all(|above| above.parent().is_none() || self.directories.contains(above))
        };
        let reached = || self.files.iter().filter(|(path, _)| reachable(path));
        FilesImage {
            directories: self.directories.iter().filter(|path| reachable(path)).cloned().collect(),
            files: reached().map(|(path, file)| (path.clone(), content(file))).collect(),
            numbers: reached().map(|(path, file)| (path.clone(), *file)).collect(),
            synced: BTreeMap::new(),
        }
    }
}

/// Puts something else in place of what was to be written. Bytes that were to be written as they are already stay: whether a
/// device wrote such a sector or not, it holds the same.
fn spoil(place: &mut [u8], bytes: &[u8], other: &[u8]) {
    for ((place, byte), other) in place.iter_mut().zip(bytes).zip(other) {
        *place = if *place == *byte { *byte } else { *other };
    }
}

/// Writes some sectors of what was to be written at an offset, by chance; now and then a beginning or an end of them.
fn tear(place: &mut [u8], bytes: &[u8], offset: u64, seed: u64) {
    let mut random = Random(seed ^ offset);
    let sectors = (offset + bytes.len() as u64).div_ceil(SECTOR_BYTES) - offset / SECTOR_BYTES;
    let (kind, cut) = (random.below(3), random.below(sectors + 1));
    let mut start = 0;
    for sector in 0..sectors {
        let end = (((offset / SECTOR_BYTES + sector + 1) * SECTOR_BYTES - offset) as usize).min(bytes.len());
        let is_kept = match kind {
            0 => sector < cut,
            1 => sector >= cut,
            _ => random.below(2) == 0,
        };
        if is_kept {
            place[start..end].copy_from_slice(&bytes[start..end]);
        }
        start = end;
    }
}
