use std::path::Path;
use std::sync::Arc;

use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, EngineCursor, Options, WriteBatch};
use slmdb_testkit::{MemoryEnv, Random};

use crate::operations::ask_ahead::*;

const KEYS: u32 = 1200;
/// More than a cursor has buffers for. So most blocks are read alone.
const FILES: u32 = 31;
/// What a read takes from a disk, and what asking for it does, in nanoseconds.
const COLD: (u64, u64) = (60_000, 4_400);
/// The same for what is in memory.
const HOT: (u64, u64) = (2_000, 250);

fn key(number: u32) -> String {
    format!("key {number:05}")
}

/// A store whose keys are spread over some files, with values of this length.
fn store(env: &MemoryEnv, memory_budget_bytes: u64, values: (u32, usize)) -> Arc<dyn Engine> {
    store_of(env, memory_budget_bytes, values, FILES)
}

fn store_of(env: &MemoryEnv, memory_budget_bytes: u64, values: (u32, usize), files: u32) -> Arc<dyn Engine> {
    store_with(env, memory_budget_bytes, values, files, 1)
}

/// A store of values of which one part in so many can't be compressed.
fn store_with(
    env: &MemoryEnv,
    memory_budget_bytes: u64,
    (keys, value_bytes): (u32, usize),
    files: u32,
    noise_part: usize,
) -> Arc<dyn Engine> {
    let compaction = CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() };
    let (env, memtable_bytes, block_bytes) = (Arc::new(env.clone()), 32 << 20, 512);
    let options = Options { env, compaction, memory_budget_bytes, memtable_bytes, block_bytes, ..Options::default() };
    let engine = (crate::KIND.open)(&options, Path::new("/db"), None).unwrap();
    let mut value = vec![0; value_bytes];
    let mut random = Random(9);
    for file in 0..files {
        let mut batch = WriteBatch::new();
        for number in (0..keys).filter(|number| number % files == file) {
            random.fill(&mut value[..value_bytes / noise_part]);
            batch.put(key(number), &value).unwrap();
        }
        engine.write(&batch, false).unwrap();
        engine.flush().unwrap();
    }
    // Files that are not open yet take reads of their own.
    let mut cursor = cursor_at(&engine, 0);
    for _ in 0..keys.min(10 * FILES) {
        cursor.value().unwrap();
        cursor.next().unwrap();
    }
    drop(cursor);
    engine
}

fn small(env: &MemoryEnv) -> Arc<dyn Engine> {
    store(env, 0, (KEYS, 500))
}

/// Stretches of files.
type Stretches = Vec<(String, u64, u64)>;

/// What was read since so many operations.
fn reads_since(env: &MemoryEnv, operation: u64) -> Stretches {
    let since = env.operations().split_off(operation as usize);
    let reads = since.iter().filter_map(|line| line.strip_prefix("read "));
    let stretch = |read: &str| {
        let (path, range) = read.rsplit_once(' ').unwrap();
        let (offset, length) = range.split_once('+').unwrap();
        (path.to_string(), offset.parse().unwrap(), length.parse().unwrap())
    };
    reads.map(stretch).collect()
}

fn asked(env: &MemoryEnv) -> Stretches {
    let paths = env.take_will_read().into_iter();
    paths.map(|(path, offset, length)| (path.display().to_string(), offset, length)).collect()
}

/// Reads so many values from where the cursor is. Says before which of them something was asked for, what was asked
/// for before it was read, and what else was read.
fn read(env: &MemoryEnv, cursor: &mut Box<dyn EngineCursor>, values: usize, backwards: bool) -> Read {
    asked(env);
    let (mut all, mut read) = (Vec::new(), Read::default());
    for at in 0..values {
        let operation = env.operation_count();
        cursor.value().unwrap();
        let now = asked(env);
        if !now.is_empty() {
            read.asked_at.push(at);
        }
        read.most_calls = read.most_calls.max(now.len());
        all.extend(now);
        for (path, offset, length) in reads_since(env, operation) {
            let covers = |asked: &(String, u64, u64)| {
                asked.0 == path && asked.1 <= offset && offset + length <= asked.1 + asked.2
            };
            *if all.iter().any(covers) { &mut read.expected } else { &mut read.unexpected } += 1;
        }
        if backwards { cursor.prev().unwrap() } else { cursor.next().unwrap() }
    }
    read
}

#[derive(Debug, Default)]
struct Read {
    asked_at: Vec<usize>,
    most_calls: usize,
    expected: usize,
    unexpected: usize,
}

fn cursor_at(engine: &Arc<dyn Engine>, number: u32) -> Box<dyn EngineCursor> {
    let mut cursor = engine.cursor().unwrap();
    cursor.seek(key(number).as_bytes()).unwrap();
    cursor
}

#[test]
fn a_range_over_cold_data_asks_for_more_and_more_of_what_comes() {
    for backwards in [false, true] {
        let env = MemoryEnv::new();
        let engine = small(&env);
        env.set_read_times(COLD.0, COLD.1);
        let found = read(&env, &mut cursor_at(&engine, 900), 100, backwards);
        assert_eq!(found.asked_at, [1, 3, 13, 53], "4, 16, 64 and 128 entries, backwards: {backwards}");
        // (Before the first is asked for one block is read, which tells that it is cold. Pieces that are read ahead
        // are longer than what was asked for.)
        assert!(found.expected >= 5 * found.unexpected && found.expected > 40, "{found:?}");
        assert!(found.most_calls <= WINDOW_MAX, "{found:?}");
        assert_eq!(engine.stats().memory.cursors_bytes, 0, "it is gone");
        // The next cursor knows from the beginning. One that turns round asks anew.
        let found = read(&env, &mut cursor_at(&engine, 200), 30, backwards);
        assert_eq!(found.asked_at, if backwards { vec![0, 1, 3, 13] } else { vec![0, 2, 12] });
    }
}

/// A range of 100 values waited for the disk four times, and asked for 148 of them.
#[test]
fn ranges_like_the_last_ones_are_asked_for_at_once() {
    let env = MemoryEnv::new();
    let engine = small(&env);
    env.set_read_times(COLD.0, COLD.1);
    let mut cursor = cursor_at(&engine, 0);
    let mut range_at = |number: u32, values, is_new| {
        if is_new {
            cursor = cursor_at(&engine, number);
        } else {
            cursor.seek(key(number).as_bytes()).unwrap();
        }
        read(&env, &mut cursor, values, false)
    };
    // Whether they are a new cursor's or not.
    for (number, is_new) in [(500, true), (300, false), (550, true), (700, false)] {
        let found = range_at(number, 100, is_new);
        assert!(found.asked_at.len() >= 4, "{found:?}");
    }
    for (number, is_new) in [(420, true), (1000, false)] {
        let found = range_at(number, 100, is_new);
        assert_eq!((&found.asked_at[..], found.unexpected), (&[0][..], 0), "{found:?}");
    }
    // One that goes on asks for more when it has what was expected, and then ahead of its need.
    let longer = range_at(100, 400, true);
    assert_eq!((&longer.asked_at[..], longer.unexpected), (&[0, 100, 164, 292][..], 0), "128 each time: {longer:?}");
    // After a short one no long one is expected.
    range_at(600, 6, true);
    assert_eq!(range_at(800, 100, true).asked_at[..2], [0, 6]);
}

/// What is asked for in the other direction would be read for nothing.
#[test]
fn of_a_cursor_that_turns_round_no_long_range_is_expected() {
    let env = MemoryEnv::new();
    let engine = small(&env);
    env.set_read_times(COLD.0, COLD.1);
    for number in [500, 300, 550, 700, 420] {
        read(&env, &mut cursor_at(&engine, number), 100, true);
    }
    let mut cursor = cursor_at(&engine, 1000);
    asked(&env);
    cursor.value().unwrap();
    assert!((1..=WINDOW_FIRST).contains(&asked(&env).len()));
}

#[test]
fn where_data_is_hot_nothing_is_asked_for() {
    let env = MemoryEnv::new();
    let engine = small(&env);
    env.set_read_times(HOT.0, HOT.1);
    let found = read(&env, &mut cursor_at(&engine, 0), KEYS as usize, false);
    assert_eq!(found.asked_at, [], "{found:?}");
    assert!(found.unexpected > 300, "{found:?}");
}

#[test]
fn what_was_cold_and_is_hot_is_asked_for_no_more() {
    let env = MemoryEnv::new();
    let engine = small(&env);
    env.set_read_times(COLD.0, COLD.1);
    read(&env, &mut cursor_at(&engine, 0), 10, false);
    env.set_read_times(HOT.0, HOT.1);
    let mut cursor = cursor_at(&engine, 500);
    assert_eq!(read(&env, &mut cursor, 200, false).asked_at, [0, 2, 12], "after 84 entries it is known");
    drop(cursor);
    assert_eq!(read(&env, &mut cursor_at(&engine, 0), 200, false).asked_at, []);
    // And one slow read in four is enough to know better.
    env.set_read_times(COLD.0, COLD.1);
    let found = read(&env, &mut cursor_at(&engine, 900), 100, true);
    assert!(found.asked_at[0] <= 4, "{found:?}");
}

#[test]
fn keys_alone_ask_for_nothing_and_few_values_for_little() {
    let env = MemoryEnv::new();
    let engine = small(&env);
    env.set_read_times(COLD.0, COLD.1);
    read(&env, &mut cursor_at(&engine, 0), 10, false);
    let mut cursor = cursor_at(&engine, 0);
    for _ in 0..100 {
        cursor.next().unwrap();
    }
    assert_eq!(asked(&env), []);
    for _ in 0..20 {
        cursor.value().unwrap();
        assert!(asked(&env).len() <= WINDOW_FIRST);
        (0..10).for_each(|_| cursor.next().unwrap());
    }
    // A cursor that is placed anew begins with little, too.
    for number in [100, 1100, 700] {
        cursor.seek(key(number).as_bytes()).unwrap();
        cursor.value().unwrap();
        let calls = asked(&env).len();
        assert!((1..=WINDOW_FIRST).contains(&calls), "{calls}");
    }
}

#[test]
fn of_long_values_less_than_a_mebibyte_is_asked_for() {
    let env = MemoryEnv::new();
    let engine = store(&env, 0, (100, 60_000));
    env.set_read_times(COLD.0, COLD.1);
    let mut cursor = cursor_at(&engine, 0);
    cursor.value().unwrap();
    asked(&env);
    let (mut unread_bytes, mut most_bytes) = (0_i64, 0);
    for _ in 1..90 {
        cursor.next().unwrap();
        cursor.value().unwrap();
        unread_bytes += asked(&env).iter().map(|(_, _, length)| *length as i64).sum::<i64>();
        most_bytes = most_bytes.max(unread_bytes);
        unread_bytes -= 60_000;
    }
    assert!((500_000..1 << 20).contains(&most_bytes), "{most_bytes}");
}

#[test]
fn what_is_in_the_cache_is_not_asked_for() {
    let env = MemoryEnv::new();
    // Only what had to be unpacked is kept there.
    let engine = store_with(&env, 64 << 20, (KEYS, 500), FILES, 4);
    env.set_read_times(COLD.0, COLD.1);
    // Backwards each block goes through the cache.
    let first = read(&env, &mut cursor_at(&engine, KEYS - 1), KEYS as usize - 1, true);
    assert!(first.expected > 300, "{first:?}");
    assert!(first.asked_at.len() > 8, "{first:?}");
    let again = read(&env, &mut cursor_at(&engine, KEYS - 1), KEYS as usize - 1, true);
    assert_eq!((again.asked_at.len(), again.expected, again.unexpected), (0, 0, 0));
}

#[test]
fn neighbours_are_asked_for_as_one() {
    let at = |file: u32, offset: u32, length: u32| Location { file, place: Place { offset, length }, sequence: 1 };
    let stretches = |locations: &[Location]| {
        let mut stretches = Vec::new();
        join(locations, &mut stretches);
        stretches.iter().map(|stretch| (stretch.file, stretch.from, stretch.to)).collect::<Vec<_>>()
    };
    assert_eq!(stretches(&[]), []);
    let locations =
        [at(1, 0, 100), at(1, 0, 100), at(1, 100, 50), at(1, 4246, 10), at(1, 9000, 10), at(2, 9010, 10), at(3, 0, 1)];
    assert_eq!(stretches(&locations), [(1, 0, 4256), (1, 9000, 9010), (2, 9010, 9020), (3, 0, 1)]);
    let long = [at(1, 10, u32::MAX - 10), at(1, 4 << 20, 10)];
    assert_eq!(stretches(&long), [(1, 10, 10 + (1 << 20)), (1, 4 << 20, (4 << 20) + 10)]);
}

/// Where files take turns, pieces end where nothing was asked for.
#[test]
fn no_piece_is_longer_than_what_was_asked_for() {
    let env = MemoryEnv::new();
    let engine = store_of(&env, 0, (KEYS, 500), 2);
    env.set_read_times(COLD.0, COLD.1);
    read(&env, &mut cursor_at(&engine, 0), 10, false);
    let found = read(&env, &mut cursor_at(&engine, 200), 500, false);
    assert_eq!(found.unexpected, 0, "{found:?}");
    assert!((10..100).contains(&found.expected), "{found:?}");
}

#[test]
fn cold_data_in_order_is_read_in_long_pieces() {
    let reads = |times: (u64, u64)| {
        let env = MemoryEnv::new();
        let engine = store_of(&env, 0, (KEYS, 500), 1);
        env.set_read_times(times.0, times.1);
        let mut cursor = cursor_at(&engine, 0);
        let found = read(&env, &mut cursor, KEYS as usize, false);
        (found.expected + found.unexpected, found.asked_at.len())
    };
    // (Long pieces, too, have the next one asked for.)
    let (cold, hot) = (reads(COLD), reads(HOT));
    assert!(hot.0 < 20 && cold.0 <= hot.0 + 3, "{cold:?} and {hot:?} reads");
    assert!(cold.1 <= hot.1 + 2, "{cold:?} and {hot:?} times asked");
}
