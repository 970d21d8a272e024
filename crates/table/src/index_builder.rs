//! [`IndexBuilder`]: the index chunks of a file that is searched by key, being built while its blocks are written.
//!
//! Finished chunks stay in memory until the blocks are written: one or two per cent of the file. The form is described with
//! [`IndexChunk`](crate::IndexChunk).

use crate::entry::Place;
use crate::index_chunk::{GOES_ON, HEADER_BYTES, ROW_BYTES, SEQUENCE_BYTES};
use crate::part::TRAILER_BYTES;
use slmdb_filter::LINE_BYTES;
use slmdb_order::common_prefix_bytes;

/// A chunk ends with the block with which its rows and separators become as long as this.
pub(crate) const ROWS_BYTES: usize = 4 << 10;
/// Likewise, with its filter.
pub(crate) const CHUNK_BYTES: usize = 32 << 10;
/// What a chunk takes beside rows, separators and filter, trailer included.
pub(crate) const CHUNK_OVERHEAD_BYTES: usize = HEADER_BYTES + TRAILER_BYTES;
/// The most that a row takes with its separator, the separator's key apart.
pub(crate) const ROW_BYTES_AT_MOST: usize = ROW_BYTES + SEQUENCE_BYTES;

/// Rows of a chunk or of the top.
#[derive(Debug, Default)]
struct Rows {
    /// As many times [`ROW_BYTES`] as there are rows.
    rows: Vec<u8>,
    separators: Vec<u8>,
    first_offset: u32,
    first_entries: u32,
}

impl Rows {
    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn length_bytes(&self) -> usize {
        self.rows.len() + self.separators.len()
    }

    /// `entries_before` and `entries` of the file stand before the place and before its end.
    fn push(&mut self, separator: &OwnSeparator, place: Place, entries_before: u32, entries: u32) {
        if self.rows.is_empty() {
            (self.first_offset, self.first_entries) = (place.offset, entries_before);
        }
        self.separators.extend_from_slice(&separator.key);
        let mut end = self.separators.len() as u32;
        if let Some(sequence) = separator.goes_on {
            self.separators.extend_from_slice(&sequence.to_le_bytes());
            end = self.separators.len() as u32 | GOES_ON;
        }
        for field in [end, place.end() as u32, entries] {
            self.rows.extend_from_slice(&field.to_le_bytes());
        }
    }

    /// The content of the chunk, but its filter; what is left has no rows.
    fn take(&mut self, lines: u32, probes: u32) -> Vec<u8> {
        let rows = (self.rows.len() / ROW_BYTES) as u32;
        let filter_bytes = lines as usize * LINE_BYTES;
        let mut content = Vec::with_capacity(HEADER_BYTES + self.length_bytes() + filter_bytes + TRAILER_BYTES);
        for field in [rows, self.first_offset, self.first_entries, lines, probes] {
            content.extend_from_slice(&field.to_le_bytes());
        }
        content.append(&mut self.rows);
        content.append(&mut self.separators);
        content
    }
}

#[derive(Debug, Default)]
struct OwnSeparator {
    key: Vec<u8>,
    /// The last sequence number before the cut, if the key has older versions behind it.
    goes_on: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct IndexBuilder {
    is_bytewise: bool,
    filter_bits_per_key: u32,
    /// The contents of finished chunks.
    chunks: Vec<Vec<u8>>,
    /// Their length, trailers included.
    chunk_bytes: u64,
    /// What the top has of each of them: its separator, and how many entries stand before it and before its end.
    tops: Vec<(OwnSeparator, u32, u32)>,
    top_bytes: u64,
    rows: Rows,
    /// Of each key of the chunk being built.
    hashes: Vec<u32>,
    /// How many entries blocks with a row have.
    entries: u32,
    separator: OwnSeparator,
}

impl IndexBuilder {
    pub(crate) fn new(is_bytewise: bool, filter_bits_per_key: u32) -> IndexBuilder {
        IndexBuilder {
            is_bytewise,
            filter_bits_per_key,
            chunks: Vec::new(),
            chunk_bytes: 0,
            tops: Vec::new(),
            top_bytes: 0,
            rows: Rows::default(),
            hashes: Vec::new(),
            entries: 0,
            separator: OwnSeparator::default(),
        }
    }

    /// Adds the key of an entry of the block being written. Versions of one key count once in a chunk.
    pub(crate) fn add(&mut self, key: &[u8]) {
        if self.filter_bits_per_key > 0 {
            let hash = slmdb_filter::hash_of(key);
            if self.hashes.last() != Some(&hash) {
                self.hashes.push(hash);
            }
        }
    }

    /// The block of the last keys was written at `place`. `last` is its last entry, `next` the key of the entry behind it, `entries` how
    /// many entries there are up to here.
    pub(crate) fn end_block(&mut self, place: Place, last: (&[u8], u64), next: Option<&[u8]>, entries: u32) {
        self.separate(last, next);
        self.rows.push(&self.separator, place, self.entries, entries);
        self.entries = entries;
        let filter_bytes = self.lines() as usize * LINE_BYTES;
        if self.rows.length_bytes() >= ROWS_BYTES || self.rows.length_bytes() + filter_bytes >= CHUNK_BYTES {
            self.end_chunk();
        }
    }

    fn lines(&self) -> u64 {
        slmdb_filter::lines_of(self.hashes.len() as u64, self.filter_bits_per_key)
    }

    fn separate(&mut self, (last, sequence): (&[u8], u64), next: Option<&[u8]>) {
        let separator = &mut self.separator;
        separator.goes_on = (next == Some(last)).then_some(sequence);
        separator.key.clear();
        match next {
            Some(next) if self.is_bytewise && separator.goes_on.is_none() => shorten(last, next, &mut separator.key),
            _ => separator.key.extend_from_slice(last),
        }
    }

    fn end_chunk(&mut self) {
        let lines = self.lines() as u32;
        let probes = if lines == 0 { 0 } else { slmdb_filter::probes_of(self.filter_bits_per_key) };
        let entries_before = self.rows.first_entries;
        let mut content = self.rows.take(lines, probes);
        let filter_at = content.len();
        content.resize(filter_at + lines as usize * LINE_BYTES, 0);
        for hash in self.hashes.drain(..) {
            slmdb_filter::insert(&mut content[filter_at..], probes, hash);
        }
        let separator = std::mem::take(&mut self.separator);
        self.chunk_bytes += (content.len() + TRAILER_BYTES) as u64;
        self.top_bytes += (ROW_BYTES_AT_MOST + separator.key.len()) as u64;
        self.chunks.push(content);
        self.tops.push((separator, entries_before, self.entries));
    }

    /// How long all chunks and the top would be, trailers included, if the block being written ended now with this key; an upper bound.
    pub(crate) fn length_bytes(&self, last_key_bytes: usize) -> u64 {
        // A row for the block in its chunk, one for that chunk in the top.
        let separators_bytes = 2 * (ROW_BYTES_AT_MOST + last_key_bytes) + self.separator.key.len();
        let open_bytes = self.rows.length_bytes() + separators_bytes + 2 * CHUNK_OVERHEAD_BYTES;
        self.chunk_bytes + self.top_bytes + open_bytes as u64 + self.lines() * LINE_BYTES as u64
    }

    /// The contents of all chunks, and what becomes the top once their places are known.
    pub(crate) fn finish(mut self) -> (Vec<Vec<u8>>, TopBuilder) {
        if !self.rows.is_empty() {
            self.end_chunk();
        }
        (self.chunks, TopBuilder { tops: self.tops.into_iter(), rows: Rows::default() })
    }
}

/// The top, while chunks are written.
#[derive(Debug)]
pub(crate) struct TopBuilder {
    tops: std::vec::IntoIter<(OwnSeparator, u32, u32)>,
    rows: Rows,
}

impl TopBuilder {
    /// The next chunk was written at `place`.
    pub(crate) fn push(&mut self, place: Place) {
        if let Some((separator, entries_before, entries)) = self.tops.next() {
            self.rows.push(&separator, place, entries_before, entries);
        }
    }

    /// The top's content.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.rows.take(0, 0)
    }
}

/// Appends a short key from `last` on, and before `next`, which is behind `last` in the order by bytes. It is not longer than `last`.
fn shorten(last: &[u8], next: &[u8], into: &mut Vec<u8>) {
    let common = common_prefix_bytes(last, next);
    if common + 1 < next.len() && common < last.len() {
        // A head of `next`, and not the whole.
        into.extend_from_slice(&next[..=common]);
        return;
    }
    // The first byte behind the one that tells them apart that can be made greater.
    let greater = last.iter().skip(common + 1).position(|&byte| byte < 0xff).map(|at| common + 1 + at);
    match greater {
        Some(at) if at + 1 < last.len() => {
            into.extend_from_slice(&last[..at]);
            into.push(last[at] + 1);
        }
        _ => into.extend_from_slice(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(last: &[u8], next: &[u8]) -> Vec<u8> {
        let mut separator = Vec::new();
        shorten(last, next, &mut separator);
        separator
    }

    #[test]
    fn separators_are_short_and_between() {
        assert_eq!(shortened(b"abcdef", b"abxyz"), b"abx");
        assert_eq!(shortened(b"ab", b"abc"), b"ab");
        assert_eq!(shortened(b"abcdef", b"b"), b"ac");
        assert_eq!(shortened(b"a\xff\xff\x01z", b"b"), b"a\xff\xff\x02");
        assert_eq!(shortened(b"a\xff\xff", b"b"), b"a\xff\xff");
        assert_eq!(shortened(b"", b"b"), b"");
    }

    #[test]
    fn every_pair_of_short_keys_is_separated() {
        let bytes = [0u8, 1, 2, 0xfe, 0xff];
        let mut keys = vec![vec![]];
        for length in 0..3 {
            let longer = keys.iter().filter(|key: &&Vec<u8>| key.len() == length);
            let longer: Vec<_> = longer.flat_map(|key| bytes.map(|byte| [&key[..], &[byte]].concat())).collect();
            keys.extend(longer);
        }
        keys.sort();
        for (index, last) in keys.iter().enumerate() {
            for next in &keys[index + 1..] {
                let separator = shortened(last, next);
                assert!(*last <= separator && separator < *next, "{last:?} {separator:?} {next:?}");
                assert!(separator.len() <= last.len(), "{last:?} {separator:?} {next:?}");
            }
        }
    }
}
