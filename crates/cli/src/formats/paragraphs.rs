//! `paragraphs`: stanzas in the manner of RFC 822 and of Debian's package tools.
//!
//! A stanza is lines up to a blank one. A line is `Field: text`, or, when it starts with a space or a tab, goes on with
//! the field before it. The value is the stanza's lines as they stand, joined by line feeds, none at the end. The key is
//! what stands behind the key field's colon on that line, without spaces around it; names of fields have no case.
//!
//! Debian's policy lets readers take lines of only spaces and tabs for blank, and so it is done here. Several blank lines
//! are as one.

use std::io::{self, BufRead};

use slmdb::MAXIMUM_VALUE_BYTES;

use super::lines::{Line, Lines};
use super::record::{Malformed, Reader, Record, Step};
use crate::bytes::escape;

/// Reads `paragraphs`.
pub struct Paragraphs<R> {
    lines: Lines<R>,
    line: Vec<u8>,
    key_field: String,
}

impl<R: BufRead> Paragraphs<R> {
    /// Stanzas of `lines`, each under the text of its field `key_field`.
    pub fn new(lines: Lines<R>, key_field: &str) -> Paragraphs<R> {
        Paragraphs { lines, line: Vec::new(), key_field: key_field.to_string() }
    }
}

impl<R: BufRead> Reader for Paragraphs<R> {
    fn next(&mut self, record: &mut Record) -> io::Result<Step> {
        record.key.clear();
        record.value.clear();
        let mut stanza = Stanza { lines: 0, has_key: false, wrong: None };
        loop {
            match self.lines.next(&mut self.line)? {
                Line::End if stanza.lines == 0 => return Ok(Step::End),
                Line::End => break,
                Line::Whole if self.line.trim_ascii().is_empty() => {
                    if stanza.lines > 0 {
                        break;
                    }
                }
                found => {
                    if stanza.lines == 0 {
                        (record.line, record.offset) = (self.lines.number(), self.lines.start());
                    }
                    let why = match found {
                        Line::TooLong => Err(self.lines.too_long()),
                        _ => stanza.take(&self.line, &self.key_field, record).map_err(|why| self.lines.malformed(why)),
                    };
                    stanza.lines += 1;
                    // One complaint a stanza. The rest of it is read, so that the next step starts behind it, and not kept.
                    if let (Err(malformed), None) = (why, &stanza.wrong) {
                        stanza.wrong = Some(malformed);
                    }
                }
            }
        }
        if stanza.wrong.is_none() && !stanza.has_key {
            let why = format!("the stanza has no field `{}`", escape(self.key_field.as_bytes()));
            stanza.wrong = Some(Malformed { line: record.line, offset: record.offset, why });
        }
        Ok(stanza.wrong.map_or(Step::Record, Step::Malformed))
    }

    fn position(&self) -> u64 {
        self.lines.position()
    }
}

/// A stanza on its way into a record.
struct Stanza {
    lines: u64,
    has_key: bool,
    wrong: Option<Malformed>,
}

impl Stanza {
    fn take(&mut self, line: &[u8], key_field: &str, record: &mut Record) -> Result<(), String> {
        if self.wrong.is_some() {
            return Ok(());
        }
        if record.value.len() + line.len() >= MAXIMUM_VALUE_BYTES {
            return Err(format!("the stanza is longer than {MAXIMUM_VALUE_BYTES} bytes"));
        }
        if self.lines > 0 {
            record.value.push(b'\n');
        }
        record.value.extend_from_slice(line);

        if matches!(line.first(), Some(b' ' | b'\t')) {
            return if self.lines > 0 { Ok(()) } else { Err("a stanza can't begin with a continuation".to_string()) };
        }
        let Some(colon) = line.iter().position(|&byte| byte == b':').filter(|&colon| colon > 0) else {
            return Err(
                "it is neither `Field: text` nor, with a space in front, the continuation of a field".to_string()
            );
        };
        if !self.has_key && line[..colon].trim_ascii_end().eq_ignore_ascii_case(key_field.as_bytes()) {
            let text = line[colon + 1..].trim_ascii();
            if text.is_empty() {
                return Err(format!("the field `{}` is empty", escape(key_field.as_bytes())));
            }
            record.key.extend_from_slice(text);
            self.has_key = true;
        }
        Ok(())
    }
}
