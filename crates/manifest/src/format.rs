//! The file: a header, then records one behind the other, each beginning at a multiple of 8 bytes. Little-endian.
//!
//! **Header**, 40 bytes. Every format version keeps these five fields in these places, so that a damaged header and one
//! of a newer version can be told apart.
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | magic: `slmdbMAN` |
//! | 8 | 4 | format version: 1 |
//! | 12 | 4 | CRC-32C of the other 36 bytes |
//! | 16 | 16 | the store's uuid |
//! | 32 | 8 | nonce: drawn anew for every file |
//!
//! **Record**: a header of 24 bytes, the payload, and zeros up to the next multiple of 8.
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | CRC-32C of the other 20 bytes of this header |
//! | 4 | 4 | CRC-32C of the record number and the payload, zeros behind it included |
//! | 8 | 4 | length of the payload in bytes, without the zeros |
//! | 12 | 4 | kind: 1 state, 2 edit |
//! | 16 | 8 | record number: 0 for the first record of the file, then one more each |
//!
//! Both CRCs of a record start from the *seed*, the CRC-32C of the whole file header. So a record is worth something only
//! in its own file (another store has another uuid, an older MANIFEST of the same store another nonce) and only at its
//! own place in the order. No byte of the file is outside some checksum.
//!
//! **Where the log ends.** Record 0 is the whole state; it is durable before the file gets its name, so it is there or
//! the file is damaged. Each later record is durable before the next one is begun. So a power cut or a failed write can
//! leave one broken record, and only as the last thing written. A broken place therefore ends the log quietly only if no
//! header of this file with an equal or later record number is found behind it, in steps of 8 bytes up to the end of the
//! file; if one is, something durable was damaged. (A header is enough: its record may be torn in turn, but it would not
//! have been begun.) The search looks at each place once, and at all but a few only as far as the record number.
//!
//! What can't be told from here is a file that was cut between two records, or a last record that was damaged after it
//! had been durable: both look like a torn append, and give the state before. An engine notices by what that state and
//! the rest of the store say about each other: arenas that are named but gone, table files nobody names.

use slmdb_env::{Error, File, Result};

/// What every MANIFEST begins with.
pub const MAGIC: [u8; 8] = *b"slmdbMAN";
/// The version that is written, and the only one that is read.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Where a field lies in a header: offset and length in bytes.
pub(crate) type FieldPlace = (usize, usize);

pub(crate) const HEADER_MAGIC: FieldPlace = (0, 8);
pub(crate) const HEADER_VERSION: FieldPlace = (8, 4);
pub(crate) const HEADER_CRC: FieldPlace = (12, 4);
pub(crate) const HEADER_UUID: FieldPlace = (16, 16);
pub(crate) const HEADER_NONCE: FieldPlace = (32, 8);
pub(crate) const HEADER_BYTES: usize = 40;

pub(crate) const RECORD_HEADER_CRC: FieldPlace = (0, 4);
pub(crate) const RECORD_PAYLOAD_CRC: FieldPlace = (4, 4);
pub(crate) const RECORD_PAYLOAD_LENGTH: FieldPlace = (8, 4);
pub(crate) const RECORD_KIND: FieldPlace = (12, 4);
pub(crate) const RECORD_NUMBER: FieldPlace = (16, 8);
pub(crate) const RECORD_HEADER_BYTES: usize = 24;

/// Records begin at multiples of this.
pub(crate) const ALIGNMENT_BYTES: usize = 8;

/// Whether fields follow each other without gaps up to `total`.
const fn adjoin(places: &[FieldPlace], total: usize) -> bool {
    let (mut at, mut index) = (0, 0);
    while index < places.len() {
        if places[index].0 != at {
            return false;
        }
        at += places[index].1;
        index += 1;
    }
    at == total
}

const _: () = assert!(adjoin(&[HEADER_MAGIC, HEADER_VERSION, HEADER_CRC, HEADER_UUID, HEADER_NONCE], HEADER_BYTES));
const _: () = assert!(adjoin(
    &[RECORD_HEADER_CRC, RECORD_PAYLOAD_CRC, RECORD_PAYLOAD_LENGTH, RECORD_KIND, RECORD_NUMBER],
    RECORD_HEADER_BYTES
));
const _: () =
    assert!(HEADER_BYTES.is_multiple_of(ALIGNMENT_BYTES) && RECORD_HEADER_BYTES.is_multiple_of(ALIGNMENT_BYTES));
const _: () = assert!(MAGIC.len() == HEADER_MAGIC.1);

/// How much is read at a time in the search for later records.
const SEARCH_BYTES: usize = 256 * 1024;

fn field<const N: usize>(bytes: &[u8], place: FieldPlace) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[place.0..place.0 + place.1]);
    value
}

fn set_field(bytes: &mut [u8], place: FieldPlace, value: &[u8]) {
    bytes[place.0..place.0 + place.1].copy_from_slice(value);
}

/// The header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) uuid: [u8; 16],
    pub(crate) nonce: [u8; 8],
}

/// What a file's checksums start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(u32);

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        set_field(&mut bytes, HEADER_MAGIC, &MAGIC);
        set_field(&mut bytes, HEADER_VERSION, &FORMAT_VERSION.to_le_bytes());
        set_field(&mut bytes, HEADER_UUID, &self.uuid);
        set_field(&mut bytes, HEADER_NONCE, &self.nonce);
        let crc = header_crc(&bytes);
        set_field(&mut bytes, HEADER_CRC, &crc.to_le_bytes());
        bytes
    }

    pub(crate) fn seed(&self) -> Seed {
        Seed(slmdb_checksum::crc32c(&self.encode()))
    }

    pub(crate) fn read(file: &dyn File) -> Result<Header> {
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        if field(&bytes, HEADER_MAGIC) != MAGIC {
            return Err(Error::corruption(file.path(), 0, "not a MANIFEST: it begins with other bytes"));
        }
        if u32::from_le_bytes(field(&bytes, HEADER_CRC)) != header_crc(&bytes) {
            let what = "the header of the MANIFEST does not match its checksum";
            return Err(Error::corruption(file.path(), 0, what));
        }
        match u32::from_le_bytes(field(&bytes, HEADER_VERSION)) {
            FORMAT_VERSION => Ok(Header { uuid: field(&bytes, HEADER_UUID), nonce: field(&bytes, HEADER_NONCE) }),
            version => {
                let what = format!("MANIFEST of format version {version}; this build knows version {FORMAT_VERSION}");
                Err(Error::Unsupported { what, file: Some(file.path().to_path_buf()) })
            }
        }
    }
}

fn header_crc(bytes: &[u8; HEADER_BYTES]) -> u32 {
    let before = slmdb_checksum::crc32c(&bytes[..HEADER_CRC.0]);
    slmdb_checksum::crc32c_append(before, &bytes[HEADER_CRC.0 + HEADER_CRC.1..])
}

/// What a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum RecordKind {
    State = 1,
    Edit = 2,
}

/// The header of a record whose checksum was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    payload_crc: u32,
    payload_length: u32,
    /// As it stands there: kinds of newer versions too.
    pub(crate) kind: u32,
    pub(crate) number: u64,
}

impl RecordHeader {
    fn encode(&self, seed: Seed) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        set_field(&mut bytes, RECORD_PAYLOAD_CRC, &self.payload_crc.to_le_bytes());
        set_field(&mut bytes, RECORD_PAYLOAD_LENGTH, &self.payload_length.to_le_bytes());
        set_field(&mut bytes, RECORD_KIND, &self.kind.to_le_bytes());
        set_field(&mut bytes, RECORD_NUMBER, &self.number.to_le_bytes());
        let crc = slmdb_checksum::crc32c_append(seed.0, &bytes[RECORD_HEADER_CRC.1..]);
        set_field(&mut bytes, RECORD_HEADER_CRC, &crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], seed: Seed) -> Option<RecordHeader> {
        let crc = slmdb_checksum::crc32c_append(seed.0, &bytes[RECORD_HEADER_CRC.1..RECORD_HEADER_BYTES]);
        (u32::from_le_bytes(field(bytes, RECORD_HEADER_CRC)) == crc).then(|| RecordHeader {
            payload_crc: u32::from_le_bytes(field(bytes, RECORD_PAYLOAD_CRC)),
            payload_length: u32::from_le_bytes(field(bytes, RECORD_PAYLOAD_LENGTH)),
            kind: u32::from_le_bytes(field(bytes, RECORD_KIND)),
            number: u64::from_le_bytes(field(bytes, RECORD_NUMBER)),
        })
    }
}

fn payload_crc(seed: Seed, number: u64, padded_payload: &[u8]) -> u32 {
    slmdb_checksum::crc32c_append(slmdb_checksum::crc32c_append(seed.0, &number.to_le_bytes()), padded_payload)
}

fn padded(length: u32) -> u64 {
    u64::from(length).next_multiple_of(ALIGNMENT_BYTES as u64)
}

/// A whole record as it stands in the file; `None` if the payload is too long to be one.
pub(crate) fn encode_record(seed: Seed, number: u64, kind: RecordKind, mut payload: Vec<u8>) -> Option<Vec<u8>> {
    let payload_length = u32::try_from(payload.len()).ok()?;
    payload.resize(payload.len().next_multiple_of(ALIGNMENT_BYTES), 0);
    let payload_crc = payload_crc(seed, number, &payload);
    let header = RecordHeader { payload_crc, payload_length, kind: kind as u32, number };
    Some([&header.encode(seed), payload.as_slice()].concat())
}

/// What is found at a place where record `number` should begin.
#[derive(Debug)]
pub(crate) enum Found {
    /// The record.
    Record { kind: u32, payload: Vec<u8>, end: u64 },
    /// Nothing: the file ends here.
    End,
    /// Something else, and nothing that was written later.
    Torn,
}

/// Reads record `number` at `offset` in a file of `length` bytes. What is broken is [`Error::Corruption`] unless it can
/// be what a crash leaves of the last append.
pub(crate) fn read_record(file: &dyn File, seed: Seed, number: u64, offset: u64, length: u64) -> Result<Found> {
    if offset >= length {
        return Ok(Found::End);
    }
    let remaining = length - offset;
    let mut header = [0; RECORD_HEADER_BYTES];
    let mut what = "its header is damaged";
    if remaining >= RECORD_HEADER_BYTES as u64 {
        file.read_exact_at(&mut header, offset)?;
        match RecordHeader::decode(&header, seed) {
            Some(header) if header.number != number => {
                let what = format!("record {} where record {number} should be", header.number);
                return Err(Error::corruption(file.path(), offset, what));
            }
            Some(header) if padded(header.payload_length) <= remaining - RECORD_HEADER_BYTES as u64 => {
                let mut payload = vec![0; padded(header.payload_length) as usize];
                file.read_exact_at(&mut payload, offset + RECORD_HEADER_BYTES as u64)?;
                if payload_crc(seed, number, &payload) == header.payload_crc {
                    let end = offset + (RECORD_HEADER_BYTES + payload.len()) as u64;
                    payload.truncate(header.payload_length as usize);
                    return Ok(Found::Record { kind: header.kind, payload, end });
                }
                what = "its content is damaged";
            }
            Some(_) => what = "it is cut off",
            None => {}
        }
    }
    if number == 0 {
        return Err(Error::corruption(file.path(), offset, format!("the state at the head of the MANIFEST: {what}")));
    }
    match later_record(file, seed, number, offset + ALIGNMENT_BYTES as u64, length)? {
        Some((later, place)) => {
            let what = format!("record {number} of the MANIFEST: {what}, but record {later} follows at {place}");
            Err(Error::corruption(file.path(), offset, what))
        }
        None => Ok(Found::Torn),
    }
}

/// The first header from `offset` on of a record numbered `number` or later: its number and place.
fn later_record(file: &dyn File, seed: Seed, number: u64, offset: u64, length: u64) -> Result<Option<(u64, u64)>> {
    // There can't be more records than there is room for, so most garbage is rejected by its number alone.
    let numbers = number..=number.saturating_add(length / RECORD_HEADER_BYTES as u64);
    let mut window = vec![0; SEARCH_BYTES.min(usize::try_from(length.saturating_sub(offset)).unwrap_or(SEARCH_BYTES))];
    let mut start = offset;
    loop {
        let got = file.read_at(&mut window, start)?;
        let mut at = 0;
        while let Some(bytes) = window[..got].get(at..at + RECORD_HEADER_BYTES) {
            if numbers.contains(&u64::from_le_bytes(field(bytes, RECORD_NUMBER)))
                && let Some(header) = RecordHeader::decode(bytes, seed)
            {
                return Ok(Some((header.number, start + at as u64)));
            }
            at += ALIGNMENT_BYTES;
        }
        if got < window.len() || at == 0 {
            return Ok(None);
        }
        start += at as u64;
    }
}

#[cfg(test)]
mod tests;
