//! Arenas of MemTables: replayed, and everything read from the MemTable that comes of it.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use slmdb_order::KeyOrder;
use slmdb_pmem::{Arena, Dram};
use slmdb_structures::EntryKind;
use slmdb_structures::log::{ExpectedSequence, Payload, holds_records, known_safe_after};
use slmdb_structures::memtable::{LinkPolicy, MemTable, MemTableOptions, Replayed, replay};

use crate::memory::within;
use crate::mend;
use crate::mode::{Mode, expected};

const PATH: &str = "/77.arena";
const GENERATION: u64 = 77;
const UUID: [u8; 16] = *b"a hostile store!";
const ARENA_BYTES: usize = 2048;

/// Key, sequence number, kind, value.
type Entry = (Vec<u8>, u64, EntryKind, Vec<u8>);

struct Sound {
    bytes: Vec<u8>,
    /// The last sequence number of each record, 0 first.
    ends: Vec<u64>,
    entries: Vec<Entry>,
}

/// Both kinds of links; in each, records that vouch for those before them, and records that don't.
fn sounds() -> &'static [Sound] {
    static SOUNDS: OnceLock<Vec<Sound>> = OnceLock::new();
    SOUNDS.get_or_init(|| {
        let policies = LinkPolicy::ALL.into_iter().flat_map(|links| [(links, true), (links, false)]);
        policies.map(|(links, vouched)| sound(links, vouched)).collect()
    })
}

fn sound(links: LinkPolicy, vouched: bool) -> Sound {
    let options = MemTableOptions { links, ..MemTableOptions::default() };
    let memtable = Arc::new(MemTable::create(arena(vec![0; ARENA_BYTES]), GENERATION, UUID, &options));
    let (mut first, mut ends) = (1, vec![0]);
    for payload in payloads() {
        let place = memtable.try_reserve(payload.len_bytes(), payload.count()).expect("the arena is large enough");
        memtable.fill(place, &payload, first, if vouched { first - 1 } else { 0 });
        first += u64::from(payload.count());
        ends.push(first - 1);
    }
    let entries = contents(&memtable);
    let words = (0..ARENA_BYTES as u64).step_by(8).map(|at| memtable.arena().load_word(at).to_le_bytes());
    let bytes = words.flatten().collect();
    Sound { bytes, ends, entries }
}

/// A dozen batches of one to three entries, with empty keys and values, deletes, a void one and keys that come again.
fn payloads() -> Vec<Payload> {
    let payload = |n: u8| -> slmdb_env::Result<Payload> {
        let mut payload = Payload::new();
        payload.put(&[b'k', n % 5], &vec![n; usize::from(n) * 3])?;
        if n % 3 == 1 {
            payload.delete(&[b'k', (n + 2) % 5])?;
        }
        if n % 4 == 2 {
            payload.put(b"", &[n])?;
        }
        Ok(if n == 7 { payload.void() } else { payload })
    };
    (0..12).map(|n| payload(n).expect("short keys and values")).collect()
}

fn arena(bytes: Vec<u8>) -> Arena<Dram> {
    Arena::from_bytes(Dram, Path::new(PATH), bytes)
}

pub fn files() -> Vec<Vec<u8>> {
    sounds().iter().map(|sound| sound.bytes.clone()).collect()
}

pub fn run(input: &[u8]) {
    let Some((mode, rest)) = Mode::split(input) else { return };
    let sound = &sounds()[mode.sound(sounds().len())];
    let mut bytes = mode.file(rest, &sound.bytes);
    mode.mend(&mut bytes, &sound.bytes, |bytes| mend::arena::mend(bytes, GENERATION, UUID));
    let last = *sound.ends.last().expect("an arena has records");
    within(64 * bytes.len() + (1 << 20), || {
        holds_records(&mut arena(bytes.clone()), GENERATION, UUID);
        known_safe_after(&mut arena(bytes.clone()), GENERATION, UUID, 64);
        let middle = sound.ends[sound.ends.len() / 2];
        let expectations = [ExpectedSequence::Exactly(1), ExpectedSequence::First { flushed_through: middle }];
        for expectation in expectations {
            for sealed in [None, Some(last), Some(middle)] {
                let order = KeyOrder::Bytewise;
                match replay(arena(bytes.clone()), GENERATION, UUID, &order, expectation, sealed) {
                    Ok(replayed) => judge(replayed, expectation, mode, sound),
                    Err(error) => {
                        assert!(!mode.is_strict() || bytes != sound.bytes, "a sound arena is refused: {error}");
                        expected(&error);
                    }
                }
            }
        }
    });
}

fn judge(replayed: Replayed<Dram>, expectation: ExpectedSequence, mode: Mode, sound: &Sound) {
    let last = replayed.reading.last_sequence;
    assert!(replayed.memtable.try_reserve(0, 1).is_none(), "a recovered MemTable is never appended to");
    assert!(replayed.reading.end_offset <= replayed.memtable.capacity_bytes());
    let memtable = Arc::new(replayed.memtable);
    let entries = contents(&memtable);
    assert!(entries.iter().all(|entry| last.is_some_and(|last| entry.1 <= last)), "an entry behind the last");
    assert!(entries.iter().all(|entry| entry.1 >= expectation.wanted()), "an entry that is flushed");
    if mode.is_strict() {
        let last = last.unwrap_or(0);
        assert!(sound.ends.contains(&last), "the log ends within a record");
        let wanted = expectation.wanted()..=last;
        let written: Vec<&Entry> = sound.entries.iter().filter(|entry| wanted.contains(&entry.1)).collect();
        assert!(entries.iter().eq(written), "not a prefix of what was written");
    }
}

/// Everything in a MemTable; whichever way it is read, it is the same.
fn contents(memtable: &Arc<MemTable<Dram>>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let own = |entry: slmdb_structures::memtable::MemTableEntry<'_>| {
        (entry.key.to_vec(), entry.sequence, entry.kind, entry.value.to_vec())
    };
    let mut cursor = memtable.cursor();
    cursor.seek_first();
    while let Some(entry) = cursor.entry() {
        let comes_behind = |last: &Entry| (&last.0[..], u64::MAX - last.1) < (entry.key, u64::MAX - entry.sequence);
        assert!(entries.last().is_none_or(comes_behind), "entries out of order");
        entries.push(own(entry));
        cursor.next();
    }
    assert!(memtable.all_entries().map(own).eq(entries.iter().cloned()), "iterator and cursor differ");
    cursor.seek_last();
    for entry in entries.iter().rev() {
        assert_eq!(cursor.entry().map(own).as_ref(), Some(entry), "backwards is not forwards");
        cursor.prev();
    }
    assert!(!cursor.valid(), "more entries backwards");
    for (key, sequence, kind, value) in &entries {
        let found = memtable.get(key, *sequence).expect("an entry that is there");
        assert_eq!((found.sequence, found.kind, found.value), (*sequence, *kind, &value[..]));
    }
    for newest in memtable.newest_entries() {
        let found = memtable.get(newest.key, u64::MAX >> 8).expect("a key that is there");
        assert_eq!(found.sequence, newest.sequence, "not the newest version");
    }
    entries
}
