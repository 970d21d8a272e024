//! Against sorted vectors.

use std::cmp::Ordering;
use std::slice;
use std::sync::Arc;

use proptest::prelude::*;
use slmdb_env::ErrorKind;
use slmdb_order::{Comparator, KeyOrder};
use slmdb_pmem::{Dram, ExtentKind, Pool, PoolOptions, UNIT_BYTES};
use slmdb_structures::EntryKind;
use slmdb_structures::list::{List, ListCursor, ListWriter, MAXIMUM_SEQUENCE, SegmentWriter, entry_bytes, list_bytes};

use super::{
    Entry, check, complete_one, entry, extents_of, list_options, open, pool, segment_options, sort, write_one,
};
use crate::fast_fair::support::Random;

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        right.cmp(left)
    }
}

pub fn backwards() -> KeyOrder {
    KeyOrder::Custom(Arc::new(Backwards))
}

/// Keys that are alike: with long common beginnings, with equal heads, with zeros at the end, prefixes of each other, and very
/// long ones.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let beginning = prop_oneof![
        4 => Just(Vec::new()),
        4 => Just(b"user".to_vec()),
        2 => Just(b"the same beginning of many keys: ".to_vec()),
        2 => Just(vec![0; 9]),
        1 => Just(vec![0xff; 9]),
        1 => Just(vec![b'l'; 65_500]),
    ];
    let rest = prop_oneof![
        4 => prop::collection::vec(prop_oneof![Just(0), Just(b'a'), Just(0xff)], 0..6),
        3 => (0..300_u32).prop_map(|number| format!("{number:010}").into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..30),
    ];
    (beginning, rest).prop_map(|(beginning, rest)| [beginning, rest].concat())
}

/// Entries with different numbers; many keys have several versions.
fn entries(most: usize) -> impl Strategy<Value = Vec<Entry>> {
    let keys = prop::collection::vec(key(), 1..most);
    (keys, 1..4_usize, any::<u64>()).prop_map(|(keys, versions, seed)| {
        let mut random = Random::new(seed);
        let all = keys.iter().flat_map(|key| std::iter::repeat_n(key, 1 + random.below(versions)));
        let mut all: Vec<Entry> = all.enumerate().map(|(number, key)| entry(key, 7 + number as u64 * 3)).collect();
        let mut numbers: Vec<u64> = all.iter().map(|entry| entry.sequence).collect();
        random.shuffle(&mut numbers);
        all.iter_mut().zip(numbers).for_each(|(of, number)| *of = entry(&of.key, number));
        all
    })
}

/// Merges lists into lists of about so many entries: some entries are copied, the others stay where they are.
fn merge(
    pool: &Arc<Pool<Dram>>,
    lists: &[Arc<List<Dram>>],
    first_number: u32,
    most: u64,
    copied: usize,
    filter_bits: u32,
) -> Vec<Arc<List<Dram>>> {
    let order = lists[0].order().clone();
    let mut sources: Vec<_> = lists.iter().map(|list| ListCursor::new(Arc::clone(list))).collect();
    sources.iter_mut().for_each(|source| source.seek_first().unwrap());
    let mut segments = SegmentWriter::new(Arc::clone(pool), segment_options(64 << 10));
    let (mut writers, mut count) = (Vec::new(), 0);
    loop {
        let sources = sources.iter_mut().filter(|source| source.valid());
        let next = sources
            .min_by(|left, right| order.compare(left.key(), right.key()).then(right.sequence().cmp(&left.sequence())));
        let Some(source) = next else { break };
        if writers.last().is_none_or(|writer: &ListWriter<Dram>| writer.entries() >= most) {
            let number = first_number + writers.len() as u32;
            writers.push(ListWriter::new(Arc::clone(pool), number, list_options(&order, filter_bits)));
        }
        let (key, sequence, kind) = (source.key(), source.sequence(), source.kind());
        let place = match count % 7 < copied {
            true => segments.add(key, sequence, kind, source.value().unwrap()).unwrap(),
            false => source.place().unwrap(),
        };
        writers.last_mut().unwrap().add(key, sequence, kind, place).unwrap();
        count += 1;
        source.next().unwrap();
    }
    let finished: Vec<_> = writers.into_iter().map(|writer| writer.finish(5).unwrap()).collect();
    segments.complete(&finished).unwrap();
    finished.iter().map(|list| open(pool, list.record(), &order).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_list_is_what_was_written(
        mut entries in entries(120),
        bits in prop_oneof![Just(0), Just(10), Just(1)],
        reversed in any::<bool>(),
    ) {
        let order = if reversed { backwards() } else { KeyOrder::Bytewise };
        sort(&mut entries, &order);
        let pool = pool(Dram);
        check(&complete_one(&pool, 3, &entries, list_options(&order, bits)), &entries);
        prop_assert_eq!(pool.verify().len(), 0);
    }

    /// Lists that lead into other lists' segments.
    #[test]
    fn merged_lists_have_what_their_inputs_have(
        entries in entries(150),
        inputs in 1..4_usize,
        most in 1..200_u64,
        copied in 0..8_usize,
        reversed in any::<bool>(),
    ) {
        let order = if reversed { backwards() } else { KeyOrder::Bytewise };
        let pool = pool(Dram);
        let mut parts = vec![Vec::new(); inputs];
        entries.iter().enumerate().for_each(|(index, entry)| parts[index % inputs].push(entry.clone()));
        parts.retain(|part| !part.is_empty());
        let mut number = 0;
        let lists: Vec<_> = parts.iter_mut().map(|part| {
            sort(part, &order);
            number += 1;
            complete_one(&pool, number, part, list_options(&order, 10))
        }).collect();
        let merged = merge(&pool, &lists, 100, most, copied, 10);
        // The old lists are gone, and the segments stay.
        for list in lists {
            let extent = list.record().extent;
            drop(list);
            pool.free_extent(extent.offset).unwrap();
        }
        let mut all = entries;
        sort(&mut all, &order);
        let mut rest = &all[..];
        for list in &merged {
            let (own, others) = rest.split_at(list.record().entries as usize);
            check(list, own);
            rest = others;
        }
        prop_assert!(rest.is_empty());
        // And once more, over what was merged.
        let again = merge(&pool, &merged, 200, u64::MAX, 0, 0);
        check(&again[0], &all);
        prop_assert_eq!(pool.verify().len(), 0);
    }
}

/// Long enough for levels above levels.
#[test]
fn a_long_list_is_what_was_written() {
    for (order, beginning) in [(KeyOrder::Bytewise, ""), (KeyOrder::Bytewise, "all the same"), (backwards(), "")] {
        for count in [15, 16, 17, 255, 256, 257, 4096, 4097, 9000_u64] {
            let mut entries: Vec<Entry> = (0..count)
                .map(|number| entry(format!("{beginning}{:06}", number * 2).as_bytes(), 1 + number))
                .collect();
            sort(&mut entries, &order);
            let pool = pool(Dram);
            let list = complete_one(&pool, 9, &entries, list_options(&order, 10));
            assert!(list.verify().is_empty());
            for (index, Entry { key, .. }) in entries.iter().enumerate() {
                assert_eq!(list.rank(key).unwrap(), index as u64);
                assert!(list.get(key, u64::MAX).unwrap().is_some());
                let behind = [key, &b"0"[..]].concat();
                let is_next = order.compare(&behind, key).is_gt();
                assert_eq!(list.rank(&behind).unwrap(), index as u64 + u64::from(is_next));
            }
        }
    }
}

#[test]
fn the_largest_of_everything_has_room() {
    let pool = pool(Dram);
    let mut segments = SegmentWriter::new(Arc::clone(&pool), segment_options(64 << 10));
    let keys = [vec![1; u16::MAX as usize], vec![2; u16::MAX as usize]];
    let value = vec![7; 3 << 20];
    let small = entry(b"\x01\x02", 11);
    let mut model: Vec<Entry> = keys
        .iter()
        .map(|key| Entry { key: key.clone(), sequence: MAXIMUM_SEQUENCE, kind: EntryKind::Put, value: value.clone() })
        .collect();
    model.insert(1, small);
    let list = write_one(&pool, &mut segments, 1, &model, list_options(&KeyOrder::Bytewise, 10));
    // Each long entry has a segment of its own; the small one has the smallest that there is.
    let long = entry_bytes(u64::from(u16::MAX), value.len() as u64).next_multiple_of(UNIT_BYTES);
    let made = segments.complete(slice::from_ref(&list)).unwrap();
    assert_eq!(made.iter().map(|extent| extent.length_bytes).collect::<Vec<_>>(), [long, UNIT_BYTES, long]);
    assert_eq!(made, extents_of(&pool, ExtentKind::Segment));
    check(&open(&pool, list.record(), &KeyOrder::Bytewise).unwrap(), &model);
}

#[test]
fn what_has_no_room_or_is_out_of_order_is_refused() {
    let pool = pool(Dram);
    let mut segments = SegmentWriter::new(Arc::clone(&pool), segment_options(64 << 10));
    let refused = |result: slmdb_env::Result<_>| assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid);
    refused(segments.add(&vec![0; 1 << 16], 1, EntryKind::Put, b"").map(drop));
    refused(segments.add(b"a", MAXIMUM_SEQUENCE + 1, EntryKind::Put, b"").map(drop));
    refused(segments.add(b"a", 1, EntryKind::Delete, b"value").map(drop));
    let place = segments.add(b"b", 5, EntryKind::Put, b"value").unwrap();
    let writer = || ListWriter::new(Arc::clone(&pool), 1, list_options(&KeyOrder::Bytewise, 10));
    refused(writer().finish(1).map(drop));
    let mut list = writer();
    list.add(b"b", 5, EntryKind::Put, place).unwrap();
    refused(list.add(b"b", 5, EntryKind::Put, place));
    refused(list.add(b"b", 6, EntryKind::Put, place));
    refused(list.add(b"a", 4, EntryKind::Put, place));
    refused(list.add(b"c", MAXIMUM_SEQUENCE + 1, EntryKind::Put, place));
    refused(list.add(&vec![b'c'; 1 << 16], 1, EntryKind::Put, place));
    list.add(b"b", 4, EntryKind::Put, place).unwrap();
    assert_eq!((list.entries(), list.data_bytes()), (2, 2 * place.bytes()));
}

#[test]
fn what_was_given_up_is_given_back() {
    let pool = pool(Dram);
    let before = pool.extents();
    let mut segments = SegmentWriter::new(Arc::clone(&pool), segment_options(64 << 10));
    let entries: Vec<Entry> = (0..9000_u64).map(|number| entry(format!("{number:05}").as_bytes(), number)).collect();
    let list = write_one(&pool, &mut segments, 1, &entries, list_options(&KeyOrder::Bytewise, 10));
    assert!(segments.made().len() > 4 && segments.entry_bytes() == list.record().data_bytes);
    assert_eq!(segments.made(), extents_of(&pool, ExtentKind::Segment));
    segments.abandon();
    pool.free_extent(list.record().extent.offset).unwrap();
    assert_eq!(pool.extents(), before);
}

/// A segment that stays open takes the entries of several jobs. One that gives up leaves the others' alone.
#[test]
fn several_jobs_fill_one_segment() {
    let pool = pool(Dram);
    let (mut random, mut open_segment, mut lists) = (Random::new(5), None, Vec::new());
    let options = segment_options(128 << 10);
    for job in 0..60_u32 {
        let mut segments = match open_segment {
            Some(open) => SegmentWriter::resume(Arc::clone(&pool), options, open),
            None => SegmentWriter::new(Arc::clone(&pool), options),
        };
        let first = u64::from(job) * 1000;
        let entries: Vec<Entry> = (first..=first + random.below(150) as u64)
            .map(|number| entry(format!("{number:06}").as_bytes(), number))
            .collect();
        let list = write_one(&pool, &mut segments, job, &entries, list_options(&KeyOrder::Bytewise, 10));
        if random.below(4) == 0 {
            drop(segments);
            pool.free_extent(list.record().extent.offset).unwrap();
            continue;
        }
        open_segment = segments.complete_open(slice::from_ref(&list)).unwrap();
        lists.push((open(&pool, list.record(), &KeyOrder::Bytewise).unwrap(), entries));
        lists.iter().for_each(|(list, entries)| check(list, entries));
    }
    let entry_bytes: u64 = lists.iter().map(|(list, _)| list.record().data_bytes).sum();
    let segments = extents_of(&pool, ExtentKind::Segment);
    let segments_bytes: u64 = segments.iter().map(|extent| extent.length_bytes).sum();
    assert!(segments.len() > 1 && lists.len() > 30 && segments_bytes < entry_bytes + (192 << 10), "{segments:?}");
    assert_eq!(pool.verify().len(), 0);
}

/// Free units that lie apart are of use, and a full pool is told.
#[test]
fn segments_take_what_there_is() {
    let options = PoolOptions { initial_bytes: 0, growth_bytes: 0, maximum_bytes: 26 * UNIT_BYTES, uuid: [7; 16] };
    let pool = Arc::new(Pool::anonymous(Dram, &options).unwrap());
    let arenas: Vec<_> =
        (0..20).map(|owner| pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, owner).unwrap()).collect();
    arenas.iter().step_by(2).for_each(|arena| pool.free_extent(arena.offset).unwrap());
    let mut segments = SegmentWriter::new(Arc::clone(&pool), segment_options(4 * UNIT_BYTES));
    let value = vec![1; 20_000];
    let mut list = ListWriter::new(Arc::clone(&pool), 1, list_options(&KeyOrder::Bytewise, 10));
    let (mut model, mut some_place) = (Vec::new(), None);
    let error = loop {
        let (key, sequence) = (format!("{:04}", model.len()).into_bytes(), model.len() as u64);
        match segments.add(&key, sequence, EntryKind::Put, &value) {
            Ok(place) => {
                list.add(&key, sequence, EntryKind::Put, place).unwrap();
                some_place = Some(place);
            }
            Err(error) => break error,
        }
        model.push(Entry { key, sequence, kind: EntryKind::Put, value: value.clone() });
    };
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(model.len() >= 30 && pool.free_bytes() == 0, "{} entries", model.len());
    // No room for the list: nothing of it stays.
    pool.free_extent(arenas[1].offset).unwrap();
    let finished = list.finish(1).unwrap();
    let mut other = ListWriter::new(Arc::clone(&pool), 2, list_options(&KeyOrder::Bytewise, 10));
    other.add(b"k", 1, EntryKind::Put, some_place.unwrap()).unwrap();
    assert_eq!(other.finish(1).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(extents_of(&pool, ExtentKind::List).len(), 1);
    segments.complete(slice::from_ref(&finished)).unwrap();
    check(&open(&pool, finished.record(), &KeyOrder::Bytewise).unwrap(), &model);
}

#[test]
fn a_list_is_refused_in_another_order_and_by_another_number() {
    let pool = pool(Dram);
    let list = complete_one(&pool, 3, &[entry(b"a", 1)], list_options(&KeyOrder::Bytewise, 10));
    let extent = list.record().extent;
    let kind = |number, extent, order| List::open(Arc::clone(&pool), extent, number, order).unwrap_err().kind();
    assert_eq!(kind(3, extent, backwards()), ErrorKind::Unsupported);
    assert_eq!(kind(4, extent, KeyOrder::Bytewise), ErrorKind::Corruption);
    let other = pool.set_extent_owner(extent.offset, 4).unwrap();
    assert_eq!(kind(4, other, KeyOrder::Bytewise), ErrorKind::Corruption);
    assert_eq!(kind(3, extent, KeyOrder::Bytewise), ErrorKind::Corruption);
    let back = pool.set_extent_owner(extent.offset, 3).unwrap();
    List::open(Arc::clone(&pool), back, 3, KeyOrder::Bytewise).unwrap();
    pool.free_extent(list.record().segments[0].segment).unwrap();
    assert_eq!(kind(3, extent, KeyOrder::Bytewise), ErrorKind::Corruption);
}

#[test]
fn sizes_are_as_the_document_says() {
    for entries in [1000, 16_384, 262_144_u64] {
        let per_entry = |bits| list_bytes(entries, bits, 32, 64) as f64 / entries as f64;
        let fixed = (32 + 64 * 16 + 84 + 6 * 64) as f64 / entries as f64;
        assert!((16.53..16.54 + fixed).contains(&per_entry(0)), "{}", per_entry(0));
        assert!((17.78..17.79 + fixed).contains(&per_entry(10)), "{}", per_entry(10));
    }
    assert_eq!((entry_bytes(0, 0), entry_bytes(16, 1024), entry_bytes(2, 0)), (24, 1064, 24));
}
