//! What a format's reader gives: records, and what is malformed.

use std::io;

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
