//! Table files in other orders than by bytes.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use crate::support::{NUMBER, PATH, UUID, places_of, small_options};
use slmdb_env::ErrorKind;
use slmdb_order::{Comparator, KeyOrder};
use slmdb_table::{Compression, EntryKind, TableBuilder, TableReader};
use slmdb_testkit::MemoryEnv;

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        right.cmp(left)
    }
}

struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "by length"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        left.len().cmp(&right.len()).then_with(|| left.cmp(right))
    }
}

struct Nonsense;

impl Comparator for Nonsense {
    fn name(&self) -> &str {
        "nonsense"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        (slmdb_checksum::crc32c(&[left, b"/", right].concat()) & 1).cmp(&1).then(Ordering::Greater)
    }
}

fn orders() -> [KeyOrder; 2] {
    [KeyOrder::Custom(Arc::new(Backwards)), KeyOrder::Custom(Arc::new(ByLength))]
}

/// Of all lengths up to three, with long common heads among them, in this order.
fn keys(order: &KeyOrder) -> Vec<Vec<u8>> {
    let digits = |number: u32| format!("{number}").into_bytes();
    let mut keys: Vec<Vec<u8>> = (0..600).map(digits).collect();
    keys.extend((0..200).map(|number| [&[b'x'; 60][..], &digits(number)].concat()));
    keys.push(Vec::new());
    keys.sort_by(|left, right| order.compare(left, right));
    keys
}

fn build(env: &MemoryEnv, order: &KeyOrder, keys: &[Vec<u8>]) -> slmdb_env::Result<slmdb_table::FinishedTable> {
    let options = small_options(Compression::Lz4);
    let mut builder = TableBuilder::new_in_order(env, Path::new(PATH), NUMBER, UUID, options, order.clone())?;
    for key in keys {
        builder.add(key, 9, EntryKind::Put, &[b"value of ", &key[..]].concat())?;
    }
    builder.finish()
}

fn open(env: &MemoryEnv, order: &KeyOrder) -> slmdb_env::Result<TableReader> {
    TableReader::open_in_order(env, Path::new(PATH), NUMBER, UUID, order.clone())
}

#[test]
fn a_table_is_read_in_the_order_it_was_built_in() {
    for order in orders() {
        let (env, keys) = (MemoryEnv::new(), keys(&order));
        let finished = build(&env, &order, &keys).unwrap();
        let table = open(&env, &order).unwrap();
        assert!(table.verify(&mut |_| {}).is_empty(), "{:?}", table.verify(&mut |_| {}));
        assert_eq!(table.properties().smallest_key, keys[0]);
        assert_eq!(Some(&table.properties().largest_key), keys.last());
        let section = table.key_section().unwrap();
        assert!(section.entries().map(|entry| entry.unwrap().key.to_vec()).eq(keys.iter().cloned()));
        let places = places_of(&finished.keys).unwrap();
        assert!(places.len() > 20);
        for place in places {
            let block = table.read_block(place).unwrap();
            let mine: Vec<Vec<u8>> = block.entries().map(|entry| entry.unwrap().key).collect();
            let mut cursor = block.cursor();
            // Every key there is, and such as are not in the block.
            for key in keys.iter().step_by(7).chain(&mine) {
                let first = mine.iter().find(|mine| order.compare(mine, key).is_ge());
                cursor.seek(key).unwrap();
                assert_eq!(cursor.valid().then(|| cursor.key().to_vec()).as_ref(), first);
                let last = mine.iter().rev().find(|mine| order.compare(mine, key).is_lt());
                cursor.seek_before(key).unwrap();
                assert_eq!(cursor.valid().then(|| cursor.key().to_vec()).as_ref(), last);
                let found = block.get(key).unwrap().map(|entry| entry.value.to_vec());
                assert_eq!(found, mine.contains(key).then(|| [b"value of ", &key[..]].concat()));
            }
            let mut back = Vec::new();
            cursor.seek_last().unwrap();
            while cursor.valid() {
                back.push(cursor.key().to_vec());
                cursor.prev().unwrap();
            }
            assert!(back.iter().rev().eq(&mine));
        }
    }
}

#[test]
fn keys_that_do_not_ascend_in_the_order_are_refused() {
    for order in orders() {
        let mut keys = keys(&order);
        keys.reverse();
        assert_eq!(build(&MemoryEnv::new(), &order, &keys).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_table_under_another_order_than_its_own_is_found_out() {
    for order in orders() {
        let (env, keys) = (MemoryEnv::new(), keys(&order));
        build(&env, &order, &keys).unwrap();
        match open(&env, &KeyOrder::Bytewise) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption),
            Ok(table) => {
                assert!(!table.verify(&mut |_| {}).is_empty());
                let mut entries = table.key_section().unwrap();
                assert!(entries.entries().any(|entry| entry.is_err()));
                entries = open(&env, &order).unwrap().key_section().unwrap();
                assert!(entries.entries().all(|entry| entry.is_ok()));
            }
        }
    }
}

#[test]
fn a_comparator_that_is_no_order_gives_errors_and_nothing_worse() {
    let nonsense = KeyOrder::Custom(Arc::new(Nonsense));
    for order in orders() {
        let (env, keys) = (MemoryEnv::new(), keys(&order));
        assert!(build(&MemoryEnv::new(), &nonsense, &keys).is_err());
        let finished = build(&env, &order, &keys).unwrap();
        let Ok(table) = open(&env, &nonsense) else { continue };
        assert!(!table.verify(&mut |_| {}).is_empty());
        for place in places_of(&finished.keys).unwrap() {
            let block = table.read_block(place).unwrap();
            let mut cursor = block.cursor();
            for key in &keys {
                cursor.seek(key).unwrap();
                cursor.seek_before(key).unwrap();
                assert!(block.get(key).unwrap().is_none_or(|entry| entry.value.ends_with(key)));
            }
            block.entries().for_each(drop);
        }
    }
}
