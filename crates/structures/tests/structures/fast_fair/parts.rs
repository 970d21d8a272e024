//! Key segments in several parts: in whatever units are free, and whole or refused.

use std::sync::Arc;

use super::support::{Random, budget, hostile_keys, pool_options};
use slmdb_env::ErrorKind;
use slmdb_pmem::{Dram, Extent, ExtentKind, Medium, Pool, UNIT_BYTES};
use slmdb_structures::fast_fair::{
    MAXIMUM_KEY_BYTES, Segment, SegmentEntry, key_lengths_in_segments, segment_bytes_max, space_bounds, write_segment,
};
use slmdb_structures::{EntryKind, KeyLengths};
use slmdb_sync::epoch;
use slmdb_testkit::{Simulated, medium::Choice};

fn entries<K: AsRef<[u8]>>(keys: &[K]) -> impl Iterator<Item = SegmentEntry<'_>> + Clone {
    keys.iter().enumerate().map(|(index, key)| SegmentEntry {
        key: key.as_ref(),
        sequence: index as u64,
        kind: if index % 3 == 0 { EntryKind::Delete } else { EntryKind::Put },
        block_offset: index as u32,
        block_length: 7,
    })
}

/// The extents of a file's segment.
fn extents<M: Medium>(pool: &Pool<M>, file: u32) -> Vec<Extent> {
    let is_part = |extent: &Extent| extent.kind == ExtentKind::KeySegment && extent.owner == file;
    pool.extents().into_iter().filter(is_part).collect()
}

/// A pool in which runs of so many units are free, each between two units that are not, and nothing else.
fn fragmented<M: Medium>(medium: M, run_units: u64, runs: u64) -> Pool<M> {
    let units = runs * (run_units + 1) + 1;
    let pool = Pool::anonymous(medium, &pool_options((2 + units) * UNIT_BYTES)).unwrap();
    let arenas: Vec<Extent> =
        (0..units).map(|_| pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 0).unwrap()).collect();
    for (index, arena) in arenas.iter().enumerate() {
        if !(index as u64).is_multiple_of(run_units + 1) {
            pool.free_extent(arena.offset).unwrap();
        }
    }
    assert_eq!(pool.free_bytes(), runs * run_units * UNIT_BYTES);
    pool
}

fn assert_holds<M: Medium>(pool: &Pool<M>, segment: &Segment, keys: &[impl AsRef<[u8]>]) {
    let guard = epoch::pin();
    assert_eq!(segment.count(), keys.len() as u64);
    let mut records = segment.records(pool, &guard);
    for (index, key) in keys.iter().enumerate() {
        let record = records.next().unwrap().unwrap();
        assert_eq!((record.key(), record.sequence(), record.file()), (key.as_ref(), index as u64, segment.file()));
    }
    assert!(records.next().is_none());
    let mut lengths = KeyLengths::default();
    keys.iter().for_each(|key| lengths.add(key.as_ref().len()));
    assert_eq!(segment.key_lengths(), lengths);
}

#[test]
fn a_segment_lies_in_whatever_units_are_free() {
    let keys: Vec<String> = (0..20_000).map(|number| format!("key {number:016}")).collect();
    let bytes = keys.len() as u64 * 40;
    let pool = fragmented(Dram, 1, bytes.div_ceil(UNIT_BYTES - 128));
    let segment = write_segment(&pool, 9, entries(&keys)).unwrap();
    assert_eq!(segment.parts().len() as u64, bytes.div_ceil(UNIT_BYTES - 64 - 32));
    assert_eq!(segment.length_bytes(), bytes);
    assert_holds(&pool, &segment, &keys);
    let all = extents(&pool, 9);
    assert_eq!(Segment::of_file(&pool, 9).unwrap(), segment);
    assert_eq!(Segment::open(&pool, &all.iter().rev().copied().collect::<Vec<_>>()).unwrap(), segment);
    assert_eq!(key_lengths_in_segments(&pool, |file| file == 9), segment.key_lengths());
    assert_eq!(key_lengths_in_segments(&pool, |_| false), KeyLengths::default());
    // Without any one of the parts it is damaged, and with one twice.
    for missing in 0..all.len() {
        let some: Vec<Extent> =
            all.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, part)| *part).collect();
        assert_eq!(Segment::open(&pool, &some).unwrap_err().kind(), ErrorKind::Corruption);
        let twice = [&all[..], &all[missing..=missing]].concat();
        assert_eq!(Segment::open(&pool, &twice).unwrap_err().kind(), ErrorKind::Corruption);
        let instead = [&some[..], &some[..1]].concat();
        assert_eq!(Segment::open(&pool, &instead).unwrap_err().kind(), ErrorKind::Corruption);
    }
    assert_eq!(Segment::open(&pool, &[]).unwrap_err().kind(), ErrorKind::Corruption);
    let used = pool.used_bytes();
    segment.free(&pool).unwrap();
    assert_eq!(used - pool.used_bytes(), all.len() as u64 * UNIT_BYTES);
    assert_eq!(extents(&pool, 9), []);
}

#[test]
fn a_segment_that_finds_no_room_leaves_nothing_behind() {
    let pool = fragmented(Dram, 1, 5);
    let before = (pool.extents(), pool.free_bytes());
    let keys: Vec<String> = (0..20_000).map(|number| format!("{number:020}")).collect();
    assert_eq!(write_segment(&pool, 9, entries(&keys)).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!((pool.extents(), pool.free_bytes()), before);
    // A record needs two units in a row.
    let long = [vec![b'k'; MAXIMUM_KEY_BYTES]];
    assert_eq!(write_segment(&pool, 9, entries(&long)).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!((pool.extents(), pool.free_bytes()), before);
}

#[test]
fn the_longest_runs_are_taken_first() {
    let pool = Pool::anonymous(Dram, &pool_options(40 * UNIT_BYTES)).unwrap();
    let lengths = [2, 1, 5, 1, 3, 1, 25];
    let arenas = lengths.map(|units| pool.allocate_extent(ExtentKind::Arena, units * UNIT_BYTES, 0).unwrap());
    [0, 2, 4].iter().for_each(|&index: &usize| pool.free_extent(arenas[index].offset).unwrap());
    let keys: Vec<String> = (0..12_000).map(|number| format!("{number:020}")).collect();
    let segment = write_segment(&pool, 1, entries(&keys)).unwrap();
    let offsets: Vec<u64> = segment.parts().iter().map(|part| part.offset).collect();
    assert_eq!(offsets, [arenas[2].offset, arenas[4].offset]);
    assert_holds(&pool, &segment, &keys);
}

/// Whatever the keys: what `segment_bytes_max` says is enough, in the worst fragmentation there is.
#[test]
fn what_is_reserved_for_a_segment_is_enough() {
    let mut random = Random::new(5);
    for round in 0..60 * budget() {
        let longest = [0, 1, 20, 100, 3000, 16_384, 16_385, 30_000, 40_000, 65_000, MAXIMUM_KEY_BYTES][round % 11];
        let count = 1 + random.below(2 + 400_000 / (longest + 100));
        let keys: Vec<Vec<u8>> = (0..count)
            .map(|index| {
                let length = match random.below(3) {
                    _ if index == 0 => longest,
                    0 => random.below(longest + 1),
                    1 => longest / 2 + 1,
                    _ => longest,
                };
                vec![b'x'; length.min(longest)]
            })
            .collect();
        let key_bytes = keys.iter().map(|key| key.len() as u64).sum();
        let piece = space_bounds::piece_bytes(longest as u32);
        let reserve = segment_bytes_max(keys.len() as u64, key_bytes, longest as u32, piece);
        let pool = fragmented(Dram, piece / UNIT_BYTES, reserve / piece);
        pool.set_reserve(reserve, piece).unwrap();
        assert_eq!(pool.allocate_extent(ExtentKind::Arena, 1, 0).unwrap_err().kind(), ErrorKind::Full);
        let segment = write_segment(&pool, 3, entries(&keys)).unwrap();
        assert_holds(&pool, &segment, &keys);
        assert_eq!(Segment::of_file(&pool, 3).unwrap(), segment);
    }
    assert_eq!(
        [0, 20, 16_384, 30_000, 65_535].map(|longest| space_bounds::piece_bytes(longest) / UNIT_BYTES),
        [1, 1, 1, 2, 3]
    );
}

#[test]
fn a_crash_while_parts_are_written_leaves_no_whole_segment() {
    let medium = Simulated::new();
    let pool = fragmented(medium.clone(), 1, 6);
    let mut keys = hostile_keys(&mut Random::new(8), 2500);
    keys.iter_mut().for_each(|key| key.truncate(2000));
    let begin = medium.moment();
    let segment = write_segment(&pool, 4, entries(&keys)).unwrap();
    assert!(segment.parts().len() > 1);
    let end = medium.moment();
    let mut replay = medium.history().replay();
    replay.to_moment(begin);
    let (mut whole, mut broken) = (0, 0);
    while replay.to_next_crash() {
        for image in replay.images(16, 2) {
            let crashed = Pool::from_image(Dram, image).unwrap();
            match Segment::of_file(&crashed, 4) {
                Ok(found) => {
                    assert_eq!(found, segment);
                    whole += 1;
                }
                Err(error) => {
                    assert!(error.kind() == ErrorKind::Corruption && replay.moment() < end);
                    broken += 1;
                }
            }
            // What recovery does with a segment that it does not want.
            extents(&crashed, 4).iter().for_each(|part| crashed.free_extent(part.offset).unwrap());
            assert_eq!((crashed.verify().len(), crashed.free_bytes()), (0, 6 * UNIT_BYTES));
        }
    }
    replay.to_moment(u64::MAX);
    let crashed = Arc::new(Pool::from_image(Dram, replay.image(Choice::Everything)).unwrap());
    assert_eq!(Segment::of_file(&crashed, 4).unwrap(), segment);
    assert!(broken > 0, "{whole} {broken}");
}
