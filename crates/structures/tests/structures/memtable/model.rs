//! The MemTable against a `BTreeMap`, with keys that are hard on heads and prefixes.

use std::cmp::Reverse;
use std::ops::Bound;
use std::sync::Arc;

use super::support::*;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use slmdb_pmem::Dram;
use slmdb_structures::EntryKind;
use slmdb_structures::log::{ExpectedSequence, MAXIMUM_KEY_BYTES, Payload, RecordForm};
use slmdb_structures::memtable::{LinkPolicy, MemTable, MemTableOptions, replay};

/// Keys that differ late, early, only in length, or not at all.
fn hostile_key() -> impl Strategy<Value = Vec<u8>> {
    let few = prop_oneof![Just(0_u8), Just(b'a'), Just(b'b'), Just(0xff)];
    let short = proptest::collection::vec(few, 0..=4);
    let beginnings: Vec<Vec<u8>> = vec![
        vec![],
        b"a".to_vec(),
        b"abcdefg".to_vec(),
        b"abcdefgh".to_vec(),
        b"abcdefghabcdefg".to_vec(),
        b"abcdefghabcdefgh".to_vec(),
        vec![b'x'; 100],
        vec![0; 8],
        vec![0; 20],
        vec![0xff; 8],
        vec![0xff; 20],
        vec![0xff; MAXIMUM_KEY_BYTES - 4],
        vec![0; MAXIMUM_KEY_BYTES - 4],
    ];
    // The long ones seldom: they cost time and add little.
    let beginning = prop_oneof![60 => 0..beginnings.len() - 2, 1 => 0..beginnings.len()];
    (beginning, short).prop_map(move |(beginning, tail)| {
        let mut key = beginnings[beginning].clone();
        key.extend(tail);
        key
    })
}

#[derive(Debug, Clone)]
enum Operation {
    Put(Vec<u8>, u16),
    Delete(Vec<u8>),
}

/// Operations, and whether they come to nothing: then their batch is void.
type Batch = (Vec<Operation>, bool);

fn batch() -> impl Strategy<Value = Batch> {
    let operation = prop_oneof![
        3 => (hostile_key(), 0_u16..300).prop_map(|(key, length)| Operation::Put(key, length)),
        1 => hostile_key().prop_map(Operation::Delete),
    ];
    // Sorted batches take another way through the list than unsorted ones.
    let void = proptest::bool::weighted(0.1);
    (proptest::collection::vec(operation, 1..12), any::<bool>(), void).prop_map(|(mut operations, sorted, void)| {
        if sorted {
            operations.sort_by(|one, other| key_of(one).cmp(key_of(other)));
        }
        (operations, void)
    })
}

fn key_of(operation: &Operation) -> &[u8] {
    match operation {
        Operation::Put(key, _) | Operation::Delete(key) => key,
    }
}

fn payload_of((batch, void): &Batch, salt: u64) -> Payload {
    let mut payload = Payload::new();
    for (at, operation) in batch.iter().enumerate() {
        match operation {
            Operation::Put(key, length) => {
                payload.put(key, &vec![(salt + at as u64) as u8; usize::from(*length)]).unwrap()
            }
            Operation::Delete(key) => payload.delete(key).unwrap(),
        }
    }
    if *void { payload.void() } else { payload }
}

/// Compares everything a MemTable can be asked with the model.
fn compare(memtable: &Arc<MemTable<Dram>>, model: &Model, probes: &[Vec<u8>], last: u64) -> TestCaseResult {
    prop_assert_eq!(memtable.entries(), model.len() as u64);
    let mut cursor = memtable.cursor();
    prop_assert!(!cursor.valid());

    // All of it forwards and backwards.
    cursor.seek_first();
    for ((key, Reverse(sequence)), (kind, value)) in model {
        prop_assert!(cursor.valid());
        prop_assert_eq!((cursor.key(), cursor.sequence()), (&key[..], *sequence));
        prop_assert_eq!((cursor.kind(), cursor.value()), (*kind, &value[..]));
        cursor.next();
    }
    prop_assert!(!cursor.valid());
    cursor.seek_last();
    for (key, Reverse(sequence)) in model.keys().rev() {
        prop_assert!(cursor.valid());
        prop_assert_eq!((cursor.key(), cursor.sequence()), (&key[..], *sequence));
        cursor.prev();
    }
    prop_assert!(!cursor.valid());
    cursor.next();
    cursor.prev();
    prop_assert!(!cursor.valid());

    for probe in probes {
        let first_from = Bound::Included((probe.clone(), Reverse(u64::MAX)));
        let expected = model.range((first_from.clone(), Bound::Unbounded)).next().map(|(place, _)| place);
        cursor.seek(probe);
        prop_assert_eq!(cursor.entry().map(|e| (e.key, e.sequence)), expected.map(|(key, s)| (&key[..], s.0)));

        let last_before = (Bound::Unbounded, Bound::Excluded((probe.clone(), Reverse(u64::MAX))));
        let expected = model.range(last_before).next_back().map(|(place, _)| place);
        cursor.seek_before(probe);
        prop_assert_eq!(cursor.entry().map(|e| (e.key, e.sequence)), expected.map(|(key, s)| (&key[..], s.0)));

        for at_most in [0, 1, last / 3, last / 2, last.saturating_sub(1), last, u64::MAX] {
            let from = Bound::Included((probe.clone(), Reverse(at_most)));
            let next = model.range((from, Bound::Unbounded)).next();
            let found = memtable.get(probe, at_most).map(|found| (found.sequence, found.kind, found.value.to_vec()));
            let expected = next
                .filter(|((key, _), _)| key == probe)
                .map(|((_, Reverse(sequence)), (kind, value))| (*sequence, *kind, value.clone()));
            prop_assert_eq!(found, expected);
            cursor.seek_version(probe, at_most);
            prop_assert_eq!(
                cursor.entry().map(|e| (e.key.to_vec(), e.sequence)),
                next.map(|((key, Reverse(sequence)), _)| (key.clone(), *sequence))
            );
        }
    }

    let mut newest: Vec<(&Vec<u8>, u64)> = Vec::new();
    for (key, Reverse(sequence)) in model.keys() {
        if newest.last().is_none_or(|(last, _)| *last != key) {
            newest.push((key, *sequence));
        }
    }
    let all: Vec<_> = memtable.all_entries().map(|entry| (entry.key.to_vec(), Reverse(entry.sequence))).collect();
    prop_assert_eq!(all, model.keys().cloned().collect::<Vec<_>>());
    let flushed: Vec<_> = memtable.newest_entries().map(|entry| (entry.key.to_vec(), entry.sequence)).collect();
    prop_assert_eq!(flushed, newest.into_iter().map(|(key, sequence)| (key.clone(), sequence)).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn any_batches_read_like_a_sorted_map_before_and_after_a_replay() {
    let expected_prefix = prop_oneof![Just(&b""[..]), Just(&b"abcdefgh"[..]), Just(&[0; 8][..]), Just(&[0xff; 20][..])];
    let inputs =
        (proptest::collection::vec(batch(), 1..40), proptest::collection::vec(hostile_key(), 8), expected_prefix);
    check(250, inputs, |(batches, mut probes, expected_prefix)| {
        let payloads: Vec<_> = batches.iter().zip(0..).map(|(batch, salt)| payload_of(batch, salt)).collect();
        let all = batches.iter().flat_map(|(operations, _)| operations);
        probes.extend(all.map(|operation| key_of(operation).to_vec()).step_by(7));
        for links in LinkPolicy::ALL {
            read_like_a_sorted_map(links, expected_prefix, &payloads, &probes)?;
        }
        Ok(())
    });
}

/// Writes these batches, compares, replays, copies, and compares again.
fn read_like_a_sorted_map(
    links: LinkPolicy,
    expected_prefix: &[u8],
    payloads: &[Payload],
    probes: &[Vec<u8>],
) -> TestCaseResult {
    let options = MemTableOptions { links, expected_prefix: expected_prefix.into(), ..MemTableOptions::default() };
    let space_for = |payload: &Payload| links.form().space_for(payload.len_bytes(), payload.count());
    let length = links.form().first_record_offset() + payloads.iter().map(space_for).sum::<u64>();
    let memtable = Arc::new(MemTable::create(arena(vec![0xa5; length as usize]), 3, UUID, &options));
    let (mut model, mut next) = (Model::new(), 1);
    for payload in payloads {
        let place = memtable.try_reserve(payload.len_bytes(), payload.count()).expect("made to measure");
        memtable.fill(place, payload, next, next - 1);
        apply(&mut model, payload, next);
        next += u64::from(payload.count());
    }
    prop_assert_eq!(memtable.used_bytes(), memtable.capacity_bytes());
    prop_assert!(memtable.try_reserve(0, 1).is_none());
    prop_assert_eq!((memtable.first_sequence(), memtable.last_sequence()), (Some(1), Some(next - 1)));
    compare(&memtable, &model, probes, next - 1)?;

    let recovered = replay(arena(image(&memtable)), 3, UUID, &BYTEWISE, ExpectedSequence::Exactly(1), None).unwrap();
    prop_assert_eq!(recovered.reading.last_sequence, Some(next - 1));
    prop_assert_eq!(recovered.reading.end_offset, memtable.capacity_bytes());
    prop_assert_eq!(recovered.unlinked_from, None);
    let recovered = Arc::new(recovered.memtable);
    compare(&recovered, &model, probes, next - 1)?;

    for links in LinkPolicy::ALL {
        // With room for one more record, which goes where its key belongs.
        let mut more = Payload::new();
        more.put(b"abcdefgh", b"more").unwrap();
        let length = links.form().first_record_offset()
            + recovered.copied_bytes(links.form())
            + links.form().space_for(more.len_bytes(), 1);
        let room = arena(vec![0xa5; length as usize]);
        let copy = MemTable::copied_from(room, 4, UUID, &with_links(links), &[&recovered]).unwrap();
        let copy = Arc::new(copy);
        compare(&copy, &model, probes, next - 1)?;
        copy.fill(copy.try_reserve(more.len_bytes(), 1).expect("made to measure"), &more, next, next - 1);
        let mut model = model.clone();
        apply(&mut model, &more, next);
        compare(&copy, &model, probes, next)?;
        let expected = ExpectedSequence::Exactly(1);
        let again = replay(arena(image(&copy)), 4, UUID, &BYTEWISE, expected, Some(next)).unwrap();
        prop_assert_eq!(again.unlinked_from, None);
        compare(&Arc::new(again.memtable), &model, probes, next)?;
    }
    Ok(())
}

#[test]
fn an_empty_memtable_has_nothing() {
    let memtable = Arc::new(MemTable::create(arena(vec![0; 64]), 1, UUID, &MemTableOptions::default()));
    assert_eq!((memtable.entries(), memtable.used_bytes(), memtable.capacity_bytes()), (0, 64, 64));
    assert_eq!((memtable.first_sequence(), memtable.last_sequence()), (None, None));
    assert!(memtable.get(b"", u64::MAX).is_none() && memtable.newest_entries().next().is_none());
    assert!(memtable.usual_prefix().is_empty());
    let mut cursor = memtable.cursor();
    cursor.seek_first();
    cursor.seek_last();
    cursor.seek(b"");
    cursor.seek_before(b"x");
    assert!(!cursor.valid() && cursor.entry().is_none());
}

/// The later entry of a batch wins and an older reader does not see it.
#[test]
fn the_later_entry_of_a_batch_wins_but_for_older_readers() {
    let memtable = Arc::new(MemTable::create(arena(vec![0; 4096]), 1, UUID, &MemTableOptions::default()));
    let mut payload = Payload::new();
    payload.put(b"key", b"first").unwrap();
    payload.delete(b"key").unwrap();
    payload.put(b"key", b"third").unwrap();
    let place = memtable.try_reserve(payload.len_bytes(), payload.count()).unwrap();
    memtable.fill(place, &payload, 10, 0);
    assert_eq!(memtable.get(b"key", u64::MAX).unwrap().value, b"third");
    assert_eq!(memtable.get(b"key", 11).unwrap().kind, EntryKind::Delete);
    assert_eq!(memtable.get(b"key", 10).unwrap().value, b"first");
    assert!(memtable.get(b"key", 9).is_none());
    assert_eq!(memtable.newest_entries().map(|entry| entry.sequence).collect::<Vec<_>>(), [12]);
}

/// A conditional write that came to nothing takes its number, and is not there.
#[test]
fn a_void_entry_takes_its_number_and_is_never_seen() {
    let memtable = Arc::new(MemTable::create(arena(vec![0; 4096]), 1, UUID, &MemTableOptions::default()));
    let mut payload = Payload::new();
    payload.put(b"key", b"value").unwrap();
    let void = payload.clone().void();
    for (payload, sequence) in [(&void, 1), (&payload, 2), (&void, 3)] {
        let place = memtable.try_reserve(payload.len_bytes(), payload.count()).unwrap();
        memtable.fill(place, payload, sequence, sequence - 1);
    }
    let recovered = replay(arena(image(&memtable)), 1, UUID, &BYTEWISE, ExpectedSequence::Exactly(1), Some(3)).unwrap();
    for memtable in [memtable, Arc::new(recovered.memtable)] {
        assert_eq!((memtable.first_sequence(), memtable.last_sequence()), (Some(1), Some(3)));
        assert_eq!(memtable.entries(), 1);
        assert!(memtable.get(b"key", 1).is_none());
        assert_eq!(memtable.get(b"key", 3).unwrap().sequence, 2);
        assert_eq!(memtable.newest_entries().map(|entry| entry.sequence).collect::<Vec<_>>(), [2]);
        let mut cursor = memtable.cursor();
        cursor.seek_last();
        assert_eq!(cursor.sequence(), 2);
        cursor.prev();
        assert!(!cursor.valid());
    }
}

#[test]
fn a_cursor_keeps_its_memtable_and_its_place() {
    let memtable = Arc::new(MemTable::create(arena(vec![0; 4096]), 1, UUID, &MemTableOptions::default()));
    let write = |sequence: u64, key: &[u8]| {
        let mut payload = Payload::new();
        payload.put(key, key).unwrap();
        memtable.fill(memtable.try_reserve(payload.len_bytes(), payload.count()).unwrap(), &payload, sequence, 0);
    };
    write(1, b"b");
    let mut cursor = memtable.cursor();
    cursor.seek(b"b");
    write(2, b"a");
    write(3, b"c");
    let mut other = cursor.clone();
    drop(memtable);
    std::thread::spawn(move || {
        cursor.next();
        assert_eq!((cursor.key(), cursor.value()), (&b"c"[..], &b"c"[..]));
    })
    .join()
    .unwrap();
    other.prev();
    assert_eq!(other.key(), b"a");
    assert_eq!(Arc::strong_count(other.memtable()), 1);
}

#[test]
fn a_full_memtable_still_takes_what_fits() {
    let memtable = MemTable::create(arena(vec![0; 64 + 40 + 48 + 8]), 1, UUID, &MemTableOptions::default());
    assert_eq!(RecordForm::Plain.space_for(7, 1), 40);
    assert_eq!(RecordForm::Plain.space_for(9, 1), 48);
    let mut payload = Payload::new();
    payload.put(b"", b"").unwrap();
    memtable.fill(memtable.try_reserve(7, 1).unwrap(), &payload, 1, 0);
    assert!(memtable.try_reserve(1 << 30, 1).is_none() && memtable.try_reserve(u64::MAX, 1).is_none());
    assert!(memtable.try_reserve(30, 1).is_none());
    payload.clear();
    payload.put(b"k", b"v").unwrap();
    memtable.fill(memtable.try_reserve(9, 1).unwrap(), &payload, 2, 0);
    assert!(memtable.try_reserve(0, 1).is_none());
    assert_eq!(memtable.used_bytes(), 64 + 40 + 48);
    assert!(memtable.memory_bytes() > 0);
}

/// A store's keys share a beginning but for a few.
#[test]
fn what_most_keys_begin_with_is_what_seven_of_eight_share() {
    let memtable = MemTable::create(arena(vec![0; 1 << 20]), 1, UUID, &MemTableOptions::default());
    let mut sequence = 0;
    let mut write = |key: String| {
        let mut payload = Payload::new();
        payload.delete(key.as_bytes()).unwrap();
        sequence += 1;
        memtable.fill(memtable.try_reserve(payload.len_bytes(), payload.count()).unwrap(), &payload, sequence, 0);
    };
    (0..63).for_each(|number| write(format!("user{number:08}")));
    assert_eq!(memtable.usual_prefix(), b"", "so few say nothing");
    write("user00000063".into());
    assert_eq!(memtable.usual_prefix(), b"user000000");
    (64..5000).for_each(|number| write(format!("user{number:08}")));
    (0..50).for_each(|number| write(format!("{number}")));
    (0..50).for_each(|number| write(format!("zone{number}")));
    assert_eq!(memtable.usual_prefix(), b"user0000");
    (0..2000).for_each(|number| write(format!("unit{number}")));
    assert_eq!(memtable.usual_prefix(), b"u", "neither has so many");
}

/// What can't be right stops at once, before it is in the log.
#[test]
fn wrong_calls_panic_before_anything_is_written() {
    let one = MemTable::create(arena(vec![0; 4096]), 1, UUID, &MemTableOptions::default());
    let other = MemTable::create(arena(vec![0; 4096]), 1, UUID, &MemTableOptions::default());
    let mut payload = Payload::new();
    payload.put(b"key", b"value").unwrap();
    let panics = |call: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err();
    let length = payload.len_bytes();
    assert!(panics(&|| one.fill(other.try_reserve(length, 1).unwrap(), &payload, 1, 0)), "another MemTable's");
    assert!(panics(&|| one.fill(one.try_reserve(length + 1, 1).unwrap(), &payload, 1, 0)), "another length");
    assert!(panics(&|| one.fill(one.try_reserve(0, 1).unwrap(), &Payload::new(), 1, 0)), "empty");
    assert!(panics(&|| one.fill(one.try_reserve(length, 1).unwrap(), &payload, 0, 0)), "sequence number 0");
    assert!(panics(&|| one.fill(one.try_reserve(length, 1).unwrap(), &payload, 5, 5)), "safe before written");
    assert!(panics(&|| one.fill(one.try_reserve(length, 1).unwrap(), &payload, u64::MAX, 0)), "numbers run out");
    assert!(
        panics(&|| drop(MemTable::create(arena(vec![0; 63]), 1, UUID, &MemTableOptions::default()))),
        "no room for the header"
    );
    assert_eq!(one.entries(), 0);
    assert!(image(&one)[64..].iter().all(|&byte| byte == 0));
}

/// A batch of the largest size goes through the arena and the replay. Takes 3.5 GB of memory, so it wants
/// `SLMDB_TEST_BUDGET=10` or more.
#[test]
fn a_batch_of_one_gib() {
    if std::env::var("SLMDB_TEST_BUDGET").ok().and_then(|budget| budget.parse().ok()).unwrap_or(1) < 10 {
        return;
    }
    let mut payload = Payload::new();
    let value = vec![0x5a; 256 << 20];
    for key in [b"a", b"b", b"c"] {
        payload.put(key, &value).unwrap();
    }
    let rest = (1_usize << 30) - payload.len_bytes() as usize - 7 - 1;
    assert!(payload.put(b"d", &value[..rest + 1]).is_err());
    payload.put(b"d", &value[..rest]).unwrap();
    assert_eq!(payload.len_bytes(), 1 << 30);
    assert!(payload.delete(b"").is_err());
    let length = 64 + RecordForm::Plain.space_for(payload.len_bytes(), payload.count());
    let memtable = MemTable::create(arena(vec![0; length as usize]), 1, UUID, &MemTableOptions::default());
    memtable.fill(memtable.try_reserve(payload.len_bytes(), payload.count()).unwrap(), &payload, 1, 0);
    assert_eq!(memtable.get(b"c", u64::MAX).unwrap().value, value);
    drop(payload);
    let bytes = image(&memtable);
    drop(memtable);
    let recovered = replay(arena(bytes), 1, UUID, &BYTEWISE, ExpectedSequence::Exactly(1), Some(4)).unwrap();
    assert_eq!(recovered.memtable.get(b"d", u64::MAX).unwrap().value.len(), rest);
}
