//! Damaged bytes: a right answer or an error, never another answer and never a panic. With checksums mended, whatever the bytes
//! say, but no panic, and an end.

use std::sync::Arc;

use slmdb_env::{ErrorKind, Result};
use slmdb_order::KeyOrder;
use slmdb_pmem::{Dram, Extent, ExtentKind, Pool};
use slmdb_structures::list::{List, ListCursor};
use slmdb_testkit::Simulated;

use super::{Entry, complete_one, current, entry, extents_of, list_options, pool, sort};
use crate::fast_fair::support::Random;

const NUMBER: u32 = 6;
const FANOUT: usize = 16;

/// Keys with and without equal heads, some with versions.
fn model() -> Vec<Entry> {
    let mut model: Vec<Entry> = (0..24)
        .flat_map(|number| {
            let keys = [format!("key{number:04}"), format!("key0005 and {number:04}")];
            keys.into_iter().enumerate().map(move |(way, key)| (key, 1 + number * 4 + way as u64))
        })
        .flat_map(|(key, sequence)| {
            let versions = if sequence % 3 == 0 { 2 } else { 1 };
            (0..versions).map(move |version| entry(key.as_bytes(), sequence + 1000 * version))
        })
        .collect();
    sort(&mut model, &KeyOrder::Bytewise);
    model
}

struct Image {
    bytes: Vec<u8>,
    list: Extent,
    segment: u64,
    segment_bytes: u64,
    model: Vec<Entry>,
}

impl Image {
    fn new(filter_bits: u32) -> Image {
        let medium = Simulated::new();
        let pool = pool(medium.clone());
        let model = model();
        let list = complete_one(&pool, NUMBER, &model, list_options(&KeyOrder::Bytewise, filter_bits));
        let mut replay = medium.history().replay();
        while replay.to_next_crash() {}
        let bytes = replay.images(1, 1).last().unwrap();
        let share = list.record().segments[0];
        let (segment, segment_bytes) = (share.segment, share.live_bytes);
        Image { bytes, list: list.record().extent, segment, segment_bytes, model }
    }

    /// Every byte of list and segment, and some behind them.
    fn places(&self) -> impl Iterator<Item = u64> {
        let list = self.list.offset..self.list.offset + parts(&self.bytes, self.list.offset as usize).end as u64 + 8;
        list.chain(self.segment..self.segment + self.segment_bytes + 8)
    }

    fn open(&self, bytes: Vec<u8>) -> (Arc<Pool<Dram>>, Result<List<Dram>>) {
        let pool = Arc::new(Pool::from_image(Dram, bytes).unwrap());
        let list = List::open(Arc::clone(&pool), self.list, NUMBER, KeyOrder::Bytewise);
        (pool, list)
    }

    /// Opens damaged bytes, and looks at everything. Whether an error was seen, and whether all answers were right.
    fn look(&self, bytes: Vec<u8>) -> (bool, bool) {
        match self.open(bytes).1 {
            Ok(list) => self.ask(&Arc::new(list)),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported), "{error}");
                (true, true)
            }
        }
    }

    fn ask(&self, list: &Arc<List<Dram>>) -> (bool, bool) {
        let (mut is_seen, mut is_right) = (!list.verify().is_empty(), true);
        let mut answered = |answer: Result<bool>| match answer {
            Ok(is) => is_right &= is,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                is_seen = true;
            }
        };
        let mut cursor = ListCursor::new(Arc::clone(list));
        for entry in &self.model {
            for (moment, expected) in [(entry.sequence, Some(entry)), (u64::MAX, self.newest(&entry.key))] {
                let found = list.get(&entry.key, moment);
                let same = |expected: &Entry, found: slmdb_structures::list::Found<'_>| {
                    (expected.kind, expected.sequence, &expected.value[..]) == (found.kind, found.sequence, found.value)
                };
                answered(found.map(|found| match (expected, found) {
                    (Some(expected), Some(found)) => same(expected, found),
                    (expected, found) => expected.is_none() && found.is_none(),
                }));
            }
            let missing = [&entry.key[..], b"!"].concat();
            answered(list.get(&missing, u64::MAX).map(|found| found.is_none()));
            let behind = self.model.partition_point(|entry| entry.key < missing);
            answered(list.rank(&missing).map(|rank| rank == behind as u64));
            let moved = cursor.seek(&missing);
            answered(moved.and_then(|()| Ok(current(&cursor)?.as_ref() == self.model.get(behind))));
            let moved = cursor.seek_before(&entry.key);
            let before = self.model.partition_point(|other| other.key < entry.key);
            answered(
                moved.and_then(|()| Ok(current(&cursor)?.as_ref() == before.checked_sub(1).map(|at| &self.model[at]))),
            );
        }
        answered(self.walk(&mut cursor));
        (is_seen, is_right)
    }

    fn walk(&self, cursor: &mut ListCursor<Dram>) -> Result<bool> {
        cursor.seek_first()?;
        let mut is_right = true;
        for entry in &self.model {
            is_right &= current(cursor)?.as_ref() == Some(entry);
            cursor.next()?;
        }
        cursor.seek_last()?;
        for entry in self.model.iter().rev() {
            is_right &= current(cursor)?.as_ref() == Some(entry);
            cursor.prev()?;
        }
        Ok(is_right && !cursor.valid())
    }

    fn newest(&self, key: &[u8]) -> Option<&Entry> {
        self.model.iter().find(|entry| entry.key == key)
    }
}

/// Where a list's parts are in an image, as docs/formats/list.md has it.
struct Parts {
    filter: usize,
    nodes: usize,
    end: usize,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes(word.try_into().unwrap()))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()))
}

fn parts(bytes: &[u8], list: usize) -> Parts {
    let header = &bytes[list..list + 84];
    let keys = (word(header, 64) & 0xffff) as usize + (word(header, 64) >> 16) as usize;
    let table = (84 + keys).next_multiple_of(8);
    let filter = (table + word(header, 56) as usize * 16).next_multiple_of(64);
    let mut at = filter + word(header, 60) as usize * 64;
    let mut count = word(header, 16) as usize;
    while count > FANOUT {
        count = count.div_ceil(FANOUT);
        at = (at + count * 8).next_multiple_of(64);
    }
    Parts { filter, nodes: at, end: at + word(header, 16) as usize * 16 }
}

fn mark(bytes: &[u8], offset: u64) -> u32 {
    crc(&bytes[16..32]) ^ ((offset / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

fn crc(bytes: &[u8]) -> u32 {
    slmdb_checksum::crc32c(bytes)
}

/// Makes every checksum right that can be: of values, fronts, nodes, levels and header.
fn mend(bytes: &mut [u8], image: &Image) {
    let list = image.list.offset as usize;
    let Parts { filter, nodes, end } = parts(bytes, list);
    if list + end > bytes.len() {
        return;
    }
    for (index, node) in (list + nodes..list + end).step_by(16).enumerate() {
        let place = ((long(bytes, node + 8) & ((1 << 43) - 1)) << 3) as usize;
        let (value_bytes, key_bytes) = (word(bytes, place + 16) as usize, (word(bytes, place + 20) & 0xffff) as usize);
        let value = place + 22 + key_bytes;
        let segment = image.segment as usize..(image.segment + image.segment_bytes) as usize;
        if segment.contains(&place) && value + value_bytes <= segment.end {
            let check = crc(&bytes[value..value + value_bytes]);
            bytes[place + 4..place + 8].copy_from_slice(&check.to_le_bytes());
            let check = crc(&bytes[place + 4..value]) ^ mark(bytes, place as u64);
            bytes[place..place + 4].copy_from_slice(&check.to_le_bytes());
        }
        let low = (place / 8) as u64 | u64::from(word(bytes, place) & 0x3ff) << 43;
        let checked =
            [&bytes[list + 8..list + 12], &(index as u32).to_le_bytes(), &bytes[node..node + 8], &low.to_le_bytes()];
        let low = low | u64::from(crc(&checked.concat())) << 53;
        bytes[node + 8..node + 16].copy_from_slice(&low.to_le_bytes());
    }
    let (levels, all) = (crc(&bytes[list + filter..list + nodes]), crc(&bytes[list + nodes..list + end]));
    bytes[list + 76..list + 80].copy_from_slice(&levels.to_le_bytes());
    bytes[list + 80..list + 84].copy_from_slice(&all.to_le_bytes());
    let header = crc(&bytes[list + 8..list + filter]) ^ mark(bytes, list as u64);
    bytes[list + 4..list + 8].copy_from_slice(&header.to_le_bytes());
}

#[test]
fn mending_changes_nothing_that_is_whole() {
    for bits in [0, 10] {
        let image = Image::new(bits);
        let mut mended = image.bytes.clone();
        mend(&mut mended, &image);
        assert!(mended == image.bytes);
        assert_eq!(image.look(mended), (false, true));
    }
}

#[test]
fn every_damaged_byte_is_noticed_or_harmless() {
    for bits in [0, 10] {
        let image = Image::new(bits);
        for place in image.places() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = image.bytes.clone();
                bytes[place as usize] ^= flip;
                let (_, is_right) = image.look(bytes);
                assert!(is_right, "a wrong answer by byte {place} with {flip:#x}");
            }
        }
    }
}

/// `verify` finds each damaged byte that anything is made of.
#[test]
fn verification_finds_every_damaged_byte() {
    let image = Image::new(10);
    let list = image.list.offset as usize;
    let padding = |place: u64| {
        // Between entries there are zeros that nothing is made of.
        let at = place.checked_sub(image.segment).filter(|at| *at < image.segment_bytes);
        let Some(at) = at else {
            return place >= image.segment || place as usize >= list + parts(&image.bytes, list).end;
        };
        let mut entry = 0;
        for Entry { key, value, .. } in &image.model {
            let end = entry + 22 + key.len() as u64 + value.len() as u64;
            if at < end {
                return at < entry;
            }
            entry = end.next_multiple_of(8);
        }
        true
    };
    for place in image.places().filter(|place| !padding(*place)) {
        let mut bytes = image.bytes.clone();
        bytes[place as usize] ^= 0x10;
        let is_found = match image.open(bytes).1 {
            Ok(list) => !list.verify().is_empty(),
            Err(_) => true,
        };
        assert!(is_found, "byte {place} of a list at {list} and a segment at {}", image.segment);
    }
}

#[test]
fn mended_damage_is_harmless() {
    for bits in [0, 10] {
        let image = Image::new(bits);
        for place in image.places() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = image.bytes.clone();
                bytes[place as usize] ^= flip;
                mend(&mut bytes, &image);
                image.look(bytes);
            }
        }
        let mut random = Random::new(1);
        let words: Vec<u64> = image.places().filter(|place| place % 8 == 0).collect();
        for &place in &words {
            let other = words[random.below(words.len())];
            for value in [0, u64::MAX, other, other / 8, random.next() % image.bytes.len() as u64, random.next()] {
                let mut bytes = image.bytes.clone();
                bytes[place as usize..place as usize + 8].copy_from_slice(&value.to_le_bytes());
                image.look(bytes.clone());
                mend(&mut bytes, &image);
                image.look(bytes);
            }
        }
    }
}

/// Bytes that change under an open list.
#[test]
fn damage_after_the_opening_is_noticed_or_harmless() {
    let image = Image::new(10);
    let (pool, list) = image.open(image.bytes.clone());
    let list = Arc::new(list.unwrap());
    let filter = parts(&image.bytes, image.list.offset as usize).filter as u64;
    let in_filter = |place: u64| (image.list.offset + filter..image.list.offset + filter + 128).contains(&place);
    for place in image.places().filter(|place| place % 8 == 0) {
        let word = pool.load(place).unwrap();
        for flip in [1, 1 << 17, 1 << 42, 1 << 63, u64::MAX] {
            pool.store(place, word ^ flip).unwrap();
            let (_, is_right) = image.ask(&list);
            assert!(is_right || in_filter(place), "word {place} with {flip:#x}");
        }
        pool.store(place, word).unwrap();
    }
    assert_eq!(image.ask(&list), (false, true));
}

#[test]
fn a_list_in_another_place_or_another_store_is_refused() {
    let image = Image::new(10);
    let pool = pool(Dram);
    let model = model();
    let mut lists: Vec<_> = (1..3)
        .map(|number| complete_one(&pool, number, &model, list_options(&KeyOrder::Bytewise, 10)))
        .map(|list| list.record().clone())
        .collect();
    let (from, to) = (lists.remove(0).extent, lists.remove(0).extent);
    for word in (0..from.length_bytes).step_by(8) {
        pool.store(to.offset + word, pool.load(from.offset + word).unwrap()).unwrap();
    }
    pool.free_extent(from.offset).unwrap();
    let to = pool.set_extent_owner(to.offset, 1).unwrap();
    let refused = List::open(Arc::clone(&pool), to, 1, KeyOrder::Bytewise).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption);
    // The uuid is in the pool's header, which has a checksum of its own.
    let mut bytes = image.bytes.clone();
    bytes[16] ^= 1;
    let check = crc(&bytes[..60]);
    bytes[60..64].copy_from_slice(&check.to_le_bytes());
    assert_eq!(image.open(bytes).1.unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(extents_of(&pool, ExtentKind::List).len(), 1);
}
