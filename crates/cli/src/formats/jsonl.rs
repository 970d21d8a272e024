//! `jsonl`: a JSON object a line.
//!
//! Without a key field, an object has `key` and `value`, both strings, or `key_b64` and `value_b64` (Base64) in place
//! of those that are not UTF-8, and nothing else: what could not be kept is not silently dropped. With a key field, the
//! object may be anything; its value is the whole line as it stands, its key what the field says: a string's text, or
//! a number or boolean as it stands in the line. Blank lines are passed over. A field that is read and stands there twice is
//! an error; of other fields only the syntax is checked, however deep they are nested.

use std::fmt;
use std::io::{self, BufRead};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::lines::{Line, Lines};
use super::record::{Reader, Record, Step};
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

/// What an object says of `N` fields.
struct Fields<'l, const N: usize> {
    names: [&'l str; N],
    /// Their JSON text, where they are there.
    texts: [Option<&'l str>; N],
    /// One that is there twice.
    twice: Option<&'l str>,
    /// A field beside them.
    other: Option<String>,
}

impl<'l, const N: usize> Fields<'l, N> {
    fn read(line: &'l [u8], names: [&'l str; N]) -> Result<Fields<'l, N>, String> {
        let text = std::str::from_utf8(line)
            .map_err(|error| format!("it is not UTF-8 at column {}; convert it first", error.valid_up_to() + 1))?;
        let mut fields = Fields { names, texts: [None; N], twice: None, other: None };
        let mut json = serde_json::Deserializer::from_str(text);
        match (&mut fields).deserialize(&mut json).and_then(|()| json.end()) {
            Err(_) if !text.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok() => {
                Err("it is JSON, but not an object".to_string())
            }
            Err(error) => {
                // serde_json counts lines and columns; here a line is all there is.
                let text = error.to_string();
                let cause = text.split(" at line ").next().unwrap_or_default();
                Err(format!("it is not JSON: {cause} at column {}", error.column()))
            }
            Ok(()) => match fields.twice {
                Some(name) => Err(format!("it has the field `{}` twice", escape(name.as_bytes()))),
                None => Ok(fields),
            },
        }
    }
}

impl<'l, const N: usize> DeserializeSeed<'l> for &mut Fields<'l, N> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'l, const N: usize> Visitor<'l> for &mut Fields<'l, N> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'l>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let Some(at) = self.names.iter().position(|wanted| *wanted == name) else {
                map.next_value::<IgnoredAny>()?;
                self.other = Some(name);
                continue;
            };
            if self.texts[at].replace(map.next_value::<&RawValue>()?.get()).is_some() {
                self.twice = Some(self.names[at]);
            }
        }
        Ok(())
    }
}

/// The text of a string in JSON; none if it is no string.
fn string(json: &str) -> Result<Option<String>, String> {
    if !json.starts_with('"') {
        return Ok(None);
    }
    serde_json::from_str(json).map(Some).map_err(|error| {
        let text = error.to_string();
        format!("it has a string that is none: {}", text.split(" at line ").next().unwrap_or_default())
    })
}

/// `{"key":…,"value":…}`.
fn take_pair(line: &[u8], record: &mut Record) -> Result<(), String> {
    let fields = Fields::read(line, ["key", "key_b64", "value", "value_b64"])?;
    let [key, key_b64, value, value_b64] = fields.texts;
    record.key = take_bytes(("key", key), ("key_b64", key_b64))?;
    record.value = take_bytes(("value", value), ("value_b64", value_b64))?;
    match fields.other {
        None => Ok(()),
        Some(other) => Err(format!(
            "there is a field `{}` beside key and value; --key key would keep the whole line",
            escape(other.as_bytes())
        )),
    }
}

fn take_bytes((plain, text): (&str, Option<&str>), (encoded, base64): (&str, Option<&str>)) -> Result<Vec<u8>, String> {
    let (name, json) = match (text, base64) {
        (Some(json), None) => (plain, json),
        (None, Some(json)) => (encoded, json),
        (Some(_), Some(_)) => return Err(format!("it has both `{plain}` and `{encoded}`")),
        (None, None) => return Err(format!("it has neither `{plain}` nor `{encoded}`")),
    };
    let text = string(json)?.ok_or_else(|| format!("`{name}` is not a string"))?;
    if name == plain {
        return Ok(text.into_bytes());
    }
    STANDARD.decode(text).map_err(|error| format!("`{name}` is not Base64: {error}"))
}

/// Any object, whole, under the text of one of its fields.
fn take_line(line: &mut Vec<u8>, field: &str, record: &mut Record) -> Result<(), String> {
    let name = || escape(field.as_bytes());
    let [json] = Fields::read(line, [field])?.texts;
    let json = json.ok_or_else(|| format!("it has no field `{}`", name()))?;
    record.key = match (string(json)?, json.as_bytes().first()) {
        (Some(text), _) => text.into_bytes(),
        (None, Some(b'n')) => return Err(format!("`{}` is null", name())),
        (None, Some(b'[' | b'{')) => {
            return Err(format!("`{}` is neither a string, a number nor a boolean", name()));
        }
        (None, _) => json.as_bytes().to_vec(),
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
