//! What goes into a table file comes out of it: by block, by key section, after every choice of options, with keys and
//! values that are hard to take.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::testing::{budgeted, config};
use crate::support::watched::WatchedEnv;
use crate::support::{
    Entry, NUMBER, PATH, UUID, build, builder, keys_of, open, places_of, read_all, small_entries, small_options,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use slmdb_env::{Env, Error, OpenMode, OsEnv};
use slmdb_order::KeyOrder;
use slmdb_table::{
    Compression, EntryKind, KeySection, KeyStream, MAXIMUM_FILE_BYTES, MAXIMUM_KEY_BYTES, MAXIMUM_VALUE_BYTES, Place,
    TableBuilder, TableOptions, TableReader, WorstCase,
};
use slmdb_testkit::MemoryEnv;

/// Builds a table of the entries and holds everything that can be read from it against them.
fn check(entries: &[Entry], options: TableOptions) {
    let env = MemoryEnv::new();
    let mut builder = builder(&env, options).unwrap();
    for entry in entries {
        builder.add(&entry.key, entry.sequence, entry.kind, &entry.value).unwrap();
    }
    let estimated_bytes = builder.estimated_bytes();
    assert_eq!(builder.entries(), entries.len() as u64);
    let finished = builder.finish().unwrap();
    assert!(estimated_bytes >= finished.length_bytes);
    check_worst_case(entries, &options, finished.length_bytes);
    if options.compression == Compression::None {
        // It counts keys as they are in memory.
        let keys_bytes = finished.keys.memory_bytes() as u64;
        assert!(estimated_bytes < finished.length_bytes + keys_bytes + 200, "too high by far");
    }
    assert_eq!(env.content(PATH).unwrap().len() as u64, finished.length_bytes);

    let table = open(&env).unwrap();
    let keys = keys_of(&finished.keys).unwrap();
    assert_eq!(table.length_bytes(), finished.length_bytes);
    assert_eq!(*table.properties(), finished.properties);
    assert_eq!(keys_of(&table.key_section().unwrap()).unwrap(), keys);
    check_properties(&finished.properties, entries);
    check_versions(&finished.keys, entries);
    check_blocks(&table, entries, &places_of(&finished.keys).unwrap(), options);
    assert_eq!(read_all(&env).unwrap(), entries);

    let mut told = Vec::new();
    let findings = table.verify(&mut |done_bytes| told.push(done_bytes));
    assert!(findings.is_empty(), "{findings:?}");
    assert!(told.is_sorted());
    assert_eq!(told.last(), Some(&finished.length_bytes));
}

fn check_worst_case(entries: &[Entry], options: &TableOptions, length_bytes: u64) {
    let worst_case = WorstCase {
        entries: entries.len() as u64,
        key_bytes: entries.iter().map(|entry| entry.key.len() as u64).sum(),
        longest_key_bytes: entries.iter().map(|entry| entry.key.len() as u64).max().unwrap(),
        value_bytes: entries.iter().map(|entry| entry.value.len() as u64).sum(),
    };
    let at_most = worst_case.file_bytes(options);
    assert!(at_most >= length_bytes, "{length_bytes} bytes, said to be at most {at_most}: {worst_case:?}");
    // Worth something, too: no entry takes 100 bytes more than its key, twice, and its value.
    let with_room = worst_case.value_bytes + 2 * worst_case.key_bytes + 100 * worst_case.entries;
    assert!(at_most <= with_room + 2 * worst_case.longest_key_bytes + 1000, "too high by far: {worst_case:?}");
}

fn check_properties(properties: &slmdb_table::Properties, entries: &[Entry]) {
    let sequences = || entries.iter().map(|entry| entry.sequence);
    assert_eq!(properties.number, NUMBER);
    assert_eq!(properties.entries, entries.len() as u64);
    let is_newest = |index: &usize| *index == 0 || entries[*index - 1].key != entries[*index].key;
    let newest: Vec<&Entry> = (0..entries.len()).filter(is_newest).map(|index| &entries[index]).collect();
    assert_eq!(properties.older_versions, (entries.len() - newest.len()) as u64);
    assert_eq!(properties.deletes, newest.iter().filter(|entry| entry.kind == EntryKind::Delete).count() as u64);
    assert_eq!(properties.smallest_key, entries[0].key);
    assert_eq!(properties.largest_key, entries[entries.len() - 1].key);
    assert_eq!(Some(properties.lowest_sequence), sequences().min());
    assert_eq!(Some(properties.highest_sequence), sequences().max());
    assert_eq!(properties.key_bytes, entries.iter().map(|entry| entry.key.len() as u64).sum::<u64>());
    assert_eq!(properties.value_bytes, entries.iter().map(|entry| entry.value.len() as u64).sum::<u64>());
}

/// All entries are in the blocks, in order; blocks follow one another; what is too long for one is alone in it.
/// The newest entries of all keys, and the others, are told apart; a key alone finds its newest entry.
fn check_versions(section: &KeySection, entries: &[Entry]) {
    let mut newest = BTreeMap::new();
    for entry in entries.iter().rev() {
        newest.insert(&entry.key[..], entry.sequence);
    }
    let told: BTreeMap<_, _> =
        section.newest_entries().map(|entry| entry.unwrap()).map(|e| (e.key, e.sequence)).collect();
    assert_eq!(told, newest);
    assert_eq!(section.newest_entries().count(), newest.len());
    let older = section.older_entries().map(|entry| entry.unwrap());
    let is_older = |entry: &&Entry| newest[&entry.key[..]] != entry.sequence;
    let expected = entries.iter().filter(is_older).map(|entry| (&entry.key[..], entry.sequence));
    assert!(older.map(|entry| (entry.key, entry.sequence)).eq(expected));
}

fn check_blocks(table: &TableReader, entries: &[Entry], places: &[Place], options: TableOptions) {
    let mut left = entries;
    let mut next = 0;
    let mut sequential = table.sequential(1 << 16);
    for &place in places {
        assert_eq!(u64::from(place.offset), next);
        next = place.end();
        let block = table.read_block(place).unwrap();
        let found: Vec<_> = block.entries().map(Result::unwrap).collect();
        assert!(found.len() == 1 || place.length as usize <= options.block_bytes, "a long block of several entries");
        assert!(sequential.read_block(place).unwrap().entries().map(Result::unwrap).eq(found.iter().cloned()));
        let (mine, others) = left.split_at(found.len());
        left = others;
        for (found, entry) in found.iter().zip(mine) {
            assert_eq!((&found.key, found.sequence, found.kind), (&entry.key, entry.sequence, entry.kind));
            assert_eq!(found.value, entry.value);
            let mut absent = entry.key.clone();
            absent.push(0);
            if others.first().is_none_or(|other| other.key != absent) && mine.iter().all(|entry| entry.key != absent) {
                assert_eq!(block.get(&absent).unwrap(), None);
            }
        }
    }
    assert!(left.is_empty());
    assert_eq!(next, table.properties().data_bytes);
    assert_eq!(places.len() as u64, table.properties().blocks);
}

/// A key or value in few words, so that a failing input can be read.
#[derive(Debug, Clone)]
enum Bytes {
    These(Vec<u8>),
    Filled { byte: u8, length: usize, then: Vec<u8> },
    Noise { seed: u64, length: usize },
    Bits { seed: u64, length: usize },
}

impl Bytes {
    fn get(&self) -> Vec<u8> {
        match self {
            Bytes::These(bytes) => bytes.clone(),
            Bytes::Filled { byte, length, then } => [vec![*byte; *length], then.clone()].concat(),
            Bytes::Noise { seed, length } => {
                let mut bytes = vec![0; *length];
                MemoryEnv::with_seed(*seed).random_bytes(&mut bytes);
                bytes
            }
            Bytes::Bits { seed, length } => {
                let noise = Bytes::Noise { seed: *seed, length: *length }.get();
                noise.into_iter().map(|byte| byte & 1).collect()
            }
        }
    }
}

fn keys() -> impl Strategy<Value = Bytes> {
    let byte = || prop_oneof![Just(0u8), Just(0xff), Just(b'a'), any::<u8>()];
    let filled = |length| move |(byte, then): (u8, Vec<u8>)| Bytes::Filled { byte, length, then };
    prop_oneof![
        10 => vec(byte(), 0..4).prop_map(Bytes::These),
        10 => vec(byte(), 0..40).prop_map(Bytes::These),
        5 => (byte(), vec(byte(), 0..3)).prop_map(filled(500)),
        1 => (byte(), vec(byte(), 2..3)).prop_map(filled(MAXIMUM_KEY_BYTES - 2)),
    ]
}

fn values() -> impl Strategy<Value = Option<Bytes>> {
    let length = || prop_oneof![20 => 0..200usize, 5 => 3900..4300usize, 1 => 0..(1usize << 20)];
    let noise = (any::<u64>(), length()).prop_map(|(seed, length)| Bytes::Noise { seed, length });
    let bits = (any::<u64>(), length()).prop_map(|(seed, length)| Bytes::Bits { seed, length });
    proptest::option::weighted(0.85, prop_oneof![noise, bits])
}

fn options() -> impl Strategy<Value = TableOptions> {
    let block_bytes = prop_oneof![Just(64usize), Just(4096), 64..20_000usize, Just(1 << 20)];
    let compression = proptest::sample::select(Compression::BUILT_IN);
    (block_bytes, 1..40usize, compression).prop_map(|(block_bytes, restart_interval, compression)| TableOptions {
        block_bytes,
        restart_interval,
        compression,
        ..TableOptions::default()
    })
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn any_table_comes_back(
        entries in vec((keys(), any::<u64>(), values()), 1..120),
        options in options(),
    ) {
        let entries = entries.into_iter().map(|(key, sequence, value)| match value {
            Some(value) => Entry::put(key.get(), sequence, value.get()),
            None => Entry::delete(key.get(), sequence),
        });
        let sorted: BTreeMap<_, _> = entries.map(|entry| (entry.key.clone(), entry)).collect();
        let entries: Vec<_> = sorted.into_values().collect();
        check(&entries, options);
    }
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn versions_of_keys_come_back(
        versions in btree_map((0..12u8, any::<u16>()), (any::<bool>(), 0..60usize), 1..300),
        options in options(),
    ) {
        // A key that is the empty one, and keys that are heads of others.
        let key = |number: u8| vec![number / 4; usize::from(number % 4)];
        let mut entries: Vec<Entry> = versions
            .into_iter()
            .map(|((number, sequence), (is_put, length))| match is_put {
                true => Entry::put(key(number), sequence.into(), vec![sequence as u8; length]),
                false => Entry::delete(key(number), sequence.into()),
            })
            .collect();
        entries.sort_by(|left, right| left.key.cmp(&right.key).then(right.sequence.cmp(&left.sequence)));
        entries.dedup_by(|one, other| (&one.key, one.sequence) == (&other.key, other.sequence));
        check(&entries, options);
    }
}

#[test]
fn the_small_table_comes_back() {
    for &compression in Compression::BUILT_IN {
        check(&small_entries(), small_options(compression));
    }
}

#[test]
fn the_smallest_tables_come_back() {
    for entry in [Entry::put("", 0, ""), Entry::delete("", u64::MAX), Entry::put("k", 1, "v")] {
        check(&[entry], TableOptions::default());
    }
}

#[test]
fn keys_of_the_full_length_come_back() {
    let mut entries = Vec::new();
    for fill in [0, b'k', 0xff] {
        for last in [0u8, 1, 0x7f, 0xff] {
            let mut key = vec![fill; MAXIMUM_KEY_BYTES];
            key[MAXIMUM_KEY_BYTES - 1] = last;
            entries.push(Entry::put(key, u64::from(last), [last]));
        }
        entries.push(Entry::delete(vec![fill; MAXIMUM_KEY_BYTES - 1], 3));
    }
    let sorted: BTreeMap<_, _> = entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
    let entries: Vec<_> = sorted.into_values().collect();
    for &compression in Compression::BUILT_IN {
        check(&entries, TableOptions { compression, ..TableOptions::default() });
        check(
            &entries,
            TableOptions { compression, block_bytes: 1 << 20, restart_interval: 1000, ..TableOptions::default() },
        );
    }
}

#[test]
fn a_large_value_comes_back() {
    let mut noise = vec![0; 20 << 20];
    MemoryEnv::with_seed(1).random_bytes(&mut noise);
    let zeros = vec![0; 20 << 20];
    for large in [noise, zeros] {
        let entries = [Entry::put("before", 1, "small"), Entry::put("large", 2, large), Entry::put("then", 3, "small")];
        check(&entries, TableOptions::default());
    }
}

#[test]
fn many_keys_come_back() {
    let count = budgeted(40_000);
    let entries: Vec<_> =
        (0..count).map(|number| Entry::put(format!("user{number:016}"), u64::from(number) * 3, [0x55; 20])).collect();
    for &compression in Compression::BUILT_IN {
        check(&entries, TableOptions { compression, ..TableOptions::default() });
    }
}

#[test]
fn a_table_comes_back_from_a_real_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("7.table");
    let env = OsEnv::new();
    let mut builder = TableBuilder::new(&env, &path, NUMBER, UUID, TableOptions::default()).unwrap();
    for entry in small_entries() {
        builder.add(&entry.key, entry.sequence, entry.kind, &entry.value).unwrap();
    }
    let finished = builder.finish().unwrap();
    let table = TableReader::open(&env, &path, NUMBER, UUID).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), finished.length_bytes);
    assert!(table.verify(&mut |_| {}).is_empty());
    let key = keys_of(&table.key_section().unwrap()).unwrap().remove(4);
    assert!(table.read_block(key.place).unwrap().get(&key.key).unwrap().is_some());
    assert!(TableBuilder::new(&env, &path, NUMBER, UUID, TableOptions::default()).is_err(), "written over");
}

/// What [`TableBuilder`] is asked that it must refuse leaves it as it was.
#[test]
fn wrong_requests_are_refused_and_change_nothing() {
    let env = MemoryEnv::new();
    let mut builder = builder(&env, TableOptions::default()).unwrap();
    builder.add(b"b", 1, EntryKind::Put, b"value").unwrap();
    let estimate = builder.estimated_bytes();
    let refused: [(&[u8], EntryKind, &[u8], &str); 5] = [
        (b"b", EntryKind::Put, b"", "not larger than the one before"),
        (b"", EntryKind::Put, b"", "not larger than the one before"),
        (b"a\xff", EntryKind::Delete, b"", "not larger than the one before"),
        (b"c", EntryKind::Delete, b"value", "a delete with a value"),
        (&[b'c'; MAXIMUM_KEY_BYTES + 1], EntryKind::Put, b"", "a key of 65536 bytes"),
    ];
    for (key, kind, value, why) in refused {
        match builder.add(key, 2, kind, value) {
            Err(Error::Invalid { what }) => assert!(what.contains(why), "{what}"),
            other => panic!("{why}: {other:?}"),
        }
    }
    let too_long = vec![0; MAXIMUM_VALUE_BYTES + 1];
    assert!(matches!(builder.add(b"c", 2, EntryKind::Put, &too_long), Err(Error::Invalid { .. })));
    assert_eq!(builder.estimated_bytes(), estimate);
    builder.add(b"c", 2, EntryKind::Put, b"").unwrap();
    builder.finish().unwrap();
    assert_eq!(read_all(&env).unwrap(), [Entry::put("b", 1, "value"), Entry::put("c", 2, "")]);
}

#[test]
fn wrong_options_are_refused() {
    let env = MemoryEnv::new();
    let defaults = TableOptions::default();
    for options in [
        TableOptions { block_bytes: 63, ..defaults },
        TableOptions { block_bytes: (1 << 20) + 1, ..defaults },
        TableOptions { restart_interval: 0, ..defaults },
    ] {
        assert!(matches!(builder(&env, options), Err(Error::Invalid { .. })));
    }
    assert_eq!(env.content(PATH), None, "no file was made");
    let empty = builder(&env, defaults).unwrap();
    assert!(matches!(empty.finish(), Err(Error::Invalid { .. })));
}

/// The writes go nowhere; what counts is that the file ends in time and could still be finished.
#[test]
fn a_file_stays_below_4_gib() {
    let env = WatchedEnv::that_discards_writes(MemoryEnv::new());
    let mut builder =
        builder(&env, TableOptions { compression: Compression::None, ..TableOptions::default() }).unwrap();
    let value = vec![0; 64 << 20];
    let mut added = 0u64;
    let refused = loop {
        match builder.add(&added.to_be_bytes(), added, EntryKind::Put, &value) {
            Ok(()) => added += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&refused, Error::Invalid { what } if what.contains("would pass 4294967295 bytes")), "{refused}");
    assert_eq!(added, 63);
    let room = MAXIMUM_FILE_BYTES - builder.estimated_bytes();
    let fitting = &value[..room as usize - 200];
    builder.add(&added.to_be_bytes(), added, EntryKind::Put, fitting).unwrap();
    assert!(builder.add(&[0xff; 9], 0, EntryKind::Put, &[0; 200]).is_err());
    let finished = builder.finish().unwrap();
    assert!(finished.length_bytes <= MAXIMUM_FILE_BYTES);
    assert!(finished.length_bytes > MAXIMUM_FILE_BYTES - 1000);
    let written: usize = env.take_notes().writes.iter().map(|(_, length)| length).sum();
    assert_eq!(written as u64, finished.length_bytes);
}

#[test]
fn readers_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<TableReader>();
    shared::<slmdb_table::Block>();
    shared::<slmdb_table::KeySection>();
    let env = MemoryEnv::new();
    let finished = build(&env, &small_entries(), small_options(Compression::Lz4)).unwrap();
    let table = open(&env).unwrap();
    let keys = keys_of(&finished.keys).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (key, entry) in keys.iter().zip(small_entries()) {
                    let block = table.read_block(key.place).unwrap();
                    let found = block.get_version(&key.key, key.sequence).unwrap().unwrap();
                    assert_eq!(found.value, entry.value);
                }
            });
        }
    });
}

#[test]
fn a_table_in_a_file_with_space_set_aside_is_cut_to_its_length() {
    let env = MemoryEnv::new();
    env.set_content("/aside", &[0xab; 100_000]);
    let file = env.open_file("/aside".as_ref(), OpenMode::ReadWrite).unwrap();
    env.rename("/aside".as_ref(), PATH.as_ref()).unwrap();
    let options = TableOptions::default();
    let mut builder =
        TableBuilder::in_file(file, &env, PATH.as_ref(), NUMBER, UUID, options, KeyOrder::Bytewise).unwrap();
    for entry in &small_entries() {
        builder.add(&entry.key, entry.sequence, entry.kind, &entry.value).unwrap();
    }
    let finished = builder.finish().unwrap();
    assert_eq!(env.content(PATH).unwrap().len() as u64, finished.length_bytes);
    assert_eq!(read_all(&env).unwrap(), small_entries());
}

/// From a mark of its chunk a key is a few entries away, and the rest of the section follows.
#[test]
fn a_key_is_found_in_its_chunk_and_the_rest_follows() {
    for compression in [Compression::None, Compression::Lz4] {
        let env = MemoryEnv::new();
        // Of every tenth key there are some versions.
        let versions = |number: u64| if number.is_multiple_of(10) { 5 } else { 1 };
        let entries: Vec<Entry> = (0..8_000_u64)
            .flat_map(|number| (0..versions(number)).rev().map(move |version| (number, version)))
            .map(|(number, version)| Entry::put(format!("key {number:08}"), 10 * number + version, "value"))
            .collect();
        build(&env, &entries, TableOptions { compression, ..TableOptions::default() }).unwrap();
        let table = Arc::new(open(&env).unwrap());
        let keys = keys_of(&table.key_section().unwrap()).unwrap();
        let mut stream = KeyStream::new(&table);
        assert!(stream.chunks() > 2, "{}", stream.chunks());
        let chunks: Vec<_> = (0..stream.chunks()).map(|chunk| stream.read_chunk(&table, chunk).unwrap()).collect();
        let firsts: Vec<_> = (0..stream.chunks()).map(|chunk| stream.first_key(&table, chunk).unwrap()).collect();
        for (at, key) in keys.iter().enumerate().filter(|(at, key)| *at == 0 || keys[at - 1].key != key.key) {
            // (A key's versions may begin at the end of the chunk before the one that begins with it.)
            let chunk = firsts.partition_point(|first| *first < key.key).saturating_sub(1);
            stream.enter(&chunks[chunk], &key.key);
            let mut passed = 0;
            while stream.advance(|| Ok(table.clone())).unwrap() && stream.entry().unwrap().key < &key.key[..] {
                passed += 1;
            }
            assert!(passed <= 32, "{passed} entries before the key");
            assert_eq!(stream.ordinal(), Some(at as u64));
            let here = stream.entry().unwrap();
            assert_eq!((here.key, here.sequence, here.place), (&key.key[..], key.sequence, key.place));
        }
        for from in [0, 1, keys.len() / 2, keys.len() - 1] {
            let chunk = firsts.partition_point(|first| *first < keys[from].key).saturating_sub(1);
            stream.enter(&chunks[chunk], &keys[from].key);
            let mut followed = Vec::new();
            while stream.advance(|| Ok(table.clone())).unwrap() {
                followed.push(stream.entry().unwrap().sequence);
            }
            let all: Vec<u64> = keys.iter().map(|key| key.sequence).collect();
            assert!(all.ends_with(&followed) && followed.len() + from >= all.len(), "from {from}");
        }
    }
}
