//! The format, byte for byte.

use std::slice;
use std::sync::Arc;

use slmdb_env::ErrorKind;
use slmdb_order::KeyOrder;
use slmdb_pmem::{Dram, Extent, ExtentKind, Pool};
use slmdb_structures::EntryKind;
use slmdb_structures::list::{List, ListWriter, SegmentWriter};

use super::{check, complete_one, entry, list_options, pool, segment_options};

fn bytes(pool: &Pool<Dram>, offset: u64, length_bytes: u64) -> Vec<u8> {
    // SAFETY: of a complete list, or of its segment.
    unsafe { pool.bytes(offset, length_bytes) }.unwrap().to_vec()
}

fn hexadecimal(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(16).map(line).collect::<Vec<_>>().join("\n")
}

/// A list of three entries, and its segment.
fn small() -> (Arc<Pool<Dram>>, Arc<List<Dram>>) {
    let pool = pool(Dram);
    let mut segments = SegmentWriter::new(Arc::clone(&pool), segment_options(64 << 10));
    let mut list = ListWriter::new(Arc::clone(&pool), 5, list_options(&KeyOrder::Bytewise, 10));
    for (key, sequence, kind, value) in [
        ("apple", 9, EntryKind::Put, "red"),
        ("apple", 7, EntryKind::Delete, ""),
        ("apricot", 8, EntryKind::Put, "orange"),
    ] {
        let (key, value) = (key.as_bytes(), value.as_bytes());
        list.add(key, sequence, kind, segments.add(key, sequence, kind, value).unwrap()).unwrap();
    }
    let list = list.finish(0x0123_4567_89ab_cdef).unwrap();
    segments.complete(slice::from_ref(&list)).unwrap();
    let list = super::open(&pool, list.record(), &KeyOrder::Bytewise).unwrap();
    (pool, list)
}

#[test]
fn an_entry_has_these_bytes() {
    let (pool, list) = small();
    let segment = list.record().segments[0];
    assert_eq!((segment.segment, segment.live_bytes, segment.entries), (131_072, 32 + 32 + 40, 3));
    assert_eq!(hexadecimal(&bytes(&pool, segment.segment, segment.live_bytes)), include_str!("segment.hex").trim_end());
}

#[test]
fn a_list_has_these_bytes() {
    let (pool, list) = small();
    let extent = list.record().extent;
    assert_eq!((extent.offset, extent.kind, extent.owner), (196_608, ExtentKind::List, 5));
    assert_eq!(hexadecimal(&bytes(&pool, extent.offset, 128 + 64 + 3 * 16)), include_str!("list.hex").trim_end());
}

/// With 17 nodes there is a level above them.
#[test]
fn the_levels_have_every_sixteenth_head() {
    let pool = pool(Dram);
    let entries: Vec<_> = (0..17_u64).map(|number| entry(format!("key{number:02}").as_bytes(), number)).collect();
    let list = complete_one(&pool, 5, &entries, list_options(&KeyOrder::Bytewise, 0));
    check(&list, &entries);
    // Header and keys are 94 bytes, the segment table begins at 96 and ends at 112.
    let level = bytes(&pool, list.record().extent.offset + 128, 64);
    assert_eq!(level[..16], *b"\0\0\0\0\0\x0000\0\0\0\0\0\x0061", "little-endian, so from the end");
    assert_eq!(level[16..], [0; 48]);
}

#[test]
fn the_document_has_the_constants() {
    let document = include_str!("../../../../../docs/formats/list.md");
    for says in [
        "| 0 | 4 | magic | `LIST`",
        "| 12 | 4 | format version | 1 |",
        "| 84 | ",
        "bits 0 to 42",
        "bits 43 to 52",
        "bits 53 to 63",
        "| 22 | ",
        "every sixteenth",
    ] {
        assert!(document.contains(says), "{says:?} is not in docs/formats/list.md");
    }
}

/// Stores a header's words at these places, in bytes from the beginning of a list.
fn put(pool: &Pool<Dram>, list: Extent, words: &[(u64, u64)]) {
    words.iter().for_each(|&(at, word)| pool.store(list.offset + at, word).unwrap());
}

fn refusal(pool: &Arc<Pool<Dram>>, list: Extent) -> ErrorKind {
    List::open(Arc::clone(pool), list, 5, KeyOrder::Bytewise).unwrap_err().kind()
}

/// A version that is not known is said to be so, and not called damage.
#[test]
fn a_list_of_a_later_version_is_refused() {
    let (pool, list) = small();
    let extent = list.record().extent;
    drop(list);
    let [first, second] = [0, 8].map(|at| pool.load(extent.offset + at).unwrap());
    put(&pool, extent, &[(8, second + (1 << 32))]);
    // The segment table ends before the filter's place.
    let mark =
        slmdb_checksum::crc32c(&pool.uuid()) ^ ((extent.offset / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
    let check = slmdb_checksum::crc32c(&bytes(&pool, extent.offset + 8, 128 - 8)) ^ mark;
    put(&pool, extent, &[(0, u64::from(check) << 32 | u64::from(first as u32))]);
    assert_eq!(refusal(&pool, extent), ErrorKind::Unsupported);
    put(&pool, extent, &[(8, second), (0, first)]);
    List::open(Arc::clone(&pool), extent, 5, KeyOrder::Bytewise).unwrap();
}

/// It was called a version that is not known: then nobody looks for damage, and a repair is not offered.
#[test]
fn a_damaged_version_word_of_a_list_is_told_as_damage() {
    let (pool, list) = small();
    let extent = list.record().extent;
    drop(list);
    let second = pool.load(extent.offset + 8).unwrap();
    for bit in 32..64 {
        put(&pool, extent, &[(8, second ^ 1 << bit)]);
        assert_eq!(refusal(&pool, extent), ErrorKind::Corruption, "bit {bit} of the second word");
    }
}
