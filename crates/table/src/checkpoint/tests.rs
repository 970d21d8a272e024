//! Checkpoints come back as they were written, from any key on; and whatever else their bytes are, that is told.

use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;
use slmdb_testkit::MemoryEnv;

use super::layout::*;
use super::*;
use crate::entry::Place;

const PATH: &str = "/4.checkpoint";
const UUID: [u8; 16] = [9; 16];

type Written = (Vec<u8>, u64, u32, Place);

fn entries(count: u64, key: impl Fn(u64) -> Vec<u8>) -> Vec<Written> {
    let mut entries: Vec<_> = (0..count)
        .map(|number| {
            let place = Place { offset: number as u32 * 37, length: 100 + number as u32 % 5000 };
            (key(number), number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8, 3 + number as u32 % 7, place)
        })
        .collect();
    entries.sort();
    entries.dedup_by(|left, right| left.0 == right.0);
    entries
}

fn write(env: &MemoryEnv, entries: &[Written]) -> FinishedCheckpoint {
    let mut writer = CheckpointWriter::new(env, Path::new(PATH), 4, UUID, 77, [4, 5, 900], KeyOrder::Bytewise).unwrap();
    for (key, sequence, file, place) in entries {
        writer.add(key, *sequence, *file, *place).unwrap();
    }
    writer.finish().unwrap()
}

fn open(env: &MemoryEnv) -> Result<Arc<CheckpointReader>> {
    CheckpointReader::open(env, Path::new(PATH), 4, UUID, KeyOrder::Bytewise).map(Arc::new)
}

fn read(reader: &Arc<CheckpointReader>, from: Option<&[u8]>) -> Result<Vec<Written>> {
    let mut stream = CheckpointStream::new(reader.clone());
    from.map_or(Ok(()), |from| stream.seek(from))?;
    let files: Vec<u32> = reader.files().map(|file| file.number).collect();
    let mut entries = Vec::new();
    while stream.advance()? {
        let location = stream.location().unwrap();
        entries.push((stream.key().to_vec(), location.sequence, files[location.file_index], location.place));
    }
    assert!(stream.location().is_none() && !stream.advance()?);
    Ok(entries)
}

#[test]
fn what_was_written_comes_back_from_any_key_on() {
    let short = entries(40_000, |number| format!("user{:08x}", number.wrapping_mul(0x9e37_79b9)).into_bytes());
    let long = entries(40, |number| [vec![b'x'; 60_000], number.to_be_bytes().to_vec()].concat());
    let hostile = vec![
        (Vec::new(), 0, 3, Place { offset: 0, length: 10 }),
        (vec![0], u64::MAX >> 8, u32::MAX, Place { offset: u32::MAX, length: u32::MAX }),
        (vec![0; 65_535], 5, 4, Place { offset: 1, length: 1 }),
        (vec![255; 65_535], 1, 4, Place { offset: 1, length: 1 }),
    ];
    for entries in [short, long, hostile, Vec::new()] {
        let env = MemoryEnv::new();
        let finished = write(&env, &entries);
        assert_eq!(finished.entries, entries.len() as u64);
        assert_eq!(env.content(PATH).unwrap().len() as u64, finished.length_bytes);
        let reader = open(&env).unwrap();
        assert_eq!((reader.through(), reader.entries()), (77, entries.len() as u64));
        assert_eq!(reader.listed_files().collect::<Vec<_>>(), [4, 5, 900]);
        for file in reader.files() {
            let of_file = entries.iter().filter(|entry| entry.2 == file.number);
            assert_eq!(file.entries, of_file.clone().count() as u64);
            assert_eq!(file.key_bytes, of_file.map(|entry| entry.0.len() as u64).sum::<u64>());
        }
        assert_eq!(read(&reader, None).unwrap(), entries);
        for at in (0..entries.len()).step_by(997) {
            let from = &entries[at].0;
            let read = read(&reader, Some(from)).unwrap();
            assert!(entries.ends_with(&read) && read.len() >= entries.len() - at);
            assert!(read.len() - (entries.len() - at) < 8000, "a chunk more at most");
        }
    }
}

#[test]
fn keys_must_ascend() {
    let env = MemoryEnv::new();
    let mut writer = CheckpointWriter::new(&env, Path::new(PATH), 4, UUID, 0, [], KeyOrder::Bytewise).unwrap();
    let place = Place { offset: 0, length: 10 };
    writer.add(b"b", 1, 1, place).unwrap();
    for key in [&b"b"[..], b"a", b""] {
        assert!(matches!(writer.add(key, 2, 1, place), Err(Error::Invalid { .. })));
    }
    writer.add(b"ba", 1, 1, place).unwrap();
}

#[test]
fn every_changed_byte_and_every_other_length_is_told() {
    let env = MemoryEnv::new();
    write(&env, &entries(60, |number| format!("key {number:03}").into_bytes()));
    let sound = env.content(PATH).unwrap();
    let fails = |bytes: &[u8], what: &str| {
        env.set_content(PATH, bytes);
        match open(&env).and_then(|reader| read(&reader, None)) {
            Err(Error::Corruption { file, .. }) => assert_eq!(file, Path::new(PATH), "{what}"),
            other => panic!("{what}: {other:?}"),
        }
    };
    for at in 0..sound.len() {
        for bit in [1, 0x80] {
            let mut bytes = sound.clone();
            bytes[at] ^= bit;
            fails(&bytes, &format!("bit {bit} of byte {at}"));
        }
        fails(&sound[..at], &format!("cut to {at} bytes"));
    }
    fails(&[&sound[..], b"x"].concat(), "longer");
    env.set_content(PATH, &sound);
    open(&env).unwrap();
    let other = CheckpointReader::open(&env, Path::new(PATH), 5, UUID, KeyOrder::Bytewise);
    assert!(matches!(other, Err(Error::Corruption { .. })), "another number");
    let other = CheckpointReader::open(&env, Path::new(PATH), 4, [8; 16], KeyOrder::Bytewise);
    assert!(matches!(other, Err(Error::Corruption { .. })), "another store");
}

/// With right checksums, too: whoever knows the UUID can make them.
#[test]
fn contents_that_contradict_themselves_give_errors() {
    use crate::compression::Compression;
    use crate::part::{self, Identity, PartKind};
    let identity = Identity::new(UUID, 4);
    let chunk = |ordinal: u64, count: u32, entries: &[u8]| {
        [&ordinal.to_le_bytes()[..], &count.to_le_bytes(), &0_u64.to_le_bytes(), entries].concat()
    };
    let summary = |entries: u64, listed: u32, files: u32, chunks: &[u32]| {
        let mut bytes = [7, entries, 0].map(u64::to_le_bytes).concat();
        bytes.extend([listed, files, chunks.len() as u32].map(u32::to_le_bytes).concat());
        for number in 0..files {
            bytes.extend(number.to_le_bytes());
            bytes.extend((if number == 0 { entries } else { 0 }).to_le_bytes());
            bytes.extend(0_u64.to_le_bytes());
        }
        bytes.extend(chunks.iter().flat_map(|length| length.to_le_bytes()));
        bytes
    };
    let file = |chunks: &[Vec<u8>], entries: u64, listed: u32, files: u32, lengths: Option<&[u32]>| {
        let (mut bytes, mut scratch, mut own_lengths) = (Vec::new(), Vec::new(), Vec::new());
        for (number, chunk) in chunks.iter().enumerate() {
            let start = bytes.len();
            bytes.extend_from_slice(chunk);
            let number = number as u32;
            part::seal(&mut bytes, start, identity, PartKind::CheckpointKeys, number, Compression::None, &mut scratch);
            own_lengths.push((bytes.len() - start) as u32);
        }
        let start = bytes.len();
        bytes.extend(summary(entries, listed, files, lengths.unwrap_or(&own_lengths)));
        let kind = PartKind::CheckpointSummary;
        part::seal(&mut bytes, start, identity, kind, SUMMARY_NUMBER, Compression::Lz4, &mut scratch);
        let (summary_offset, summary_bytes) = (start as u64, (bytes.len() - start) as u64);
        let file_bytes = (bytes.len() + FOOTER_BYTES) as u64;
        let footer = Footer { store_uuid: UUID, number: 4, summary_offset, summary_bytes, file_bytes };
        bytes.extend(footer.encode());
        bytes
    };
    let entry = |shared: u8, rest: &[u8], file: u8| [&[shared, rest.len() as u8], rest, &[file, 2, 0, 20]].concat();
    let two = |second: Vec<u8>| chunk(0, 2, &[entry(0, b"b", 0), second].concat());
    let env = MemoryEnv::new();
    let result = |bytes: Vec<u8>| {
        env.set_content(PATH, &bytes);
        open(&env).and_then(|reader| read(&reader, None))
    };
    assert_eq!(result(file(&[two(entry(1, b"a", 0))], 2, 1, 1, None)).unwrap().len(), 2);
    let cases = [
        ("does not ascend", file(&[two(entry(0, b"a", 0))], 2, 1, 1, None)),
        ("the same again", file(&[two(entry(1, b"", 0))], 2, 1, 1, None)),
        ("shares more than there is", file(&[two(entry(2, b"a", 0))], 2, 1, 1, None)),
        ("no such file", file(&[two(entry(1, b"a", 1))], 2, 1, 1, None)),
        ("fewer entries in all", file(&[two(entry(1, b"a", 0))], 3, 1, 1, None)),
        ("more entries in all", file(&[two(entry(1, b"a", 0))], 1, 1, 1, None)),
        ("an entry too few", file(&[chunk(0, 2, &entry(0, b"a", 0))], 2, 1, 1, None)),
        ("an entry too many", file(&[chunk(0, 1, &[entry(0, b"a", 0), entry(0, b"b", 0)].concat())], 1, 1, 1, None)),
        ("no entry", file(&[chunk(0, 0, &[])], 0, 1, 1, None)),
        ("begins elsewhere", file(&[chunk(1, 1, &entry(0, b"a", 0))], 1, 1, 1, None)),
        ("begins beyond", file(&[chunk(u64::MAX, 1, &entry(0, b"a", 0))], 1, 1, 1, None)),
        ("more listed than there are", file(&[], 0, 2, 1, None)),
        ("chunks that are not there", file(&[], 0, 0, 0, Some(&[100]))),
        ("an impossible chunk", file(&[], 0, 0, 0, Some(&[0]))),
        (
            "the second chunk goes back",
            file(&[chunk(0, 1, &entry(0, b"b", 0)), chunk(1, 1, &entry(0, b"a", 0))], 2, 1, 1, None),
        ),
        (
            "the second chunk's first key is not whole",
            file(&[chunk(0, 1, &entry(0, b"b", 0)), chunk(1, 1, &entry(1, b"a", 0))], 2, 1, 1, None),
        ),
    ];
    for (what, bytes) in cases {
        let read = result(bytes);
        assert!(matches!(read, Err(Error::Corruption { .. })), "{what}: {read:?}");
    }
}
