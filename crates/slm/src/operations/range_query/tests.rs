//! What a cursor says of values, whichever of them are asked for.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, ErrorKind, Options, Slice, WriteBatch};
use slmdb_table::Compression;
use slmdb_testkit::{MemoryEnv, Random};

const KEYS: usize = 600;

fn key(number: usize) -> String {
    format!("key {number:04}")
}

/// A store whose neighbouring keys lie in three files that are mapped, and what is in it.
fn filled(env: &MemoryEnv, random: &mut Random) -> (Arc<dyn Engine>, Vec<Vec<u8>>) {
    let compaction = CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() };
    let compression = Compression::None;
    let options = Options { env: Arc::new(env.clone()), compaction, compression, ..Options::default() };
    let engine = (crate::KIND.open)(&options, Path::new("/db"), None).unwrap();
    let values: Vec<Vec<u8>> = (0..KEYS)
        .map(|_| {
            let longest = [100, 100, 100, 2000, 6000][random.below(5) as usize];
            let mut value = vec![0; random.below(longest) as usize];
            random.fill(&mut value);
            value
        })
        .collect();
    for file in 0..3 {
        let mut batch = WriteBatch::new();
        (file..KEYS).step_by(3).for_each(|number| batch.put(key(number), &values[number]).unwrap());
        engine.write(&batch, false).unwrap();
        engine.flush().unwrap();
    }
    (engine, values)
}

#[test]
fn values_taken_here_and_there_are_the_right_ones() {
    let (env, mut random) = (MemoryEnv::new(), Random(5));
    let (engine, values) = filled(&env, &mut random);
    let mut cursor = engine.cursor().unwrap();
    let mut held: Vec<(usize, Slice)> = Vec::new();
    for _ in 0..300 {
        let mut at = random.below(KEYS as u64) as usize;
        cursor.seek(key(at).as_bytes()).unwrap();
        // So many of ten values are taken.
        let taken = [10, 10, 5, 1][random.below(4) as usize];
        for _ in 0..random.below(90) {
            if random.below(10) < taken {
                if random.below(2) == 0 {
                    assert_eq!(cursor.value_ref().unwrap(), values[at]);
                }
                let value = cursor.value().unwrap();
                assert_eq!(*value, *values[at]);
                if random.below(20) == 0 {
                    held.push((at, value));
                }
            }
            // Mostly forwards; now and then it turns round.
            let backwards = random.below(8) == 0;
            at = if backwards { at.wrapping_sub(1) } else { at + 1 };
            if backwards {
                cursor.prev().unwrap()
            } else {
                cursor.next().unwrap()
            }
            if at >= KEYS {
                assert!(!cursor.valid() && cursor.value_ref().is_err());
                break;
            }
            assert_eq!(cursor.key(), key(at).as_bytes());
        }
    }
    assert!(held.len() > 50);
    held.iter().for_each(|(at, value)| assert_eq!(**value, *values[*at], "what is held stays"));
}

#[test]
fn a_damaged_entry_is_told_when_the_cursor_comes_to_it() {
    let env = MemoryEnv::new();
    let (engine, values) = filled(&env, &mut Random(6));
    let damaged = (300..).find(|&number| values[number].len() > 20).unwrap();
    let table = Path::new("/db").join(format!("{:010}.sst", damaged % 3 + 1));
    let mut content = env.content(&table).unwrap();
    let at = content.windows(20).position(|bytes| *bytes == values[damaged][..20]).unwrap();
    content[at] ^= 1;
    env.set_content(&table, &content);
    let mut cursor = engine.cursor().unwrap();
    cursor.seek(key(damaged - 60).as_bytes()).unwrap();
    for (number, expected) in values.iter().enumerate().take(damaged + 60).skip(damaged - 60) {
        match cursor.value_ref() {
            Ok(value) => assert!(value == *expected && number != damaged),
            Err(error) => assert!(error.kind() == ErrorKind::Corruption && number == damaged, "{number}: {error}"),
        }
        cursor.next().unwrap();
    }
}

#[test]
fn no_more_is_copied_ahead_than_was_taken() {
    let env = MemoryEnv::new();
    let (engine, _) = filled(&env, &mut Random(7));
    let copied = |taken: u64| {
        let before = env.operation_count();
        let mut cursor = engine.cursor().unwrap();
        cursor.seek(key(100).as_bytes()).unwrap();
        for _ in 0..taken {
            cursor.value_ref().unwrap();
            cursor.next().unwrap();
        }
        env.operation_count() - before
    };
    copied(50);
    for taken in [1, 2, 5, 10, 50] {
        assert!((taken..=2 * taken).contains(&copied(taken)), "{taken}: {}", copied(taken));
    }
}

#[test]
fn a_long_value_that_was_taken_is_no_longer_the_cursors() {
    let env = MemoryEnv::new();
    let (engine, values) = filled(&env, &mut Random(8));
    let mut batch = WriteBatch::new();
    batch.put("long", vec![1; 1 << 20]).unwrap();
    engine.write(&batch, false).unwrap();
    engine.flush().unwrap();
    let cursors_bytes = || engine.stats().memory.cursors_bytes;
    let mut cursor = engine.cursor().unwrap();
    cursor.seek(b"long").unwrap();
    let value = cursor.value().unwrap();
    assert!(value.len() == 1 << 20 && cursors_bytes() < 64 << 10, "{}", cursors_bytes());
    cursor.value_ref().unwrap();
    assert!(cursors_bytes() >= 1 << 20, "what is lent counts: {}", cursors_bytes());
    cursor.seek(key(0).as_bytes()).unwrap();
    assert_eq!(cursor.value_ref().unwrap(), values[0]);
    assert!(cursors_bytes() < 64 << 10, "{}", cursors_bytes());
}
