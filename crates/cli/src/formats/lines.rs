//! Reads numbered lines of bounded length.
//!
//! A line ends with a line feed, or with a carriage return and a line feed. A byte order mark at the start of the input
//! belongs to no line.

use std::io::{self, BufRead, Read};

use slmdb::MAXIMUM_VALUE_BYTES;

use super::record::Malformed;

/// The longest line taken: what the longest value may need when every byte of it is escaped, and then some.
const MAXIMUM_LINE_BYTES: u64 = 4 * MAXIMUM_VALUE_BYTES as u64 + (1 << 20);

/// Memory kept from line to line; a line that took more gives it back.
const KEPT_BYTES: usize = 4 << 20;

/// How text in UTF-8 may begin: a mark that says that it is UTF-8, which Windows' programs write.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What [`Lines::next`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line, without what ends it. The last one may have had no end.
    Whole,
    /// A line that is too long to be one; it has been passed over.
    TooLong,
    /// The end of the input.
    End,
}

/// Reads an input line by line.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    maximum_bytes: u64,
    number: u64,
    start: u64,
    position: u64,
}

impl<R: BufRead> Lines<R> {
    /// Lines of `input`.
    pub fn new(input: R) -> Lines<R> {
        Lines::with_maximum(input, MAXIMUM_LINE_BYTES)
    }

    /// Lines of `input`, none longer than `maximum_bytes`.
    pub fn with_maximum(input: R, maximum_bytes: u64) -> Lines<R> {
        Lines { input, maximum_bytes, number: 0, start: 0, position: 0 }
    }

    /// Reads the next line into `line`, in place of what was there.
    pub fn next(&mut self, line: &mut Vec<u8>) -> io::Result<Line> {
        line.clear();
        line.shrink_to(KEPT_BYTES);
        self.start = self.position;
        let mut read_bytes = self.read_part(line)?;
        if read_bytes == 0 {
            return Ok(Line::End);
        }
        self.number += 1;
        if line.last() == Some(&b'\n') || (line.len() as u64) <= self.maximum_bytes {
            self.take_off_ends(line);
            return Ok(Line::Whole);
        }
        while read_bytes > 0 && line.last() != Some(&b'\n') {
            line.clear();
            read_bytes = self.read_part(line)?;
        }
        line.clear();
        Ok(Line::TooLong)
    }

    /// Takes off what ends a line, and a byte order mark in front of the first one.
    fn take_off_ends(&self, line: &mut Vec<u8>) {
        for end in [b'\n', b'\r'] {
            if line.last() == Some(&end) {
                line.pop();
            }
        }
        if self.number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
    }

    /// Reads up to a line feed, or one byte more than a line may have.
    fn read_part(&mut self, line: &mut Vec<u8>) -> io::Result<usize> {
        let read_bytes = (&mut self.input).take(self.maximum_bytes + 1).read_until(b'\n', line)?;
        self.position += read_bytes as u64;
        Ok(read_bytes)
    }

    /// The number of the line read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where the line read last begins, in bytes from the start of the input.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// How many bytes of the input have been taken.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// A complaint about the line read last.
    pub fn malformed(&self, why: impl Into<String>) -> Malformed {
        Malformed { line: self.number, offset: self.start, why: why.into() }
    }

    /// The complaint about a [`Line::TooLong`].
    pub fn too_long(&self) -> Malformed {
        self.malformed(format!("the line is longer than {} bytes", self.maximum_bytes))
    }
}
