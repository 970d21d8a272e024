//! What costs how many reads: a block one, of exactly its bytes; opening two; the key section one a chunk.

use crate::support::watched::WatchedEnv;
use crate::support::{Entry, NUMBER, UUID, keys_of, places_of, small_entries};
use slmdb_env::{Env, OsEnv};
use slmdb_table::{Compression, EntryKind, MappedRead, Piece, Place, TableBuilder, TableOptions, TableReader};
use slmdb_testkit::MemoryEnv;

/// A sync that finds nothing on the device yet waits for the whole file.
#[test]
fn the_device_begins_with_a_file_before_it_is_whole() {
    let env = WatchedEnv::new(MemoryEnv::new());
    let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
    let mut builder = TableBuilder::new(&env, "/file".as_ref(), NUMBER, UUID, options).unwrap();
    let value = vec![7; 10_000];
    (0..1000_u32).for_each(|key| builder.add(&key.to_be_bytes(), 1, EntryKind::Put, &value).unwrap());
    let length_bytes = builder.finish().unwrap().length_bytes;
    let told = env.take_notes().advised_written;
    let mut end = 0;
    for &(offset, length) in &told {
        assert_eq!(offset, end, "one piece behind the other");
        end += length;
    }
    assert!(told.len() >= 4 && end <= length_bytes && length_bytes - end < 3 << 20, "{told:?} of {length_bytes}");
}

/// Values of every size around a block's, compressible or not.
fn entries() -> Vec<Entry> {
    let mut entries = small_entries();
    let mut noise = vec![0; 100_000];
    MemoryEnv::with_seed(3).random_bytes(&mut noise);
    for length in [1, 100, 1000, 4000, 4096, 5000, 100_000] {
        entries.push(Entry::put(format!("long{length:06}"), 1, &noise[..length]));
        entries.push(Entry::put(format!("zero{length:06}"), 1, vec![0; length]));
    }
    entries.sort_by(|left, right| left.key.cmp(&right.key));
    entries
}

fn check<E: Env>(env: &WatchedEnv<E>, path: &std::path::Path, compression: Compression) {
    let options = TableOptions { compression, ..TableOptions::default() };
    let mut builder = TableBuilder::new(env, path, NUMBER, UUID, options).unwrap();
    let entries = entries();
    for entry in &entries {
        builder.add(&entry.key, entry.sequence, entry.kind, &entry.value).unwrap();
    }
    let finished = builder.finish().unwrap();
    let notes = env.take_notes();
    assert!(notes.reads.is_empty(), "building reads nothing back");
    let mut end = 0;
    for (offset, length) in notes.writes {
        assert_eq!(offset, end, "writes go from front to back");
        end += length as u64;
    }
    assert_eq!(end, finished.length_bytes);

    let table = TableReader::open(env, path, NUMBER, UUID).unwrap();
    let notes = env.take_notes();
    assert_eq!(notes.reads.len(), 2, "footer and properties");
    assert!(notes.advised_random);

    for (key, entry) in keys_of(&finished.keys).unwrap().into_iter().zip(&entries) {
        let block = table.read_block(key.place).unwrap();
        let value = block.get_version(&key.key, key.sequence).unwrap().unwrap().value;
        assert_eq!(env.take_notes().reads, [(key.place.offset.into(), key.place.length as usize)]);
        assert_eq!(value, entry.value);
        if compression == Compression::None && !value.is_empty() {
            assert_eq!(value.pinned_bytes(), key.place.length as usize, "the value lies where it was read");
        }
    }

    assert_eq!(table.key_section().unwrap().len(), entries.len() as u64);
    assert_eq!(env.take_notes().reads.len(), 1, "one chunk");

    let mut sequential = table.sequential(1 << 20);
    for place in places_of(&finished.keys).unwrap() {
        sequential.read_block(place).unwrap();
    }
    assert_eq!(env.take_notes().reads, [(0, finished.properties.data_bytes as usize)], "all blocks in one window");

    let mut piece = Piece::new(1 << 10, 1 << 14);
    for place in places_of(&finished.keys).unwrap() {
        table.read_block_ahead(place, &mut piece, usize::MAX).unwrap();
    }
    let lengths: Vec<usize> = env.take_notes().reads.into_iter().map(|(_, length)| length).collect();
    let longest = places_of(&finished.keys).unwrap().iter().map(|place| place.length as usize).max().unwrap();
    assert!(lengths[0] < 1 << 13 && lengths.contains(&(1 << 14)), "{lengths:?}");
    assert!(lengths.iter().all(|length| *length <= longest.max(1 << 14)), "{lengths:?}");
}

#[test]
fn a_block_is_one_read_in_memory() {
    for &compression in Compression::BUILT_IN {
        check(&WatchedEnv::new(MemoryEnv::new()), "/7.table".as_ref(), compression);
    }
}

#[test]
fn a_block_is_one_read_of_a_real_file() {
    for &compression in Compression::BUILT_IN {
        let directory = tempfile::tempdir().unwrap();
        check(&WatchedEnv::new(OsEnv::new()), &directory.path().join("7.table"), compression);
    }
}

/// However small the window and however large the gaps, the blocks are right and no window is larger than it must be.
#[test]
fn a_sequential_reader_may_leave_out_blocks() {
    let env = WatchedEnv::new(MemoryEnv::new());
    let finished =
        crate::support::build(&env, &entries(), TableOptions { block_bytes: 512, ..TableOptions::default() }).unwrap();
    let table = crate::support::open(&env).unwrap();
    let places = places_of(&finished.keys).unwrap();
    let longest = places.iter().map(|place| place.length as usize).max().unwrap();
    for window_bytes in [0, 1, 700, 5000] {
        for step in [1, 2, 5] {
            let mut sequential = table.sequential(window_bytes);
            for &place in places.iter().step_by(step).chain(places.iter().rev().step_by(step)) {
                let block = sequential.read_block(place).unwrap();
                let expected = table.read_block(place).unwrap();
                assert!(block.entries().map(Result::unwrap).eq(expected.entries().map(Result::unwrap)));
                assert!(sequential.memory_bytes() <= longest.max(window_bytes));
            }
        }
    }
}

#[test]
fn a_value_from_a_mapping_pins_no_block() {
    let env = MemoryEnv::new();
    for &compression in Compression::BUILT_IN {
        let options = TableOptions { compression, ..TableOptions::default() };
        let path = std::path::Path::new("/mapped.table");
        let _ = env.remove_file(path);
        let mut builder = TableBuilder::new(&env, path, NUMBER, UUID, options).unwrap();
        let entries = entries();
        for entry in &entries {
            builder.add(&entry.key, entry.sequence, entry.kind, &entry.value).unwrap();
        }
        let finished = builder.finish().unwrap();
        let mut table = TableReader::open(&env, path, NUMBER, UUID).unwrap();
        let keys = keys_of(&finished.keys).unwrap();
        let read = |table: &TableReader, key: &[u8], sequence, place| {
            let before = env.operation_count();
            let read = table.read_mapped_version(place, key, sequence).unwrap();
            (read, env.operation_count() - before)
        };
        let (nothing, reads) = read(&table, &keys[0].key, keys[0].sequence, keys[0].place);
        assert!(matches!(nothing, MappedRead::Nothing) && reads == 0, "it is not mapped yet");
        table.map();
        let mut blocks = 0;
        for (key, entry) in keys.into_iter().zip(&entries) {
            match read(&table, &key.key, key.sequence, key.place) {
                (MappedRead::Entry(found), 1) => {
                    assert_eq!((found.kind, &found.value[..]), (entry.kind, &entry.value[..]));
                    let pinned_bytes = found.value.pinned_bytes();
                    assert!(pinned_bytes <= entry.value.len() + entry.key.len() + 18, "{pinned_bytes}");
                }
                (MappedRead::Block(block), 1) => {
                    blocks += 1;
                    let found = block.get_version(&key.key, key.sequence).unwrap().unwrap();
                    assert_eq!(found.value, entry.value);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(table.has_met_compressed(), compression != Compression::None);
        assert_eq!(blocks > 0, compression != Compression::None, "what is compressed comes in blocks");
        let (missing, _) = read(&table, b"nobody", 1, Place { offset: 0, ..keys_of(&finished.keys).unwrap()[0].place });
        assert!(matches!(missing, MappedRead::Block(_)), "who has not found it has the block to say why");
    }
}

/// Where a value was copied to is used again for the next, but not while somebody has it.
#[test]
fn a_value_that_is_held_stays_what_it_was() {
    let (env, path) = (MemoryEnv::new(), std::path::Path::new("/mapped.table"));
    let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
    let mut builder = TableBuilder::new(&env, path, NUMBER, UUID, options).unwrap();
    for number in 0..4_u8 {
        builder.add(&[number], 1, EntryKind::Put, &[number; 100]).unwrap();
    }
    let keys = keys_of(&builder.finish().unwrap().keys).unwrap();
    let mut table = TableReader::open(&env, path, NUMBER, UUID).unwrap();
    table.map();
    let mut buffer = None;
    let mut read = |number: usize| {
        let key = &keys[number];
        table.read_mapped_entry(key.place, &key.key, key.sequence, &mut buffer).unwrap().unwrap().value
    };
    let first = read(0);
    let (second, kept) = (read(1), first.clone());
    drop(first);
    let third = read(2);
    assert_eq!((&kept[..], &second[..], &third[..]), (&[0; 100][..], &[1; 100][..], &[2; 100][..]));
    let place = third.as_ptr();
    drop(third);
    let again = read(3);
    assert_eq!(again, [3; 100]);
    assert_eq!(again.as_ptr(), place, "the memory of the one before, which nobody has");
    // Another key or version is not this one.
    let (key, mut buffer) = (&keys[0], None);
    assert!(table.read_mapped_entry(key.place, b"x", 1, &mut buffer).unwrap().is_none());
    assert!(table.read_mapped_entry(key.place, &key.key, 2, &mut buffer).unwrap().is_none());
}
