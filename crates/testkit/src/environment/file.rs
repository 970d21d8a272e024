//! Open files, and locks that are held.

use std::io::ErrorKind as IoErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_env::{Error, File, Lock, LockMode, Result};

use super::disk::Node;
use super::faults::Effect;
use super::mapped::Mapped;
use super::mapped_for_reading::MappedForReading;
use super::{FileEvent, Machine, MemoryEnv};
use crate::Step;

/// A file of a [`MemoryEnv`]. Lives on when its name is taken away, as files do.
#[derive(Debug)]
pub(super) struct MemoryFile {
    pub env: MemoryEnv,
    pub path: PathBuf,
    pub node: Node,
    pub writable: bool,
    /// What can be mapped, if the file can be.
    pub mapped: Option<Mapped>,
}

impl MemoryFile {
    fn check_writable(&self, operation: &'static str) -> Result<()> {
        if self.writable { Ok(()) } else { Err(self.failed(operation, IoErrorKind::PermissionDenied)) }
    }

    fn failed(&self, operation: &'static str, kind: IoErrorKind) -> Error {
        Error::io(operation, &self.path, kind.into())
    }

    /// Lets the file grow to `end_bytes` if it is shorter and there is room.
    fn grow(&self, machine: &Machine, operation: &'static str, end_bytes: Option<u64>) -> Result<()> {
        let end_bytes = end_bytes.unwrap_or(u64::MAX);
        machine.disk.grow(&self.node, end_bytes).map_err(|kind| self.failed(operation, kind))
    }
}

impl File for MemoryFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> Result<usize> {
        let mut machine = self.env.machine();
        let detail = format!(" {offset_bytes}+{}", into.len());
        let outcome = machine.script.begin(Effect::Reads, "read", &self.path, &detail)?;
        let read_bytes = self.node.lock().read(into, offset_bytes);
        outcome.flip(&mut into[..read_bytes]);
        machine.clock_ns += machine.slow.read_ns;
        Ok(read_bytes)
    }

    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> Result<()> {
        let mut machine = self.env.machine_in_turn();
        let detail = format!(" {offset_bytes}+{}", bytes.len());
        let outcome = machine.script.begin(Effect::Writes, "write", &self.path, &detail)?;
        self.check_writable("write")?;
        let written = outcome.written(bytes);
        if !written.is_empty() {
            self.grow(&machine, "write", offset_bytes.checked_add(written.len() as u64))?;
            self.node.lock().write(written, offset_bytes);
            machine.note(|| FileEvent::Write { file: self.node.number(), offset_bytes, bytes: written.into() });
        }
        outcome.end(&self.path, ())
    }

    /// When made to fail, what was not durable before never becomes so unless it is written again.
    fn sync_data(&self) -> Result<()> {
        self.env.intercept("sync", &self.path);
        let mut machine = self.env.machine_in_turn();
        let outcome = machine.script.begin(Effect::Syncs, "sync", &self.path, "");
        let outcome = outcome.inspect_err(|_| self.node.lock().forget_dirty())?;
        if machine.note_sync(Step::SyncFile, |done| FileEvent::Sync { file: self.node.number(), done }) {
            self.node.lock().sync();
        }
        outcome.end(&self.path, ())
    }

    fn length_bytes(&self) -> Result<u64> {
        let mut machine = self.env.machine();
        let _ = machine.script.begin(Effect::LooksUp, "look up length", &self.path, "")?;
        Ok(self.node.lock().length_bytes())
    }

    fn set_length(&self, length_bytes: u64) -> Result<()> {
        let mut machine = self.env.machine_in_turn();
        let detail = format!(" {length_bytes}");
        let outcome = machine.script.begin(Effect::TakesSpace, "set length", &self.path, &detail)?;
        self.check_writable("set length")?;
        let length_before = self.node.lock().length_bytes();
        self.grow(&machine, "set length", Some(length_bytes))?;
        self.node.lock().cut(length_bytes);
        machine.note_length(&self.node, length_before);
        outcome.end(&self.path, ())
    }

    fn allocate(&self, offset_bytes: u64, length_bytes: u64) -> Result<()> {
        let mut machine = self.env.machine_in_turn();
        let detail = format!(" {offset_bytes}+{length_bytes}");
        let outcome = machine.script.begin(Effect::TakesSpace, "allocate", &self.path, &detail)?;
        self.check_writable("allocate")?;
        if length_bytes > 0 {
            let length_before = self.node.lock().length_bytes();
            self.grow(&machine, "allocate", offset_bytes.checked_add(length_bytes))?;
            machine.note_length(&self.node, length_before);
        }
        outcome.end(&self.path, ())
    }

    fn takes_space_at_once(&self) -> bool {
        self.env.machine().disk.takes_space_at_once
    }

    fn reserve(&self, length_bytes: u64) -> Result<()> {
        let mut machine = self.env.machine_in_turn();
        let detail = format!(" {length_bytes}");
        let outcome = machine.script.begin(Effect::TakesSpace, "reserve", &self.path, &detail)?;
        self.check_writable("reserve")?;
        machine.disk.reserve(&self.node, length_bytes).map_err(|kind| self.failed("reserve", kind))?;
        outcome.end(&self.path, ())
    }

    fn advise_random(&self) {}

    fn advise_will_read(&self, offset_bytes: u64, length_bytes: u64) {
        self.env.machine().will_read(&self.path, offset_bytes, length_bytes);
    }

    fn map(&self, length_bytes: u64) -> Option<Arc<dyn slmdb_env::Mapped>> {
        let (env, path, node) = (self.env.clone(), self.path.clone(), self.node.clone());
        Some(Arc::new(MappedForReading { env, path, node, length_bytes }))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.mapped.as_ref().map(|mapped| mapped.0.as_fd())
    }

    fn store_mapped(&self, bytes: &[u8], offset_bytes: u64) {
        let mut machine = self.env.machine_in_turn();
        let mut node = self.node.lock();
        let there = node.length_bytes().saturating_sub(offset_bytes).min(bytes.len() as u64);
        let bytes = &bytes[..there as usize];
        node.write(bytes, offset_bytes);
        drop(node);
        machine.note(|| FileEvent::Write { file: self.node.number(), offset_bytes, bytes: bytes.into() });
    }
}

/// A held lock; belongs to the file, not to its name.
#[derive(Debug)]
pub(super) struct MemoryLock {
    pub node: Node,
    pub mode: LockMode,
}

impl Lock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut inner = self.node.lock();
        if self.mode == LockMode::Exclusive {
            inner.replace(b"");
        }
        inner.holders.remove(self.mode);
    }
}
