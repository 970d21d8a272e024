//! What `import` reads and `export` writes: one file a format.
//!
//! Readers take bytes, not text, go from record to record with memory bounded by one record, and tell a record that is
//! malformed (a [`Malformed`] with its line, after which reading can go on) from input that can't be read.

mod foreign;
mod format;
mod jsonl;
mod lines;
mod paragraphs;
mod record;
mod tsv;

use std::io::BufRead;

pub use foreign::{Foreign, read_head, recognize};
pub use format::{ExportFormat, ImportFormat};
pub use jsonl::JsonLines;
pub use lines::{BYTE_ORDER_MARK, Line, Lines};
pub use paragraphs::Paragraphs;
pub use record::{Malformed, Reader, Record, Step};
pub use tsv::Tsv;

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
