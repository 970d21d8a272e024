//! What a cursor says of values in level 0, whichever of them are asked for.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, ErrorKind, Options, Slice, WriteBatch};
use slmdb_order::{Comparator, KeyOrder};
use slmdb_table::Compression;
use slmdb_testkit::{MemoryEnv, Random};

use crate::tier::Lab;

const KEYS: usize = 900;

fn key(number: usize) -> String {
    format!("key {number:04}")
}

/// A store with neighbouring keys in three run files that are mapped, one of them in the immutable tree and all in level
/// 0, and what is in it. Every tenth key is deleted.
fn filled(env: &MemoryEnv, random: &mut Random) -> (Lab, Vec<Option<Vec<u8>>>) {
    let compaction = CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() };
    let compression = Compression::None;
    let options = Options { env: Arc::new(env.clone()), compaction, compression, ..Options::default() };
    let store = crate::compaction::tests::open(&options, Path::new("/db"));
    let mut values = vec![None; KEYS];
    for file in 0..3 {
        let mut batch = WriteBatch::new();
        for number in (file..KEYS).step_by(3) {
            let longest = [100, 100, 100, 2000, 6000][random.below(5) as usize];
            let mut value = vec![0; random.below(longest) as usize];
            random.fill(&mut value);
            batch.put(key(number), &value).unwrap();
            values[number] = Some(value);
        }
        for number in (0..KEYS).skip(file).step_by(30) {
            batch.delete(key(number)).unwrap();
            values[number] = None;
        }
        store.write(&batch, false).unwrap();
        store.flush().unwrap();
        if file == 0 {
            let _indexing = store.shared.tier.state.level_zero.indexing.lock();
            assert!(store.shared.tier.state.level_zero.switch(&store.shared.parts.catalog).unwrap());
        }
    }
    assert!(store.shared.tier.state.level_zero.trees().iter().all(|tree| tree.counts().keys > 0));
    (store, values)
}

#[test]
fn values_taken_here_and_there_are_the_right_ones() {
    let (env, mut random) = (MemoryEnv::new(), Random(5));
    let (store, values) = filled(&env, &mut random);
    let there: Vec<usize> = (0..KEYS).filter(|&number| values[number].is_some()).collect();
    let value_at = |at: usize| values[there[at]].as_deref().unwrap();
    let mut cursor = store.cursor().unwrap();
    let mut held: Vec<(usize, Slice)> = Vec::new();
    for _ in 0..300 {
        let mut at = random.below(there.len() as u64) as usize;
        cursor.seek(key(there[at]).as_bytes()).unwrap();
        // So many of ten values are taken.
        let taken = [10, 10, 5, 1][random.below(4) as usize];
        // Mostly it goes on in its direction; now and then it turns round.
        let mut backwards = random.below(3) == 0;
        for _ in 0..random.below(200) {
            if random.below(10) < taken {
                if random.below(2) == 0 {
                    assert_eq!(cursor.value_ref().unwrap(), value_at(at));
                }
                let value = cursor.value().unwrap();
                assert_eq!(*value, *value_at(at));
                if random.below(20) == 0 {
                    held.push((at, value));
                }
            }
            backwards ^= random.below(40) == 0;
            at = if backwards { at.wrapping_sub(1) } else { at + 1 };
            if backwards {
                cursor.prev().unwrap()
            } else {
                cursor.next().unwrap()
            }
            if at >= there.len() {
                assert!(!cursor.valid() && cursor.value_ref().is_err());
                break;
            }
            assert_eq!(cursor.key(), key(there[at]).as_bytes());
        }
    }
    assert!(held.len() > 50);
    held.iter().for_each(|(at, value)| assert_eq!(**value, *value_at(*at), "what is held stays"));
}

#[test]
fn a_damaged_entry_of_level_0_is_told_when_the_cursor_comes_to_it() {
    let env = MemoryEnv::new();
    let (store, values) = filled(&env, &mut Random(6));
    let is_long = |number: usize| values[number].as_ref().is_some_and(|value| value.len() > 20);
    let damaged = (300..).find(|&number| is_long(number)).unwrap();
    let content_of = |number: usize| values[number].as_ref().unwrap()[..20].to_vec();
    let tables: Vec<_> = (1..=3).map(|number| Path::new("/db").join(format!("{number:010}.sst"))).collect();
    let mut is_found = false;
    for table in &tables {
        let mut content = env.content(table).unwrap();
        if let Some(at) = content.windows(20).position(|bytes| *bytes == content_of(damaged)) {
            content[at] ^= 1;
            env.set_content(table, &content);
            is_found = true;
        }
    }
    assert!(is_found);
    let mut cursor = store.cursor().unwrap();
    cursor.seek(key(damaged - 60).as_bytes()).unwrap();
    for number in (damaged - 60..damaged + 60).filter(|&number| values[number].is_some()) {
        assert_eq!(cursor.key(), key(number).as_bytes());
        match cursor.value_ref() {
            Ok(value) => assert!(value == values[number].as_ref().unwrap() && number != damaged),
            Err(error) => assert!(error.kind() == ErrorKind::Corruption && number == damaged, "{number}: {error}"),
        }
        cursor.next().unwrap();
    }
}

/// An order that becomes one of rock, paper and scissors while the store is open: of keys whose numbers are so far apart the one
/// that is ahead by a third of the way is the greater.
struct Fickle {
    width: AtomicUsize,
}

impl Comparator for Fickle {
    fn name(&self) -> &str {
        "fickle"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> std::cmp::Ordering {
        let number = |key: &[u8]| std::str::from_utf8(&key[4..]).unwrap().parse::<usize>().unwrap();
        match self.width.load(Ordering::Relaxed) {
            0 => left.cmp(right),
            width => match (3 + number(left) / width % 3 - number(right) / width % 3) % 3 {
                0 => left.cmp(right),
                1 => std::cmp::Ordering::Greater,
                _ => std::cmp::Ordering::Less,
            },
        }
    }
}

/// Windows whose entries a snapshot does not see led from one to the other, and back, for ever (INV-25).
#[test]
fn windows_that_go_round_in_a_circle_come_to_an_end() {
    let fickle = Arc::new(Fickle { width: AtomicUsize::new(0) });
    let compaction = CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() };
    let comparator = KeyOrder::Custom(fickle.clone());
    let options = Options { env: Arc::new(MemoryEnv::new()), compaction, comparator, ..Options::default() };
    let store = Arc::new(crate::compaction::tests::open(&options, Path::new("/db")));
    let snapshot = store.snapshot().unwrap();
    let mut batch = WriteBatch::new();
    (0..KEYS).for_each(|number| batch.put(key(number), b"value").unwrap());
    store.write(&batch, false).unwrap();
    store.flush().unwrap();
    let (told, ends) = std::sync::mpsc::channel();
    // It goes on for ever if it is wrong, so nobody waits for its end.
    std::thread::spawn(move || {
        let mut walks = Vec::new();
        for width in (20..400).step_by(7) {
            fickle.width.store(width, Ordering::Relaxed);
            let mut cursor = snapshot.cursor().unwrap();
            walks.extend([cursor.seek_first(), cursor.seek_last(), cursor.seek(key(300).as_bytes())]);
        }
        told.send(walks.into_iter().map(|walk| walk.map_err(|error| error.kind())).collect::<Vec<_>>()).unwrap();
    });
    let walks = ends.recv_timeout(Duration::from_secs(60)).expect("it has no end");
    assert!(walks.iter().all(|walk| matches!(walk, Ok(()) | Err(ErrorKind::Invalid))), "{walks:?}");
    assert!(walks.contains(&Err(ErrorKind::Invalid)), "no walk went round: {walks:?}");
}

/// A cursor keeps the MemTables that it was made with. So a flush, or damage to what it wrote, makes no difference.
#[test]
fn a_value_that_was_flushed_meanwhile_needs_no_file() {
    let env = MemoryEnv::new();
    let options = Options { env: Arc::new(env.clone()), ..Options::default() };
    let store = crate::compaction::tests::open(&options, Path::new("/db"));
    let mut batch = WriteBatch::new();
    batch.put(b"key", [7; 5000]).unwrap();
    store.write(&batch, false).unwrap();
    let mut cursor = store.cursor().unwrap();
    store.flush().unwrap();
    let table = Path::new("/db/0000000001.sst");
    let mut content = env.content(table).unwrap();
    content.iter_mut().for_each(|byte| *byte ^= 0xff);
    env.set_content(table, &content);
    cursor.seek_first().unwrap();
    assert_eq!(cursor.key(), b"key");
    assert_eq!(cursor.value_ref().unwrap(), [7; 5000]);
    assert_eq!(store.get(b"key").unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn values_of_level_0_are_copied_together_and_no_more_than_were_taken() {
    let env = MemoryEnv::new();
    let (store, values) = filled(&env, &mut Random(7));
    let copied = |taken: u64| {
        let before = env.operation_count();
        let mut cursor = store.cursor().unwrap();
        cursor.seek(key(101).as_bytes()).unwrap();
        for _ in 0..taken {
            cursor.value_ref().unwrap();
            cursor.next().unwrap();
        }
        env.operation_count() - before
    };
    assert!(values[101].is_some());
    copied(50);
    for taken in [1, 2, 5, 10, 50] {
        assert!((taken..=2 * taken).contains(&copied(taken)), "{taken}: {}", copied(taken));
    }
}

#[test]
fn what_a_cursor_has_copied_counts_until_it_is_gone() {
    let env = MemoryEnv::new();
    let (store, _) = filled(&env, &mut Random(8));
    let cursors_bytes = || store.stats().memory.cursors_bytes;
    assert_eq!(cursors_bytes(), 0);
    let mut cursor = store.cursor().unwrap();
    cursor.seek_first().unwrap();
    let mut most = 0;
    while cursor.valid() {
        cursor.value_ref().unwrap();
        most = most.max(cursors_bytes());
        cursor.next().unwrap();
    }
    assert!((8 << 10..48 << 10).contains(&most), "{most}");
    drop(cursor);
    assert_eq!(cursors_bytes(), 0);
}
