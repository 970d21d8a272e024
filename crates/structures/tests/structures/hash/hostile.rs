//! Damaged bytes: whoever reads a whole part finds any damage, and a search ends. With checksums mended, whatever the bytes say.

use slmdb_env::{ErrorKind, Result};
use slmdb_structures::hash::{HashTable, Identity, Slot};

use super::{Memory, Parts, UUID, built, check, parts};
use crate::fast_fair::support::Random;

const NUMBER: u32 = 6;
const HEADER_BYTES: usize = 64;
const ROWS: usize = 5;

struct Image {
    bytes: Vec<u8>,
    parts: Parts,
}

impl Image {
    fn new() -> Image {
        let parts = parts([(2, 30), (3, 0), (5, 9), (6, 1)], 1);
        Image { bytes: built(NUMBER, &parts, 80).bytes().to_vec(), parts }
    }

    /// Opens damaged bytes and reads everything. Whether damage was found by who reads all.
    fn look(&self, bytes: Vec<u8>) -> bool {
        let table = match HashTable::open(Memory(bytes), NUMBER, UUID) {
            Ok(table) => table,
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported), "{error}");
                return true;
            }
        };
        for slot in self.parts.values().flat_map(|part| part.values()) {
            for identity in [0, 2, 3, 5, 6, 9].map(|shard| slot.identity(shard)) {
                match table.get(&identity) {
                    Ok(found) => assert!(found.is_none_or(|slot| slot.identity(identity.shard()) == identity)),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
                }
            }
        }
        let mut is_found = !table.verify().is_empty();
        for shard in 0..9 {
            let slots: Result<Vec<Slot>> = table.slots(shard).collect();
            match slots {
                Ok(slots) => slots.iter().for_each(|slot| {
                    assert_eq!(table.get(&slot.identity(shard)).unwrap(), Some(*slot), "a slot that no search finds");
                }),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                    is_found = true;
                }
            }
        }
        is_found
    }
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    bytes[at..at + new.len()].copy_from_slice(new);
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Where a position of the first part lies.
fn slot_at(position: usize) -> usize {
    (HEADER_BYTES + 16 * ROWS).next_multiple_of(256) + position / 10 * 256 + position % 10 * 24
}

/// Mends all checksums that can be found, as docs/formats/hash-table.md has them.
fn mend(bytes: &mut [u8]) {
    let crc = slmdb_checksum::crc32c_append;
    let rows = usize::from(u16::from_le_bytes([bytes[40], bytes[41]]));
    let header = (HEADER_BYTES + 16 * rows).next_multiple_of(256);
    if header > bytes.len() {
        return;
    }
    let mut end = (word(bytes, 44) as usize * 256).min(bytes.len());
    for row in (0..rows).rev() {
        let at = HEADER_BYTES + 16 * row;
        let begin = word(bytes, at) as usize * 256;
        if begin != 0 && begin <= end {
            let shard = u16::from_le_bytes([bytes[38], bytes[39]]).wrapping_add(row as u16);
            let seed = crc(crc(0, &bytes[8..12]), &shard.to_le_bytes());
            for (number, unit) in (0_u32..).zip(bytes[begin..end].chunks_exact_mut(256)) {
                let sum = crc(seed ^ number, &unit[..252]);
                put(unit, 252, &sum.to_le_bytes());
            }
            let sum = crc(seed, &bytes[begin..end]);
            put(bytes, at + 12, &sum.to_le_bytes());
            end = begin;
        }
    }
    let sum = crc(0, &bytes[8..header]);
    put(bytes, 4, &sum.to_le_bytes());
}

#[test]
fn mending_changes_nothing_that_is_whole() {
    let image = Image::new();
    let mut mended = image.bytes.clone();
    mend(&mut mended);
    assert!(mended == image.bytes && !image.look(mended));
    check(&HashTable::open(Memory(image.bytes.clone()), NUMBER, UUID).unwrap(), &image.parts);
}

#[test]
fn every_damaged_byte_is_found_by_who_reads_all() {
    let image = Image::new();
    for place in 0..image.bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = image.bytes.clone();
            bytes[place] ^= flip;
            assert!(image.look(bytes), "byte {place} with {flip:#x}");
        }
    }
}

/// A bit that flipped on the way or on the disk hid a key, and it counted as missing.
#[test]
fn damage_hides_no_key() {
    let image = Image::new();
    let mut errors = 0;
    for place in 0..image.bytes.len() {
        let mut bytes = image.bytes.clone();
        bytes[place] ^= 1 << (place % 8);
        let Ok(table) = HashTable::open(Memory(bytes), NUMBER, UUID) else { continue };
        for slot in image.parts.iter().flat_map(|(&shard, part)| part.values().map(move |slot| (shard, slot))) {
            match table.get(&slot.1.identity(slot.0)) {
                Ok(found) => assert_eq!(found, Some(*slot.1), "byte {place}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                    errors += 1;
                }
            }
        }
    }
    assert!(errors > 10_000, "{errors}");
}

/// Its own checksum right or not, a slot that lies wrong is found by the cursor.
#[test]
fn a_slot_where_no_search_comes_by_is_found() {
    let image = Image::new();
    let slots: Vec<usize> = (0..40).map(slot_at).filter(|&at| word(&image.bytes, at + 16) != 0).collect();
    let mut changes = 0;
    for (&one, &other) in slots.iter().zip(&slots[1..]) {
        let mut swapped = image.bytes.clone();
        let (left, right) = (image.bytes[one..one + 24].to_vec(), image.bytes[other..other + 24].to_vec());
        put(&mut swapped, one, &right);
        put(&mut swapped, other, &left);
        let mut gone = image.bytes.clone();
        put(&mut gone, one, &[0; 24]);
        let mut without_length = image.bytes.clone();
        put(&mut without_length, one + 16, &[0, 0, 0, 0x20]);
        for mut bytes in [swapped, gone, without_length] {
            mend(&mut bytes);
            assert!(image.look(bytes), "slots at {one} and {other}");
            changes += 1;
        }
    }
    assert!(changes > 60);
}

#[test]
fn mended_damage_is_harmless() {
    let image = Image::new();
    let mut random = Random::new(1);
    for place in 0..image.bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = image.bytes.clone();
            bytes[place] ^= flip;
            mend(&mut bytes);
            image.look(bytes);
        }
    }
    for place in (0..image.bytes.len()).step_by(4) {
        for value in [0, 1, u32::MAX, 1 << 31, random.next() as u32 % 40, random.next() as u32] {
            let mut bytes = image.bytes.clone();
            put(&mut bytes, place, &value.to_le_bytes());
            image.look(bytes.clone());
            mend(&mut bytes);
            image.look(bytes);
        }
    }
    for length in (0..image.bytes.len()).step_by(7) {
        assert!(image.look(image.bytes[..length].to_vec()), "{length} bytes");
    }
}

/// What is told of a table before its slots are read is bounded by its length, and agrees.
#[test]
fn forged_counts_are_refused() {
    let image = Image::new();
    // The first part: 30 slots in 1,024 bytes, which have room for 40.
    for (entries, is_refused) in [(30, false), (29, false), (40, false), (41, true), (u32::MAX, true)] {
        for sum in [40_u64, 10 + u64::from(entries)] {
            let mut bytes = image.bytes.clone();
            put(&mut bytes, HEADER_BYTES + 8, &entries.to_le_bytes());
            put(&mut bytes, 48, &sum.to_le_bytes());
            mend(&mut bytes);
            let opened = HashTable::open(Memory(bytes), NUMBER, UUID);
            assert_eq!(opened.is_err(), is_refused || sum != 10 + u64::from(entries), "{entries} in {sum}");
        }
    }
    // The parts begin where the header ends.
    for begin in [0, 2] {
        let mut bytes = image.bytes.clone();
        put(&mut bytes, HEADER_BYTES, &u32::to_le_bytes(begin));
        mend(&mut bytes);
        assert!(HashTable::open(Memory(bytes), NUMBER, UUID).is_err(), "{begin}");
    }
}

/// All slots of a long part are smaller than what is looked for, and none is where it should be.
#[test]
fn a_search_ends_with_its_part() {
    let image = Image::new();
    let mut bytes = image.bytes.clone();
    let units = (bytes.len() - slot_at(0)) / 256;
    for at in (0..10 * units).map(slot_at) {
        put(&mut bytes, at, &1_u64.to_le_bytes());
        put(&mut bytes, at + 16, &1_u64.to_le_bytes());
    }
    mend(&mut bytes);
    let table = HashTable::open(Memory(bytes.clone()), NUMBER, UUID).unwrap();
    for hash in [2, 1 << 40, 1 << 63, u64::MAX] {
        assert_eq!(table.get(&Identity::new(2, hash, 0)).unwrap(), None);
        assert_eq!(table.get(&Identity::new(6, hash, 0)).unwrap(), None);
    }
    assert!(image.look(bytes));
}
