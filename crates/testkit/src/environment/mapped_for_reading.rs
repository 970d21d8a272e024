//! A file of a [`MemoryEnv`] as it is mapped for reading: the file's own bytes.
//!
//! A read of it is a read, with a line of its own in the log: whatever can strike [`slmdb_env::File::read_at`] strikes it. On a
//! machine with a [slow disk](MemoryEnv::set_read_times) nothing is in memory, so that all has to be read from files.

use std::path::PathBuf;

use slmdb_env::{Mapped, Result};

use super::MemoryEnv;
use super::disk::Node;
use super::faults::Effect;

/// See the module.
#[derive(Debug)]
pub(super) struct MappedForReading {
    pub env: MemoryEnv,
    pub path: PathBuf,
    pub node: Node,
    pub length_bytes: u64,
}

impl Mapped for MappedForReading {
    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> Result<bool> {
        let mut machine = self.env.machine();
        let end = offset_bytes.saturating_add(into.len() as u64);
        if machine.slow.read_ns > 0 || end > self.length_bytes || end > self.node.lock().length_bytes() {
            return Ok(false);
        }
        let detail = format!(" {offset_bytes}+{} mapped", into.len());
        let outcome = machine.script.begin(Effect::Reads, "read", &self.path, &detail)?;
        let read_bytes = self.node.lock().read(into, offset_bytes);
        outcome.flip(&mut into[..read_bytes]);
        Ok(read_bytes == into.len())
    }
}
