//! Tagged fields: how payloads are written down.
//!
//! A payload is a row of fields, each `tag u16, length u32, value`, all numbers little-endian. A tag that is not known
//! comes from a newer version, which would not have used it if it could be ignored: it is refused as unsupported. Values
//! have one form only, and every byte of them is read; nothing is allocated but for bytes that are really there.

/// Why a payload can't be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Undecodable {
    /// Not a form that is ever written.
    Malformed(String),
    /// Made by a version that knows more.
    Unknown(String),
}

pub(crate) type Decoded<T> = Result<T, Undecodable>;

pub(crate) fn malformed<T>(what: impl Into<String>) -> Decoded<T> {
    Err(Undecodable::Malformed(what.into()))
}

/// Collects fields.
#[derive(Debug, Default)]
pub(crate) struct FieldWriter {
    bytes: Vec<u8>,
}

impl FieldWriter {
    /// Appends a field whose value is all `parts` in a row.
    pub(crate) fn put(&mut self, tag: u16, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.bytes.extend_from_slice(&tag.to_le_bytes());
        // A length that does not fit makes the whole payload longer than a record may be, which is refused there.
        self.bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Takes fields off a payload, then numbers off a field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// The next field and its value; `None` at the end.
    pub(crate) fn field(&mut self) -> Decoded<Option<(u16, Reader<'a>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.u16()?;
        let length = self.u32()? as usize;
        Ok(Some((tag, Reader::new(self.take(length)?))))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Refuses a value that has bytes left.
    pub(crate) fn end(&self) -> Decoded<()> {
        if self.is_empty() { Ok(()) } else { malformed(format!("{} bytes too many", self.rest.len())) }
    }

    pub(crate) fn take(&mut self, length: usize) -> Decoded<&'a [u8]> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => malformed(format!("{} bytes where {length} are needed", self.rest.len())),
        }
    }

    /// All that is left.
    pub(crate) fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        match self.rest.split_first_chunk() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => malformed(format!("{} bytes where {N} are needed", self.rest.len())),
        }
    }

    pub(crate) fn u8(&mut self) -> Decoded<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Decoded<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Decoded<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Decoded<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Decoded<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// Items up to the end of the value.
    pub(crate) fn list<T>(&mut self, item: impl Fn(&mut Reader<'a>) -> Decoded<T>) -> Decoded<Vec<T>> {
        let mut items = Vec::new();
        while !self.is_empty() {
            items.push(item(self)?);
        }
        Ok(items)
    }

    pub(crate) fn text(&mut self) -> Decoded<String> {
        match std::str::from_utf8(self.take_rest()) {
            Ok(text) => Ok(text.to_string()),
            Err(error) => malformed(format!("text that is not UTF-8: {error}")),
        }
    }
}
