//! `tsv`: KEY, a tab, VALUE, a line feed. Keys and values are written with the escapes of the command line, so a tab or
//! a line feed within them is `\t` or `\n`. The first tab ends the key; the value may hold more of them as they are.
//! Nothing is trimmed: a carriage return before the line feed belongs to the value.

use std::io::{self, BufRead};

use super::{Line, Lines, Reader, Record, Step};
use crate::bytes::{escape_into, unescape_into};

/// Reads `tsv`.
pub struct Tsv<R> {
    lines: Lines<R>,
    line: Vec<u8>,
}

impl<R: BufRead> Tsv<R> {
    /// Records of `lines`.
    pub fn new(lines: Lines<R>) -> Tsv<R> {
        Tsv { lines, line: Vec::new() }
    }
}

impl<R: BufRead> Reader for Tsv<R> {
    fn next(&mut self, record: &mut Record) -> io::Result<Step> {
        match self.lines.next(&mut self.line)? {
            Line::Whole => {}
            Line::TooLong => return Ok(Step::Malformed(self.lines.too_long())),
            Line::End => return Ok(Step::End),
        }
        let Some(tab) = self.line.iter().position(|&byte| byte == b'\t') else {
            return Ok(Step::Malformed(self.lines.malformed("there is no tab between a key and a value")));
        };
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

/// Appends a record without its line feed; only the key when there is no value.
pub fn write_record(into: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    escape_into(into, key);
    if let Some(value) = value {
        into.push(b'\t');
        escape_into(into, value);
    }
}
