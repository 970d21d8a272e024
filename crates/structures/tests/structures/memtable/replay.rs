//! What the replay makes of arenas that were cut, damaged, recycled or forged: a prefix of what was written, or
//! `Error::Corruption`. The arenas here are written by the MemTable, and where that could not write such a thing, by a
//! second encoder, made after `docs/formats/arena.md`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::support::*;
use proptest::prelude::*;
use slmdb_env::{Error, Result};
use slmdb_pmem::Dram;
use slmdb_structures::log::{ExpectedSequence, Payload, Stop, holds_records, known_safe_after};
use slmdb_structures::memtable::{MemTable, MemTableOptions, Replayed, replay};

const GENERATION: u64 = 77;

/// A record as it was written: its numbers and its place.
#[derive(Debug, Clone)]
struct Written {
    payload: Payload,
    first: u64,
    last: u64,
    start: usize,
    /// Without padding.
    end: usize,
}

/// An arena of `length` bytes with records of these payloads; `known_safe` says what each record knows.
fn log(
    length: usize,
    generation: u64,
    first: u64,
    payloads: &[Payload],
    known_safe: impl Fn(u64) -> u64,
) -> (Vec<u8>, Vec<Written>) {
    fill_log(vec![0; length], generation, first, payloads, known_safe)
}

/// The same in an arena that holds something already.
fn fill_log(
    bytes: Vec<u8>,
    generation: u64,
    mut first: u64,
    payloads: &[Payload],
    known_safe: impl Fn(u64) -> u64,
) -> (Vec<u8>, Vec<Written>) {
    let memtable = MemTable::create(arena(bytes), generation, UUID, &MemTableOptions::default());
    let mut written = Vec::new();
    for payload in payloads {
        let place =
            memtable.try_reserve(payload.len_bytes(), payload.count()).expect("the test's arena is large enough");
        let start = place.offset() as usize;
        let end = start + 32 + payload.len_bytes() as usize;
        memtable.fill(place, payload, first, known_safe(first));
        let last = first + u64::from(payload.count()) - 1;
        written.push(Written { payload: payload.clone(), first, last, start, end });
        first = last + 1;
    }
    (image(&memtable), written)
}

/// A dozen batches of one to three entries, with empty keys and values, deletes and keys that come again.
fn payloads() -> Vec<Payload> {
    (0..12_u8)
        .map(|n| {
            let mut payload = Payload::new();
            payload.put(&[b'k', n % 5], &vec![n; usize::from(n) * 3]).unwrap();
            if n % 3 == 1 {
                payload.delete(&[b'k', (n + 2) % 5]).unwrap();
            }
            if n % 4 == 2 {
                payload.put(b"", &[n]).unwrap();
            }
            payload
        })
        .collect()
}

fn run(bytes: &[u8], expected: ExpectedSequence, sealed: Option<u64>) -> Result<Replayed<Dram>> {
    replay(arena(bytes.to_vec()), GENERATION, UUID, &BYTEWISE, expected, sealed)
}

fn from_1(bytes: &[u8]) -> Result<Replayed<Dram>> {
    run(bytes, ExpectedSequence::Exactly(1), None)
}

/// The number of records that a replay took, after checking that it took exactly the first ones.
fn records_taken(replayed: Replayed<Dram>, written: &[Written]) -> usize {
    let last = replayed.reading.last_sequence.unwrap_or(written[0].first - 1);
    let taken = written.iter().take_while(|record| record.last <= last).count();
    assert_eq!(taken.checked_sub(1).map_or(written[0].first - 1, |at| written[at].last), last, "ends inside a record");
    match taken {
        // Behind the arena header, or there is none.
        0 => assert!(matches!(replayed.reading.end_offset, 0 | 64)),
        _ => assert_eq!(replayed.reading.end_offset as usize, written[taken - 1].end.next_multiple_of(8)),
    }
    assert_eq!(replayed.reading.expected_next, ExpectedSequence::Exactly(last + 1));
    assert_eq!(replayed.memtable.last_sequence(), replayed.reading.last_sequence);
    assert!(replayed.memtable.try_reserve(0, 1).is_none(), "a recovered MemTable is never appended to");
    let mut model = Model::new();
    written[..taken].iter().for_each(|record| apply(&mut model, &record.payload, record.first));
    assert_eq!(contents(&Arc::new(replayed.memtable)), model);
    taken
}

#[track_caller]
fn assert_corruption(result: Result<Replayed<Dram>>, at: usize) {
    match result {
        Err(Error::Corruption { file, offset, .. }) => {
            assert_eq!((file.to_str(), offset), (Some(PATH), at as u64));
        }
        other => panic!("{other:?} instead of corruption at {at}"),
    }
}

#[test]
fn a_log_cut_at_any_byte_gives_the_records_before_the_cut() {
    let (whole, written) = log(1024, GENERATION, 1, &payloads(), |first| first - 1);
    assert_eq!(records_taken(from_1(&whole).unwrap(), &written), written.len());
    let mut random = Random::new(seed());
    for cut in 64..whole.len() {
        for tail in ["zeros", "ones", "noise"] {
            let mut bytes = whole.clone();
            bytes[cut..].iter_mut().for_each(|byte| {
                *byte = match tail {
                    "zeros" => 0,
                    "ones" => 0xff,
                    _ => random.number() as u8,
                }
            });
            // Where the tail happens to be what was there, more is whole.
            let expected = written.iter().take_while(|w| bytes[w.start..w.end] == whole[w.start..w.end]).count();
            let replayed = from_1(&bytes).unwrap();
            let end = expected.checked_sub(1).map_or(64, |last| written[last].end.next_multiple_of(8));
            let nothing = bytes[end..].iter().take(32).all(|&byte| byte == 0);
            let stop = if nothing { Stop::End } else { Stop::Broken { offset: end as u64 } };
            assert_eq!(replayed.reading.stopped, stop, "cut at {cut}, {tail} behind");
            assert_eq!(records_taken(replayed, &written), expected, "cut at {cut}, {tail} behind");
        }
        // A file that is cut is shorter than its header says.
        assert_corruption(from_1(&whole[..cut]), cut);
    }
    for cut in 0..64 {
        // Neither header nor records: nothing was ever written, as far as one can see.
        let replayed = from_1(&whole[..cut]).unwrap();
        assert_eq!((replayed.reading.last_sequence, replayed.reading.end_offset), (None, 0));
        assert_eq!(replayed.reading.stopped, if cut == 0 { Stop::End } else { Stop::Broken { offset: 0 } });
    }
}

#[test]
fn every_flipped_byte_gives_a_prefix_or_corruption() {
    for vouched in [false, true] {
        let (whole, written) = log(1024, GENERATION, 1, &payloads(), |first| if vouched { first - 1 } else { 0 });
        for at in 0..whole.len() {
            for flip in [0x01, 0x10, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                let replayed = from_1(&bytes);
                let hit = written.iter().position(|record| (record.start..record.end).contains(&at));
                match hit {
                    // The next whole record knows that this one was safe.
                    Some(record) if vouched && record + 1 < written.len() => {
                        assert_corruption(replayed, written[record].start);
                    }
                    Some(record) => assert_eq!(records_taken(replayed.unwrap(), &written), record, "byte {at}"),
                    None if at < 64 && vouched => assert_corruption(replayed, 0),
                    None if at < 64 => assert_eq!(records_taken(replayed.unwrap(), &written), 0, "byte {at}"),
                    // Padding, or behind the log.
                    None => assert_eq!(records_taken(replayed.unwrap(), &written), written.len(), "byte {at}"),
                }
            }
        }
    }
}

/// Where nothing was synced, a power cut may keep records and lose the header in front of them: the log ends, and the store
/// must open. (It did not.)
#[test]
fn a_header_lost_in_a_power_cut_ends_a_log_without_vouchers() {
    let (mut bytes, written) = log(1024, GENERATION, 1, &payloads(), |_| 0);
    bytes[..64].fill(0);
    assert_eq!(records_taken(from_1(&bytes).unwrap(), &written), 0);
}

#[test]
fn any_damage_gives_a_prefix_or_corruption() {
    let (whole, written) = log(2048, GENERATION, 1, &payloads(), |first| first.saturating_sub(4));
    let damage = prop_oneof![
        // Bytes changed.
        (0..2048_usize, proptest::collection::vec(any::<u8>(), 1..64)).prop_map(|(at, with)| (at, 0, with)),
        // A stretch copied to somewhere else.
        (0..2048_usize, 0..2048_usize, 1..600_usize).prop_map(|(to, from, length)| (to, from, vec![0; length])),
        // The same, record-aligned.
        (0..256_usize, 0..256_usize, 1..75_usize).prop_map(|(to, from, words)| (to * 8, from * 8, vec![0; words * 8])),
    ];
    check(3_000, proptest::collection::vec((damage, any::<bool>()), 1..5), |damages| {
        let mut bytes = whole.clone();
        for ((to, from, with), copy) in damages {
            let length = with.len().min(bytes.len() - to).min(bytes.len() - from);
            match copy {
                true => bytes.copy_within(from..from + length, to),
                false => bytes[to..to + length].copy_from_slice(&with[..length]),
            }
        }
        match from_1(&bytes) {
            Ok(replayed) => {
                let intact = written.iter().take_while(|w| bytes[w.start..w.end] == whole[w.start..w.end]).count();
                prop_assert_eq!(records_taken(replayed, &written), intact);
            }
            Err(error) => prop_assert!(matches!(error, Error::Corruption { .. }), "{error:?}"),
        }
        Ok(())
    });
}

#[test]
fn any_bytes_at_all_are_survived() {
    check(2_000, proptest::collection::vec(any::<u8>(), 0..600), |mut bytes| {
        prop_assert_eq!(from_1(&bytes).unwrap().reading.last_sequence, None);
        // And behind a header that is right.
        let length = bytes.len().max(64);
        bytes.resize(length, 0);
        bytes[..64].copy_from_slice(&arena_header(1, GENERATION, length as u64));
        prop_assert_eq!(from_1(&bytes).unwrap().reading.last_sequence, None);
        let mut arena = arena(bytes);
        prop_assert_eq!(known_safe_after(&mut arena, GENERATION, UUID, 0), None);
        prop_assert_eq!(known_safe_after(&mut arena, GENERATION, UUID, u64::MAX), None);
        prop_assert!(!holds_records(&mut arena, GENERATION, UUID));
        Ok(())
    });
}

#[test]
fn what_a_recycled_arena_held_before_never_comes_back() {
    // Both lives have records of the same lengths at the same places with the same numbers: only the generation differs.
    let (first_life, _) = log(1024, GENERATION - 1, 1, &payloads(), |first| first - 1);
    for count in 0..payloads().len() {
        let (second_life, written) =
            fill_log(first_life.clone(), GENERATION, 1, &payloads()[..count], |first| first - 1);
        let replayed = from_1(&second_life).unwrap();
        let end = written.last().map_or(64, |record| record.end.next_multiple_of(8));
        assert_eq!(replayed.reading.stopped, Stop::Broken { offset: end as u64 });
        assert_eq!(replayed.reading.last_sequence, written.last().map(|record| record.last));
        assert_eq!(replayed.memtable.entries(), replayed.reading.last_sequence.unwrap_or(0));

        let mut arena = arena(second_life.clone());
        assert_eq!(holds_records(&mut arena, GENERATION, UUID), count > 0);
        assert!(holds_records(&mut arena, GENERATION - 1, UUID));
        assert!(!holds_records(&mut arena, GENERATION - 1, [0; 16]), "another store's");
        // The first life is over: its header is gone, though records of it are there.
        let again = replay(arena, GENERATION - 1, UUID, &BYTEWISE, ExpectedSequence::Exactly(1), None);
        assert_corruption(again, 0);
    }
}

#[test]
fn a_generation_whose_header_never_arrived_is_empty() {
    let (older, _) = log(1024, GENERATION - 1, 1, &payloads(), |first| first - 1);
    for bytes in [older, vec![0; 1024], vec![0xff; 1024], vec![]] {
        let replayed = run(&bytes, ExpectedSequence::Exactly(40), None).unwrap();
        assert_eq!((replayed.reading.last_sequence, replayed.memtable.entries()), (None, 0));
        assert_eq!(replayed.reading.expected_next, ExpectedSequence::Exactly(40));
        assert!(run(&bytes, ExpectedSequence::Exactly(40), Some(39)).is_ok());
        assert_corruption(run(&bytes, ExpectedSequence::Exactly(40), Some(40)), 0);
    }
}

/// Writers that were killed in mid-fill leave holes: what is behind the first is not taken, whole or not.
#[test]
fn records_behind_a_hole_are_not_taken() {
    let payloads = payloads();
    for holes in 1_u32..1 << 5 {
        let memtable = MemTable::create(arena(vec![0; 1024]), GENERATION, UUID, &MemTableOptions::default());
        let mut next = 1;
        let mut first_hole = None;
        let mut held = Vec::new();
        for (n, payload) in payloads.iter().take(5).enumerate() {
            let place = memtable.try_reserve(payload.len_bytes(), payload.count()).unwrap();
            if holes & 1 << n == 0 {
                // Nothing in flight is known to be safe.
                memtable.fill(place, payload, next, first_hole.map_or(next, |(hole, _)| hole) - 1);
            } else {
                first_hole = first_hole.or(Some((next, place.offset())));
                held.push(place);
            }
            next += u64::from(payload.count());
        }
        let (hole, offset) = first_hole.unwrap();
        let replayed = from_1(&image(&memtable)).unwrap();
        assert_eq!(replayed.reading.last_sequence.unwrap_or(0), hole - 1, "holes {holes:b}");
        assert_eq!((replayed.reading.end_offset, replayed.reading.stopped), (offset, Stop::End));
        assert_eq!(replayed.memtable.entries(), hole - 1);
    }
}

#[test]
fn a_later_record_vouches_for_the_lost_one() {
    // Records 1, 2, 3 and so on, one entry each; the third is lost. The fifth knows `known_safe`.
    let mut payload = Payload::new();
    payload.put(b"key", b"some value").unwrap();
    for known_safe in 0..5 {
        for lost in ["zeroed", "torn", "behind the hole too"] {
            let known = |first| if first == 5 { known_safe } else { 0 };
            let (mut bytes, written) = log(1024, GENERATION, 1, &vec![payload.clone(); 8], known);
            let third = &written[2];
            match lost {
                "zeroed" => bytes[third.start..third.end].fill(0),
                "torn" => bytes[third.end - 1] ^= 1,
                _ => bytes[third.start..written[3].end].fill(0xee),
            }
            match known_safe {
                0..3 => {
                    let replayed = from_1(&bytes).unwrap();
                    assert_eq!(replayed.reading.last_sequence, Some(2), "{known_safe} known safe, {lost}");
                }
                _ => assert_corruption(from_1(&bytes), third.start),
            }
            let mut arena = arena(bytes);
            assert_eq!(known_safe_after(&mut arena, GENERATION, UUID, third.start as u64), Some(known_safe));
            // At an offset that is not a record's: from the next multiple of eight on.
            let fifth = written[4].start as u64;
            assert_eq!(known_safe_after(&mut arena, GENERATION, UUID, fifth - 3), Some(known_safe));
            assert_eq!(known_safe_after(&mut arena, GENERATION, UUID, fifth + 1), Some(0));
            assert_eq!(known_safe_after(&mut arena, GENERATION, UUID, written[7].start as u64 + 1), None);
        }
    }
}

/// A value may hold a copy of the arena, records and all. They vouch for no more than they did before.
#[test]
fn a_copy_of_the_log_inside_a_value_is_no_voucher() {
    let (copy, written) = log(1024, GENERATION, 1, &payloads(), |first| first - 1);
    let mut payloads = payloads();
    for shift in 0..8 {
        let mut holder = Payload::new();
        // Once with the copied records where a scan looks, seven times beside it.
        holder.put(&vec![b'x'; shift], &copy).unwrap();
        payloads.push(holder);
        let (mut bytes, all) = log(4096, GENERATION, 1, &payloads, |first| first - 1);
        assert_eq!(from_1(&bytes).unwrap().memtable.entries(), all.last().unwrap().last);
        let holder = all.last().unwrap();
        bytes[holder.start] ^= 1;
        assert_eq!(records_taken(from_1(&bytes).unwrap(), &all), written.len());
        payloads.pop();
    }
}

#[test]
fn a_sealed_log_is_reached_exactly_or_is_corrupt() {
    let (bytes, written) = log(1024, GENERATION, 1, &payloads(), |_| 0);
    let expected = ExpectedSequence::Exactly(1);
    let all = written.last().unwrap();
    for sealed in 0..all.last + 3 {
        let replayed = run(&bytes, expected, Some(sealed));
        match written.iter().position(|record| record.first <= sealed && sealed <= record.last) {
            // Less is taken than there is.
            Some(at) if written[at].last == sealed => {
                let replayed = replayed.unwrap();
                assert_eq!(replayed.reading.stopped, Stop::End);
                assert_eq!(records_taken(replayed, &written), at + 1);
            }
            Some(at) => assert_corruption(replayed, written[at].start),
            None if sealed == 0 => assert_eq!(records_taken(replayed.unwrap(), &written), 0),
            None => assert_corruption(replayed, all.end.next_multiple_of(8)),
        }
    }
    // Damage behind the seal is nothing to it, damage before it is corruption even without a voucher.
    let (seal, mut behind, mut before) = (written[5].last, bytes.clone(), bytes.clone());
    behind[written[6].start] ^= 1;
    assert_eq!(records_taken(run(&behind, expected, Some(seal)).unwrap(), &written), 6);
    before[written[5].start] ^= 1;
    assert_corruption(run(&before, expected, Some(seal)), written[5].start);
    // A seal that is behind what came before the arena contradicts the log.
    assert!(run(&bytes, ExpectedSequence::Exactly(10), Some(9)).is_ok());
    assert_corruption(run(&bytes, ExpectedSequence::Exactly(10), Some(8)), 0);
}

#[test]
fn the_first_arena_may_begin_with_what_is_flushed_already() {
    let (bytes, written) = log(1024, GENERATION, 100, &payloads(), |_| 0);
    let last = written.last().unwrap().last;
    for flushed_through in 95..last + 5 {
        let replayed = run(&bytes, ExpectedSequence::First { flushed_through }, None);
        if flushed_through < 99 {
            // The arena begins too late: what is between was lost with an arena before it.
            let replayed = replayed.unwrap();
            assert_eq!((replayed.reading.last_sequence, replayed.reading.stopped), (None, Stop::Broken { offset: 64 }));
            continue;
        }
        let cut = written.iter().find(|record| record.first <= flushed_through && flushed_through < record.last);
        if let Some(record) = cut {
            assert_corruption(replayed, record.start);
            continue;
        }
        let replayed = replayed.unwrap();
        assert_eq!(replayed.reading.last_sequence, Some(last));
        assert_eq!(replayed.reading.entries_skipped, (flushed_through.min(last) + 1).saturating_sub(100));
        assert_eq!(replayed.memtable.entries(), last - 99 - replayed.reading.entries_skipped);
        assert!(contents(&Arc::new(replayed.memtable)).keys().all(|(_, sequence)| sequence.0 > flushed_through));
        let next = if flushed_through < last {
            ExpectedSequence::Exactly(last + 1)
        } else {
            ExpectedSequence::First { flushed_through }
        };
        assert_eq!(replayed.reading.expected_next, next);
    }
    // Sealed at or below what is flushed: nothing of it is wanted, whatever became of it.
    let first = ExpectedSequence::First { flushed_through: last };
    assert_eq!(run(&[], first, Some(last)).unwrap().memtable.entries(), 0);
    assert_corruption(run(&[], first, Some(last + 1)), 0);
}

/// Damage in what is flushed is corruption only if something wanted is behind.
#[test]
fn damage_in_what_is_flushed_counts_only_before_what_is_wanted() {
    let (mut bytes, written) = log(1024, GENERATION, 100, &payloads(), |first| first - 1);
    bytes[written[3].start] ^= 1;
    let last = written.last().unwrap().last;
    let first = |flushed_through| ExpectedSequence::First { flushed_through };
    assert_corruption(run(&bytes, first(written[6].last), None), written[3].start);
    let replayed = run(&bytes, first(last), None).unwrap();
    assert_eq!((replayed.memtable.entries(), replayed.reading.last_sequence), (0, Some(written[2].last)));
    assert_eq!(replayed.reading.expected_next, first(last));
}

#[test]
fn several_arenas_are_one_log() {
    let payloads = payloads();
    let no_voucher = |_| 0;
    let (first, one) = log(1024, 1, 1, &payloads, no_voucher);
    let last = one.last().unwrap().last;
    let (second, two) = log(1024, 2, last + 1, &payloads, no_voucher);
    let last_of_two = two.last().unwrap().last;
    let (third, three) = log(1024, 3, last_of_two + 1, &payloads, no_voucher);
    let replay_all = |arenas: [&[u8]; 3], flushed_through: u64| {
        let mut expected = ExpectedSequence::First { flushed_through };
        let mut entries = 0;
        for (bytes, generation) in arenas.into_iter().zip(1..) {
            let replayed = replay(arena(bytes.to_vec()), generation, UUID, &BYTEWISE, expected, None)?;
            expected = replayed.reading.expected_next;
            entries += replayed.memtable.entries();
        }
        Ok::<_, Error>((expected, entries))
    };
    let all = three.last().unwrap().last;
    assert_eq!(replay_all([&first, &second, &third], 0).unwrap(), (ExpectedSequence::Exactly(all + 1), all));
    // The first one, or two, are in table files.
    let flushed = replay_all([&first, &second, &third], last).unwrap();
    assert_eq!(flushed, (ExpectedSequence::Exactly(all + 1), all - last));
    let flushed = replay_all([&[], &second, &third], last_of_two).unwrap();
    assert_eq!(flushed, (ExpectedSequence::Exactly(all + 1), all - last_of_two));
    // The second one lost its last record, as a file may that was not synced: the third does not follow any more.
    let mut torn = second.clone();
    torn[two.last().unwrap().start..].fill(0);
    let end = two.last().unwrap().first;
    assert_eq!(replay_all([&first, &torn, &third], 0).unwrap(), (ExpectedSequence::Exactly(end), end - 1));
    // All of the second one is gone.
    let lost = replay_all([&first, &[0; 1024], &third], 0).unwrap();
    assert_eq!(lost, (ExpectedSequence::Exactly(last + 1), last));
    // If any record of the third knows that the second was safe, that is no end but damage.
    let (third, _) = log(1024, 3, last_of_two + 1, &payloads, |first| if first == all { end } else { 0 });
    let Err(Error::Corruption { offset: 64, .. }) = replay_all([&first, &torn, &third], 0) else { panic!() };
    let (third, _) = log(1024, 3, last_of_two + 1, &payloads, |first| if first == all { end - 1 } else { 0 });
    assert_eq!(replay_all([&first, &torn, &third], 0).unwrap(), (ExpectedSequence::Exactly(end), end - 1));
    // Numbers that run backwards were written so.
    assert_corruption(replay(arena(second), 2, UUID, &BYTEWISE, ExpectedSequence::Exactly(last + 2), None), 64);
}

/// The arena header, made after the document.
fn arena_header(version: u32, generation: u64, capacity: u64) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(b"SLMARENA");
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes[16..24].copy_from_slice(&generation.to_le_bytes());
    bytes[24..40].copy_from_slice(&UUID);
    bytes[40..48].copy_from_slice(&capacity.to_le_bytes());
    let crc = slmdb_checksum::crc32c(&bytes[..60]);
    bytes[60..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// What a record says of itself, true or not.
struct Claim<'a> {
    payload: &'a [u8],
    payload_length: u32,
    entry_count: u32,
    first_sequence: u64,
    known_safe_sequence: u64,
}

/// A record made after the document, with CRCs that are right.
fn record(claim: &Claim<'_>) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend(slmdb_checksum::crc32c(claim.payload).to_le_bytes());
    header.extend(claim.payload_length.to_le_bytes());
    header.extend(claim.entry_count.to_le_bytes());
    header.extend(claim.first_sequence.to_le_bytes());
    header.extend(claim.known_safe_sequence.to_le_bytes());
    let covered = [&GENERATION.to_le_bytes()[..], &UUID, &header].concat();
    let mut bytes = slmdb_checksum::crc32c(&covered).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend(claim.payload);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn entry(kind: u8, key: &[u8], value_length: u32, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((key.len() as u16).to_le_bytes());
    bytes.extend(value_length.to_le_bytes());
    bytes.extend(key);
    bytes.extend(value);
    bytes
}

/// The document's encoder and the MemTable agree byte for byte, so neither can drift alone.
#[test]
fn the_bytes_are_those_of_the_document() {
    let mut payload = Payload::new();
    payload.put(b"key", b"value").unwrap();
    payload.delete(b"").unwrap();
    let (bytes, _) = log(160, GENERATION, 5, &[payload], |_| 3);
    let encoded = [entry(1, b"key", 5, b"value"), entry(2, b"", 0, b"")].concat();
    let claim =
        Claim { payload: &encoded, payload_length: 22, entry_count: 2, first_sequence: 5, known_safe_sequence: 3 };
    let mut expected = arena_header(1, GENERATION, 160).to_vec();
    expected.extend(record(&claim));
    expected.resize(160, 0);
    assert_eq!(bytes, expected);
    // And both agree with what the first version wrote.
    let fixture: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(fixture, FIXTURE);
}

/// Arena header, record header, two entries, padding.
const FIXTURE: &str = concat!(
    "534c4d4152454e4101000000000000004d00000000000000612073746f7265206f66207465737473a000000000000000",
    "000000000000000000000000287a614a",
    "4169fe9e1c8c4d83160000000200000005000000000000000300000000000000",
    "010300050000006b657976616c7565",
    "02000000000000",
    "000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
);

#[test]
fn right_checksums_over_wrong_content_are_corruption() {
    let good = entry(1, b"k", 1, b"v");
    let two = [good.clone(), good.clone()].concat();
    let claim = |payload: &[u8], change: &dyn Fn(&mut Claim<'_>)| {
        let payload_length = payload.len() as u32;
        let mut claim = Claim { payload, payload_length, entry_count: 1, first_sequence: 2, known_safe_sequence: 0 };
        change(&mut claim);
        record(&claim)
    };
    let keep = |_: &mut Claim<'_>| {};
    let before = record(&Claim {
        payload: &good,
        payload_length: good.len() as u32,
        entry_count: 1,
        first_sequence: 1,
        known_safe_sequence: 0,
    });
    // What is wrong, the second record, and where in it the error is.
    let cases: Vec<(&str, Vec<u8>, usize)> = vec![
        ("nothing", claim(&good, &keep), usize::MAX),
        ("a void entry", claim(&entry(3, b"k", 1, b"v"), &keep), usize::MAX),
        ("unknown kind", claim(&entry(4, b"k", 1, b"v"), &keep), 32),
        ("kind 0", claim(&entry(0, b"k", 1, b"v"), &keep), 32),
        ("a delete with a value", claim(&entry(2, b"k", 1, b"v"), &keep), 32),
        ("a value longer than the payload", claim(&entry(1, b"k", 2, b"v"), &keep), 32),
        ("a value beyond the limit", claim(&entry(1, b"k", u32::MAX, b"v"), &keep), 32),
        ("more entries than counted", claim(&two, &keep), 32 + good.len()),
        (
            "fewer entries than counted",
            claim(&[two.clone(), vec![0; 7]].concat(), &|c| c.entry_count = 3),
            32 + two.len(),
        ),
        ("a half entry", claim(&[good.clone(), vec![1; 6]].concat(), &keep), 32 + good.len()),
        ("no entries", claim(&good, &|c| c.entry_count = 0), 0),
        ("more entries than bytes", claim(&good, &|c| c.entry_count = 2), 0),
        ("longer than the arena", claim(&good, &|c| c.payload_length = 1 << 20), 0),
        ("longer than a batch", claim(&good, &|c| c.payload_length = u32::MAX), 0),
        ("sequence number 0", claim(&good, &|c| c.first_sequence = 0), 0),
        ("sequence numbers that overflow", claim(&good, &|c| c.first_sequence = u64::MAX), 0),
        ("known safe before it was written", claim(&good, &|c| c.known_safe_sequence = 2), 0),
        ("a number again", claim(&good, &|c| c.first_sequence = 1), 0),
        ("a number left out", claim(&good, &|c| c.first_sequence = 3), 0),
    ];
    for (what, second, at) in cases {
        let mut bytes = arena_header(1, GENERATION, 512).to_vec();
        bytes.extend(&before);
        let start = bytes.len();
        bytes.extend(second);
        bytes.resize(512, 0);
        println!("{what}");
        match at {
            usize::MAX => assert_eq!(from_1(&bytes).unwrap().reading.last_sequence, Some(2)),
            at => assert_corruption(from_1(&bytes), start + at),
        }
    }
}

#[test]
fn headers_of_other_versions_and_lengths() {
    let mut bytes = arena_header(2, GENERATION, 128).to_vec();
    bytes.resize(128, 0);
    let Err(Error::Unsupported { what, file }) = from_1(&bytes) else { panic!("read a later version") };
    assert!(what.contains("version 2") && file.is_some_and(|file| file.to_str() == Some(PATH)));
    bytes[..64].copy_from_slice(&arena_header(1, GENERATION, 129));
    assert_corruption(from_1(&bytes), 128);
    bytes[..64].copy_from_slice(&arena_header(1, GENERATION, 1 << 32));
    assert_corruption(from_1(&bytes), 128);
    // Longer than any arena.
    for capacity in [(1 << 32) + 1, u64::MAX] {
        bytes[..64].copy_from_slice(&arena_header(1, GENERATION, capacity));
        assert_corruption(from_1(&bytes), 0);
    }
    // Larger than the header says: what is behind is not the arena's.
    bytes[..64].copy_from_slice(&arena_header(1, GENERATION, 72));
    let replayed = from_1(&bytes).unwrap();
    assert_eq!((replayed.reading.stopped, replayed.reading.end_offset), (Stop::End, 64));
    bytes[..64].copy_from_slice(&arena_header(1, GENERATION, 0));
    assert_eq!(from_1(&bytes).unwrap().reading.last_sequence, None);
}

/// Headers whose payloads overlap can be forged by whoever knows the store's UUID; they must not cost more than bytes do.
#[test]
fn forged_headers_do_not_make_the_scan_quadratic() {
    const LENGTH: usize = 8 << 20;
    let mut bytes = arena_header(1, GENERATION, LENGTH as u64).to_vec();
    while bytes.len() + 48 <= LENGTH {
        let payload_length = (LENGTH - bytes.len() - 32) as u32;
        bytes.extend(&record(&Claim {
            payload: &[],
            payload_length,
            entry_count: 1,
            first_sequence: 1,
            known_safe_sequence: 0,
        }));
    }
    bytes.resize(LENGTH, 0);
    let started = Instant::now();
    assert_eq!(from_1(&bytes).unwrap().reading.last_sequence, None);
    // Each header once: 1 TiB of checksums.
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}
