use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::key_chunk_sizes::{CHUNK_BYTES_AT_MOST, RUN_BYTES};
use crate::options::MAXIMUM_KEY_BYTES;
use crate::testing::config;

#[derive(Debug, Clone, PartialEq)]
struct Owned {
    key: Vec<u8>,
    sequence: u64,
    kind: EntryKind,
    place: Place,
}

impl From<KeyEntry<'_>> for Owned {
    fn from(entry: KeyEntry<'_>) -> Owned {
        Owned { key: entry.key.to_vec(), sequence: entry.sequence, kind: entry.kind, place: entry.place }
    }
}

/// Builds a section of these entries, `per_block` to a block.
fn build(
    keys: impl IntoIterator<Item = (Vec<u8>, u64, EntryKind)>,
    per_block: usize,
) -> (Vec<Owned>, Vec<Vec<u8>>, u64) {
    let mut builder = KeySectionBuilder::default();
    let mut expected: Vec<Owned> = Vec::new();
    let (mut offset, mut in_block) = (0, 0);
    let end_run =
        |builder: &mut KeySectionBuilder, expected: &mut Vec<Owned>, offset: &mut u32, in_block: &mut usize| {
            let place = Place { offset: *offset, length: 10 + *offset % 1000 };
            let first = expected.len() - *in_block;
            expected[first..].iter_mut().for_each(|entry| entry.place = place);
            builder.end_run(place);
            *offset = place.end() as u32;
            *in_block = 0;
        };
    for (key, sequence, kind) in keys {
        if in_block > 0 && (in_block == per_block || builder.run_bytes_with(&key) > RUN_BYTES) {
            end_run(&mut builder, &mut expected, &mut offset, &mut in_block);
        }
        builder.add(&key, sequence, kind);
        expected.push(Owned { key, sequence, kind, place: Place { offset: 0, length: 0 } });
        in_block += 1;
    }
    end_run(&mut builder, &mut expected, &mut offset, &mut in_block);
    let estimated = builder.length_bytes();
    let estimated_chunks = builder.chunks();
    let chunks = builder.finish();
    let stored: usize = chunks.iter().map(|chunk| chunk.len() + TRAILER_BYTES).sum();
    assert!(stored as u64 <= estimated, "{stored} bytes, at most {estimated} were expected");
    assert!(chunks.len() <= estimated_chunks);
    (expected, chunks, offset.into())
}

fn section(chunks: &[Vec<u8>], entries: usize, data_bytes: u64) -> KeySection {
    let mut offset = data_bytes;
    let chunks = chunks.iter().map(|content| {
        let chunk = Chunk {
            content: Content { bytes: content.as_slice().into(), length: content.len(), was_compressed: false },
            offset,
        };
        offset += content.len() as u64;
        chunk
    });
    KeySection::new(
        Path::new("7.table").into(),
        chunks.collect(),
        entries as u64,
        data_bytes,
        slmdb_order::KeyOrder::Bytewise,
    )
}

fn read(section: &KeySection) -> Result<Vec<Owned>> {
    section.entries().map(|entry| entry.map(Owned::from)).collect()
}

fn kinds() -> impl Strategy<Value = EntryKind> {
    prop_oneof![Just(EntryKind::Put), Just(EntryKind::Delete)]
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn entries_come_back(keys in btree_map(vec(any::<u8>(), 0..300), (any::<u64>(), kinds()), 1..400), per_block in 1..40usize) {
        let keys = keys.into_iter().map(|(key, (sequence, kind))| (key, sequence, kind));
        let (expected, chunks, data_bytes) = build(keys, per_block);
        let section = section(&chunks, expected.len(), data_bytes);
        prop_assert_eq!(section.len(), expected.len() as u64);
        let mut entries = section.entries();
        entries.next();
        let again = entries.clone().count();
        prop_assert_eq!(entries.count(), again, "a clone goes on where it was");
        prop_assert_eq!(read(&section).unwrap(), expected);
    }

    #[test]
    fn hostile_chunks_give_errors(
        keys in btree_map(vec(any::<u8>(), 0..8), (any::<u64>(), kinds()), 1..60),
        edits in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let keys = keys.into_iter().map(|(key, (sequence, kind))| (key, sequence, kind));
        let (expected, mut chunks, data_bytes) = build(keys, 5);
        for (at, byte) in edits {
            let at = at.index(chunks[0].len());
            chunks[0][at] = byte;
        }
        // Right or an error, but for what is a sound chunk of other content.
        if let Ok(entries) = read(&section(&chunks, expected.len(), data_bytes)) {
            prop_assert_eq!(entries.len(), expected.len());
            prop_assert!(entries.windows(2).all(|two| two[0].key < two[1].key));
            prop_assert_eq!(entries.last().unwrap().place.end(), data_bytes);
        }
    }

    #[test]
    fn noise_gives_errors(content in vec(prop_oneof![0..4u8, any::<u8>()], 0..80)) {
        let entries = section(std::slice::from_ref(&content), 5, 100).entries().count();
        prop_assert!(entries <= content.len() + 1, "what is lent takes bytes, and there is one error at most");
    }
}

fn numbered(count: usize) -> impl Iterator<Item = (Vec<u8>, u64, EntryKind)> {
    (0..count).map(|number| (format!("key{number:017}").into_bytes(), number as u64 * 7, EntryKind::Put))
}

#[test]
fn long_sections_are_cut_into_chunks() {
    let (expected, chunks, data_bytes) = build(numbered(20_000), 28);
    assert!(chunks.len() > 5);
    assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK_BYTES));
    assert!(chunks[..chunks.len() - 1].iter().all(|chunk| chunk.len() > CHUNK_BYTES - 2000), "chunks are filled");
    assert_eq!(read(&section(&chunks, expected.len(), data_bytes)).unwrap(), expected);
}

#[test]
fn a_missing_doubled_or_moved_chunk_is_noticed() {
    let (expected, chunks, data_bytes) = build(numbered(20_000), 28);
    for index in 0..chunks.len() {
        let mut without = chunks.clone();
        without.remove(index);
        assert!(read(&section(&without, expected.len(), data_bytes)).is_err(), "without chunk {index}");
        let mut doubled = chunks.clone();
        doubled.insert(index, chunks[index].clone());
        assert!(read(&section(&doubled, expected.len(), data_bytes)).is_err(), "chunk {index} twice");
    }
    assert!(read(&section(&chunks, expected.len() + 1, data_bytes)).is_err(), "an entry too few");
    assert!(read(&section(&chunks, expected.len(), data_bytes + 1)).is_err(), "a byte of the blocks too few");
}

#[test]
fn a_chunk_that_starts_elsewhere_is_noticed() {
    let (expected, chunks, data_bytes) = build(numbered(20_000), 28);
    let read_with = |change: fn(&mut Vec<u8>)| {
        let mut chunks = chunks.clone();
        change(&mut chunks[2]);
        read(&section(&chunks, expected.len(), data_bytes)).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(read_with(|_| {}), Ok(()));
    let goes_on = "key chunk: does not go on where the one before ended";
    assert!(read_with(|chunk| chunk[0] ^= 1).is_err_and(|error| error.contains(goes_on)), "another ordinal");
    assert!(read_with(|chunk| chunk[12] ^= 1).is_err_and(|error| error.contains(goes_on)), "another block");
    assert!(read_with(|chunk| chunk.push(0)).is_err_and(|error| error.contains("bytes left over")));
    assert!(read_with(|chunk| chunk.truncate(chunk.len() - 1)).is_err_and(|error| error.contains("cut off")));
}

#[test]
fn the_longest_keys_fit() {
    let keys = (0..5u8).map(|last| {
        let mut key = vec![b'k'; MAXIMUM_KEY_BYTES];
        key[MAXIMUM_KEY_BYTES - 1] = last;
        (key, u64::MAX * u64::from(last % 2), EntryKind::Delete)
    });
    let (expected, chunks, data_bytes) = build(keys, 100);
    assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK_BYTES_AT_MOST));
    assert_eq!(read(&section(&chunks, expected.len(), data_bytes)).unwrap(), expected);
}

#[test]
fn after_an_error_there_is_nothing() {
    let (expected, mut chunks, data_bytes) = build(numbered(100), 7);
    chunks[0].truncate(1000);
    let section = section(&chunks, expected.len(), data_bytes);
    let mut entries = section.entries();
    let error = entries.by_ref().find_map(Result::err).expect("an error");
    assert!(matches!(error, Error::Corruption { offset, .. } if offset == data_bytes), "{error}");
    assert!(entries.next().is_none());
}
