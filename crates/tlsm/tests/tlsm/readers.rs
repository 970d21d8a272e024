//! Readers of lists, while flushes and compactions put others in their place and space is used again. Nothing is compacted but what
//! is asked for, so that each run is the same.

use std::cmp::Ordering;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex};

use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, Medium, Options, WriteBatch};
use slmdb_order::{Comparator, KeyOrder};
use slmdb_testkit::MemoryEnv;
use slmdb_tlsm::{Tiering, TlsmOptions};

const KEYS: u32 = 200;
const POOL_BYTES: u64 = 3 << 20;

/// Compactions copy all entries, so that old segments have no other names than old lists. Gets ask lists without a filter.
fn options(comparator: KeyOrder) -> Options {
    let own =
        TlsmOptions { tiering: Tiering::None, segment_bytes: 64 << 10, list_filter_bits: 0, ..TlsmOptions::default() };
    Options {
        env: Arc::new(MemoryEnv::new()),
        comparator,
        memtable_bytes: 128 << 10,
        compaction: CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() },
        own: Some(Arc::new(TlsmOptions { points_at_entries: false, ..own })),
        medium: Some(Medium::Emulated { path: "/pool".into() }),
        pool_initial_bytes: POOL_BYTES,
        pool_maximum_bytes: POOL_BYTES,
        ..Options::default()
    }
}

fn open(options: &Options) -> Arc<dyn Engine> {
    (slmdb_tlsm::KIND.open)(options, Path::new("/db"), None).unwrap()
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:03}").into_bytes()
}

fn value(number: u32, round: u32) -> Vec<u8> {
    [number.to_be_bytes(), round.to_be_bytes()].concat().repeat(40)
}

fn write_some(engine: &dyn Engine, round: u32, is_written: impl Fn(u32) -> bool) {
    let mut batch = WriteBatch::new();
    let numbers = (0..KEYS).filter(|number| is_written(*number));
    numbers.for_each(|number| batch.put(key(number), value(number, round)).unwrap());
    engine.write(&batch, false).unwrap();
}

/// New values of all keys, in new lists alone.
fn write_all_anew(engine: &dyn Engine, round: u32) {
    write_some(engine, round, |_| true);
    engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
}

/// What lists and segments take, in bytes.
fn taken_bytes(engine: &dyn Engine) -> (u64, u64) {
    let stats = engine.stats();
    (stats.fast_tier_node_bytes, stats.fast_tier_key_segment_bytes)
}

#[test]
fn cursors_read_their_lists_while_space_is_used_again() {
    let engine = open(&options(KeyOrder::Bytewise));
    write_all_anew(&*engine, 0);
    let mut cursors = [engine.cursor().unwrap(), engine.cursor().unwrap()];
    cursors[0].seek_first().unwrap();
    cursors[1].seek_last().unwrap();
    let mut written_bytes = 0;
    for round in 0..KEYS / 2 {
        write_all_anew(&*engine, 1 + round);
        written_bytes += u64::from(KEYS) * value(0, 0).len() as u64;
        for step in 2 * round..2 * round + 2 {
            for (cursor, number) in cursors.iter_mut().zip([step, KEYS - 1 - step]) {
                assert_eq!(cursor.key(), key(number));
                assert_eq!(cursor.value_ref().unwrap(), value(number, 0));
            }
            cursors[0].next().unwrap();
            cursors[1].prev().unwrap();
        }
    }
    assert!(cursors.iter().all(|cursor| !cursor.valid()));
    assert!(written_bytes > 2 * POOL_BYTES, "{written_bytes} bytes: no space was used again");
    drop(cursors);
    engine.close().unwrap();
}

#[test]
fn what_only_readers_have_comes_back_with_the_last_of_them() {
    let engine = open(&options(KeyOrder::Bytewise));
    write_all_anew(&*engine, 0);
    let before = taken_bytes(&*engine);
    let (mut cursor, snapshot) = (engine.cursor().unwrap(), engine.snapshot().unwrap());
    cursor.seek_first().unwrap();
    write_all_anew(&*engine, 1);
    // The cursor's list, and one with two versions of each key.
    let (lists_bytes, segments_bytes) = taken_bytes(&*engine);
    assert!(lists_bytes > before.0 && segments_bytes > 2 * before.1, "{lists_bytes}, {segments_bytes}, {before:?}");
    drop(cursor);
    let of_snapshot = taken_bytes(&*engine);
    assert_eq!(of_snapshot, (lists_bytes - before.0, segments_bytes - before.1), "{before:?}");
    // A cursor of the snapshot finds the old versions in the new list, and keeps that one in its turn.
    let mut cursor = snapshot.cursor().unwrap();
    cursor.seek(&key(7)).unwrap();
    assert_eq!(cursor.value_ref().unwrap(), value(7, 0));
    drop(snapshot);
    write_all_anew(&*engine, 2);
    assert!(taken_bytes(&*engine) > of_snapshot);
    drop(cursor);
    write_all_anew(&*engine, 3);
    assert_eq!(taken_bytes(&*engine), before);
    let report = engine.verify(&mut |_| ()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    engine.close().unwrap();
}

type Call = Box<dyn FnOnce() + Send>;

/// Calls somebody in the midst of a read: at a comparison, when so many have passed.
#[derive(Default)]
struct Interrupted(Mutex<Option<(u32, Call)>>);

impl Comparator for Interrupted {
    fn name(&self) -> &str {
        "test.interrupted"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        let mut next = self.0.lock().unwrap();
        let call = match &mut *next {
            Some((0, _)) => next.take(),
            Some((passed, _)) => {
                *passed -= 1;
                None
            }
            None => None,
        };
        drop(next);
        if let Some((_, call)) = call {
            call();
        }
        left.cmp(right)
    }
}

/// A flush and compactions in the midst of a read, at each of its comparisons in turn. It may have passed the MemTables already, and
/// the list in which it searches is in the levels no more.
#[test]
fn what_overtakes_a_read_hides_nothing_from_it() {
    let order = Arc::new(Interrupted::default());
    let engine = open(&options(KeyOrder::Custom(order.clone())));
    for (way, number) in (0..4).flat_map(|way| (90..93).map(move |number| (way, number))) {
        for passed in 0.. {
            write_all_anew(&*engine, 1);
            write_some(&*engine, 2, |number| number % 3 < 2);
            engine.flush().unwrap();
            write_some(&*engine, 3, |number| number % 3 == 0);
            // In a MemTable, on level 0, on level 1.
            let newest = 3 - number % 3;
            let meanwhile = engine.clone();
            let call = move || {
                // Twice, so that what was given back is used again.
                write_all_anew(&*meanwhile, 4);
                write_all_anew(&*meanwhile, 4);
            };
            let snapshot = engine.snapshot().unwrap();
            *order.0.lock().unwrap() = Some((passed, Box::new(call)));
            let found = match way {
                0 => engine.get(&key(number)).unwrap().unwrap(),
                1 => snapshot.get(&key(number)).unwrap().unwrap(),
                way => {
                    let mut cursor = engine.cursor().unwrap();
                    let to = key(number + way - 2);
                    if way == 2 {
                        cursor.seek(&to).unwrap()
                    } else {
                        cursor.seek_before(&to).unwrap()
                    }
                    assert_eq!(cursor.key(), key(number));
                    cursor.value().unwrap()
                }
            };
            let was_through = order.0.lock().unwrap().take().is_some();
            // (A get at no moment may see what came meanwhile.)
            let is_right = found[..] == value(number, newest) || (way == 0 && found[..] == value(number, 4));
            assert!(is_right, "way {way}, key {number}, after {passed} comparisons: {:?}", &found[..8]);
            if was_through {
                break;
            }
        }
    }
    engine.close().unwrap();
}
