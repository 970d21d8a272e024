//! What `verify` reports: its progress, and what it found.

use slmdb_env::Error;

/// The progress of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Bytes of table files checked.
    pub done_bytes: u64,
    /// Bytes of table files in all.
    pub total_bytes: u64,
}

/// The outcome of a verification.
#[derive(Debug, Clone, Default)]
pub struct VerifyReport {
    /// What is wrong, each with file and offset. Empty: nothing is wrong.
    pub findings: Vec<Error>,
    /// Table files read from end to end.
    pub table_files_checked: u64,
    /// Their bytes.
    pub table_bytes_checked: u64,
    /// Entries in them, each compared with the index.
    pub entries_checked: u64,
    /// Keys in the index, each compared with its table file.
    pub index_keys_checked: u64,
    /// Entries in MemTables.
    pub memtable_entries: u64,
}

impl VerifyReport {
    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}
