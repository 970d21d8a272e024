//! Files that are searched by key: everything they give, held against the entries that were put in.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::support::testing::config;
use crate::support::{Entry, NUMBER, PATH, UUID, open, small_entries};
use proptest::collection::vec;
use proptest::prelude::*;
use slmdb_env::{Error, ErrorKind};
use slmdb_order::{Comparator, KeyOrder};
use slmdb_table::{
    Compression, EntryKind, MappedRead, Place, TableBuilder, TableCursor, TableForm, TableOptions, TableParts,
    TableReader, WorstCase,
};
use slmdb_testkit::MemoryEnv;

pub fn options(block_bytes: usize, compression: Compression, filter_bits_per_key: u32) -> TableOptions {
    let form = TableForm::ByKey { filter_bits_per_key };
    TableOptions { block_bytes, restart_interval: 4, compression, form }
}

fn build(env: &MemoryEnv, entries: &[Entry], options: TableOptions, order: &KeyOrder) -> u64 {
    let mut builder = TableBuilder::new_in_order(env, PATH.as_ref(), NUMBER, UUID, options, order.clone()).unwrap();
    for entry in entries {
        builder.add(&entry.key, entry.sequence, entry.kind, &entry.value).unwrap();
    }
    let estimated_bytes = builder.estimated_bytes();
    let finished = builder.finish().unwrap();
    assert!(estimated_bytes >= finished.length_bytes, "{estimated_bytes} < {}", finished.length_bytes);
    assert!(finished.keys.is_empty() && finished.keys.entries().next().is_none());
    let worst_case = WorstCase {
        entries: entries.len() as u64,
        key_bytes: entries.iter().map(|entry| entry.key.len() as u64).sum(),
        longest_key_bytes: entries.iter().map(|entry| entry.key.len() as u64).max().unwrap(),
        value_bytes: entries.iter().map(|entry| entry.value.len() as u64).sum(),
    };
    let at_most = worst_case.file_bytes(&options);
    assert!(at_most >= finished.length_bytes, "{} bytes, said to be at most {at_most}", finished.length_bytes);
    // A key may stand in its block, in its chunk and in the top, and be alone in each.
    let with_room = worst_case.value_bytes + 3 * worst_case.key_bytes + 200 * worst_case.entries;
    assert!(at_most <= with_room + 2 * worst_case.longest_key_bytes + 1000, "too high by far: {at_most}");
    finished.length_bytes
}

/// Builds a table and holds everything that can be read from it against the entries.
fn check(entries: &[Entry], options: TableOptions, order: &KeyOrder) {
    let env = MemoryEnv::new();
    build(&env, entries, options, order);
    let mut table = TableReader::open_in_order(&env, PATH.as_ref(), NUMBER, UUID, order.clone()).unwrap();
    let findings = table.verify(&mut |_| {});
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(table.key_section().unwrap_err().kind(), ErrorKind::Unsupported);
    check_reading(&table, entries, order);
    table.map();
    check_reading(&table, entries, order);
    let table = Arc::new(table);
    for window_bytes in [64, 1 << 20] {
        check_scan(&table, entries, order, window_bytes);
    }
}

/// Every key there is, and some around it.
fn probes(entries: &[Entry]) -> Vec<Vec<u8>> {
    let mut probes = vec![Vec::new(), vec![0xff; 12]];
    for entry in entries {
        probes.push(entry.key.clone());
        probes.push([&entry.key[..], &[0]].concat());
        probes.push(entry.key.split_last().map(|(_, head)| head.to_vec()).unwrap_or_default());
    }
    probes.sort();
    probes.dedup();
    probes
}

pub fn check_reading(table: &TableReader, entries: &[Entry], order: &KeyOrder) {
    let mut cursor = TableCursor::new(table, table).unwrap();
    for key in probes(entries) {
        let first = entries.partition_point(|entry| order.compare(&entry.key, &key).is_lt());
        let versions = entries[first..].iter().take_while(|entry| entry.key == key).map(|entry| entry.sequence);
        for at_most in versions.flat_map(|it| [it, it.saturating_sub(1)]).chain([0, u64::MAX]) {
            let wanted = entries[first..].iter().find(|entry| entry.key == key && entry.sequence <= at_most);
            for found in [table.find(&key, at_most, &table), table.find(&key, at_most, &Mapped(table))] {
                let found = found.unwrap().map(|found| (found.sequence, found.kind, found.value.to_vec()));
                assert_eq!(found, wanted.map(|entry| (entry.sequence, entry.kind, entry.value.clone())), "{key:?}");
            }
        }
        cursor.seek(&key).unwrap();
        check_at(&cursor, entries.get(first));
        cursor.prev().unwrap();
        if first < entries.len() {
            check_at(&cursor, first.checked_sub(1).map(|before| &entries[before]));
        }
        cursor.seek_before(&key).unwrap();
        check_at(&cursor, first.checked_sub(1).map(|before| &entries[before]));
        if first > 0 {
            cursor.next().unwrap();
            check_at(&cursor, entries.get(first));
        }
        let before = table.entries_before(&key, &table).unwrap();
        assert_eq!(before.entries, first as u64);
        assert!(before.bytes <= table.properties().data_bytes && (before.bytes == 0) == (first == 0));
    }
    let past = table.entries_before(&entries[entries.len() - 1].key, &table).unwrap();
    assert!(past.entries < entries.len() as u64);
    cursor.seek_first().unwrap();
    for entry in entries {
        check_at(&cursor, Some(entry));
        cursor.next().unwrap();
    }
    check_at(&cursor, None);
    cursor.seek_last().unwrap();
    for entry in entries.iter().rev() {
        check_at(&cursor, Some(entry));
        cursor.prev().unwrap();
    }
    check_at(&cursor, None);
}

fn check_at<P: TableParts>(cursor: &TableCursor<P>, entry: Option<&Entry>) {
    assert_eq!(cursor.valid(), entry.is_some());
    let Some(entry) = entry else { return };
    assert_eq!((cursor.key(), cursor.sequence(), cursor.kind()), (&entry.key[..], entry.sequence, entry.kind));
    assert_eq!(cursor.value(), entry.value);
    assert_eq!(cursor.value_slice(), entry.value);
}

fn check_scan(table: &Arc<TableReader>, entries: &[Entry], order: &KeyOrder, window_bytes: usize) {
    let mut scan = table.scan(window_bytes).unwrap();
    let check_here = |scan: &slmdb_table::TableScan, entry: &Entry| {
        assert_eq!((scan.key(), scan.sequence(), scan.kind()), (&entry.key[..], entry.sequence, entry.kind));
        assert_eq!(scan.value(), entry.value);
    };
    for entry in entries {
        assert!(scan.advance().unwrap());
        check_here(&scan, entry);
    }
    assert!(!scan.advance().unwrap() && !scan.advance().unwrap());
    for key in probes(entries).into_iter().step_by(3) {
        let first = entries.partition_point(|entry| order.compare(&entry.key, &key).is_lt());
        assert_eq!(scan.seek(&key).unwrap(), first < entries.len());
        if let Some(entry) = entries.get(first) {
            check_here(&scan, entry);
            assert_eq!(scan.advance().unwrap(), first + 1 < entries.len());
        }
    }
}

/// Blocks and entries from the mapping, as far as it has them.
struct Mapped<'a>(&'a TableReader);

impl TableParts for Mapped<'_> {
    fn chunk(&self, place: Place) -> Result<slmdb_table::IndexChunk, Error> {
        self.0.read_index_chunk(place)
    }

    fn block(&self, place: Place) -> Result<slmdb_table::Block, Error> {
        self.0.read_block(place)
    }

    fn entry(&self, place: Place, key: &[u8], at_most: u64) -> Result<Option<slmdb_table::BlockEntry>, Error> {
        match self.0.read_mapped_at_most(place, key, at_most)? {
            MappedRead::Nothing => self.block(place)?.get_at_most(key, at_most),
            MappedRead::Entry(entry) => Ok(Some(entry)),
            MappedRead::Block(block) => block.get_at_most(key, at_most),
        }
    }
}

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> std::cmp::Ordering {
        right.cmp(left)
    }
}

fn sorted(mut entries: Vec<Entry>, order: &KeyOrder) -> Vec<Entry> {
    entries.sort_by(|left, right| {
        order.compare(&left.key, &right.key).then(Reverse(left.sequence).cmp(&Reverse(right.sequence)))
    });
    entries.dedup_by(|left, right| (&left.key, left.sequence) == (&right.key, right.sequence));
    entries
}

fn orders() -> [KeyOrder; 2] {
    [KeyOrder::Bytewise, KeyOrder::Custom(Arc::new(Backwards))]
}

/// "m" is the shortest key between the last large one and the first small one. So it is what the large one's row says.
#[test]
fn of_a_block_before_a_key_all_bytes_count() {
    let entry = |key: String, value_bytes| Entry {
        key: key.into(),
        sequence: 1,
        kind: EntryKind::Put,
        value: vec![3; value_bytes],
    };
    let mut entries: Vec<_> = (0..3).map(|number| entry(format!("large{number}"), 20_000)).collect();
    entries.extend((0..3).map(|number| entry(format!("small{number}"), 10)));
    let env = MemoryEnv::new();
    build(&env, &entries, options(4096, Compression::None, 10), &KeyOrder::Bytewise);
    let table = TableReader::open(&env, PATH.as_ref(), NUMBER, UUID).unwrap();
    let bytes_before = |key: &str| table.entries_before(key.as_bytes(), &&table).unwrap().bytes;
    assert_eq!(bytes_before("large0"), 0);
    for (key, larges) in [("large1", 1), ("large2", 2), ("m", 3), ("small0", 3)] {
        assert!((larges * 20_000..larges * 20_000 + 200).contains(&bytes_before(key)), "{key}: {}", bytes_before(key));
    }
    assert!(bytes_before("small2") > bytes_before("small1"), "within a block");
}

#[test]
fn small_files_give_what_was_put_in() {
    for (order, &compression) in
        orders().iter().flat_map(|order| Compression::BUILT_IN.iter().map(move |it| (order, it)))
    {
        for (block_bytes, bits) in [(64, 10), (144, 10), (144, 0), (4096, 64)] {
            check(&sorted(small_entries(), order), options(block_bytes, compression, bits), order);
        }
        for entry in [Entry::put("", 0, ""), Entry::delete("k", u64::MAX), Entry::put("k", 3, vec![7; 10_000])] {
            check(&[entry], options(4096, compression, 10), order);
        }
    }
}

/// Versions of a key fill blocks and whole chunks; the one that is wanted is found by one look.
#[test]
fn versions_cross_blocks_and_chunks() {
    for order in orders() {
        let mut entries: Vec<_> =
            (0..3000u64).map(|number| Entry::put("key", 2 * number, [number as u8; 40])).collect();
        entries.extend([Entry::delete("kex", 5), Entry::put("kez", 5, ""), Entry::put("key\0", 7, "next")]);
        check(&sorted(entries, &order), options(144, Compression::None, 10), &order);
    }
}

#[test]
fn many_chunks() {
    let order = KeyOrder::Bytewise;
    let entries: Vec<_> = (0..6000u32).map(|number| Entry::put(format!("key{number:08}"), 1, [3; 20])).collect();
    check(&entries, options(256, Compression::None, 10), &order);
    // Keys without values: the filter ends the chunk.
    let entries: Vec<_> = (0..40_000u32).map(|number| Entry::put(number.to_be_bytes(), 1, "")).collect();
    let env = MemoryEnv::new();
    build(&env, &entries, options(1 << 16, Compression::None, 64), &order);
    assert!(open(&env).unwrap().verify(&mut |_| {}).is_empty());
}

#[test]
fn long_keys() {
    for order in orders() {
        let key = |number: u8, length: usize| [&vec![b'k'; length - 1][..], &[number]].concat();
        let mut entries: Vec<_> = (0..20).map(|number| Entry::put(key(number, 65_535), 4, "v")).collect();
        entries.extend((0..20).map(|number| Entry::put(key(number, 65_535), 3, vec![number; 100])));
        entries.extend((0..9).map(|number| Entry::put(vec![number; 65_000], 3, "")));
        for &compression in Compression::BUILT_IN {
            check(&sorted(entries.clone(), &order), options(512, compression, 10), &order);
        }
    }
}

/// Blocks stay blocks where nothing is compressed.
#[test]
fn entries_are_gathered_without_compression() {
    let entries: Vec<_> = (0..1000u32).map(|number| Entry::put(format!("{number:020}"), 1, [1; 100])).collect();
    let env = MemoryEnv::new();
    build(&env, &entries, options(4096, Compression::None, 10), &KeyOrder::Bytewise);
    let table = open(&env).unwrap();
    let blocks = table.properties().blocks;
    assert!((25..40).contains(&blocks), "{blocks} blocks");
    assert!(table.memory_bytes() < 1500, "{} bytes", table.memory_bytes());
}

/// Looks for missing keys mostly end at the filter.
#[test]
fn the_filter_spares_blocks() {
    struct Counted<'a>(&'a TableReader, std::cell::Cell<u32>);
    impl TableParts for Counted<'_> {
        fn chunk(&self, place: Place) -> Result<slmdb_table::IndexChunk, Error> {
            self.0.read_index_chunk(place)
        }

        fn block(&self, place: Place) -> Result<slmdb_table::Block, Error> {
            self.1.set(self.1.get() + 1);
            self.0.read_block(place)
        }
    }
    let entries: Vec<_> = (0..5000u32).map(|number| Entry::put((2 * number).to_be_bytes(), 1, [1; 30])).collect();
    for (bits, blocks) in [(10, 0..150), (0, 5000..5001)] {
        let env = MemoryEnv::new();
        build(&env, &entries, options(4096, Compression::None, bits), &KeyOrder::Bytewise);
        let table = open(&env).unwrap();
        let parts = Counted(&table, std::cell::Cell::new(0));
        // All before the last key: behind it no chunk is asked.
        for number in 0..5000u32 {
            let missing = [&number.to_be_bytes()[..], &[0]].concat();
            assert_eq!(table.find(&missing, u64::MAX, &parts).unwrap(), None);
        }
        assert!(blocks.contains(&parts.1.get()), "{bits} bits: {} blocks", parts.1.get());
    }
}

#[test]
fn a_file_with_a_key_section_is_not_searched() {
    let env = MemoryEnv::new();
    crate::support::build(&env, &small_entries(), TableOptions::default()).unwrap();
    let table = open(&env).unwrap();
    assert!(!table.is_searched_by_key());
    assert_eq!(table.find(b"a", 1, &&table).unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(TableCursor::new(&table, &table).is_err());
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn any_table_is_searched(
        keys in vec((vec(0..4u8, 0..6), 0..9u64, proptest::option::weighted(0.8, vec(any::<u8>(), 0..200))), 1..150),
        block_bytes in prop_oneof![Just(64usize), Just(200), 64..5000usize],
        bits in 0..=64u32,
        compression in proptest::sample::select(Compression::BUILT_IN),
        order in 0..2usize,
    ) {
        let order = &orders()[order];
        let entries = keys.into_iter().map(|(key, sequence, value)| match value {
            Some(value) => Entry::put(key, sequence, value),
            None => Entry::delete(key, sequence),
        });
        check(&sorted(entries.collect(), order), options(block_bytes, compression, bits), order);
    }
}
