//! Damaged key segments: whatever is wrong with one, it is refused. (Damaged trees are `slmdb-hostile`'s.)

use super::support::{Random, Store, hostile_keys};
use slmdb_env::ErrorKind;
use slmdb_pmem::{Dram, ExtentKind};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{Segment, SegmentEntry, write_segment};
use slmdb_sync::epoch;

#[test]
fn a_damaged_segment_is_refused_whatever_is_wrong() {
    let mut random = Random::new(3);
    let store = Store::create(Dram, 256);
    let mut keys = hostile_keys(&mut random, 60);
    keys.iter_mut().for_each(|key| key.truncate(200));
    keys.sort();
    keys.dedup();
    let entries = keys.iter().map(|key| SegmentEntry {
        key,
        sequence: random_sequence(key),
        kind: EntryKind::Put,
        block_offset: 1,
        block_length: 2,
    });
    let segment = write_segment(&store.pool, 5, entries).unwrap();
    let offset_of_all = segment.parts()[0].offset;
    let extent = store.pool.extent_at(offset_of_all).unwrap();
    assert_eq!((extent.kind, extent.owner), (ExtentKind::KeySegment, 5));
    let guard = epoch::pin();
    let notes: Vec<u64> = segment.records(&store.pool, &guard).map(|record| record.unwrap().offset() + 12).collect();
    let (mut refused, mut allowed) = (0, 0);
    for at in (0..64).chain(64..64 + segment.length_bytes()) {
        let offset = offset_of_all + at;
        let (word, shift) = (offset & !7, 8 * (offset % 8));
        let whole = store.pool.load(word).unwrap();
        for flip in [1, 0x80, 0xff] {
            store.pool.store(word, whole ^ flip << shift).unwrap();
            let is_note = notes.iter().any(|note| (*note..note + 4).contains(&offset));
            match Segment::open(&store.pool, &[extent]) {
                Ok(_) => {
                    assert!(is_note, "byte {at} was flipped unnoticed");
                    allowed += 1;
                }
                Err(error) => {
                    assert!(!is_note && error.kind() == ErrorKind::Corruption, "byte {at}: {error}");
                    refused += 1;
                }
            }
            // Walking it none the less ends, with errors or without.
            assert!(segment.records(&store.pool, &guard).count() <= segment.length_bytes() as usize / 24);
        }
        store.pool.store(word, whole).unwrap();
    }
    assert_eq!(Segment::open(&store.pool, &[extent]).unwrap(), segment);
    assert!(refused > 1000 && allowed == 12 * keys.len());
    // A segment under another's number is not that file's.
    let moved = slmdb_pmem::Extent { owner: 6, ..extent };
    assert_eq!(Segment::open(&store.pool, &[moved]).unwrap_err().kind(), ErrorKind::Corruption);
    let empty = store.pool.allocate_extent(ExtentKind::KeySegment, 64, 9).unwrap();
    assert_eq!(Segment::open(&store.pool, &[empty]).unwrap_err().kind(), ErrorKind::Corruption);
    let arena = store.pool.allocate_extent(ExtentKind::Arena, 64, 9).unwrap();
    assert_eq!(Segment::open(&store.pool, &[arena]).unwrap_err().kind(), ErrorKind::Corruption);
}

fn random_sequence(key: &[u8]) -> u64 {
    Random::new(key.len() as u64).next() >> 8
}
