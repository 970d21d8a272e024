//! The disk of a [`MemoryEnv`](super::MemoryEnv): names, contents, and which of both are durable.
//!
//! Knows nothing of failures and numbers. Paths are absolute and normal here. Names and contents are two things, as in
//! a file system: a name points to a [`Node`], which lives as long as a name, a durable name or an open file refers to
//! it. So a rename that was not synced leaves the durable old name pointing to the same content.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slmdb_env::{DirectoryEntry, LockMode, OpenMode};

use super::FileEvent;
use super::mapped::Mapped;

/// Contents are vectors without holes, so a wild offset must not be taken at its word.
const LARGEST_FILE_BYTES: u64 = 2 << 30;

/// A file without its name.
#[derive(Debug, Clone)]
pub(super) struct Node(Arc<Mutex<Inner>>);

impl Node {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn number(&self) -> u64 {
        self.lock().number
    }

    fn content(&self) -> Vec<u8> {
        let mut inner = self.lock();
        inner.look();
        inner.bytes.clone()
    }

    fn holding(number: u64, bytes: Vec<u8>, is_mapped: bool) -> Node {
        let mapped = is_mapped.then(|| Mapped::holding(&bytes));
        Node(Arc::new(Mutex::new(Inner { number, durable: bytes.clone(), bytes, mapped, ..Inner::default() })))
    }
}

/// What a [`Node`] holds.
#[derive(Debug, Default)]
pub(super) struct Inner {
    /// Tells the files of a disk apart, whatever they are called.
    number: u64,
    bytes: Vec<u8>,
    /// How long it may become without taking more of the disk.
    reserved_bytes: u64,
    /// Where the bytes are if the file can be mapped; then they are looked up there before they are used.
    mapped: Option<Mapped>,
    /// What a power cut leaves.
    durable: Vec<u8>,
    /// A range that covers all that was changed since the last sync; empty if nothing was. Apart from this the two
    /// contents are the same, but for what a failed sync lost.
    dirty: (usize, usize),
    /// Whether the length was changed since the last sync.
    length_dirty: bool,
    pub(super) holders: Holders,
}

impl Inner {
    pub(super) fn length_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// What it takes of the disk.
    fn taken_bytes(&self) -> u64 {
        self.length_bytes().max(self.reserved_bytes)
    }

    pub(super) fn mapped(&self) -> Option<Mapped> {
        self.mapped.clone()
    }

    /// Takes notice of what was stored to a mapping.
    fn look(&mut self) {
        if let Some(mapped) = &self.mapped {
            self.bytes = mapped.content();
            self.mark_dirty(0, self.bytes.len());
        }
    }

    pub(super) fn read(&mut self, into: &mut [u8], offset_bytes: u64) -> usize {
        self.look();
        let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX).min(self.bytes.len());
        let some = into.len().min(self.bytes.len() - start);
        into[..some].copy_from_slice(&self.bytes[start..start + some]);
        some
    }

    /// Writes where the file is long enough already, see [`Disk::grow`].
    pub(super) fn write(&mut self, bytes: &[u8], offset_bytes: u64) {
        let start = offset_bytes as usize;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        if let Some(mapped) = &self.mapped {
            mapped.write(bytes, offset_bytes);
        }
        self.mark_dirty(start, start + bytes.len());
    }

    pub(super) fn replace(&mut self, bytes: &[u8]) {
        self.cut(0);
        self.lengthen(bytes.len());
        self.write(bytes, 0);
    }

    pub(super) fn cut(&mut self, length_bytes: u64) {
        self.reserved_bytes = self.reserved_bytes.min(length_bytes);
        if length_bytes < self.length_bytes() {
            self.bytes.truncate(length_bytes as usize);
            self.set_mapped_length();
            self.length_dirty = true;
        }
    }

    fn lengthen(&mut self, length: usize) {
        let start = self.bytes.len();
        if length > start {
            self.bytes.resize(length, 0);
            self.set_mapped_length();
            self.mark_dirty(start, length);
            self.length_dirty = true;
        }
    }

    fn set_mapped_length(&self) {
        if let Some(mapped) = &self.mapped {
            mapped.set_length(self.bytes.len() as u64);
        }
    }

    fn mark_dirty(&mut self, start: usize, end: usize) {
        let (dirty_start, dirty_end) = self.dirty;
        self.dirty = if dirty_start == dirty_end { (start, end) } else { (dirty_start.min(start), dirty_end.max(end)) };
    }

    pub(super) fn sync(&mut self) {
        self.look();
        if self.length_dirty {
            self.durable.resize(self.bytes.len(), 0);
        }
        let end = self.dirty.1.min(self.durable.len()).min(self.bytes.len());
        let start = self.dirty.0.min(end);
        self.durable[start..end].copy_from_slice(&self.bytes[start..end]);
        self.forget_dirty();
    }

    /// What a failed sync does.
    pub(super) fn forget_dirty(&mut self) {
        self.dirty = (0, 0);
        self.length_dirty = false;
    }
}

/// Who has a file locked.
#[derive(Debug, Default)]
pub(super) struct Holders {
    shared: usize,
    exclusive: bool,
}

impl Holders {
    /// Whether there was room for one more.
    pub(super) fn add(&mut self, mode: LockMode) -> bool {
        match mode {
            _ if self.exclusive => return false,
            LockMode::Shared => self.shared += 1,
            LockMode::Exclusive | LockMode::Alone if self.shared > 0 => return false,
            LockMode::Exclusive | LockMode::Alone => self.exclusive = true,
        }
        true
    }

    pub(super) fn remove(&mut self, mode: LockMode) {
        match mode {
            LockMode::Shared => self.shared -= 1,
            LockMode::Exclusive | LockMode::Alone => self.exclusive = false,
        }
    }
}

/// All names and contents.
#[derive(Debug)]
pub(super) struct Disk {
    files: BTreeMap<PathBuf, Node>,
    durable_files: BTreeMap<PathBuf, Node>,
    /// The directories, and whether their names are durable in the directory above.
    directories: BTreeMap<PathBuf, bool>,
    /// Directories that were removed, but not durably.
    removed_directories: BTreeSet<PathBuf>,
    /// Files that are made in these can be mapped.
    pub(super) mapped_directories: BTreeSet<PathBuf>,
    pub(super) capacity_bytes: u64,
    /// Whether a file may have several names.
    pub(super) shares_names: bool,
    pub(super) takes_space_at_once: bool,
    /// The number of the file that was made last.
    last_number: u64,
}

type DiskResult<T> = Result<T, IoErrorKind>;

impl Disk {
    pub(super) fn new() -> Disk {
        Disk {
            files: BTreeMap::new(),
            durable_files: BTreeMap::new(),
            directories: BTreeMap::from([(PathBuf::from("/"), true)]),
            removed_directories: BTreeSet::new(),
            mapped_directories: BTreeSet::new(),
            capacity_bytes: u64::MAX,
            shares_names: true,
            takes_space_at_once: true,
            last_number: 0,
        }
    }

    /// The file of a name, a new one if it has none.
    fn find_or_make(&mut self, path: &Path) -> Node {
        if let Some(node) = self.files.get(path) {
            return node.clone();
        }
        self.last_number += 1;
        let is_mapped = path.parent().is_some_and(|directory| self.mapped_directories.contains(directory));
        let node = Node::holding(self.last_number, Vec::new(), is_mapped);
        self.files.insert(path.to_path_buf(), node.clone());
        node
    }

    pub(super) fn open(&mut self, path: &Path, mode: OpenMode) -> DiskResult<Node> {
        if self.directories.contains_key(path) {
            return Err(IoErrorKind::IsADirectory);
        }
        match (self.files.get(path), mode) {
            (Some(_), OpenMode::CreateNew) => Err(IoErrorKind::AlreadyExists),
            (Some(node), OpenMode::CreateOrTruncate) => {
                node.lock().cut(0);
                Ok(node.clone())
            }
            (Some(node), OpenMode::Read | OpenMode::ReadWrite) => Ok(node.clone()),
            (None, OpenMode::Read | OpenMode::ReadWrite) => {
                self.check_parent(path)?;
                Err(IoErrorKind::NotFound)
            }
            (None, OpenMode::CreateNew | OpenMode::CreateOrTruncate) => {
                self.check_parent(path)?;
                Ok(self.find_or_make(path))
            }
        }
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> DiskResult<()> {
        if self.directories.contains_key(from) {
            return Err(IoErrorKind::Unsupported);
        }
        if self.directories.contains_key(to) {
            return Err(IoErrorKind::IsADirectory);
        }
        self.check_parent(to)?;
        let node = self.files.remove(from).ok_or(IoErrorKind::NotFound)?;
        self.files.insert(to.to_path_buf(), node);
        Ok(())
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> DiskResult<()> {
        if self.files.contains_key(to) || self.directories.contains_key(to) {
            return Err(IoErrorKind::AlreadyExists);
        }
        self.check_parent(to)?;
        let node = self.files.get(from).ok_or(IoErrorKind::NotFound)?.clone();
        self.files.insert(to.to_path_buf(), node);
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> DiskResult<()> {
        if self.directories.contains_key(path) {
            return Err(IoErrorKind::IsADirectory);
        }
        self.files.remove(path).map(drop).ok_or(IoErrorKind::NotFound)
    }

    pub(super) fn create_directory(&mut self, path: &Path) -> DiskResult<()> {
        if self.files.contains_key(path) {
            return Err(IoErrorKind::AlreadyExists);
        }
        if path.ancestors().any(|above| self.files.contains_key(above)) {
            return Err(IoErrorKind::NotADirectory);
        }
        for directory in path.ancestors() {
            // A name that was taken away, but not durably, is durable still.
            let is_durable = self.removed_directories.remove(directory);
            self.directories.entry(directory.to_path_buf()).or_insert(is_durable);
        }
        Ok(())
    }

    /// Removes a directory if it is empty, and says whether it was.
    pub(super) fn remove_directory(&mut self, path: &Path) -> DiskResult<bool> {
        self.check_directory(path)?;
        if path.parent().is_none() || !self.list(path)?.is_empty() {
            return Ok(false);
        }
        if self.directories.remove(path) == Some(true) {
            self.removed_directories.insert(path.to_path_buf());
        }
        Ok(true)
    }

    pub(super) fn sync_directory(&mut self, path: &Path) -> DiskResult<()> {
        self.check_directory(path)?;
        let inside = |name: &Path| name.parent() == Some(path);
        self.durable_files.retain(|name, _| !inside(name));
        for (name, node) in self.files.iter().filter(|(name, _)| inside(name)) {
            self.durable_files.insert(name.clone(), node.clone());
        }
        let gone: Vec<PathBuf> = self.removed_directories.iter().filter(|name| inside(name)).cloned().collect();
        for directory in gone {
            self.removed_directories.remove(&directory);
            self.durable_files.retain(|name, _| name.parent() != Some(&directory));
        }
        for (_, durable) in self.directories.iter_mut().filter(|(name, _)| inside(name)) {
            *durable = true;
        }
        Ok(())
    }

    pub(super) fn list(&self, path: &Path) -> DiskResult<Vec<DirectoryEntry>> {
        self.check_directory(path)?;
        let files = self.files.iter().map(|(name, node)| (name, node.lock().length_bytes(), false));
        let directories = self.directories.keys().map(|name| (name, 0, true));
        let mut entries: Vec<_> = (files.chain(directories))
            .filter(|(name, ..)| name.parent() == Some(path))
            .filter_map(|(name, length_bytes, is_directory)| {
                let name = name.file_name()?.to_string_lossy().into_owned();
                Some(DirectoryEntry { name, length_bytes, is_directory })
            })
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    pub(super) fn find(&self, path: &Path) -> Option<&Node> {
        self.files.get(path)
    }

    /// How all that there is could have come to be.
    pub(super) fn events(&self) -> Vec<FileEvent> {
        let mut events = Vec::new();
        for path in self.directories.keys().filter(|path| path.parent().is_some()) {
            events.push(FileEvent::CreateDirectory { path: path.clone() });
        }
        for (path, node) in &self.files {
            let (file, bytes) = (node.number(), node.content().into());
            events.push(FileEvent::Name { file, path: path.clone() });
            events.push(FileEvent::Write { file, offset_bytes: 0, bytes });
            events.push(FileEvent::Sync { file, done: true });
        }
        events.extend(self.directories.keys().map(|path| FileEvent::SyncDirectory { path: path.clone(), done: true }));
        events
    }

    pub(super) fn is_directory(&self, path: &Path) -> bool {
        self.directories.contains_key(path)
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        self.files.contains_key(path) || self.directories.contains_key(path)
    }

    /// Lets a file grow with zeros up to `end_bytes`, if it is shorter.
    pub(super) fn grow(&self, node: &Node, end_bytes: u64) -> DiskResult<()> {
        if end_bytes <= node.lock().length_bytes() {
            return Ok(());
        }
        self.check_space(node, end_bytes)?;
        node.lock().lengthen(end_bytes as usize);
        Ok(())
    }

    /// Lets a file take as much of the disk as if it were so long.
    pub(super) fn reserve(&self, node: &Node, end_bytes: u64) -> DiskResult<()> {
        self.check_space(node, end_bytes)?;
        let mut inner = node.lock();
        inner.reserved_bytes = inner.reserved_bytes.max(end_bytes);
        Ok(())
    }

    fn check_space(&self, node: &Node, end_bytes: u64) -> DiskResult<()> {
        let more = end_bytes.saturating_sub(node.lock().taken_bytes());
        match more {
            0 => Ok(()),
            _ if end_bytes > LARGEST_FILE_BYTES => Err(IoErrorKind::FileTooLarge),
            _ if more > self.available_bytes() => Err(IoErrorKind::StorageFull),
            _ => Ok(()),
        }
    }

    pub(super) fn available_bytes(&self) -> u64 {
        if self.capacity_bytes == u64::MAX {
            return u64::MAX;
        }
        let used = self.files.values().map(|node| node.lock().taken_bytes()).sum();
        self.capacity_bytes.saturating_sub(used)
    }

    pub(super) fn content(&self, path: &Path) -> Option<Vec<u8>> {
        self.files.get(path).map(Node::content)
    }

    /// Makes the directories above a path, durably.
    pub(super) fn make_parents(&mut self, path: &Path) {
        for directory in path.ancestors().skip(1) {
            self.directories.insert(directory.to_path_buf(), true);
        }
    }

    pub(super) fn set_content(&mut self, path: &Path, bytes: &[u8]) {
        self.make_parents(path);
        let node = self.find_or_make(path);
        let mut inner = node.lock();
        inner.replace(bytes);
        inner.durable = bytes.to_vec();
        inner.forget_dirty();
        drop(inner);
        self.durable_files.insert(path.to_path_buf(), node);
    }

    /// What a power cut leaves, all of it durable: files and directories whose names are durable all the way up.
    pub(super) fn durable(&self) -> Disk {
        let durable =
            |path: &Path| self.directories.get(path) == Some(&true) || self.removed_directories.contains(path);
        let reachable = |path: &Path| path.ancestors().skip(1).all(durable);
        let files = self.durable_files.iter().filter(|(name, _)| reachable(name));
        let files = files.zip(1..);
        let held = |node: &Node, number| {
            let inner = node.lock();
            Node::holding(number, inner.durable.clone(), inner.mapped.is_some())
        };
        let files = files.map(|((name, node), number)| (name.clone(), held(node, number)));
        let files: BTreeMap<PathBuf, Node> = files.collect();
        let directories = self.directories.keys().chain(&self.removed_directories);
        let directories = directories.filter(|name| durable(name) && reachable(name));
        let directories = directories.map(|name| (name.clone(), true)).collect();
        Disk {
            durable_files: files.clone(),
            removed_directories: BTreeSet::new(),
            last_number: files.len() as u64,
            files,
            directories,
            mapped_directories: self.mapped_directories.clone(),
            ..*self
        }
    }

    /// What the end of all processes leaves: the same, with nobody holding locks. What was not durable still is not.
    pub(super) fn copied(&self) -> Disk {
        let mut copies: Vec<(Node, Node)> = Vec::new();
        let mut copy = |node: &Node| match copies.iter().find(|(original, _)| Arc::ptr_eq(&original.0, &node.0)) {
            Some((_, copy)) => copy.clone(),
            None => {
                let mut inner = node.lock();
                inner.look();
                let copy = Node(Arc::new(Mutex::new(Inner {
                    number: inner.number,
                    mapped: inner.mapped.as_ref().map(|_| Mapped::holding(&inner.bytes)),
                    bytes: inner.bytes.clone(),
                    reserved_bytes: inner.reserved_bytes,
                    durable: inner.durable.clone(),
                    dirty: inner.dirty,
                    length_dirty: inner.length_dirty,
                    holders: Holders::default(),
                })));
                copies.push((node.clone(), copy.clone()));
                copy
            }
        };
        Disk {
            files: self.files.iter().map(|(name, node)| (name.clone(), copy(node))).collect(),
            durable_files: self.durable_files.iter().map(|(name, node)| (name.clone(), copy(node))).collect(),
            directories: self.directories.clone(),
            removed_directories: self.removed_directories.clone(),
            mapped_directories: self.mapped_directories.clone(),
            capacity_bytes: self.capacity_bytes,
            shares_names: self.shares_names,
            takes_space_at_once: self.takes_space_at_once,
            last_number: self.last_number,
        }
    }

    fn check_parent(&self, path: &Path) -> DiskResult<()> {
        path.parent().map_or(Ok(()), |parent| self.check_directory(parent))
    }

    fn check_directory(&self, path: &Path) -> DiskResult<()> {
        if self.directories.contains_key(path) {
            Ok(())
        } else if path.ancestors().any(|above| self.files.contains_key(above)) {
            Err(IoErrorKind::NotADirectory)
        } else {
            Err(IoErrorKind::NotFound)
        }
    }
}
