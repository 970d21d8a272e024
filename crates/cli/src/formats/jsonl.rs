//! `jsonl`: a JSON object a line.
//!
//! Without a key field, an object has `key` and `value`, both strings, or `key_b64` and `value_b64` (Base64) in place
//! of those that are not UTF-8, and nothing else: what could not be kept is not silently dropped. With a key field, the
//! object may be anything; its value is the whole line as it stands, its key what the field says: a string's text, or
//! a number's or boolean's JSON text. Empty lines are passed over.

use std::io::{self, BufRead};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{Line, Lines, Reader, Record, Step};
use crate::bytes::escape;

/// Reads `jsonl`.
pub struct JsonLines<R> {
    lines: Lines<R>,
    line: Vec<u8>,
    key_field: Option<String>,
}

impl<R: BufRead> JsonLines<R> {
    /// Records of `lines`; whole lines under what `key_field` says, when there is one.
    pub fn new(lines: Lines<R>, key_field: Option<String>) -> JsonLines<R> {
        JsonLines { lines, line: Vec::new(), key_field }
    }
}

impl<R: BufRead> Reader for JsonLines<R> {
    fn next(&mut self, record: &mut Record) -> io::Result<Step> {
        loop {
            match self.lines.next(&mut self.line)? {
                Line::Whole if self.line.trim_ascii().is_empty() => continue,
                Line::Whole => break,
                Line::TooLong => return Ok(Step::Malformed(self.lines.too_long())),
                Line::End => return Ok(Step::End),
            }
        }
        (record.line, record.offset) = (self.lines.number(), self.lines.start());
        let taken = match &self.key_field {
            None => take_pair(&self.line, record),
            Some(field) => take_line(&mut self.line, field, record),
        };
        Ok(match taken {
            Ok(()) => Step::Record,
            Err(why) => Step::Malformed(self.lines.malformed(why)),
        })
    }

    fn position(&self) -> u64 {
        self.lines.position()
    }
}

fn object(line: &[u8]) -> Result<Map<String, Value>, String> {
    match serde_json::from_slice(line) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err("it is JSON, but not an object".to_string()),
        Err(error) => {
            // serde_json counts lines and columns; here a line is all there is.
            let text = error.to_string();
            let cause = text.split(" at line ").next().unwrap_or_default();
            Err(format!("it is not JSON: {cause} at column {}", error.column()))
        }
    }
}

/// `{"key":…,"value":…}`.
fn take_pair(line: &[u8], record: &mut Record) -> Result<(), String> {
    let mut fields = object(line)?;
    record.key = take_bytes(&mut fields, "key", "key_b64")?;
    record.value = take_bytes(&mut fields, "value", "value_b64")?;
    match fields.keys().next() {
        None => Ok(()),
        Some(other) => Err(format!(
            "there is a field `{}` beside key and value; --key key would keep the whole line",
            escape(other.as_bytes())
        )),
    }
}

fn take_bytes(fields: &mut Map<String, Value>, plain: &str, encoded: &str) -> Result<Vec<u8>, String> {
    match (fields.remove(plain), fields.remove(encoded)) {
        (Some(Value::String(text)), None) => Ok(text.into_bytes()),
        (None, Some(Value::String(text))) => {
            STANDARD.decode(text).map_err(|error| format!("`{encoded}` is not Base64: {error}"))
        }
        (Some(_), Some(_)) => Err(format!("it has both `{plain}` and `{encoded}`")),
        (None, None) => Err(format!("it has neither `{plain}` nor `{encoded}`")),
        (Some(_), None) => Err(format!("`{plain}` is not a string")),
        (None, Some(_)) => Err(format!("`{encoded}` is not a string")),
    }
}

/// Any object, whole, under the text of one of its fields.
fn take_line(line: &mut Vec<u8>, field: &str, record: &mut Record) -> Result<(), String> {
    let name = || escape(field.as_bytes());
    record.key = match object(line)?.remove(field) {
        Some(Value::String(text)) => text.into_bytes(),
        Some(Value::Number(number)) => number.to_string().into_bytes(),
        Some(Value::Bool(truth)) => truth.to_string().into_bytes(),
        Some(Value::Null) => return Err(format!("`{}` is null", name())),
        Some(_) => return Err(format!("`{}` is neither a string, a number nor a boolean", name())),
        None => return Err(format!("it has no field `{}`", name())),
    };
    std::mem::swap(&mut record.value, line);
    Ok(())
}

/// Appends a record without its line feed; only the key when there is no value.
pub fn write_record(into: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    into.push(b'{');
    write_bytes(into, "key", key);
    if let Some(value) = value {
        into.push(b',');
        write_bytes(into, "value", value);
    }
    into.push(b'}');
}

fn write_bytes(into: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    into.push(b'"');
    into.extend_from_slice(name.as_bytes());
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            into.extend_from_slice(b"\":");
            into.extend_from_slice(Value::from(text).to_string().as_bytes());
        }
        Err(_) => {
            into.extend_from_slice(b"_b64\":\"");
            into.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            into.push(b'"');
        }
    }
}
