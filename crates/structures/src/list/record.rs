//! What is known of a list without reading its nodes, and how its header says it.

use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;
use slmdb_pmem::{Extent, ExtentKind, Medium, Pool};

use super::damaged;
use super::layout::{HEADER_BYTES, LAST_WORD_BYTES, MAGIC, SHARE_BYTES, Shape, VERSION, last_word, mark, order_word};

/// What a list has of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentShare {
    /// Where the segment's extent begins in the pool, in bytes.
    pub segment: u64,
    /// What the list's entries take in it, in bytes.
    pub live_bytes: u64,
    /// How many entries of the list lie in it.
    pub entries: u32,
}

/// What is known of a list without reading its nodes. It has one entry at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRecord {
    /// Its number.
    pub number: u32,
    /// Where it lies. (The entries lie elsewhere, in segments.)
    pub extent: Extent,
    /// All entries, deletes included.
    pub entries: u64,
    /// The deletes among them.
    pub deletes: u64,
    /// The lowest sequence number.
    pub lowest_sequence: u64,
    /// The highest sequence number.
    pub highest_sequence: u64,
    /// What the entries take in their segments, in bytes.
    pub data_bytes: u64,
    /// When it was made, in nanoseconds since 1970 UTC.
    pub created_unix_ns: u64,
    /// The smallest key, in the list's order.
    pub smallest_key: Arc<[u8]>,
    /// The largest key.
    pub largest_key: Arc<[u8]>,
    /// The segments in which the entries lie, by their offsets.
    pub segments: Arc<[SegmentShare]>,
}

/// A list that is written, but neither durable nor complete: that it is after
/// [`SegmentWriter::complete`](super::SegmentWriter::complete). To give it up, free its extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedList {
    pub(super) record: ListRecord,
    /// What completes it.
    pub(super) last_word: u64,
}

impl FinishedList {
    /// What is known of it.
    pub fn record(&self) -> &ListRecord {
        &self.record
    }

    /// The same.
    pub fn into_record(self) -> ListRecord {
        self.record
    }
}

/// What the header says beside the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// All keys have so many bytes of the smallest one in common.
    pub prefix_bytes: usize,
    pub filter_lines: u32,
    /// Bits of a key in the filter; 0 without a filter.
    pub probes: u32,
    pub order: u32,
    /// Of filter and upper levels.
    pub index_crc: u32,
    pub nodes_crc: u32,
}

impl Header {
    /// Writes header, keys and segment table, all but the last word, into zeros. Gives that word.
    pub fn encode(&self, record: &ListRecord, mark: u32, to: &mut [u8]) -> u64 {
        let (smallest, largest) = (&record.smallest_key, &record.largest_key);
        let mut put = |at: usize, bytes: &[u8]| to[at..at + bytes.len()].copy_from_slice(bytes);
        put(8, &record.number.to_le_bytes());
        put(12, &VERSION.to_le_bytes());
        put(16, &(record.entries as u32).to_le_bytes());
        put(20, &(record.deletes as u32).to_le_bytes());
        put(24, &record.lowest_sequence.to_le_bytes());
        put(32, &record.highest_sequence.to_le_bytes());
        put(40, &record.data_bytes.to_le_bytes());
        put(48, &record.created_unix_ns.to_le_bytes());
        put(56, &(record.segments.len() as u32).to_le_bytes());
        put(60, &self.filter_lines.to_le_bytes());
        put(64, &(smallest.len() as u16).to_le_bytes());
        put(66, &(largest.len() as u16).to_le_bytes());
        put(68, &(self.prefix_bytes as u16).to_le_bytes());
        put(70, &[self.probes as u8, 0]);
        put(72, &self.order.to_le_bytes());
        put(76, &self.index_crc.to_le_bytes());
        put(80, &self.nodes_crc.to_le_bytes());
        put(HEADER_BYTES, smallest);
        put(HEADER_BYTES + smallest.len(), largest);
        let table = (HEADER_BYTES + smallest.len() + largest.len()).next_multiple_of(8);
        for (row, share) in record.segments.iter().enumerate() {
            let at = table + row * SHARE_BYTES;
            put(at, &share.segment.to_le_bytes());
            put(at + 8, &(share.live_bytes as u32).to_le_bytes());
            put(at + 12, &share.entries.to_le_bytes());
        }
        last_word(crc_of(to) ^ mark)
    }
}

/// Of the header with keys and table, which `bytes` ends behind.
fn crc_of(bytes: &[u8]) -> u32 {
    slmdb_checksum::crc32c(&bytes[LAST_WORD_BYTES..])
}

/// Reads the header of a list, with keys and segment table. Gives where its parts are, too; they lie within the extent.
pub(super) fn read<M: Medium>(
    pool: &Pool<M>,
    extent: Extent,
    number: u32,
    order: &KeyOrder,
) -> Result<(ListRecord, Header, Shape)> {
    let wrong = |what: &str| damaged(pool, extent.offset, what);
    let found = pool.extent_at(extent.offset);
    if found != Some(extent) || extent.kind != ExtentKind::List || extent.owner != number {
        return Err(wrong("the list is not where it should be"));
    }
    let last = pool.load(extent.offset)?;
    if last as u32 != MAGIC {
        return Err(wrong("there is no complete list here"));
    }
    // SAFETY: the extent of a list, whose last word is there: nobody changes it any more. The caller frees it later than the list.
    let bytes = unsafe { pool.bytes(extent.offset, extent.length_bytes)? };
    let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| u64::from(word(at + 4)) << 32 | u64::from(word(at));
    let (entries, segments) = (word(16), word(56));
    let (smallest_bytes, largest_bytes) = (usize::from(short(64)), usize::from(short(66)));
    let key_bytes = smallest_bytes + largest_bytes;
    let header = Header {
        prefix_bytes: usize::from(short(68)),
        filter_lines: word(60),
        probes: u32::from(bytes[70]),
        order: word(72),
        index_crc: word(76),
        nodes_crc: word(80),
    };
    let shape = Shape::new(u64::from(entries), u64::from(header.filter_lines), key_bytes as u64, u64::from(segments));
    if shape.end > extent.length_bytes {
        return Err(wrong("a list says that it is longer than its extent"));
    }
    let uuid_crc = slmdb_checksum::crc32c(&pool.uuid());
    if last_word(crc_of(&bytes[..shape.filter as usize]) ^ mark(uuid_crc, extent.offset)) != last {
        return Err(wrong("the checksum of a list's header does not match"));
    }
    // (Whatever the version: the checksum covers the same, and says whether it is one or damage.)
    if word(12) != VERSION {
        let what = format!("a list of version {}", word(12));
        return Err(Error::Unsupported { what, file: Some(pool.path().to_path_buf()) });
    }
    if header.order != order_word(order) {
        let what = format!("a list whose keys are not in the order {:?}", order.name());
        return Err(Error::Unsupported { what, file: Some(pool.path().to_path_buf()) });
    }
    let (smallest, largest) = bytes[HEADER_BYTES..HEADER_BYTES + key_bytes].split_at(smallest_bytes);
    let rows = (0..segments as usize).map(|row| shape.segments as usize + row * SHARE_BYTES);
    let share =
        |at: usize| SegmentShare { segment: long(at), live_bytes: u64::from(word(at + 8)), entries: word(at + 12) };
    let record = ListRecord {
        number,
        extent,
        entries: u64::from(entries),
        deletes: u64::from(word(20)),
        lowest_sequence: long(24),
        highest_sequence: long(32),
        data_bytes: long(40),
        created_unix_ns: long(48),
        smallest_key: smallest.into(),
        largest_key: largest.into(),
        segments: rows.map(share).collect(),
    };
    if word(8) != number {
        return Err(wrong("a list has another number than its extent"));
    }
    match fault_of(pool, &record, &header, order) {
        Some(fault) => Err(wrong(fault)),
        None => Ok((record, header, shape)),
    }
}

/// What can't be so, though the checksum is right.
fn fault_of<M: Medium>(pool: &Pool<M>, record: &ListRecord, header: &Header, order: &KeyOrder) -> Option<&'static str> {
    let ListRecord { smallest_key: smallest, largest_key: largest, segments, .. } = record;
    let prefix = smallest.get(..header.prefix_bytes);
    let is_segment = |share: &SegmentShare| {
        pool.extent_at(share.segment).is_some_and(|extent| {
            extent.kind == ExtentKind::Segment
                && extent.offset == share.segment
                && share.live_bytes <= extent.length_bytes
        })
    };
    let all_entries: u64 = segments.iter().map(|share| u64::from(share.entries)).sum();
    let all_bytes: u64 = segments.iter().map(|share| share.live_bytes).sum();
    if record.entries == 0 || record.deletes > record.entries || record.lowest_sequence > record.highest_sequence {
        Some("a list's counts or sequence numbers can't be so")
    } else if header.probes > slmdb_filter::PROBES_AT_MOST || (header.probes == 0) != (header.filter_lines == 0) {
        Some("a list's filter can't be so")
    } else if order.compare(smallest, largest).is_gt() || !prefix.is_some_and(|prefix| largest.starts_with(prefix)) {
        Some("a list's smallest and largest key can't be so")
    } else if !order.is_bytewise() && header.prefix_bytes != 0 {
        Some("a list has a prefix where keys are not ordered by bytes")
    } else if !segments.is_sorted_by(|left, right| left.segment < right.segment) || !segments.iter().all(is_segment) {
        Some("a list names a segment that is not there")
    } else if all_entries != record.entries || all_bytes != record.data_bytes {
        Some("a list's segments have other entries than the list")
    } else {
        None
    }
}
