//! Several writers and readers at once. What an entry holds follows from its sequence number, so a reader knows what it
//! must find, for whatever number is published when it looks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::support::*;
use slmdb_pmem::Dram;
use slmdb_structures::EntryKind;
use slmdb_structures::log::{ExpectedSequence, Payload};
use slmdb_structures::memtable::{LinkPolicy, MemTable, MemTableOptions, replay};

/// How keys come in.
#[derive(Debug, Clone, Copy)]
enum Keys {
    /// At random, each about 20 times; with long equal beginnings.
    Random,
    /// Ever larger, so that all writers fight for the end of the list.
    Ascending,
    /// Three keys only, so that all of the order is in the sequence numbers.
    Few,
}

fn key(keys: Keys, sequence: u64, total: u64) -> Vec<u8> {
    match keys {
        Keys::Random => format!("user{:012}", Random::new(sequence).below(total / 20 + 1)).into_bytes(),
        Keys::Ascending => sequence.to_be_bytes().to_vec(),
        Keys::Few => vec![0; (sequence % 3) as usize],
    }
}

fn kind(sequence: u64) -> EntryKind {
    if sequence % 7 == 3 { EntryKind::Delete } else { EntryKind::Put }
}

fn value(sequence: u64) -> Vec<u8> {
    match kind(sequence) {
        EntryKind::Put => sequence.to_le_bytes().repeat((sequence % 5) as usize),
        EntryKind::Delete => vec![],
    }
}

struct Shared {
    memtable: Arc<MemTable<Dram>>,
    /// Numbers are given out under this lock, as in an engine.
    next: Mutex<u64>,
    /// Filled batches that wait for their turn: first number to last.
    filled: Mutex<BTreeMap<u64, u64>>,
    published: AtomicU64,
    finished: AtomicBool,
    keys: Keys,
    total: u64,
}

impl Shared {
    fn write(&self, seed: u64) {
        let mut random = Random::new(seed);
        let mut payload = Payload::new();
        loop {
            let (place, first, count) = {
                let mut next = self.next.lock().unwrap();
                let count = (1 + random.below(4)).min(self.total + 1 - *next);
                if count == 0 {
                    return;
                }
                payload.clear();
                for sequence in *next..*next + count {
                    let key = key(self.keys, sequence, self.total);
                    match kind(sequence) {
                        EntryKind::Put => payload.put(&key, &value(sequence)).unwrap(),
                        EntryKind::Delete => payload.delete(&key).unwrap(),
                    }
                }
                let place = self.memtable.try_reserve(payload.len_bytes(), payload.count()).unwrap();
                *next += count;
                (place, *next - count, count)
            };
            self.memtable.fill(place, &payload, first, self.published.load(Ordering::Acquire));
            let mut filled = self.filled.lock().unwrap();
            filled.insert(first, first + count - 1);
            while let Some(last) = filled.remove(&(self.published.load(Ordering::Relaxed) + 1)) {
                self.published.store(last, Ordering::Release);
            }
        }
    }

    /// `versions` holds all sequence numbers of each key, as they will have been written in the end.
    fn read(&self, seed: u64, versions: &BTreeMap<Vec<u8>, Vec<u64>>) -> u64 {
        let mut random = Random::new(seed);
        let mut rounds = 0;
        loop {
            let finished = self.finished.load(Ordering::Acquire);
            for _ in 0..50 {
                // At what is published, or at a snapshot below.
                let published = self.published.load(Ordering::Acquire);
                let at_most = if random.below(2) == 0 { published } else { random.below(published + 1) };
                let key = key(self.keys, 1 + random.below(self.total), self.total);
                let found = self.memtable.get(&key, at_most);
                let newest = versions[&key].iter().rfind(|&&sequence| sequence <= at_most);
                assert_eq!(found.map(|found| found.sequence), newest.copied(), "{key:?} at {at_most}");
                if let Some(found) = found {
                    assert_eq!((found.kind, found.value), (kind(found.sequence), &value(found.sequence)[..]));
                }
            }
            match random.below(3) {
                0 => self.scan(false),
                1 => self.scan(true),
                _ => self.walk_about(&mut random),
            }
            rounds += 1;
            if finished {
                return rounds;
            }
        }
    }

    /// One way through all of it: strictly in order, and every published number exactly once.
    fn scan(&self, backwards: bool) {
        let published = self.published.load(Ordering::Acquire);
        let mut seen = vec![false; published as usize + 1];
        let mut cursor = self.memtable.cursor();
        if backwards {
            cursor.seek_last()
        } else {
            cursor.seek_first()
        };
        let mut last: Option<(Vec<u8>, u64)> = None;
        while let Some(entry) = cursor.entry() {
            if let Some((key, sequence)) = &last {
                let (before, after) = ((&key[..], !*sequence), (entry.key, !entry.sequence));
                assert!(if backwards { after < before } else { before < after }, "{before:?} and then {after:?}");
            }
            assert_eq!(entry.key, key(self.keys, entry.sequence, self.total));
            assert_eq!((entry.kind, entry.value), (kind(entry.sequence), &value(entry.sequence)[..]));
            if let Some(seen) = seen.get_mut(entry.sequence as usize) {
                assert!(!std::mem::replace(seen, true), "{} twice", entry.sequence);
            }
            last = Some((entry.key.to_vec(), entry.sequence));
            if backwards {
                cursor.prev()
            } else {
                cursor.next()
            };
        }
        let missed: Vec<_> = (1..=published).filter(|&sequence| !seen[sequence as usize]).collect();
        assert!(missed.is_empty(), "{missed:?} of {published} missed");
    }

    /// Forth and back from somewhere: what was published before is met again on the way back.
    fn walk_about(&self, random: &mut Random) {
        let published = self.published.load(Ordering::Acquire);
        let mut cursor = self.memtable.cursor();
        cursor.seek(&key(self.keys, 1 + random.below(self.total), self.total));
        let mut met = Vec::new();
        for _ in 0..20 {
            let Some(entry) = cursor.entry() else { break };
            met.push(entry.sequence);
            cursor.next();
        }
        if !cursor.valid() {
            cursor.seek_last();
        }
        met.retain(|&sequence| sequence <= published);
        while let (Some(expected), true) = (met.last().copied(), cursor.valid()) {
            if cursor.sequence() == expected {
                met.pop();
            }
            cursor.prev();
        }
        assert!(met.is_empty(), "{met:?} not met on the way back");
    }
}

fn run(keys: Keys, links: LinkPolicy, writers: u64, readers: u64, seed: u64) {
    let total = budget(60_000) as u64;
    let mut versions: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
    for sequence in 1..=total {
        versions.entry(key(keys, sequence, total)).or_default().push(sequence);
    }
    let bytes = vec![0xa5; total as usize * 120 + 4096];
    // Half of the runs with heads behind what the random keys share.
    let expected_prefix = b"user"[..(seed % 2 * 4) as usize].to_vec();
    let options = MemTableOptions { links, expected_prefix, ..MemTableOptions::default() };
    let shared = Shared {
        memtable: Arc::new(MemTable::create(arena(bytes), 9, UUID, &options)),
        next: Mutex::new(1),
        filled: Mutex::default(),
        published: AtomicU64::new(0),
        finished: AtomicBool::new(false),
        keys,
        total,
    };
    std::thread::scope(|scope| {
        let (shared, versions) = (&shared, &versions);
        let readers: Vec<_> =
            (0..readers).map(|reader| scope.spawn(move || shared.read(seed * 31 + reader, versions))).collect();
        let writers: Vec<_> =
            (0..writers).map(|writer| scope.spawn(move || shared.write(seed * 17 + writer))).collect();
        let written = writers.into_iter().all(|writer| writer.join().is_ok());
        shared.finished.store(true, Ordering::Release);
        assert!(written && readers.into_iter().all(|reader| reader.join().is_ok_and(|rounds| rounds > 0)));
    });
    assert_eq!(shared.published.load(Ordering::Acquire), total);
    assert_eq!((shared.memtable.entries(), shared.memtable.last_sequence()), (total, Some(total)));
    let newest: Vec<_> = shared.memtable.newest_entries().map(|entry| (entry.key.to_vec(), entry.sequence)).collect();
    assert!(newest.into_iter().eq(versions.iter().map(|(key, all)| (key.clone(), all[all.len() - 1]))));
    let recovered =
        replay(arena(image(&shared.memtable)), 9, UUID, &BYTEWISE, ExpectedSequence::Exactly(1), Some(total)).unwrap();
    assert_eq!(recovered.unlinked_from, None);
    assert_eq!(contents(&Arc::new(recovered.memtable)), contents(&shared.memtable));
}

#[test]
fn random_keys_several_writers_and_readers() {
    let seed = seed();
    for links in LinkPolicy::ALL {
        run(Keys::Random, links, 3, 2, seed);
        run(Keys::Random, links, 2, 1, seed + 1);
    }
}

#[test]
fn ascending_keys_several_writers_and_readers() {
    let seed = seed();
    for links in LinkPolicy::ALL {
        run(Keys::Ascending, links, 3, 2, seed);
        run(Keys::Ascending, links, 2, 1, seed + 1);
    }
}

#[test]
fn few_keys_several_writers_and_readers() {
    let seed = seed();
    for links in LinkPolicy::ALL {
        run(Keys::Few, links, 3, 2, seed);
        run(Keys::Few, links, 2, 1, seed + 1);
    }
}
