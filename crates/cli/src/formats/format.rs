//! The formats by name, and what is written in them.

use std::path::Path;

use super::{jsonl, tsv};

/// What `import` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
pub enum ImportFormat {
    /// A line a record: KEY, a tab, VALUE, with the escapes of the command line
    Tsv,
    /// A JSON object a line: {"key":…,"value":…}, or any object with --key FIELD
    Jsonl,
    /// Stanzas of `Field: text` lines with blank lines between them, as Debian's tools print them
    Paragraphs,
}

/// What `export` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
pub enum ExportFormat {
    /// A line a record: KEY, a tab, VALUE, with the escapes of the command line
    Tsv,
    /// A JSON object a line: {"key":…,"value":…}; key_b64 and value_b64 for bytes that are not UTF-8
    Jsonl,
}

impl ImportFormat {
    /// What a file is likely to hold, by its name: `jsonl` for .jsonl, .ndjson and .json, else `tsv`.
    pub fn by_name(path: &Path) -> ImportFormat {
        match ExportFormat::by_name(path) {
            ExportFormat::Tsv => ImportFormat::Tsv,
            ExportFormat::Jsonl => ImportFormat::Jsonl,
        }
    }
}

impl ExportFormat {
    /// What a file should hold, by its name: `jsonl` for .jsonl, .ndjson and .json, else `tsv`.
    pub fn by_name(path: &Path) -> ExportFormat {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        if ["jsonl", "ndjson", "json"].iter().any(|known| extension == *known) {
            ExportFormat::Jsonl
        } else {
            ExportFormat::Tsv
        }
    }

    /// Appends one record and its line feed to `into`.
    pub fn write_record(self, into: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        match self {
            ExportFormat::Tsv => tsv::write_record(into, key, Some(value)),
            ExportFormat::Jsonl => jsonl::write_record(into, key, Some(value)),
        }
        into.push(b'\n');
    }

    /// Appends a record of which only the key is wanted, and its line feed, to `into`.
    pub fn write_key(self, into: &mut Vec<u8>, key: &[u8]) {
        match self {
            ExportFormat::Tsv => tsv::write_record(into, key, None),
            ExportFormat::Jsonl => jsonl::write_record(into, key, None),
        }
        into.push(b'\n');
    }
}
