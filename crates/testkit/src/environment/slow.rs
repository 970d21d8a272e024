//! Reads that take their time, and what was said of reads to come.

use std::path::{Path, PathBuf};

use super::{Machine, MemoryEnv};

/// How slow the machine's disk is; and what was asked of it ahead.
#[derive(Debug, Default)]
pub(super) struct Slow {
    pub read_ns: u64,
    will_read_ns: u64,
    /// File, offset and length, while somebody wants to know.
    will_read: Option<Vec<(PathBuf, u64, u64)>>,
}

impl Machine {
    pub(super) fn will_read(&mut self, path: &Path, offset_bytes: u64, length_bytes: u64) {
        self.clock_ns += self.slow.will_read_ns;
        if let Some(noted) = &mut self.slow.will_read {
            noted.push((path.to_path_buf(), offset_bytes, length_bytes));
        }
    }
}

impl MemoryEnv {
    /// From now on the clock moves on by so much with every read, and with every piece of advice that something will be read. At
    /// first it stands still.
    pub fn set_read_times(&self, read_ns: u64, will_read_ns: u64) {
        let slow = &mut self.machine().slow;
        (slow.read_ns, slow.will_read_ns) = (read_ns, will_read_ns);
    }

    /// What was said since the last call to be read soon ([`slmdb_env::File::advise_will_read`]): file, offset and length, in
    /// order. The first call has it noted.
    pub fn take_will_read(&self) -> Vec<(PathBuf, u64, u64)> {
        self.machine().slow.will_read.replace(Vec::new()).unwrap_or_default()
    }
}
