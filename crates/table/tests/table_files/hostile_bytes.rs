//! Files that are not what was written: every byte changed, every length cut to, parts zeroed, moved and doubled. Nothing
//! panics, nothing wrong is returned, and the error names the file and the part concerned.

use crate::support::testing::config;
use crate::support::{Entry, NUMBER, PATH, UUID, build, open, places_of, read_all, small_entries, small_options};
use proptest::collection::vec;
use proptest::prelude::*;
use slmdb_env::Error;
use slmdb_table::{Block, Compression, MappedRead, Place, TableOptions, TableReader};
use slmdb_testkit::MemoryEnv;

const FOOTER_BYTES: usize = 80;

/// A sound file, and where its parts start.
struct Sound {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    places: Vec<Place>,
    part_offsets: Vec<u64>,
}

fn sound(entries: Vec<Entry>, options: TableOptions) -> Sound {
    let env = MemoryEnv::new();
    let finished = build(&env, &entries, options).unwrap();
    let bytes = env.content(PATH).unwrap();
    let places = places_of(&finished.keys).unwrap();
    let footer = &bytes[bytes.len() - FOOTER_BYTES..];
    let properties_offset = u64::from_le_bytes(footer[40..48].try_into().unwrap());
    let mut part_offsets: Vec<u64> = places.iter().map(|place| place.offset.into()).collect();
    part_offsets.extend([finished.properties.data_bytes, properties_offset, (bytes.len() - FOOTER_BYTES) as u64]);
    Sound { bytes, entries, places, part_offsets }
}

/// A small table in each compression: one key chunk, some ten blocks.
fn small_tables() -> impl Iterator<Item = Sound> {
    Compression::BUILT_IN.iter().map(|&compression| {
        let sound = sound(small_entries(), small_options(compression));
        let singles = sound.places.iter().filter(|place| sound.bytes[place.end() as usize - 5] & 128 != 0).count();
        assert!(singles > 0, "entries by themselves");
        assert_eq!(singles < sound.places.len(), compression != Compression::None, "blocks");
        assert!(sound.places.len() > 4, "{:?}", sound.places);
        sound
    })
}

impl Sound {
    fn part_of(&self, at: usize) -> u64 {
        *self.part_offsets.iter().rev().find(|&&offset| offset <= at as u64).unwrap()
    }
}

/// The offsets that these findings name, all of which must be corruption.
fn offsets_of(findings: &[Error]) -> Vec<u64> {
    let offset_of = |finding: &Error| match finding {
        Error::Corruption { offset, .. } => *offset,
        other => panic!("{other}"),
    };
    findings.iter().map(offset_of).collect()
}

/// Everything that reading this file's bytes finds wrong. Panics if what is returned as right is not.
fn problems(bytes: &[u8], sound: &Sound) -> Vec<Error> {
    let env = MemoryEnv::new();
    env.set_content(PATH, bytes);
    let mut problems = Vec::new();
    match read_all(&env) {
        Ok(entries) => assert!(entries == sound.entries, "wrong data, and no error"),
        Err(error) => problems.push(error),
    }
    let Ok(table) = open(&env) else { return problems };
    // The index knows the places, whatever has become of the key section.
    for &place in &sound.places {
        match table.read_block(place).map(|block| block.entries().collect::<Result<Vec<_>, _>>()) {
            Ok(Ok(entries)) => {
                for entry in entries {
                    let put = sound
                        .entries
                        .iter()
                        .find(|put| (&put.key, put.sequence) == (&entry.key, entry.sequence))
                        .expect("an entry that was never put");
                    assert_eq!(put.kind, entry.kind);
                    assert_eq!(entry.value, put.value, "a wrong value, and no error");
                }
            }
            Ok(Err(error)) | Err(error) => problems.push(error),
        }
    }
    check_mapped(table_mapped(&env), sound);
    let verified = table.verify(&mut |done_bytes| assert!(done_bytes <= bytes.len() as u64));
    assert_eq!(verified.is_empty(), problems.is_empty(), "verify: {verified:?}, reading: {problems:?}");
    problems.extend(verified);
    problems
}

/// The table with its file mapped.
fn table_mapped(env: &MemoryEnv) -> TableReader {
    let mut table = open(env).unwrap();
    table.map();
    assert_eq!(table.mapped_bytes(), table.length_bytes());
    table
}

/// Through the mapping each block is as it is from the file: with the same entries, or an error about the same place.
fn check_mapped(table: TableReader, sound: &Sound) {
    for &place in &sound.places {
        let entries_of = |block: Block| block.entries().collect::<Result<Vec<_>, _>>();
        let from_file = table.read_block(place).and_then(entries_of);
        let from_mapping = table.read_mapped_block(place).map(Option::unwrap).and_then(entries_of);
        match (&from_file, from_mapping) {
            (Ok(entries), Ok(mapped)) => assert_eq!(*entries, mapped),
            (Err(error), Err(mapped)) => assert_eq!(error.to_string(), mapped.to_string()),
            (_, mapped) => panic!("{from_file:?} from the file, {mapped:?} from the mapping"),
        }
        for entry in from_file.iter().flatten() {
            let value_in = |block: Block| block.get_version(&entry.key, entry.sequence).unwrap().unwrap();
            let found = match table.read_mapped_version(place, &entry.key, entry.sequence).unwrap() {
                MappedRead::Nothing => panic!("all is in memory"),
                MappedRead::Entry(found) => found,
                MappedRead::Block(block) => value_in(block),
            };
            assert_eq!((found.kind, &found.value), (entry.kind, &entry.value));
        }
        if from_file.is_err() {
            for entry in &sound.entries {
                match table.read_mapped_version(place, &entry.key, entry.sequence) {
                    Ok(MappedRead::Entry(found)) => assert_eq!(found.value, entry.value, "a wrong value, and no error"),
                    // Then the error is that of the entry that is wrong.
                    Ok(MappedRead::Block(block)) => assert!(block.entries().any(|entry| entry.is_err())),
                    Ok(MappedRead::Nothing) => panic!("all is in memory"),
                    Err(Error::Corruption { offset, .. }) => assert_eq!(offset, u64::from(place.offset)),
                    Err(other) => assert!(matches!(other, Error::Unsupported { .. }), "{other}"),
                }
            }
        }
    }
}

/// As [`problems`]; there must be some, and all about this part of the file.
fn assert_corrupt_at(bytes: &[u8], sound: &Sound, part_offset: u64, change: &str) {
    let problems = problems(bytes, sound);
    assert!(!problems.is_empty(), "{change}: not noticed");
    for problem in problems {
        match problem {
            Error::Corruption { ref file, offset, .. } => {
                assert_eq!(file.to_str(), Some(PATH));
                assert_eq!(offset, part_offset, "{change}: {problem}");
            }
            other => panic!("{change}: {other}"),
        }
    }
}

#[test]
fn every_bit_of_a_file_counts() {
    for sound in small_tables() {
        for at in 0..sound.bytes.len() {
            let mut bytes = sound.bytes.clone();
            for flip in (0..8).map(|bit| 1 << bit).chain([0xff]) {
                bytes[at] = sound.bytes[at] ^ flip;
                assert_corrupt_at(&bytes, &sound, sound.part_of(at), &format!("byte {at} ^ {flip:#x}"));
            }
        }
    }
}

#[test]
fn a_cut_file_is_no_table() {
    for sound in small_tables() {
        for length in 0..sound.bytes.len() {
            let problems = problems(&sound.bytes[..length], &sound);
            assert!(matches!(problems[..], [Error::Corruption { .. }]), "cut to {length} bytes: {problems:?}");
        }
    }
}

#[test]
fn a_grown_file_is_no_table() {
    for sound in small_tables() {
        let footer = &sound.bytes[sound.bytes.len() - FOOTER_BYTES..];
        let mut more: Vec<Vec<u8>> = (1..200).map(|count| vec![0; count]).collect();
        more.extend([vec![1], vec![0xff; 4096], footer.to_vec(), sound.bytes.clone()]);
        for more in more {
            let bytes = [sound.bytes.as_slice(), &more].concat();
            assert!(!problems(&bytes, &sound).is_empty(), "grown by {} bytes", more.len());
        }
        assert!(!problems(&[&[0], sound.bytes.as_slice()].concat(), &sound).is_empty(), "grown at the front");
    }
}

#[test]
fn zeroed_stretches_are_noticed() {
    for sound in small_tables() {
        for length in [1, 2, 7, 64, 512, sound.bytes.len()] {
            for start in (0..sound.bytes.len()).step_by(length.div_ceil(3)) {
                let mut bytes = sound.bytes.clone();
                let end = (start + length).min(bytes.len());
                bytes[start..end].fill(0);
                let changed = bytes != sound.bytes;
                assert_eq!(!problems(&bytes, &sound).is_empty(), changed, "{length} bytes from {start} zeroed");
            }
        }
    }
}

#[test]
fn cut_out_and_doubled_stretches_are_noticed() {
    for sound in small_tables() {
        for start in (0..sound.bytes.len()).step_by(5) {
            for length in [1, 9, 80] {
                let end = (start + length).min(sound.bytes.len());
                let without = [&sound.bytes[..start], &sound.bytes[end..]].concat();
                assert!(!problems(&without, &sound).is_empty(), "without {start}..{end}");
                let twice = [&sound.bytes[..end], &sound.bytes[start..]].concat();
                assert!(!problems(&twice, &sound).is_empty(), "{start}..{end} twice");
            }
        }
    }
}

/// Two blocks of equal length, each whole, in each other's place.
#[test]
fn exchanged_blocks_are_noticed() {
    let entries: Vec<_> = (0..10u8).map(|number| Entry::put([number; 8], 1, [number; 4000])).collect();
    let sound = sound(entries, TableOptions { compression: Compression::None, ..TableOptions::default() });
    let (first, second) = (sound.places[2], sound.places[6]);
    assert_eq!(first.length, second.length);
    let mut bytes = sound.bytes.clone();
    let range = |place: Place| place.offset as usize..place.end() as usize;
    bytes[range(first)].copy_from_slice(&sound.bytes[range(second)]);
    bytes[range(second)].copy_from_slice(&sound.bytes[range(first)]);
    let env = MemoryEnv::new();
    env.set_content(PATH, &bytes);
    let table = open(&env).unwrap();
    let found = table.verify(&mut |_| {});
    assert_eq!(offsets_of(&found), [u64::from(first.offset), u64::from(second.offset)]);
    assert!(table.read_block(first).is_err());
}

#[test]
fn another_file_of_the_store_or_another_stores_is_refused() {
    let env = MemoryEnv::new();
    build(&env, &small_entries(), TableOptions::default()).unwrap();
    for (number, uuid) in [(NUMBER + 1, UUID), (NUMBER, [0; 16])] {
        let opened = TableReader::open(&env, PATH.as_ref(), number, uuid);
        assert!(matches!(opened, Err(Error::Corruption { .. })), "{opened:?}");
    }
}

/// A damaged index can ask for any place. No more memory is taken for it than the file is long.
#[test]
fn places_that_are_none_are_refused() {
    let env = MemoryEnv::new();
    let finished = build(&env, &small_entries(), small_options(Compression::Lz4)).unwrap();
    let table = open(&env).unwrap();
    let places = places_of(&finished.keys).unwrap();
    let data_bytes = finished.properties.data_bytes as u32;
    let lengths = [0, 1, 8, 9, 10, 11, 100, 255, data_bytes, data_bytes + 1, u32::MAX - 1, u32::MAX];
    for offset in (0..data_bytes + 100).chain([u32::MAX - 100, u32::MAX]) {
        let right = places.iter().find(|place| place.offset == offset);
        for length in lengths.into_iter().chain(right.map(|place| place.length + 1)) {
            let place = Place { offset, length };
            if right == Some(&place) {
                continue;
            }
            for result in [table.read_block(place), table.sequential(1 << 20).read_block(place)] {
                match result {
                    Err(Error::Corruption { offset: named, .. }) => assert_eq!(named, offset.into()),
                    other => panic!("{place:?}: {other:?}"),
                }
            }
        }
    }
}

/// A file that changes while it is open.
#[test]
fn verify_looks_at_the_file_anew() {
    for sound in small_tables() {
        let env = MemoryEnv::new();
        env.set_content(PATH, &sound.bytes);
        let table = open(&env).unwrap();
        assert!(table.verify(&mut |_| {}).is_empty());
        for at in 0..sound.bytes.len() {
            let mut bytes = sound.bytes.clone();
            bytes[at] ^= 0x10;
            env.set_content(PATH, &bytes);
            let found = table.verify(&mut |_| {});
            assert_eq!(offsets_of(&found), [sound.part_of(at)], "byte {at}");
        }
        env.set_content(PATH, &sound.bytes);
        assert!(table.verify(&mut |_| {}).is_empty());
    }
}

/// Chunks stand for themselves: damage to one is one finding, and the others' keys and blocks are still checked.
#[test]
fn a_damaged_chunk_costs_its_own_keys_only() {
    let entries: Vec<_> = (0..12_000u32).map(|number| Entry::put(format!("key{number:020}"), 1, "v")).collect();
    let sound = sound(entries, TableOptions { compression: Compression::None, ..TableOptions::default() });
    let keys_offset = sound.part_offsets[sound.places.len()] as usize;
    let mut bytes = sound.bytes.clone();
    bytes[keys_offset + 30_000] ^= 1;
    let second_to_last = sound.places[sound.places.len() - 2];
    bytes[second_to_last.offset as usize + 5] ^= 1;
    bytes[20] ^= 1;
    let env = MemoryEnv::new();
    env.set_content(PATH, &bytes);
    let table = open(&env).unwrap();
    assert!(table.key_section().is_err());
    let found = table.verify(&mut |_| {});
    let offsets = offsets_of(&found);
    assert_eq!((offsets.len(), offsets[0], offsets[2]), (3, 0, second_to_last.offset.into()), "{found:?}");
    assert!(offsets[1] > keys_offset as u64, "{found:?}");
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn random_damage_is_noticed(
        edits in vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in proptest::option::weighted(0.1, any::<prop::sample::Index>()),
        kind in 0..Compression::BUILT_IN.len(),
    ) {
        let sound = small_tables().nth(kind).unwrap();
        let mut bytes = sound.bytes.clone();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        prop_assert_eq!(problems(&bytes, &sound).is_empty(), bytes == sound.bytes);
    }

    #[test]
    fn noise_is_no_table(bytes in vec(any::<u8>(), 0..400)) {
        let env = MemoryEnv::new();
        env.set_content(PATH, &bytes);
        let is_corrupt = matches!(open(&env), Err(Error::Corruption { .. }));
        prop_assert!(is_corrupt);
    }
}
