//! `tsv`: KEY, a tab, VALUE, a line feed. Keys and values are written with the escapes of the command line, so a tab or
//! a line feed within them is `\t` or `\n`. The first tab ends the key; the value may hold more of them as they are.
//! No spaces are trimmed. A carriage return at the end of a line belongs to the line's end; one that ends a value is
//! `\r`. Blank lines are passed over.

use std::io::{self, BufRead};

use super::lines::{BYTE_ORDER_MARK, Line, Lines};
use super::record::{Reader, Record, Step};
use crate::bytes::{escape_into, unescape_into};

/// Reads `tsv`.
pub struct Tsv<R> {
    lines: Lines<R>,
    line: Vec<u8>,
    /// There has been a line with a tab.
    is_tsv: bool,
}

impl<R: BufRead> Tsv<R> {
    /// Records of `lines`.
    pub fn new(lines: Lines<R>) -> Tsv<R> {
        Tsv { lines, line: Vec::new(), is_tsv: false }
    }
}

impl<R: BufRead> Reader for Tsv<R> {
    fn next(&mut self, record: &mut Record) -> io::Result<Step> {
        let tab = loop {
            match self.lines.next(&mut self.line)? {
                Line::Whole => {}
                Line::TooLong => return Ok(Step::Malformed(self.lines.too_long())),
                Line::End => return Ok(Step::End),
            }
            match self.line.iter().position(|&byte| byte == b'\t') {
                Some(tab) => break tab,
                None if self.line.trim_ascii().is_empty() => continue,
                None => return Ok(Step::Malformed(self.lines.malformed(self.without_tab()))),
            }
        };
        self.is_tsv = true;
        (record.line, record.offset) = (self.lines.number(), self.lines.start());
        record.key.clear();
        record.value.clear();
        if let Err(why) = unescape_into(&mut record.key, &self.line[..tab]) {
            return Ok(Step::Malformed(self.lines.malformed(format!("in the key, {why}"))));
        }
        if let Err(why) = unescape_into(&mut record.value, &self.line[tab + 1..]) {
            return Ok(Step::Malformed(self.lines.malformed(format!("in the value, {why}"))));
        }
        Ok(Step::Record)
    }

    fn position(&self) -> u64 {
        self.lines.position()
    }
}

impl<R> Tsv<R> {
    /// The complaint about the line read last, and what the input may be instead if no line had a tab so far.
    fn without_tab(&self) -> String {
        let instead = match self.line.trim_ascii_start().first() {
            _ if self.is_tsv => "",
            Some(b'{') => " (if this is JSON, name it with --format jsonl)",
            _ if self.line.contains(&b',') => " (if this is CSV, convert it: commas don't separate here)",
            _ => "",
        };
        format!("there is no tab between a key and a value{instead}")
    }
}

/// Appends a record without its line feed; only the key when there is no value. A key that begins with a byte order mark
/// has it escaped, so that no reader takes it off as the mark of the file.
pub fn write_record(into: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    let key = match key.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) if value.is_some() => {
            into.extend_from_slice(b"\\xef\\xbb\\xbf");
            rest
        }
        _ => key,
    };
    escape_into(into, key);
    if let Some(value) = value {
        into.push(b'\t');
        escape_into(into, value);
    }
}
