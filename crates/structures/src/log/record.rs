//! What the arena is filled with: records, and the payload inside them.
//!
//! A record is a batch of entries under one header. It is the unit of atomicity (it is there whole or not at all), of
//! ordering (a batch of n entries takes n consecutive sequence numbers, entry `i` the number `first_sequence + i`) and
//! of recovery (two CRCs say whether it is whole).
//!
//! A [`Payload`] is encoded, and its CRC computed, before any space is reserved for it: encoding may fail (a key too
//! long), filling a reserved place may not, because a place that stays empty ends the log there.
//!
//! Record header, [`RECORD_HEADER_BYTES`] bytes at a multiple of [`RECORD_ALIGNMENT_BYTES`], little endian:
//!
//! | offset | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | header CRC | CRC-32C of bytes 4..32, continued from the CRC of generation (8 bytes), store UUID (16 bytes) and, if records have slots, the 5 bytes `links` |
//! | 4 | 4 | payload CRC | CRC-32C of the payload |
//! | 8 | 4 | payload length | in bytes, without padding |
//! | 12 | 4 | entry count | ≥ 1 |
//! | 16 | 8 | first sequence number | of the first entry, ≥ 1 |
//! | 24 | 8 | known-safe sequence number | everything up to here was durable when this record was reserved; < the first |
//!
//! In the form [`WithSlots`](RecordForm::WithSlots) a slot for each entry follows. Then the payload, then up to 7 bytes of padding
//! that nothing reads. The header CRC covers the payload CRC, so both
//! belong to one arena generation of one store: what a recycled arena held before never passes for a record.
//!
//! Payload: `entry count` times, little endian, without gaps or padding:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | kind: 1 put, 2 delete, 3 void, 4 delete of a range (anything else is no entry) |
//! | 1 | 2 | key length, K |
//! | 3 | 4 | value length, V (0 for a delete) |
//! | 7 | K | key |
//! | 7 + K | V | value |
//!
//! The [delete of a range](super::range_delete) has its lower bound as the key, and as the value how both bounds are meant, and the
//! upper one. A void entry without key and value comes before it, whose sequence number the deletes get that a flush makes of it.
//!
//! A **void** entry fills the place of a conditional write that came to nothing: that place was reserved before it could be
//! decided, so what fills it is exactly as long as the put would have been. It has a sequence number, and nobody ever
//! sees it. What its key and value are means nothing.

use std::fmt;

use slmdb_env::{Error, Result};

use super::arena_header::ARENA_HEADER_BYTES;
use super::range_delete::{KeyBounds, decode_bounds, encode_bounds};
use super::record_form::{RecordForm, SLOT_BYTES};
use crate::EntryKind;

/// Longest key, in bytes. The empty key is a key.
pub const MAXIMUM_KEY_BYTES: usize = 65_535;
/// Longest value, in bytes.
pub const MAXIMUM_VALUE_BYTES: usize = 256 << 20;
/// Longest payload, in bytes as encoded: keys, values and [`ENTRY_HEADER_BYTES`] for each entry.
pub const MAXIMUM_BATCH_BYTES: u64 = 1 << 30;
/// Bytes before the key of every entry in a payload.
pub const ENTRY_HEADER_BYTES: usize = 7;
/// Bytes before the payload of every record, slots left out.
pub const RECORD_HEADER_BYTES: u64 = 32;
/// Records start at multiples of this many bytes.
pub const RECORD_ALIGNMENT_BYTES: u64 = 8;

/// Where the fields of a record header are; the last one ends it.
mod field {
    use std::ops::Range;
    pub const HEADER_CRC: Range<usize> = 0..4;
    pub const PAYLOAD_CRC: Range<usize> = 4..8;
    pub const PAYLOAD_LENGTH: Range<usize> = 8..12;
    pub const ENTRY_COUNT: Range<usize> = 12..16;
    pub const FIRST_SEQUENCE: Range<usize> = 16..24;
    pub const KNOWN_SAFE_SEQUENCE: Range<usize> = 24..32;
}

const _: () = {
    assert!(field::HEADER_CRC.end == field::PAYLOAD_CRC.start);
    assert!(field::PAYLOAD_CRC.end == field::PAYLOAD_LENGTH.start);
    assert!(field::PAYLOAD_LENGTH.end == field::ENTRY_COUNT.start);
    assert!(field::ENTRY_COUNT.end == field::FIRST_SEQUENCE.start);
    assert!(field::FIRST_SEQUENCE.end == field::KNOWN_SAFE_SEQUENCE.start);
    assert!(field::KNOWN_SAFE_SEQUENCE.end as u64 == RECORD_HEADER_BYTES);
    assert!(ARENA_HEADER_BYTES.is_multiple_of(RECORD_ALIGNMENT_BYTES));
    assert!(
        RECORD_HEADER_BYTES.is_multiple_of(RECORD_ALIGNMENT_BYTES) && SLOT_BYTES.is_multiple_of(RECORD_ALIGNMENT_BYTES)
    );
    assert!(ENTRY_HEADER_BYTES == size_of::<u8>() + size_of::<u16>() + size_of::<u32>());
    assert!(MAXIMUM_KEY_BYTES == u16::MAX as usize);
    // The largest record that can be asked for still has a length.
    assert!(RecordForm::WithSlots.space_for(MAXIMUM_BATCH_BYTES, u32::MAX) < 1 << 40);
    assert!(MAXIMUM_VALUE_BYTES as u64 <= MAXIMUM_BATCH_BYTES && MAXIMUM_BATCH_BYTES <= u32::MAX as u64);
    assert!(EntryKind::Put as u8 == PayloadKind::Put as u8 && EntryKind::Delete as u8 == PayloadKind::Delete as u8);
};

/// The kind of an entry of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PayloadKind {
    /// The key gets a value.
    Put = 1,
    /// The key loses its value.
    Delete = 2,
    /// Takes a sequence number and nothing else: nobody sees it.
    Void = 3,
    /// All keys in a range lose their values.
    DeleteRange = 4,
}

impl PayloadKind {
    #[inline]
    fn of_byte(byte: u8) -> Option<PayloadKind> {
        match byte {
            1 => Some(PayloadKind::Put),
            2 => Some(PayloadKind::Delete),
            3 => Some(PayloadKind::Void),
            4 => Some(PayloadKind::DeleteRange),
            _ => None,
        }
    }

    /// The kind of the version that its key gets. `None`: no key gets one.
    #[inline]
    pub fn of_key(self) -> Option<EntryKind> {
        match self {
            PayloadKind::Put => Some(EntryKind::Put),
            PayloadKind::Delete => Some(EntryKind::Delete),
            PayloadKind::Void | PayloadKind::DeleteRange => None,
        }
    }
}

/// One entry of a [`Payload`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadEntry<'a> {
    /// What it does.
    pub kind: PayloadKind,
    /// The whole key; the lower bound of a range.
    pub key: &'a [u8],
    /// The value; empty for a delete; the bounds of a range.
    pub value: &'a [u8],
}

/// The entries of one batch in the form in which the arena keeps them, with their CRC: ready to be copied in.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Payload {
    bytes: Vec<u8>,
    count: u32,
    crc: u32,
}

impl Payload {
    /// An empty payload.
    pub fn new() -> Payload {
        Payload::default()
    }

    /// Adopts encoded entries, e.g. a batch that was kept or sent somewhere. [`Error::Invalid`] when they do not parse
    /// or exceed a limit.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Payload> {
        if bytes.len() as u64 > MAXIMUM_BATCH_BYTES {
            return Err(batch_too_long(bytes.len()));
        }
        let mut rest = bytes.as_slice();
        let mut count = 0;
        while !rest.is_empty() {
            let at = bytes.len() - rest.len();
            (_, rest) = split_entry(rest).map_err(|fault| Error::invalid(format!("batch, byte {at}: {fault}")))?;
            count += 1;
        }
        let crc = slmdb_checksum::crc32c(&bytes);
        Ok(Payload { bytes, count, crc })
    }

    /// Appends a put. [`Error::Invalid`] when the key, the value or the whole batch would exceed its limit; nothing is
    /// appended then.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.append(PayloadKind::Put, key, value)
    }

    /// Appends a delete. [`Error::Invalid`] as for [`put`](Payload::put).
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.append(PayloadKind::Delete, key, &[])
    }

    /// Appends the delete of a range, with the void entry before it. [`Error::Invalid`] as for [`put`](Payload::put).
    pub fn delete_range(&mut self, range: KeyBounds<'_>) -> Result<()> {
        let (from, value) = encode_bounds(range);
        if value.len() > 1 + MAXIMUM_KEY_BYTES {
            return Err(key_too_long(value.len() - 1));
        }
        let (bytes, count, crc) = (self.bytes.len(), self.count, self.crc);
        let appended = self.append(PayloadKind::Void, &[], &[]);
        let appended = appended.and_then(|()| self.append(PayloadKind::DeleteRange, from, &value));
        if appended.is_err() {
            self.bytes.truncate(bytes);
            (self.count, self.crc) = (count, crc);
        }
        appended
    }

    fn append(&mut self, kind: PayloadKind, key: &[u8], value: &[u8]) -> Result<()> {
        let Ok(key_length) = u16::try_from(key.len()) else {
            return Err(key_too_long(key.len()));
        };
        if value.len() > MAXIMUM_VALUE_BYTES {
            return Err(Error::invalid(format!(
                "a value of {} bytes is longer than the limit of {MAXIMUM_VALUE_BYTES}",
                value.len()
            )));
        }
        let start = self.bytes.len();
        let entry_bytes = ENTRY_HEADER_BYTES + key.len() + value.len();
        if (start + entry_bytes) as u64 > MAXIMUM_BATCH_BYTES {
            return Err(batch_too_long(start + entry_bytes));
        }
        self.bytes.reserve(entry_bytes);
        self.bytes.push(kind as u8);
        self.bytes.extend_from_slice(&key_length.to_le_bytes());
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.crc = slmdb_checksum::crc32c_append(self.crc, &self.bytes[start..]);
        self.count += 1;
        Ok(())
    }

    /// Its void twin: as many entries, each as long as it was, so that it fits the place reserved for the original and
    /// takes the same sequence numbers. None of them will be seen. Cannot fail.
    pub fn void(mut self) -> Payload {
        let mut start = 0;
        while start < self.bytes.len() {
            let (key_length, value_length) = entry_lengths(&self.bytes, start);
            self.bytes[start] = PayloadKind::Void as u8;
            start += ENTRY_HEADER_BYTES + key_length + value_length;
        }
        self.crc = slmdb_checksum::crc32c(&self.bytes);
        self
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
        self.crc = 0;
    }

    /// Length as encoded, in bytes: what [`try_reserve`](super::Log::try_reserve) wants to know.
    #[inline]
    pub fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Number of entries, hence of sequence numbers it takes.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// CRC-32C of [`as_bytes`](Payload::as_bytes).
    pub fn crc(&self) -> u32 {
        self.crc
    }

    /// The encoded entries.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The entries in the order in which they were appended.
    #[inline]
    pub fn iter(&self) -> PayloadEntries<'_> {
        entries(&self.bytes)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} entries, {} bytes, crc {:08x})", self.count, self.bytes.len(), self.crc)
    }
}

impl<'a> IntoIterator for &'a Payload {
    type Item = PayloadEntry<'a>;
    type IntoIter = PayloadEntries<'a>;
    fn into_iter(self) -> PayloadEntries<'a> {
        self.iter()
    }
}

/// Iterator over the entries of a [`Payload`].
#[derive(Debug, Clone)]
pub struct PayloadEntries<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for PayloadEntries<'a> {
    type Item = PayloadEntry<'a>;
    #[inline]
    fn next(&mut self) -> Option<PayloadEntry<'a>> {
        let (entry, rest) = split_entry(self.rest).ok()?;
        self.rest = rest;
        Some(entry)
    }
}

impl<'a> PayloadEntry<'a> {
    /// The range that it deletes.
    #[inline]
    pub fn deleted_range(&self) -> Option<KeyBounds<'a>> {
        if self.kind == PayloadKind::DeleteRange { decode_bounds(self.key, self.value) } else { None }
    }

    /// Bytes that it takes in a payload.
    #[inline]
    pub(super) fn encoded_bytes(&self) -> u64 {
        (ENTRY_HEADER_BYTES + self.key.len() + self.value.len()) as u64
    }
}

/// The entries of an encoded payload.
#[inline]
pub(super) fn entries(payload: &[u8]) -> PayloadEntries<'_> {
    PayloadEntries { rest: payload }
}

fn key_too_long(length_bytes: usize) -> Error {
    Error::invalid(format!("a key of {length_bytes} bytes is longer than the limit of {MAXIMUM_KEY_BYTES}"))
}

fn batch_too_long(length_bytes: usize) -> Error {
    Error::invalid(format!("a batch of {length_bytes} bytes is longer than the limit of {MAXIMUM_BATCH_BYTES}"))
}

/// Splits the first entry off encoded entries from anywhere. The error says what is wrong with it.
#[inline]
pub(super) fn split_entry(bytes: &[u8]) -> Result<(PayloadEntry<'_>, &[u8]), &'static str> {
    const CUT: &str = "the entry is cut off";
    let (kind, rest) = bytes.split_first().ok_or(CUT)?;
    let (key_length, rest) = rest.split_first_chunk().ok_or(CUT)?;
    let (value_length, rest) = rest.split_first_chunk().ok_or(CUT)?;
    let kind = PayloadKind::of_byte(*kind).ok_or("unknown kind of entry")?;
    let value_length = u32::from_le_bytes(*value_length) as usize;
    if value_length > MAXIMUM_VALUE_BYTES {
        return Err("the value's length is beyond the limit");
    }
    if kind == PayloadKind::Delete && value_length != 0 {
        return Err("a delete with a value");
    }
    let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*key_length))).ok_or(CUT)?;
    let (value, rest) = rest.split_at_checked(value_length).ok_or(CUT)?;
    if kind == PayloadKind::DeleteRange && decode_bounds(key, value).is_none() {
        return Err("the delete of a range whose bounds mean nothing");
    }
    Ok((PayloadEntry { kind, key, value }, rest))
}

/// Lengths of key and value of the entry at `offset`, which was found whole before.
#[inline]
pub(crate) fn entry_lengths(bytes: &[u8], offset: usize) -> (usize, usize) {
    let header = &bytes[offset..offset + ENTRY_HEADER_BYTES];
    let key_length = u16::from_le_bytes([header[1], header[2]]);
    let value_length = u32::from_le_bytes([header[3], header[4], header[5], header[6]]);
    (usize::from(key_length), value_length as usize)
}

/// The kind of version that the entry which begins with this byte gives its key, if any. REQUIRES: it was found whole before.
#[inline]
pub(crate) fn entry_kind(first: u8) -> Option<EntryKind> {
    PayloadKind::of_byte(first).and_then(PayloadKind::of_key)
}

/// What the header CRCs of an arena start from: this binds every record to one generation of one store's arena, and to
/// the form of its records.
pub(super) fn crc_seed(generation: u64, store_uuid: &[u8; 16], form: RecordForm) -> u32 {
    let seed = slmdb_checksum::crc32c_append(slmdb_checksum::crc32c(&generation.to_le_bytes()), store_uuid);
    match form {
        RecordForm::Plain => seed,
        RecordForm::WithSlots => slmdb_checksum::crc32c_append(seed, b"links"),
    }
}

/// The length of records in each form.
impl RecordForm {
    /// Where the first record of an arena starts, in bytes.
    #[inline]
    pub const fn first_record_offset(self) -> u64 {
        ARENA_HEADER_BYTES + self.slots_bytes(1)
    }

    /// Bytes of arena that a record with a payload of this length and so many entries takes, header and padding included.
    /// Meaningful up to [`MAXIMUM_BATCH_BYTES`].
    #[inline]
    pub const fn space_for(self, payload_bytes: u64, entry_count: u32) -> u64 {
        payload_bytes.saturating_add(self.payload_start(entry_count)).saturating_add(RECORD_ALIGNMENT_BYTES - 1)
            / RECORD_ALIGNMENT_BYTES
            * RECORD_ALIGNMENT_BYTES
    }

    /// From a record's start to its payload, in bytes.
    #[inline]
    const fn payload_start(self, entry_count: u32) -> u64 {
        RECORD_HEADER_BYTES + self.slots_bytes(entry_count)
    }

    #[inline]
    const fn slots_bytes(self, entry_count: u32) -> u64 {
        match self {
            RecordForm::Plain => 0,
            RecordForm::WithSlots => entry_count as u64 * SLOT_BYTES,
        }
    }
}

/// Where the slot of an entry is, given where its record starts.
#[inline]
pub(crate) const fn slot_of(record_offset: u64, entry_index: u64) -> u64 {
    record_offset + RECORD_HEADER_BYTES + entry_index * SLOT_BYTES
}

/// The fields of a record header, but for its own CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub payload_crc: u32,
    pub payload_length: u32,
    pub entry_count: u32,
    pub first_sequence: u64,
    pub known_safe_sequence: u64,
}

/// A record header as bytes.
pub(crate) type RecordHeaderBytes = [u8; RECORD_HEADER_BYTES as usize];

impl RecordHeader {
    #[inline]
    pub fn encode(&self, seed: u32) -> RecordHeaderBytes {
        let mut bytes = [0; RECORD_HEADER_BYTES as usize];
        bytes[field::PAYLOAD_CRC].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[field::PAYLOAD_LENGTH].copy_from_slice(&self.payload_length.to_le_bytes());
        bytes[field::ENTRY_COUNT].copy_from_slice(&self.entry_count.to_le_bytes());
        bytes[field::FIRST_SEQUENCE].copy_from_slice(&self.first_sequence.to_le_bytes());
        bytes[field::KNOWN_SAFE_SEQUENCE].copy_from_slice(&self.known_safe_sequence.to_le_bytes());
        let crc = slmdb_checksum::crc32c_append(seed, &bytes[field::HEADER_CRC.end..]);
        bytes[field::HEADER_CRC].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The fields as they stand there, whatever the CRC says.
    #[inline]
    pub fn read(bytes: &RecordHeaderBytes) -> RecordHeader {
        RecordHeader {
            payload_crc: u32_at(bytes, field::PAYLOAD_CRC),
            payload_length: u32_at(bytes, field::PAYLOAD_LENGTH),
            entry_count: u32_at(bytes, field::ENTRY_COUNT),
            first_sequence: u64_at(bytes, field::FIRST_SEQUENCE),
            known_safe_sequence: u64_at(bytes, field::KNOWN_SAFE_SEQUENCE),
        }
    }

    /// Whether the header's CRC is right for this arena.
    #[inline]
    pub fn crc_matches(bytes: &RecordHeaderBytes, seed: u32) -> bool {
        slmdb_checksum::crc32c_append(seed, &bytes[field::HEADER_CRC.end..]) == u32_at(bytes, field::HEADER_CRC)
    }

    /// What is impossible about the fields, given the room from the header's start to the arena's end. Cheap: this is
    /// what a scan tries before it computes a CRC.
    #[inline]
    pub fn fault(&self, room_bytes: u64, form: RecordForm) -> Option<&'static str> {
        let (payload_length, entry_count) = (u64::from(self.payload_length), u64::from(self.entry_count));
        if entry_count == 0 {
            Some("a record without entries")
        } else if payload_length < entry_count * ENTRY_HEADER_BYTES as u64 {
            Some("a record too short for its entries")
        } else if payload_length > MAXIMUM_BATCH_BYTES || payload_length + self.payload_start(form) > room_bytes {
            Some("a record longer than its arena")
        } else if self.first_sequence == 0 || self.first_sequence.checked_add(entry_count).is_none() {
            Some("a record with impossible sequence numbers")
        } else if self.known_safe_sequence >= self.first_sequence {
            Some("a record that was known safe before it was written")
        } else {
            None
        }
    }

    /// Sequence number of the last entry. Only for headers without a [`fault`](RecordHeader::fault).
    #[inline]
    pub fn last_sequence(&self) -> u64 {
        self.first_sequence + (u64::from(self.entry_count) - 1)
    }

    /// Bytes in the arena, padding included.
    #[inline]
    pub fn record_bytes(&self, form: RecordForm) -> u64 {
        form.space_for(u64::from(self.payload_length), self.entry_count)
    }

    /// From the record's start to its payload, in bytes.
    #[inline]
    pub fn payload_start(&self, form: RecordForm) -> u64 {
        form.payload_start(self.entry_count)
    }
}

#[inline]
fn u32_at(bytes: &RecordHeaderBytes, field: std::ops::Range<usize>) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[field]);
    u32::from_le_bytes(value)
}

#[inline]
fn u64_at(bytes: &RecordHeaderBytes, field: std::ops::Range<usize>) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[field]);
    u64::from_le_bytes(value)
}

#[cfg(test)]
mod tests;
