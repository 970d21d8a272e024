//! Recorded histories of many threads: every scan, snapshot and `get` sees what some prefix of one order of all writes left,
//! and that order agrees with who returned before whom was called.
//!
//! Each writer has keys of its own and numbers its writes, so what a scan finds of them is what its first so many writes left,
//! and says how many: a write that is missing before one that is there, or half a batch, is what no number explains. A scan is
//! then one number for each writer. Any two scans must be comparable (both are prefixes of one order), calls and returns
//! bound the numbers, and a snapshot's sequence number is the count of all entries that it sees, to the last. Histories of keys
//! with several writers, and conditional writes, are in `conditional.rs`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{Home, MEDIA, Random, SetAtEnd, assert_verified, eager_compaction, rounds, watched};
use slmdb::{Db, WriteBatch};

const WRITERS: usize = 3;
const KEYS: u64 = 5;
/// Never deleted: it makes what a delete leaves unlike anything before.
const ANCHOR: u64 = 0;

/// What a writer's keys hold: the numbers of the writes that put them.
type State = BTreeMap<u64, usize>;

/// A write of one writer; its number is its place in order, from 1.
#[derive(Debug, Clone)]
struct Write {
    called: u64,
    returned: u64,
    /// Keys that were put, or deleted.
    changes: BTreeMap<u64, bool>,
}

/// Somebody saw, of each writer, between so many and so many writes.
#[derive(Debug, Clone)]
struct Seen {
    called: u64,
    returned: u64,
    least: Vec<usize>,
    most: Vec<usize>,
    /// The sequence number of a snapshot, counted from the beginning of the history.
    entries: Option<u64>,
}

impl Seen {
    fn is_exact(&self) -> bool {
        self.least == self.most
    }
}

/// What a writer's keys hold after each of its writes, and before the first.
fn states(writes: &[Write]) -> Vec<State> {
    let mut states = vec![State::new()];
    for (index, write) in writes.iter().enumerate() {
        let mut state = states[index].clone();
        for (&key, &put) in &write.changes {
            if put {
                state.insert(key, index + 1)
            } else {
                state.remove(&key)
            };
        }
        states.push(state);
    }
    states
}

/// What is wrong with a history, if anything: `writes` of each writer, in order.
fn fault(writes: &[Vec<Write>], seen: &[Seen]) -> Option<String> {
    // How many writes of a writer had returned before a moment, and how many were called.
    let returned = |writer: usize, before: u64| writes[writer].partition_point(|write| write.returned < before);
    let called = |writer: usize, before: u64| writes[writer].partition_point(|write| write.called < before);
    for one in seen {
        for writer in 0..writes.len() {
            if one.most[writer] < returned(writer, one.called) {
                return Some(format!("an acknowledged write of {writer} is not seen: {one:?}"));
            }
            if one.least[writer] > called(writer, one.returned) {
                return Some(format!("a write of {writer} is seen before it was made: {one:?}"));
            }
            // Whoever sees a write sees all that had returned before it was called.
            let Some(last) = one.least[writer].checked_sub(1).map(|last| &writes[writer][last]) else { continue };
            for other in 0..writes.len() {
                if one.most[other] < returned(other, last.called) {
                    return Some(format!("{writer}'s last write is seen, what {other} had written is not: {one:?}"));
                }
            }
        }
        if let Some(entries) = one.entries {
            let counted =
                |writer: usize| writes[writer][..one.least[writer]].iter().map(|write| write.changes.len() as u64);
            let counted: u64 = (0..writes.len()).flat_map(counted).sum();
            if counted != entries {
                return Some(format!("{counted} entries are seen at sequence number {entries}: {one:?}"));
            }
        }
        for other in seen {
            if one.returned < other.called && one.least.iter().zip(&other.most).any(|(least, most)| least > most) {
                return Some(format!("what was seen is gone: {one:?} and then {other:?}"));
            }
            let not_above =
                |left: &Seen, right: &Seen| left.least.iter().zip(&right.least).all(|(left, right)| left <= right);
            if one.is_exact() && other.is_exact() && !not_above(one, other) && !not_above(other, one) {
                return Some(format!("no order has both: {one:?} and {other:?}"));
            }
        }
    }
    None
}

fn key(writer: usize, key: u64) -> Vec<u8> {
    format!("{writer}/{key}").into_bytes()
}

/// The number, and something behind it so that MemTables fill.
fn value(number: usize, random: &mut Random) -> Vec<u8> {
    let mut value = (number as u64).to_le_bytes().to_vec();
    value.resize(8 + random.below(120) as usize, 7);
    value
}

fn number(value: &[u8]) -> usize {
    u64::from_le_bytes(value[..8].try_into().unwrap()) as usize
}

/// One thread's writes.
fn write_some(db: &Db, clock: &AtomicU64, writer: usize, count: usize, random: &mut Random) -> Vec<Write> {
    let mut writes = Vec::new();
    for number in 1..=count {
        let mut changes = BTreeMap::new();
        if random.one_in(2) {
            changes.insert(random.below(KEYS), true);
        } else {
            changes.insert(ANCHOR, true);
            for _ in 0..random.below(KEYS) {
                changes.insert(1 + random.below(KEYS - 1), random.one_in(2));
            }
        }
        let mut batch = WriteBatch::new();
        for (&name, &put) in &changes {
            let name = key(writer, name);
            if put { batch.put(&name, value(number, random)) } else { batch.delete(&name) }.unwrap();
        }
        let called = clock.fetch_add(1, Ordering::SeqCst);
        match changes.first_key_value() {
            Some((&name, true)) if changes.len() == 1 => db.put(key(writer, name), value(number, random)).unwrap(),
            _ => db.write(&batch).unwrap(),
        }
        writes.push(Write { called, returned: clock.fetch_add(1, Ordering::SeqCst), changes });
    }
    writes
}

/// What a look at the store gave, before it is known what the writers did.
struct Look {
    called: u64,
    returned: u64,
    found: Found,
    sequence: Option<u64>,
}

enum Found {
    /// All keys of each writer.
    All(Vec<State>),
    /// The value of one key.
    One(usize, u64, usize),
}

fn look(db: &Db, clock: &AtomicU64, random: &mut Random) -> Option<Look> {
    let mut all = vec![State::new(); WRITERS];
    let mut add = |entry: slmdb::Result<(slmdb::Slice, slmdb::Slice)>| {
        let (name, value) = entry.unwrap();
        let (writer, name) = std::str::from_utf8(&name).unwrap().split_once('/').unwrap();
        let before = all[writer.parse::<usize>().unwrap()].insert(name.parse().unwrap(), number(&value));
        assert!(before.is_none(), "a key twice");
    };
    let called = clock.fetch_add(1, Ordering::SeqCst);
    let mut sequence = None;
    let returned;
    match random.below(4) {
        0 => {
            let snapshot = db.snapshot().unwrap();
            returned = clock.fetch_add(1, Ordering::SeqCst);
            sequence = Some(snapshot.sequence_number());
            // Whatever goes on before it is read.
            std::thread::yield_now();
            snapshot.iter().unwrap().for_each(&mut add);
        }
        1 => {
            let (writer, name) = (random.below(WRITERS as u64) as usize, random.below(KEYS));
            let found = db.get(key(writer, name)).unwrap();
            let returned = clock.fetch_add(1, Ordering::SeqCst);
            // What is not there may have been deleted at many a time.
            let found = Found::One(writer, name, number(&found?));
            return Some(Look { called, returned, found, sequence });
        }
        2 => {
            let iterator = db.iter().unwrap();
            returned = clock.fetch_add(1, Ordering::SeqCst);
            iterator.rev().for_each(&mut add);
        }
        _ => {
            db.iter().unwrap().for_each(&mut add);
            returned = clock.fetch_add(1, Ordering::SeqCst);
        }
    }
    Some(Look { called, returned, found: Found::All(all), sequence })
}

/// What a look says of the writers' writes.
fn seen(look: &Look, writes: &[Vec<Write>], states: &[Vec<State>], base_sequence: u64) -> Result<Seen, String> {
    let (mut least, mut most) = (vec![0; WRITERS], writes.iter().map(Vec::len).collect::<Vec<_>>());
    match &look.found {
        Found::All(all) => {
            for (writer, found) in all.iter().enumerate() {
                let after = states[writer].iter().position(|state| state == found);
                let after = after.ok_or_else(|| format!("at no moment had writer {writer} left {found:?}"))?;
                (least[writer], most[writer]) = (after, after);
            }
        }
        &Found::One(writer, name, number) => {
            least[writer] = number;
            let next = writes[writer][number..].iter().position(|write| write.changes.contains_key(&name));
            most[writer] = next.map_or(most[writer], |next| number + next);
        }
    }
    let entries = look.sequence.map(|sequence| sequence - base_sequence);
    Ok(Seen { called: look.called, returned: look.returned, least, most, entries })
}

#[test]
fn scans_see_a_prefix_of_all_writes() {
    const WRITES: usize = 150;
    /// Of each looker: on a busy machine the writers may take long, and every look is compared with the others.
    const LOOKS_MAX: usize = 2_000;
    for on in MEDIA {
        for seed in 0..rounds(3) {
            let home = Home::new(on);
            let options = home.options().memtable_bytes(4 << 10).compaction(eager_compaction());
            let db = options.open(home.store()).unwrap();
            let base_sequence = db.stats().last_sequence_number;
            let (clock, done) = (AtomicU64::new(0), AtomicBool::new(false));
            let context = format!("{on:?}, seed {seed}");
            let (writes, looks) = watched(&context, &clock, || {
                std::thread::scope(|scope| {
                    let (db, clock, done) = (&db, &clock, &done);
                    let lookers: Vec<_> = (0..2)
                        .map(|looker| {
                            scope.spawn(move || {
                                let mut random = Random((seed << 8) | (100 + looker));
                                let mut looks = Vec::new();
                                while !done.load(Ordering::Acquire) && looks.len() < LOOKS_MAX {
                                    looks.extend(look(db, clock, &mut random));
                                }
                                looks
                            })
                        })
                        .collect();
                    let _done = SetAtEnd(done);
                    let writers: Vec<_> = (0..WRITERS)
                        .map(|writer| {
                            scope.spawn(move || {
                                write_some(db, clock, writer, WRITES, &mut Random((seed << 8) | writer as u64))
                            })
                        })
                        .collect();
                    let writes: Vec<Vec<Write>> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
                    done.store(true, Ordering::Release);
                    let mut looks: Vec<Look> = lookers.into_iter().flat_map(|looker| looker.join().unwrap()).collect();
                    // Everything, at the end.
                    let mut random = Random(seed);
                    looks.extend((0..8).filter_map(|_| look(db, clock, &mut random)));
                    (writes, looks)
                })
            });
            let states: Vec<Vec<State>> = writes.iter().map(|writes| states(writes)).collect();
            let seen: Result<Vec<Seen>, String> =
                looks.iter().map(|look| seen(look, &writes, &states, base_sequence)).collect();
            let seen = seen.unwrap_or_else(|fault| panic!("{context}: {fault}"));
            assert_eq!(fault(&writes, &seen), None, "{context}");
            assert_verified(&db, &context);
        }
    }
}

/// The checker itself: it must not find every history right.
#[test]
fn a_history_that_no_order_explains_is_found_out() {
    let write = |called, returned, keys: &[u64]| Write {
        called,
        returned,
        changes: keys.iter().map(|&key| (key, true)).collect(),
    };
    let exact = |called, returned, numbers: [usize; 2]| Seen {
        called,
        returned,
        least: numbers.to_vec(),
        most: numbers.to_vec(),
        entries: None,
    };
    // The first writer: two writes, one after the other. The second: one of three entries, at the same time as all that.
    let writes = [vec![write(10, 20, &[0]), write(30, 40, &[0, 1])], vec![write(5, 50, &[0, 1, 2])]];
    let right = |seen: &[Seen]| fault(&writes, seen).is_none();
    assert!(right(&[exact(0, 4, [0, 0]), exact(11, 12, [1, 0]), exact(25, 26, [1, 1]), exact(60, 61, [2, 1])]));
    assert!(right(&[exact(11, 12, [1, 0]), exact(11, 12, [0, 0])]), "two at the same time");

    assert!(!right(&[exact(0, 4, [0, 1])]), "from the future");
    assert!(!right(&[exact(25, 26, [0, 1])]), "an acknowledged write is missing");
    assert!(!right(&[exact(11, 12, [1, 0]), exact(13, 14, [0, 0])]), "it is gone again");
    assert!(!right(&[exact(11, 19, [1, 0]), exact(12, 18, [0, 1])]), "each sees what the other does not");
    // A hole: the second write was called when the first of the other writer had returned.
    let writes = [vec![write(10, 20, &[0])], vec![write(30, 60, &[0])]];
    assert!(fault(&writes, &[exact(5, 40, [0, 1])]).is_some(), "a hole");
    assert!(fault(&writes, &[exact(5, 40, [1, 0])]).is_none());
    // A value that was already replaced.
    let writes = [vec![write(10, 20, &[0]), write(30, 40, &[0])], vec![]];
    let get = |called| Seen { most: vec![1, 0], ..exact(called, called + 1, [1, 0]) };
    assert!(fault(&writes, &[get(35)]).is_none());
    assert!(fault(&writes, &[get(45)]).is_some(), "an old value");
    // A snapshot with an entry too few.
    let at = |entries| Seen { entries: Some(entries), ..exact(45, 46, [2, 0]) };
    assert!(fault(&writes, &[at(2)]).is_none());
    assert!(fault(&writes, &[at(3)]).is_some(), "fewer entries than the sequence number says");
    // Half a batch is the state after no write at all.
    let writes = [vec![write(10, 20, &[0, 1])], vec![], vec![]];
    let states: Vec<Vec<State>> = writes.iter().map(|writes| states(writes)).collect();
    let half = Found::All(vec![State::from([(0, 1)]), State::new(), State::new()]);
    assert!(seen(&Look { called: 30, returned: 31, found: half, sequence: None }, &writes, &states, 0).is_err());
}
