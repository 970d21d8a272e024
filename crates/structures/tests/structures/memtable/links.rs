//! Persisted links that were damaged, forged or cut off: what a replay makes of them is a prefix of what was written, in
//! order, or `Error::Corruption`.

use std::sync::Arc;

use super::support::*;
use proptest::prelude::*;
use slmdb_env::{Error, Result};
use slmdb_pmem::Dram;
use slmdb_structures::log::{ExpectedSequence, Payload, SLOT_BYTES, holds_records, known_safe_after};
use slmdb_structures::memtable::{LinkPolicy, MemTable, Replayed, replay};

const GENERATION: u64 = 77;
/// Where the chain begins.
const FRONT: usize = 64;
const LENGTH: usize = 2048;

/// A record as it was written: its numbers, its place and the slots of its entries.
struct Written {
    payload: Payload,
    first: u64,
    last: u64,
    slots: Vec<usize>,
    end: usize,
}

/// A dozen batches of one to three entries, with empty keys and values, deletes, a void one and keys that come again.
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
            if n == 7 { payload.void() } else { payload }
        })
        .collect()
}

/// An arena with these records; `known_safe` says what each knows.
fn log(payloads: &[Payload], known_safe: impl Fn(u64) -> u64) -> (Vec<u8>, Vec<Written>) {
    let memtable = MemTable::create(arena(vec![0xee; LENGTH]), GENERATION, UUID, &with_links(LinkPolicy::Persisted));
    let (mut written, mut first) = (Vec::new(), 1);
    for payload in payloads {
        let place = memtable.try_reserve(payload.len_bytes(), payload.count()).unwrap();
        let start = place.offset() as usize;
        let slots: Vec<_> = (0..payload.count() as usize).map(|n| start + 32 + n * SLOT_BYTES as usize).collect();
        let end = start + 32 + slots.len() * SLOT_BYTES as usize + payload.len_bytes() as usize;
        memtable.fill(place, payload, first, known_safe(first));
        let last = first + u64::from(payload.count()) - 1;
        written.push(Written { payload: payload.clone(), first, last, slots, end });
        first = last + 1;
    }
    (image(&memtable), written)
}

fn run(bytes: &[u8]) -> Result<Replayed<Dram>> {
    replay(arena(bytes.to_vec()), GENERATION, UUID, &BYTEWISE, ExpectedSequence::Exactly(1), None)
}

/// The number of records that a replay took, after checking that it took exactly the first ones, and in order.
fn records_taken(replayed: Replayed<Dram>, written: &[Written]) -> usize {
    let last = replayed.reading.last_sequence.unwrap_or(0);
    let taken = written.iter().take_while(|record| record.last <= last).count();
    assert_eq!(taken.checked_sub(1).map_or(0, |at| written[at].last), last, "ends inside a record");
    let mut model = Model::new();
    written[..taken].iter().for_each(|record| apply(&mut model, &record.payload, record.first));
    let memtable = Arc::new(replayed.memtable);
    let mut cursor = memtable.cursor();
    cursor.seek_first();
    for (key, sequence) in model.keys() {
        assert_eq!((cursor.key(), cursor.sequence()), (&key[..], sequence.0));
        cursor.next();
    }
    assert!(!cursor.valid());
    assert_eq!(contents(&memtable), model);
    taken
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn set_word(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The slots of the chain, from the front on.
fn chain(bytes: &[u8]) -> Vec<usize> {
    let next = |&at: &usize| Some((word(bytes, at) & !1) as usize).filter(|&next| next != 0);
    std::iter::successors(Some(FRONT), next).collect()
}

#[track_caller]
fn assert_corruption(result: Result<Replayed<Dram>>) -> String {
    let Err(error @ Error::Corruption { .. }) = result else { panic!("{result:?} instead of corruption") };
    error.to_string()
}

/// The slots are where the document says, and the chain is in order, without the void entry.
#[test]
fn the_chain_is_that_of_the_document() {
    let (bytes, written) = log(&payloads(), |first| first - 1);
    assert_eq!(u32::from_le_bytes(bytes[12..16].try_into().unwrap()), 1, "the policy");
    let mut entries = Vec::new();
    for record in &written {
        let mut entry_offset = *record.slots.last().unwrap() + SLOT_BYTES as usize;
        for (((entry, sequence), &slot), index) in record.payload.iter().zip(record.first..).zip(&record.slots).zip(0..)
        {
            assert_eq!(word(&bytes, slot + 8), entry_offset as u64 | index << 32);
            entry_offset += 7 + entry.key.len() + entry.value.len();
            if entry.kind.of_key().is_some() {
                entries.push((entry.key.to_vec(), std::cmp::Reverse(sequence), slot));
            }
        }
        assert_eq!(entry_offset, record.end);
    }
    entries.sort();
    assert_eq!(chain(&bytes)[1..], entries.iter().map(|entry| entry.2).collect::<Vec<_>>());
    assert_eq!(word(&bytes, FRONT + 8), 0);
    let replayed = run(&bytes).unwrap();
    assert_eq!(replayed.unlinked_from, None);
    assert_eq!(records_taken(replayed, &written), written.len());
    // The bit says nothing after a crash.
    let mut marked = bytes.clone();
    chain(&bytes).into_iter().for_each(|slot| marked[slot] |= 1);
    assert_eq!(records_taken(run(&marked).unwrap(), &written), written.len());
}

/// After a crash between a record's fence and its link's: the log counts, the chain lacks the newest.
#[test]
fn entries_without_a_link_are_taken_from_the_log() {
    let without = |bytes: &mut Vec<u8>, slot: usize| {
        let before = chain(bytes).into_iter().find(|&at| word(bytes, at) == slot as u64).unwrap();
        let after = word(bytes, slot);
        set_word(bytes, before, after);
    };
    for vouched in [false, true] {
        let (whole, written) = log(&payloads(), |first| if vouched { first - 1 } else { 0 });
        let all: Vec<_> = written.iter().flat_map(|record| (record.first..).zip(&record.slots)).collect();
        for &(sequence, &slot) in all.iter().filter(|(_, slot)| chain(&whole).contains(slot)) {
            let mut bytes = whole.clone();
            without(&mut bytes, slot);
            if vouched && sequence < written.last().unwrap().first {
                let said = assert_corruption(run(&bytes));
                assert!(said.contains(&format!("sequence number {sequence},")), "{said}");
                continue;
            }
            let replayed = run(&bytes).unwrap();
            assert_eq!(replayed.unlinked_from, Some(sequence));
            assert_eq!(records_taken(replayed, &written), written.len());
        }
        if !vouched {
            let mut bytes = whole.clone();
            set_word(&mut bytes, FRONT, 0);
            let replayed = run(&bytes).unwrap();
            assert_eq!(replayed.unlinked_from, Some(1));
            assert_eq!(records_taken(replayed, &written), written.len());
        }
    }
}

/// Half of a batch, or whole records behind a hole: linked, and yet not there.
#[test]
fn what_the_log_does_not_count_is_passed_through_in_the_chain() {
    let (whole, written) = log(&payloads(), |_| 0);
    for (at, record) in written.iter().enumerate() {
        let mut bytes = whole.clone();
        // The payload is torn, the header whole: a crash that took back what no fence had kept.
        bytes[record.end - 1] ^= 1;
        let replayed = run(&bytes).unwrap();
        assert_eq!(replayed.unlinked_from, None);
        assert_eq!(records_taken(replayed, &written), at);
    }
}

#[test]
fn links_that_lead_astray_are_corruption() {
    let (whole, written) = log(&payloads(), |_| 0);
    let chain = chain(&whole);
    let damaged = |at: usize, value: u64| {
        let mut bytes = whole.clone();
        set_word(&mut bytes, at, value);
        assert_corruption(run(&bytes))
    };
    let cases =
        [(LENGTH as u64, "no slot"), (LENGTH as u64 - 8, "no slot"), (u64::MAX - 1, "no slot"), (84, "no slot")];
    for &slot in &chain {
        for (value, said) in cases {
            assert!(damaged(slot, value).contains(said));
        }
        // Into the arena header, to the front again, into a payload.
        for value in [8, FRONT, (written[0].end - 8) & !7, written[3].slots[0] + 8] {
            damaged(slot, value as u64);
        }
    }
    for (at, &slot) in chain.iter().enumerate().skip(1) {
        // Back to any before, or to itself: no chain without end.
        for &earlier in &chain[1..=at] {
            assert!(damaged(slot, earlier as u64).contains("does not come behind"));
        }
        // A slot that says that it is another entry, or that its entry is elsewhere.
        for wrong in [0, 1 << 32, 8, u64::MAX, u64::from(u32::MAX)] {
            let place = word(&whole, slot + 8);
            if place != place ^ wrong {
                damaged(slot + 8, place ^ wrong);
            }
        }
    }
    // To the slot of the void entry.
    let void = written.iter().find(|record| record.payload.iter().any(|entry| entry.kind.of_key().is_none())).unwrap();
    assert!(damaged(chain[3], void.slots[0] as u64).contains("elsewhere"));
}

/// Slots of records that do not count may lead in a circle: the walk ends all the same.
#[test]
fn a_circle_behind_the_log_is_corruption() {
    let mut payload = Payload::new();
    payload.put(b"a", b"").unwrap();
    let (mut bytes, written) = log(&vec![payload; 6], |_| 0);
    // The log ends before the third record; the chain, newest first, begins behind it.
    bytes[written[2].end - 1] ^= 1;
    set_word(&mut bytes, written[4].slots[0], written[5].slots[0] as u64);
    assert!(assert_corruption(run(&bytes)).contains("no end"));
}

#[test]
fn every_flipped_byte_gives_a_prefix_or_corruption() {
    for vouched in [false, true] {
        let (whole, written) = log(&payloads(), |first| if vouched { first - 1 } else { 0 });
        for at in 0..whole.len() {
            for flip in [0x01, 0x08, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                match run(&bytes) {
                    Ok(replayed) => drop(records_taken(replayed, &written)),
                    Err(error) => assert!(matches!(error, Error::Corruption { .. }), "byte {at}: {error:?}"),
                }
            }
        }
    }
}

#[test]
fn any_damage_gives_a_prefix_or_corruption() {
    let (whole, written) = log(&payloads(), |first| first.saturating_sub(4));
    let words = LENGTH / 8;
    let damage = prop_oneof![
        (0..LENGTH, proptest::collection::vec(any::<u8>(), 1..64)).prop_map(|(at, with)| (at, 0, with)),
        (0..words, 0..words, 1..40_usize).prop_map(|(to, from, words)| (to * 8, from * 8, vec![0; words * 8])),
        // A word that may well be a link.
        (0..words, 0..words).prop_map(|(at, to)| (at * 8, 0, (to as u64 * 8).to_le_bytes().to_vec())),
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
        match run(&bytes) {
            Ok(replayed) => drop(records_taken(replayed, &written)),
            Err(error) => prop_assert!(matches!(error, Error::Corruption { .. }), "{error:?}"),
        }
        Ok(())
    });
}

/// Without the header nobody knows how the records lie; whoever vouches for what is missing is found all the same.
#[test]
fn a_lost_header_is_judged_by_the_records_behind_it() {
    for vouched in [false, true] {
        let (mut bytes, written) = log(&payloads(), |first| if vouched { first - 1 } else { 0 });
        bytes[..64].fill(0);
        let mut lost = arena(bytes.clone());
        let last = written.last().unwrap();
        let known_safe = if vouched { last.first - 1 } else { 0 };
        assert_eq!(known_safe_after(&mut lost, GENERATION, UUID, 0), Some(known_safe));
        assert!(holds_records(&mut lost, GENERATION, UUID));
        match vouched {
            true => drop(assert_corruption(run(&bytes))),
            false => assert_eq!(records_taken(run(&bytes).unwrap(), &written), 0),
        }
    }
}

/// A header of a policy that there is not, its CRC right.
#[test]
fn links_of_an_unknown_kind_are_corruption() {
    let (mut bytes, _) = log(&payloads(), |_| 0);
    bytes[12] = 2;
    let crc = slmdb_checksum::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    assert!(assert_corruption(run(&bytes)).contains("kind 2"));
}
