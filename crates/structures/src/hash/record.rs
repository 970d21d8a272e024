//! What is known of a table without reading its slots, and how its header says it.

use std::ops::Range;

use slmdb_env::{Error, Result};

use super::identity::SHARDS_MAX;
use super::layout::{
    FIRST_WORD_BYTES, HEADER_BYTES, MAGIC, ROW_BYTES, UNIT_BYTES, UNIT_SLOTS, VERSION, first_word, header_bytes,
    part_seed,
};
use super::{TableBytes, damaged};

/// What is known of a table without reading its slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRecord {
    /// Its number.
    pub number: u32,
    /// The store's UUID.
    pub uuid: [u8; 16],
    /// Its level, as its maker said.
    pub level: u8,
    /// Its epoch, as its maker said.
    pub epoch: u32,
    /// How many shards the store has.
    pub shards: u32,
    /// The shards that it may have parts of.
    pub range: Range<u32>,
    /// All slots, deletes included.
    pub entries: u64,
    /// How long it is, in bytes.
    pub length_bytes: u64,
}

/// What the header says of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    /// Where it begins in the table, in units; 0: the table has no such part.
    pub begin: u32,
    pub homes: u32,
    pub entries: u32,
    pub crc: u32,
}

impl Row {
    /// Of a shard that the table says nothing of.
    pub const ABSENT: Row = Row { begin: 0, homes: 0, entries: 0, crc: 0 };
}

/// A part of an open table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// Where it begins in the table, in bytes.
    pub begin: u64,
    /// How long it is, in bytes.
    pub length_bytes: u64,
    pub homes: u64,
    pub entries: u32,
    pub crc: u32,
    /// What its checksums begin with.
    pub seed: u32,
}

impl Part {
    /// How many units it has.
    #[inline]
    pub fn units(&self) -> u64 {
        self.length_bytes / UNIT_BYTES
    }

    /// So many slots have room.
    #[inline]
    pub fn positions(&self) -> u64 {
        self.units() * UNIT_SLOTS
    }
}

/// Writes a header, all but the first word, into zeros. Gives that word.
pub(super) fn encode(record: &TableRecord, rows: &[Row], to: &mut [u8]) -> u64 {
    let mut put = |at: usize, bytes: &[u8]| to[at..at + bytes.len()].copy_from_slice(bytes);
    put(8, &record.number.to_le_bytes());
    put(12, &VERSION.to_le_bytes());
    put(16, &record.uuid);
    put(32, &record.epoch.to_le_bytes());
    put(36, &[record.level, record.shards.trailing_zeros() as u8]);
    put(38, &(record.range.start as u16).to_le_bytes());
    put(40, &(rows.len() as u16).to_le_bytes());
    put(44, &((record.length_bytes / UNIT_BYTES) as u32).to_le_bytes());
    put(48, &record.entries.to_le_bytes());
    for (index, row) in rows.iter().enumerate() {
        for (field, word) in [row.begin, row.homes, row.entries, row.crc].into_iter().enumerate() {
            put(HEADER_BYTES + index * ROW_BYTES + field * 4, &word.to_le_bytes());
        }
    }
    first_word(slmdb_checksum::crc32c(&to[FIRST_WORD_BYTES..]))
}

/// Reads and checks a header. The parts lie within the table, one behind the other, and the table within its bytes.
pub(super) fn read(bytes: &impl TableBytes, number: u32, uuid: [u8; 16]) -> Result<(TableRecord, Box<[Option<Part>]>)> {
    let wrong = |what: &str| damaged(bytes, 0, what);
    let mut front = [0; HEADER_BYTES];
    if bytes.length_bytes() < UNIT_BYTES {
        return Err(wrong("there is no complete hash table here"));
    }
    bytes.copy(0, &mut front)?;
    let short = |at: usize| u16::from_le_bytes([front[at], front[at + 1]]);
    let word = |at: usize| u32::from_le_bytes([front[at], front[at + 1], front[at + 2], front[at + 3]]);
    if word(0) != MAGIC {
        return Err(wrong("there is no complete hash table here"));
    }
    let (first, rows) = (u32::from(short(38)), u32::from(short(40)));
    let end = header_bytes(rows.into());
    let record = TableRecord {
        number: word(8),
        uuid: *front[16..].first_chunk().unwrap_or(&[0; 16]),
        level: front[36],
        epoch: word(32),
        shards: 1_u32.checked_shl(front[37].into()).unwrap_or(0),
        range: first..first + rows,
        entries: u64::from(word(52)) << 32 | u64::from(word(48)),
        length_bytes: u64::from(word(44)) * UNIT_BYTES,
    };
    if end > record.length_bytes || record.length_bytes > bytes.length_bytes() {
        return Err(wrong("a hash table is longer than the place where it lies"));
    }
    let mut header = vec![0; end as usize];
    bytes.copy(0, &mut header)?;
    if slmdb_checksum::crc32c(&header[FIRST_WORD_BYTES..]) != word(4) {
        return Err(wrong("the checksum of a hash table's header does not match"));
    }
    if word(12) != VERSION {
        let file = Some(bytes.path().to_path_buf());
        return Err(Error::Unsupported { what: format!("a hash table of version {}", word(12)), file });
    }
    if (record.number, record.uuid) != (number, uuid) {
        return Err(wrong("a hash table of another number, or of another store"));
    }
    if record.shards > SHARDS_MAX || record.range.end > record.shards {
        return Err(wrong("a hash table of shards that there are not"));
    }
    let parts = parts(&header[HEADER_BYTES..], &record, end);
    let is_sum = |parts: &[Option<Part>]| {
        parts.iter().flatten().map(|part| u64::from(part.entries)).sum::<u64>() == record.entries
    };
    match parts.filter(|parts| is_sum(parts)) {
        Some(parts) => Ok((record, parts)),
        None => Err(wrong("the parts of a hash table contradict each other")),
    }
}

/// The parts, from the rows. `None`: they overlap, lie outside, or have more slots than room.
fn parts(rows: &[u8], record: &TableRecord, header_end: u64) -> Option<Box<[Option<Part>]>> {
    let (rows, _) = rows.as_chunks::<ROW_BYTES>();
    let mut parts = vec![None; record.range.len()];
    let mut end = record.length_bytes;
    for ((shard, to), row) in record.range.clone().zip(&mut parts).zip(rows).rev() {
        let [begin, homes, entries, crc] = [0, 1, 2, 3].map(|field| u32::from_le_bytes(row.as_chunks().0[field]));
        let row = Row { begin, homes, entries, crc };
        if row == Row::ABSENT {
            continue;
        }
        let begin = u64::from(begin) * UNIT_BYTES;
        let length_bytes = end.checked_sub(begin)?;
        let seed = part_seed(record.number, shard as u16);
        let part = Part { begin, length_bytes, homes: homes.into(), entries, crc, seed };
        if u64::from(entries) > part.positions() {
            return None;
        }
        *to = Some(part);
        end = begin;
    }
    (end == header_end).then(|| parts.into())
}
