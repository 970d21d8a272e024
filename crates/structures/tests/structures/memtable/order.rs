//! MemTables in another order than by bytes: everything as in a sorted list, before and after a replay.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use super::support::*;
use slmdb_order::{Comparator, KeyOrder};
use slmdb_pmem::Dram;
use slmdb_structures::log::{ExpectedSequence, Payload};
use slmdb_structures::memtable::{LinkPolicy, MemTable, MemTableOptions, replay};

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        right.cmp(left)
    }
}

/// Without regard to case, and where that makes keys equal, by bytes.
struct CaseLast;

impl Comparator for CaseLast {
    fn name(&self) -> &str {
        "case last"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        left.to_ascii_lowercase().cmp(&right.to_ascii_lowercase()).then(left.cmp(right))
    }
}

/// No order at all: in a circle, and against itself.
struct Nonsense;

impl Comparator for Nonsense {
    fn name(&self) -> &str {
        "nonsense"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        let sum = |key: &[u8]| key.iter().map(|&byte| u32::from(byte)).sum::<u32>();
        (sum(left) * 7 % 5).cmp(&(sum(right) * 3 % 4))
    }
}

fn random_key(random: &mut Random) -> Vec<u8> {
    let length = random.below(14);
    (0..length).map(|at| if at < 5 { b"aA"[random.below(2) as usize] } else { random.below(256) as u8 }).collect()
}

/// Key, sequence number and value.
type Version = (Vec<u8>, u64, Vec<u8>);

/// A MemTable of 600 records of one to three entries, and what is in it.
fn filled(options: &MemTableOptions, seed: u64) -> (Arc<MemTable<Dram>>, Vec<Version>) {
    let mut random = Random::new(seed);
    let memtable = MemTable::create(arena(vec![0; 256 << 10]), 1, UUID, options);
    let (mut all, mut next) = (Vec::new(), 1);
    for _ in 0..600 {
        let mut payload = Payload::new();
        for _ in 0..1 + random.below(3) {
            let key = random_key(&mut random);
            let value = random.number().to_le_bytes().to_vec();
            payload.put(&key, &value).unwrap();
            all.push((key, next + u64::from(payload.count()) - 1, value));
        }
        let place = memtable.try_reserve(payload.len_bytes(), payload.count()).unwrap();
        memtable.fill(place, &payload, next, 0);
        next += u64::from(payload.count());
    }
    (Arc::new(memtable), all)
}

fn check(memtable: &Arc<MemTable<Dram>>, order: &KeyOrder, sorted: &[Version], random: &mut Random) {
    let expected: Vec<_> = sorted.iter().map(|(key, sequence, value)| (&key[..], *sequence, &value[..])).collect();
    let mut cursor = memtable.cursor();
    cursor.seek_first();
    for &place in &expected {
        assert_eq!((cursor.key(), cursor.sequence(), cursor.value()), place);
        cursor.next();
    }
    assert!(!cursor.valid());
    cursor.seek_last();
    for &place in expected.iter().rev() {
        assert_eq!((cursor.key(), cursor.sequence(), cursor.value()), place);
        cursor.prev();
    }
    assert!(!cursor.valid());
    let mut newest = expected.clone();
    newest.dedup_by(|later, kept| later.0 == kept.0);
    let flushed: Vec<_> = memtable.newest_entries().map(|entry| (entry.key, entry.sequence, entry.value)).collect();
    assert_eq!(flushed, newest);
    for _ in 0..300 {
        let probe = random_key(random);
        let at_most = random.below(expected.len() as u64 + 1);
        let newest = expected.iter().find(|(key, sequence, _)| key == &probe && *sequence <= at_most);
        assert_eq!(memtable.get(&probe, at_most).map(|found| found.sequence), newest.map(|place| place.1));
        let from = expected.partition_point(|(key, ..)| order.compare(key, &probe).is_lt());
        cursor.seek(&probe);
        assert_eq!(cursor.entry().map(|entry| entry.sequence), expected.get(from).map(|place| place.1));
        cursor.seek_before(&probe);
        let before = from.checked_sub(1).map(|at| expected[at].1);
        assert_eq!(cursor.entry().map(|entry| entry.sequence), before);
    }
}

#[test]
fn comparators_order_everything_before_and_after_a_replay() {
    let comparators: [Arc<dyn Comparator>; 2] = [Arc::new(Backwards), Arc::new(CaseLast)];
    for (comparator, links) in comparators.into_iter().flat_map(|c| LinkPolicy::ALL.map(|links| (c.clone(), links))) {
        let order = KeyOrder::Custom(comparator);
        // A prefix means nothing to a comparator, and does no harm.
        let options = MemTableOptions { links, order: order.clone(), expected_prefix: b"aaa".to_vec() };
        let (memtable, mut sorted) = filled(&options, seed());
        sorted.sort_by(|one, other| order.compare(&one.0, &other.0).then(Reverse(one.1).cmp(&Reverse(other.1))));
        let mut random = Random::new(seed());
        check(&memtable, &order, &sorted, &mut random);
        assert!(memtable.usual_prefix().is_empty());
        let recovered = replay(arena(image(&memtable)), 1, UUID, &order, ExpectedSequence::Exactly(1), None).unwrap();
        assert_eq!(recovered.unlinked_from, None);
        check(&Arc::new(recovered.memtable), &order, &sorted, &mut random);
    }
}

/// The links of one order are no links of another.
#[test]
fn persisted_links_of_another_order_are_corruption() {
    let options = with_links(LinkPolicy::Persisted);
    let (memtable, _) = filled(&options, seed());
    let order = KeyOrder::Custom(Arc::new(Backwards));
    assert!(replay(arena(image(&memtable)), 1, UUID, &order, ExpectedSequence::Exactly(1), None).is_err());
}

/// A comparator that is no order gives entries in some order: no panic, no loop.
#[test]
fn a_comparator_that_is_no_order_does_no_harm() {
    for links in LinkPolicy::ALL {
        let order = KeyOrder::Custom(Arc::new(Nonsense));
        let options = MemTableOptions { links, order: order.clone(), ..MemTableOptions::default() };
        let (memtable, all) = filled(&options, seed());
        let walk = |memtable: &Arc<MemTable<Dram>>| {
            let mut cursor = memtable.cursor();
            cursor.seek_first();
            let mut entries = 0;
            while cursor.valid() {
                entries += 1;
                cursor.next();
            }
            let found = all.iter().filter(|(key, sequence, _)| memtable.get(key, *sequence).is_some()).count();
            assert!(found <= all.len());
            entries
        };
        assert_eq!(walk(&memtable), all.len());
        let bytes = arena(image(&memtable));
        match replay(bytes, 1, UUID, &order, ExpectedSequence::Exactly(1), None) {
            Ok(recovered) => assert_eq!(walk(&Arc::new(recovered.memtable)), all.len()),
            // Links that are in no order are not to be told from damaged ones.
            Err(_) => assert_eq!(links, LinkPolicy::Persisted),
        }
    }
}
