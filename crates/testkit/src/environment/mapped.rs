//! A file of a [`MemoryEnv`](super::MemoryEnv) that can be mapped: its content is memory of the real system's, with a descriptor.
//! Whoever has mapped it stores there behind the machine's back.

use std::fs::File as StdFile;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::MemfdFlags;

use super::device::expected;

/// The content of such a file.
#[derive(Debug, Clone)]
pub(super) struct Mapped(pub(super) Arc<StdFile>);

impl Mapped {
    /// # Panics
    ///
    /// If the system has no memory that can be mapped like a file.
    pub(super) fn holding(bytes: &[u8]) -> Mapped {
        let memory = expected(rustix::fs::memfd_create("file", MemfdFlags::CLOEXEC).map_err(Into::into));
        let mapped = Mapped(Arc::new(StdFile::from(memory)));
        mapped.write(bytes, 0);
        mapped
    }

    pub(super) fn content(&self) -> Vec<u8> {
        let mut content = vec![0; expected(self.0.metadata()).len() as usize];
        expected(self.0.read_exact_at(&mut content, 0));
        content
    }

    pub(super) fn write(&self, bytes: &[u8], offset_bytes: u64) {
        expected(self.0.write_all_at(bytes, offset_bytes));
    }

    pub(super) fn set_length(&self, length_bytes: u64) {
        expected(self.0.set_len(length_bytes));
    }
}
