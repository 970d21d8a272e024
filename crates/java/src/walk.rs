//! [`Walk`]: the entries of a range, packed in blocks, both ways.
//!
//! Each fetch says by itself where it begins; a walk that stands there already goes on without seeking. So whatever several
//! threads do with one cursor, each gets entries that follow what it named.

use slmdb::{Cursor, Error};

use crate::failure::Result;
use crate::packing::ENTRY_HEADER_BYTES;

/// How many entries the first block has at most.
const FIRST_ENTRIES: usize = 4;

/// The most entries of a block.
const MOST_ENTRIES: usize = 256;

/// No more entries are added to a block that has so many bytes.
const MOST_BYTES: usize = 64 << 10;

/// To larger keys, in [`Walk::fetch`].
pub const FORWARD: i32 = 0;
/// To smaller keys.
pub const BACKWARD: i32 = 1;

/// From the beginning of the range, or backward from its end.
pub const START: i32 = 0;
/// From the first key at or after the named one; backward from the last before it.
pub const AT: i32 = 1;
/// From the first key after the named one; backward from the last before it.
pub const PAST: i32 = 2;

/// A cursor within two bounds.
pub struct Walk {
    cursor: Cursor,
    /// No entry has a smaller key.
    from: Option<Vec<u8>>,
    /// Every entry has a smaller key.
    to: Option<Vec<u8>>,
    reads_values: bool,
    /// The way that the last block went, and its last key: the cursor is on the entry that follows.
    stands: Option<(bool, Vec<u8>)>,
    /// How many entries the next block has if it goes on from there.
    wanted: usize,
}

impl Walk {
    /// Over the keys from `from` on and before `to`.
    pub fn new(cursor: Cursor, from: Option<Vec<u8>>, to: Option<Vec<u8>>, reads_values: bool) -> Walk {
        Walk { cursor, from, to, reads_values, stands: None, wanted: FIRST_ENTRIES }
    }

    /// Packs entries into `out`, from the place that `start` and `key` name. How many bytes they take; 0 at the end of the
    /// range. More than `out` has: the first entry takes so many, and nothing was packed.
    pub fn fetch(&mut self, way: i32, start: i32, key: &[u8], out: &mut [u8]) -> Result<usize> {
        let forward = match (way, start) {
            (FORWARD, START | AT | PAST) => true,
            (BACKWARD, START | AT | PAST) => false,
            _ => return Err(Error::invalid(format!("a cursor can't go the way {way} from {start}")).into()),
        };
        let stood = self.stands.take();
        if start == PAST && stood.is_some_and(|(way, last)| way == forward && last == key) {
            self.wanted = (self.wanted * 2).min(MOST_ENTRIES);
        } else {
            self.wanted = FIRST_ENTRIES;
            if forward { self.seek_forward(start, key)? } else { self.seek_backward(start, key)? }
        }
        self.pack(forward, out)
    }

    fn seek_forward(&mut self, start: i32, key: &[u8]) -> Result<()> {
        match &self.from {
            Some(from) if start == START || key < from.as_slice() => self.cursor.seek(from)?,
            None if start == START => self.cursor.seek_first()?,
            _ => {
                self.cursor.seek(key)?;
                if start == PAST && self.cursor.key() == key && self.cursor.valid() {
                    self.cursor.next()?;
                }
            }
        }
        Ok(())
    }

    fn seek_backward(&mut self, start: i32, key: &[u8]) -> Result<()> {
        match &self.to {
            Some(to) if start == START || key > to.as_slice() => self.cursor.seek_before(to)?,
            None if start == START => self.cursor.seek_last()?,
            _ => self.cursor.seek_before(key)?,
        }
        Ok(())
    }

    /// Whether the cursor is on an entry of the range.
    fn is_inside(&self, forward: bool) -> bool {
        let key = self.cursor.key();
        let inside = if forward {
            self.to.as_ref().is_none_or(|to| key < to.as_slice())
        } else {
            self.from.as_ref().is_none_or(|from| key >= from.as_slice())
        };
        self.cursor.valid() && inside
    }

    fn pack(&mut self, forward: bool, out: &mut [u8]) -> Result<usize> {
        let (mut packed, mut last_start, mut last_bytes) = (0, 0, 0);
        for _ in 0..self.wanted {
            if packed >= MOST_BYTES || !self.is_inside(forward) {
                break;
            }
            let key_bytes = self.cursor.key().len();
            let value_bytes = if self.reads_values { self.cursor.value_ref()?.len() } else { 0 };
            let bytes = ENTRY_HEADER_BYTES + key_bytes + value_bytes;
            let Some(place) = out.get_mut(packed..packed + bytes) else {
                if packed == 0 {
                    return Ok(bytes);
                }
                break;
            };
            let (header, rest) = place.split_at_mut(ENTRY_HEADER_BYTES);
            header[..4].copy_from_slice(&(key_bytes as u32).to_be_bytes());
            header[4..].copy_from_slice(&(value_bytes as u32).to_be_bytes());
            rest[..key_bytes].copy_from_slice(self.cursor.key());
            if self.reads_values {
                rest[key_bytes..].copy_from_slice(self.cursor.value_ref()?);
            }
            (last_start, last_bytes) = (packed + ENTRY_HEADER_BYTES, key_bytes);
            packed += bytes;
            if forward { self.cursor.next()? } else { self.cursor.prev()? }
        }
        if packed > 0 {
            self.stands = Some((forward, out[last_start..last_start + last_bytes].to_vec()));
        }
        Ok(packed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use slmdb::Db;

    use super::*;
    use crate::packing::unpacked;

    type Entries = Vec<(Vec<u8>, Vec<u8>)>;

    fn walk(db: &Db, from: Option<&[u8]>, to: Option<&[u8]>) -> Walk {
        Walk::new(db.cursor().unwrap(), from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec), true)
    }

    fn fetched(walk: &mut Walk, way: i32, start: i32, key: &[u8], capacity: usize) -> Entries {
        let mut out = vec![0; capacity];
        let mut bytes = walk.fetch(way, start, key, &mut out).unwrap();
        if bytes > out.len() {
            out = vec![0; bytes];
            let needed = bytes;
            bytes = walk.fetch(way, start, key, &mut out).unwrap();
            assert_eq!(bytes, needed, "one entry alone");
        }
        unpacked(&out[..bytes])
    }

    #[test]
    fn blocks_double_and_go_on_where_the_last_one_ended() {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path().join("db")).unwrap();
        for number in 0_u32..1000 {
            db.put(number.to_be_bytes(), "v").unwrap();
        }
        for way in [FORWARD, BACKWARD] {
            let mut walk = walk(&db, None, None);
            let (mut sizes, mut all) = (Vec::new(), Entries::new());
            loop {
                let start = if all.is_empty() { START } else { PAST };
                let last = all.last().map(|(key, _)| key.clone()).unwrap_or_default();
                let block = fetched(&mut walk, way, start, &last, 1 << 16);
                if block.is_empty() {
                    break;
                }
                sizes.push(block.len());
                all.extend(block);
            }
            assert_eq!(sizes, [4, 8, 16, 32, 64, 128, 256, 256, 236]);
            assert!(all.windows(2).all(|pair| (pair[0].0 < pair[1].0) == (way == FORWARD)));
        }
    }

    #[test]
    fn a_block_ends_at_its_bytes_and_an_entry_that_does_not_fit_tells_its_size() {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path().join("db")).unwrap();
        for key in ["a", "b", "c"] {
            db.put(key, vec![7; 40_000]).unwrap();
        }
        let mut walk = walk(&db, None, None);
        assert_eq!(fetched(&mut walk, FORWARD, START, b"", 1 << 16).len(), 1);
        assert_eq!(fetched(&mut walk, FORWARD, PAST, b"a", 100).len(), 1);
        assert_eq!(fetched(&mut walk, FORWARD, START, b"", 1 << 20).len(), 2);
        assert_eq!(walk.fetch(FORWARD, START, b"", &mut []).unwrap(), 40_009);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Any fetches on any store give what a map gives.
        #[test]
        fn fetches_give_what_a_map_gives(
            keys in prop::collection::btree_map("[a-c]{0,3}", "[a-z]{0,20}", 0..40),
            bounds in (prop::option::of("[a-c]{0,3}"), prop::option::of("[a-c]{0,3}")),
            fetches in prop::collection::vec((0..2_i32, 0..3_i32, prop::option::of("[a-c]{0,3}"), 0..200_usize), 1..40),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let db = Db::open(directory.path().join("db")).unwrap();
            for (key, value) in &keys {
                db.put(key, value).unwrap();
            }
            let map: BTreeMap<Vec<u8>, Vec<u8>> =
                keys.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
            let (from, to) = (bounds.0.as_ref().map(|key| key.as_bytes()), bounds.1.as_ref().map(|key| key.as_bytes()));
            let mut walk = walk(&db, from, to);
            // Without a key a fetch goes on from the last one.
            let mut last = Vec::new();
            for (way, start, key, capacity) in fetches {
                let start = if key.is_none() { PAST } else { start };
                let key = key.map_or_else(|| last.clone(), String::into_bytes);
                let block = fetched(&mut walk, way, start, &key, capacity);
                let inside = map.iter().filter(|(other, _)| {
                    let other = other.as_slice();
                    from.is_none_or(|from| other >= from) && to.is_none_or(|to| other < to)
                });
                let mut wanted: Entries = inside
                    .filter(|(other, _)| match (way, start) {
                        (_, START) => true,
                        (FORWARD, AT) => **other >= key,
                        (FORWARD, _) => **other > key,
                        _ => **other < key,
                    })
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                if way == BACKWARD {
                    wanted.reverse();
                }
                prop_assert_eq!(block.is_empty(), wanted.is_empty());
                prop_assert_eq!(&block[..], &wanted[..block.len()]);
                if let Some((key, _)) = block.last() {
                    last = key.clone();
                }
            }
        }
    }
}
