//! What `import` reads and `export` writes: one file a format.
//!
//! Readers take bytes, not text, go from record to record with memory bounded by one record, and tell a record that is
//! malformed (a [`Malformed`] with its line, after which reading can go on) from input that can't be read.

mod foreign;
mod jsonl;
mod lines;
mod paragraphs;
mod tsv;

use std::io::{self, BufRead};
use std::path::Path;

pub use foreign::{Foreign, read_head, recognize};
pub use jsonl::JsonLines;
pub use lines::{BYTE_ORDER_MARK, Line, Lines};
pub use paragraphs::Paragraphs;
pub use tsv::Tsv;

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

/// A record as read, and where it began. Used again and again, so that its memory is.
#[derive(Debug, Default)]
pub struct Record {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// The line it began on, counted from 1.
    pub line: u64,
    /// Where that line began, in bytes from the start of the input.
    pub offset: u64,
}

/// A record that could not be understood.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The line that is wrong, counted from 1.
    pub line: u64,
    /// Where it begins, in bytes from the start of the input.
    pub offset: u64,
    /// What is wrong with it.
    pub why: String,
}

/// What one step of a [`Reader`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The record has been filled in.
    Record,
    /// There was one, but it is malformed. The next step goes on behind it.
    Malformed(Malformed),
    /// The end of the input.
    End,
}

/// Goes through an input record by record.
pub trait Reader {
    /// Reads the next record into `record`.
    fn next(&mut self, record: &mut Record) -> io::Result<Step>;
    /// How many bytes of the input have been taken.
    fn position(&self) -> u64;
}

/// The reader for `format`. `key` is `--key`; which formats want one has been checked.
pub fn reader<'i>(format: ImportFormat, key: Option<&str>, input: Box<dyn BufRead + 'i>) -> Box<dyn Reader + 'i> {
    let lines = Lines::new(input);
    match format {
        ImportFormat::Tsv => Box::new(Tsv::new(lines)),
        ImportFormat::Jsonl => Box::new(JsonLines::new(lines, key.map(str::to_string))),
        ImportFormat::Paragraphs => Box::new(Paragraphs::new(lines, key.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests;
