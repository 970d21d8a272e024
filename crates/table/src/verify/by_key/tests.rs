//! Files whose every checksum is right and whose index is wrong: verification finds it; reading gives errors or what is in the
//! blocks, and nothing worse.

use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Env, Error, OpenMode};
use slmdb_testkit::MemoryEnv;

use crate::compression::Compression;
use crate::entry::{EntryKind, NewEntry};
use crate::footer::{FOOTER_BYTES, Footer, HAS_INDEX};
use crate::index_builder::IndexBuilder;
use crate::index_chunk::{GOES_ON, HEADER_BYTES, ROW_BYTES};
use crate::part::{Identity, PartKind};
use crate::properties::Properties;
use crate::writer::PartWriter;
use crate::{TableCursor, TableReader};
use slmdb_filter::LINE_BYTES;

const UUID: [u8; 16] = [7; 16];
const PATH: &str = "/7.table";
/// Long enough for two chunks.
const KEYS: usize = 6;

type Change<'a> = &'a dyn Fn(&mut Vec<Vec<u8>>);

fn key(number: usize) -> Vec<u8> {
    [&[b'k'; 1400][..], &[number as u8]].concat()
}

/// Entries by themselves: of each key one, of the second two. `chunks` and `top` change what is written of the index.
fn write(env: &MemoryEnv, chunks: Change<'_>, top: &dyn Fn(&mut Vec<u8>), lengths: &dyn Fn(&mut Vec<u32>)) {
    let file = env.open_file(Path::new(PATH), OpenMode::CreateNew).unwrap();
    let mut writer = PartWriter::new(file, Identity::new(UUID, 7), Compression::None);
    let (mut properties, mut index) = (Properties::new(7, 0), IndexBuilder::new(true, 10));
    let mut items: Vec<(Vec<u8>, u64)> = (0..KEYS).map(|number| (key(number), 9)).collect();
    items.insert(2, (key(1), 4));
    for (at, (key, sequence)) in items.iter().enumerate() {
        let entry = NewEntry { key, sequence: *sequence, kind: EntryKind::Put, value: b"value" };
        let place = writer.add_single(&entry).unwrap();
        index.add(key);
        properties.count(key, *sequence, EntryKind::Put, 5, at == 2);
        properties.blocks += 1;
        let next = items.get(at + 1).map(|(key, _)| &key[..]);
        index.end_block(place, (key, *sequence), next, at as u32 + 1);
    }
    (properties.data_bytes, properties.largest_key) = (writer.offset(), key(KEYS - 1));
    let (mut contents, mut top_builder) = index.finish();
    assert!(contents.len() > 1, "one chunk alone");
    chunks(&mut contents);
    for content in contents {
        writer.buffer().extend_from_slice(&content);
        top_builder.push(writer.seal_as_it_is(PartKind::IndexChunk).unwrap());
    }
    let mut content = top_builder.finish();
    top(&mut content);
    writer.buffer().extend_from_slice(&content);
    let mut chunk_lengths = vec![writer.seal_as_it_is(PartKind::IndexTop).unwrap().length];
    lengths(&mut chunk_lengths);
    let properties_offset = writer.offset();
    properties.encode(&chunk_lengths, writer.buffer());
    let properties_bytes = writer.seal(PartKind::Properties).unwrap().length.into();
    let footer = Footer {
        store_uuid: UUID,
        number: 7,
        key_section_offset: properties.data_bytes,
        key_section_bytes: properties_offset - properties.data_bytes,
        properties_offset,
        properties_bytes,
        file_bytes: properties_offset + properties_bytes + FOOTER_BYTES as u64,
        optional_parts: HAS_INDEX,
    };
    writer.buffer().extend_from_slice(&footer.encode());
    writer.finish().unwrap();
}

/// What opening and verifying finds. Reading in every way ends, whatever it says.
fn findings(env: &MemoryEnv) -> Vec<String> {
    let table = match TableReader::open(env, Path::new(PATH), 7, UUID) {
        Ok(table) => Arc::new(table),
        Err(error) => return vec![error.to_string()],
    };
    let found = table.verify(&mut |_| {});
    read(&table, found.is_empty());
    found.iter().map(Error::to_string).collect()
}

/// Reads in every way. Whatever is wrong must be an error.
fn read(table: &Arc<TableReader>, is_sound: bool) {
    let noted = |error: Error| assert!(!is_sound && matches!(error, Error::Corruption { .. }), "{error}");
    let mut cursor = TableCursor::new(table, table.clone()).unwrap();
    for number in 0..KEYS {
        for at_most in [0, 4, 5, 9, u64::MAX] {
            match table.find(&key(number), at_most, table) {
                Ok(found) => assert!(!is_sound || found.is_some() == (at_most >= 9 || (number == 1 && at_most >= 4))),
                Err(error) => noted(error),
            }
        }
        let moved =
            cursor.seek(&key(number)).and_then(|()| cursor.prev()).and_then(|()| cursor.seek_before(&key(number)));
        moved.and_then(|()| cursor.next()).unwrap_or_else(noted);
        table.entries_before(&key(number), table).map(drop).unwrap_or_else(noted);
    }
    let mut steps = 0;
    let mut moved = cursor.seek_first();
    while moved.is_ok() && cursor.valid() {
        moved = cursor.next();
        steps += 1;
    }
    assert!(steps <= KEYS + 1 && (!is_sound || steps == KEYS + 1));
    moved.unwrap_or_else(noted);
    let mut scan = table.scan(64).unwrap();
    let mut steps = 0;
    while scan.advance().map_err(noted) == Ok(true) {
        steps += 1;
    }
    assert!(steps <= KEYS + 1 && (!is_sound || steps == KEYS + 1));
}

fn with_chunks(change: Change<'_>) -> Vec<String> {
    let env = MemoryEnv::new();
    write(&env, change, &|_| {}, &|_| {});
    findings(&env)
}

fn with_top(change: &dyn Fn(&mut Vec<u8>)) -> Vec<String> {
    let env = MemoryEnv::new();
    write(&env, &|_| {}, change, &|_| {});
    findings(&env)
}

fn assert_found(findings: &[String], expected: &str) {
    assert!(findings.iter().any(|finding| finding.contains(expected)), "{expected}: {findings:#?}");
}

/// Changes a number of a row's three: where its separator ends, where its block ends, how many entries are before that.
fn change(content: &mut [u8], row: usize, field: usize, to: impl Fn(u32) -> u32) {
    let at = HEADER_BYTES + row * ROW_BYTES + 4 * field;
    let now = u32::from_le_bytes(content[at..at + 4].try_into().unwrap());
    content[at..at + 4].copy_from_slice(&to(now).to_le_bytes());
}

#[test]
fn a_sound_file_is_sound() {
    assert_eq!(with_chunks(&|_| {}), Vec::<String>::new());
}

#[test]
fn wrong_rows_are_found() {
    assert_found(&with_chunks(&|chunks| change(&mut chunks[0], 0, 0, |_| 100)), "index chunk: a separator");
    assert_found(&with_chunks(&|chunks| change(&mut chunks[0], 0, 0, |end| end | GOES_ON)), "index chunk: ");
    assert_found(&with_chunks(&|chunks| change(&mut chunks[0], 1, 0, |end| end & !GOES_ON)), "index chunk: ");
    assert_found(&with_chunks(&|chunks| change(&mut chunks[0], 0, 0, |_| 1 << 20)), "index chunk: a separator");
    assert_found(&with_chunks(&|chunks| change(&mut chunks[0], 0, 1, |end| end - 1)), "checksum does not match");
    assert_found(&with_chunks(&|chunks| change(&mut chunks[0], 0, 1, |_| 0)), "its rows do not ascend");
    assert_found(&with_chunks(&|chunks| change(&mut chunks[0], 0, 1, |_| u32::MAX)), "its rows do not ascend");
    assert_found(&with_chunks(&|chunks| change(&mut chunks[0], 0, 2, |_| 0)), "its rows do not ascend");
    // The whole count is right.
    assert_found(&with_chunks(&|chunks| change(&mut chunks[1], 0, 2, |entries| entries + 1)), "index chunk: ");
}

#[test]
fn wrong_separators_are_found() {
    // The separators of the first chunk begin behind its rows.
    let rows = |chunk: &[u8]| u32::from_le_bytes(chunk[..4].try_into().unwrap()) as usize;
    let first = |chunk: &[u8]| HEADER_BYTES + rows(chunk) * ROW_BYTES;
    let smaller = with_chunks(&|chunks| {
        let at = first(&chunks[0]);
        chunks[0][at] -= 1;
    });
    assert_found(&smaller, "a separator is before what it stands behind");
    let greater = with_chunks(&|chunks| {
        let at = first(&chunks[0]);
        chunks[0][at] += 1;
    });
    assert_found(&greater, "index chunk: ");
    let last = with_chunks(&|chunks| {
        let at = first(&chunks[1]);
        let end = chunks[1].len() - LINE_BYTES;
        chunks[1][at..end].fill(b'l');
    });
    assert_found(&last, "not what the top says of it");
}

#[test]
fn wrong_filters_are_found() {
    let without_a_bit = with_chunks(&|chunks| {
        let at = chunks[0].len() - LINE_BYTES;
        chunks[0][at..].fill(0);
    });
    assert_found(&without_a_bit, "its filter is not that of its keys");
    for (at, to, expected) in
        [(12, 0, "its lengths"), (12, 1 << 26, "its lengths"), (16, 41, "its lengths"), (16, 5, "its filter")]
    {
        let changed = with_chunks(&|chunks| chunks[0][at..at + 4].copy_from_slice(&u32::to_le_bytes(to)));
        assert_found(&changed, expected);
    }
}

#[test]
fn chunks_that_are_exchanged_come_twice_or_are_cut_are_found() {
    assert_found(&with_chunks(&|chunks| chunks.swap(0, 1)), "not what the top says of it");
    assert_found(&with_chunks(&|chunks| chunks[1] = chunks[0].clone()), "not what the top says of it");
    for length in 0..60 {
        assert_found(&with_chunks(&|chunks| chunks[0].truncate(length)), "index chunk: ");
    }
}

#[test]
fn a_wrong_top_is_refused() {
    for row in 0..2 {
        for field in 0..3 {
            for to in [0, 1, u32::MAX / 2, u32::MAX] {
                let found = with_top(&|top| change(top, row, field, |_| to));
                assert!(!found.is_empty(), "row {row}, field {field}: {to}");
            }
        }
    }
    for at in (0..HEADER_BYTES).step_by(4) {
        for to in [0, 1, 7, u32::MAX] {
            let found = with_top(&|top| {
                let same = top[at..at + 4] == u32::to_le_bytes(to);
                top[at..at + 4].copy_from_slice(&u32::to_le_bytes(if same { 9 } else { to }));
            });
            assert!(!found.is_empty(), "{to} at {at}");
        }
    }
    for length in 0..50 {
        assert_found(&with_top(&|top| top.truncate(length)), "index top: ");
    }
}

#[test]
fn a_wrong_length_of_the_top_is_refused() {
    let changes: [fn(&mut Vec<u32>); 5] = [
        |lengths| lengths[0] -= 1,
        |lengths| lengths[0] = u32::MAX,
        |lengths| lengths[0] = 0,
        |lengths| lengths.push(1),
        |lengths| lengths.clear(),
    ];
    for change in changes {
        let env = MemoryEnv::new();
        write(&env, &|_| {}, &|_| {}, &change);
        assert_eq!(findings(&env).len(), 1);
    }
}
