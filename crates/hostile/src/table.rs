//! Table files: opened, every block, key and version read in each way there is, verified.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use slmdb_env::{Env, Result};
use slmdb_table::{
    Block, Compression, EntryKind, FinishedTable, KeyStream, Lent, MappedRead, Place, TableBuilder, TableOptions,
    TableReader,
};
use slmdb_testkit::MemoryEnv;

use crate::memory::{UNPACKED_BYTES, within};
use crate::mend::parts::mend_table;
use crate::mode::{Mode, expected};

const PATH: &str = "/7.table";
const NUMBER: u32 = 7;
const UUID: [u8; 16] = *b"a hostile store!";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    key: Vec<u8>,
    sequence: u64,
    kind: EntryKind,
    value: Vec<u8>,
}

struct Sound {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    places: Vec<Place>,
}

/// The same entries in each compression: several blocks, versions, deletes, a value with a block of its own; and a table
/// of one entry.
fn sounds() -> &'static [Sound] {
    static SOUNDS: OnceLock<Vec<Sound>> = OnceLock::new();
    SOUNDS.get_or_init(|| {
        let put =
            |key: &str, sequence: u64, value: Vec<u8>| Entry { key: key.into(), sequence, kind: EntryKind::Put, value };
        let mut entries = vec![put("", 9, b"of the empty key".to_vec()), put("a", 8, Vec::new())];
        entries.push(Entry { key: b"aa".to_vec(), sequence: 20, kind: EntryKind::Delete, value: Vec::new() });
        entries.extend([put("ab", 7, vec![b'x'; 300]), put("ab", 5, b"older".to_vec())]);
        entries.extend((0..20).map(|n| put(&format!("key{n:03}"), 100 + n, format!("value {n}").into_bytes())));
        entries.extend((0..8).map(|n| put("version", 60 - n, vec![n as u8; 20])));
        let one = vec![put("only", 1, b"one".to_vec())];
        [(&entries, Compression::None), (&entries, Compression::Lz4), (&one, Compression::None)]
            .map(|(entries, compression)| sound(entries, compression))
            .into()
    })
}

fn sound(entries: &[Entry], compression: Compression) -> Sound {
    let env = MemoryEnv::new();
    let finished = build(&env, entries, compression).expect("a sound table");
    let mut places: Vec<Place> = finished.keys.entries().flatten().map(|entry| entry.place).collect();
    places.dedup();
    Sound { bytes: env.content(PATH).expect("a table"), entries: entries.to_vec(), places }
}

fn build(env: &dyn Env, entries: &[Entry], compression: Compression) -> Result<FinishedTable> {
    let options = TableOptions { block_bytes: 144, restart_interval: 4, compression, ..TableOptions::default() };
    let mut builder = TableBuilder::new(env, Path::new(PATH), NUMBER, UUID, options)?;
    for entry in entries {
        builder.add(&entry.key, entry.sequence, entry.kind, &entry.value)?;
    }
    builder.finish()
}

pub fn files() -> Vec<Vec<u8>> {
    sounds().iter().map(|sound| sound.bytes.clone()).collect()
}

pub fn run(input: &[u8]) {
    let Some((mode, rest)) = Mode::split(input) else { return };
    let sound = &sounds()[mode.sound(sounds().len())];
    let mut bytes = mode.file(rest, &sound.bytes);
    mode.mend(&mut bytes, &sound.bytes, |bytes| mend_table(bytes, NUMBER, UUID, mode.has_option()));
    within(8 * bytes.len() + UNPACKED_BYTES, || {
        let env = MemoryEnv::new();
        env.set_content(PATH, &bytes);
        let table = match TableReader::open(&env, Path::new(PATH), NUMBER, UUID) {
            // Those have a target of their own.
            Ok(table) if table.is_searched_by_key() => return,
            Ok(mut table) => {
                table.map();
                Arc::new(table)
            }
            Err(error) => {
                assert!(!mode.is_strict() || bytes != sound.bytes, "a sound table is refused: {error}");
                return expected(&error);
            }
        };
        let findings = table.verify(&mut |done_bytes| assert!(done_bytes <= bytes.len() as u64));
        findings.iter().for_each(expected);
        let read = read_all(&table);
        match &read {
            Ok(entries) if mode.is_strict() => {
                assert!(entries == &sound.entries, "wrong entries, and no error");
                assert_eq!(findings.is_empty(), bytes == sound.bytes, "{findings:?}");
            }
            Ok(_) => {}
            Err(error) => {
                expected(error);
                assert!(!findings.is_empty(), "verify finds nothing, but reading gives {error}");
            }
        }
        stream(&table, findings.is_empty());
        for &place in &sound.places {
            read_by_itself(&table, place, &sound.entries, mode.is_strict());
            for block in [table.read_block(place), table.sequential(64).read_block(place)] {
                let entries = block.and_then(|block| walk(&block, findings.is_empty()));
                match entries {
                    Ok(entries) if mode.is_strict() => {
                        assert!(entries.iter().all(|entry| sound.entries.contains(entry)), "an entry never put");
                    }
                    Ok(_) => {}
                    Err(error) => expected(&error),
                }
            }
        }
    });
}

/// Reads what stands by itself at a place, lent and from the mapping.
fn read_by_itself(table: &TableReader, place: Place, entries: &[Entry], is_strict: bool) {
    let mut reader = table.sequential(64);
    let lent = match reader.read(place) {
        Ok(Lent::Entry { key, sequence, kind, value }) => {
            let (key, value) = (key.to_vec(), value.to_vec());
            Some(Entry { key, sequence, kind, value })
        }
        Ok(Lent::Block(_)) => None,
        Err(error) => return expected(&error),
    };
    if let Some(lent) = &lent {
        assert!(!is_strict || entries.contains(lent), "an entry never put");
        let mut buffer = None;
        for _ in 0..2 {
            let (key, sequence) = (&lent.key, lent.sequence);
            // (A mapping has nothing to say of a file in which a compressed block was met.)
            match table.read_mapped_entry(place, key, sequence, &mut buffer) {
                Ok(found) => assert!(found.is_none_or(|found| found.kind == lent.kind && found.value == lent.value)),
                Err(error) => panic!("lent, but not from the mapping: {error}"),
            }
            match table.read_mapped_version(place, key, sequence) {
                Ok(MappedRead::Entry(found)) => assert!(found.kind == lent.kind && found.value == lent.value),
                Ok(found) => panic!("lent, but from the mapping {found:?}"),
                Err(error) => panic!("lent, but not from the mapping: {error}"),
            }
        }
    }
}

/// Reads every entry the way a `get` does: place from the key section, the version looked up in the block.
fn read_all(table: &TableReader) -> Result<Vec<Entry>> {
    let section = table.key_section()?;
    let mut entries: Vec<Entry> = Vec::new();
    for entry in section.entries() {
        let entry = entry?;
        let block = table.read_block(entry.place)?;
        walk(&block, false)?;
        let found = block.get_version(entry.key, entry.sequence)?;
        let found = found.ok_or_else(|| slmdb_env::Error::corruption(PATH, 0, "a key is not in its block"))?;
        let (key, value) = (entry.key.to_vec(), found.value.to_vec());
        entries.push(Entry { key, sequence: found.sequence, kind: found.kind, value });
    }
    Ok(entries)
}

/// A block's entries forwards; backwards they are the same, and every way to seek one ends.
fn walk(block: &Block, sound: bool) -> Result<Vec<Entry>> {
    let entries: Vec<_> = block.entries().collect::<Result<_>>()?;
    let mut cursor = block.cursor();
    cursor.seek_last()?;
    let mut backwards = 0;
    while cursor.valid() {
        backwards += 1;
        assert!(backwards <= entries.len(), "a block has more entries backwards");
        cursor.prev()?;
    }
    assert_eq!(backwards, entries.len(), "a block has fewer entries backwards");
    for entry in &entries {
        block.get(&entry.key)?;
        cursor.seek(&entry.key)?;
        assert!(!sound || cursor.key() == entry.key, "a seek misses its key");
        cursor.seek_before(&entry.key)?;
    }
    let own = |entry: slmdb_table::TableEntry| Entry {
        key: entry.key.to_vec(),
        sequence: entry.sequence,
        kind: entry.kind,
        value: entry.value.to_vec(),
    };
    Ok(entries.into_iter().map(own).collect())
}

/// The key section as a rebuild reads it, a chunk at a time.
fn stream(table: &Arc<TableReader>, sound: bool) {
    let mut stream = KeyStream::new(table);
    let mut count = 0;
    loop {
        match stream.advance(|| Ok(Arc::clone(table))) {
            Ok(true) => count += 1,
            Ok(false) => break,
            Err(error) => {
                assert!(!sound, "verify finds nothing, but the key stream gives {error}");
                return expected(&error);
            }
        }
    }
    assert_eq!(count, table.properties().entries, "the key stream is short");
    for from in [&b""[..], b"key010", b"\xff\xff"] {
        if let Err(error) = stream.seek(table, from).and_then(|()| stream.advance(|| Ok(Arc::clone(table)))) {
            expected(&error);
        }
    }
}
