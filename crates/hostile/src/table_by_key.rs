//! Table files that are searched by key: opened, verified, every entry found, walked both ways and scanned.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use slmdb_env::Result;
use slmdb_table::{Compression, EntryKind, TableBuilder, TableCursor, TableForm, TableOptions, TableReader};
use slmdb_testkit::MemoryEnv;

use crate::memory::{UNPACKED_BYTES, within};
use crate::mend::parts::mend_table;
use crate::mode::{Mode, expected};

const PATH: &str = "/7.table";
const NUMBER: u32 = 7;
const UUID: [u8; 16] = *b"a hostile store!";

type Entry = (Vec<u8>, u64, EntryKind, Vec<u8>);

struct Sound {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// Several blocks and chunks in each compression, with versions over the end of blocks; without filters; and one entry.
fn sounds() -> &'static [Sound] {
    static SOUNDS: OnceLock<Vec<Sound>> = OnceLock::new();
    SOUNDS.get_or_init(|| {
        let put = |key: &[u8], sequence: u64, value: &[u8]| (key.to_vec(), sequence, EntryKind::Put, value.to_vec());
        let mut entries = vec![put(b"", 9, b"of the empty key"), put(b"a", 8, b"")];
        entries.push((b"aa".to_vec(), 20, EntryKind::Delete, Vec::new()));
        entries.extend((0..20u64).map(|n| put(format!("key{n:03}").as_bytes(), 100 + n, &[n as u8; 12])));
        entries.extend((0..12u64).map(|n| put(b"version", 60 - n, &[n as u8; 30])));
        entries.extend((0..4u8).map(|n| put(&[&[b'w'; 1100][..], &[n]].concat(), 5, b"of a long key")));
        let one = vec![put(b"only", 1, b"one")];
        let sounds = [
            (&entries, Compression::None, 10),
            (&entries, Compression::Lz4, 10),
            (&entries, Compression::None, 0),
            (&one, Compression::None, 10),
        ];
        sounds.map(|(entries, compression, bits)| sound(entries, compression, bits).expect("a sound table")).into()
    })
}

fn sound(entries: &[Entry], compression: Compression, filter_bits_per_key: u32) -> Result<Sound> {
    let env = MemoryEnv::new();
    let form = TableForm::ByKey { filter_bits_per_key };
    let options = TableOptions { block_bytes: 144, restart_interval: 4, compression, form };
    let mut builder = TableBuilder::new(&env, Path::new(PATH), NUMBER, UUID, options)?;
    for (key, sequence, kind, value) in entries {
        builder.add(key, *sequence, *kind, value)?;
    }
    builder.finish()?;
    Ok(Sound { bytes: env.content(PATH).unwrap_or_default(), entries: entries.to_vec() })
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
            Ok(table) if !table.is_searched_by_key() => return,
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
        if mode.is_strict() {
            assert_eq!(findings.is_empty(), bytes == sound.bytes, "{findings:?}");
        }
        let known = if mode.is_strict() || bytes == sound.bytes { Some(&sound.entries[..]) } else { None };
        for read in [forwards(&table), backwards(&table), scanned(&table)] {
            match read {
                Ok(entries) => {
                    assert!(known.is_none_or(|known| known == entries), "wrong entries, and no error");
                    assert!(!findings.is_empty() || entries.len() as u64 == table.properties().entries);
                    for (key, sequence, kind, value) in entries {
                        match table.find(&key, sequence, &table) {
                            Ok(Some(found)) if found.sequence == sequence => {
                                assert!(found.kind == kind && found.value == value, "another entry is found");
                            }
                            Ok(found) => assert!(!findings.is_empty(), "an entry is not found: {found:?}"),
                            Err(error) => unsound(&error, &findings),
                        }
                    }
                }
                Err(error) => unsound(&error, &findings),
            }
        }
        for (key, sequence, ..) in &sound.entries {
            for at_most in [0, *sequence, u64::MAX] {
                table.find(key, at_most, &table).map_or_else(|error| unsound(&error, &findings), drop);
            }
            table.entries_before(key, &table).map_or_else(|error| unsound(&error, &findings), drop);
            seek(&table, key).unwrap_or_else(|error| unsound(&error, &findings));
        }
    });
}

/// An error of reading that verification must have found, too.
fn unsound(error: &slmdb_env::Error, findings: &[slmdb_env::Error]) {
    expected(error);
    assert!(!findings.is_empty(), "verify finds nothing, but reading gives {error}");
}

fn here(cursor: &TableCursor<Arc<TableReader>>) -> Entry {
    (cursor.key().to_vec(), cursor.sequence(), cursor.kind(), cursor.value().to_vec())
}

fn forwards(table: &Arc<TableReader>) -> Result<Vec<Entry>> {
    let (mut cursor, mut entries) = (TableCursor::new(table, table.clone())?, Vec::new());
    cursor.seek_first()?;
    while cursor.valid() {
        entries.push(here(&cursor));
        cursor.next()?;
    }
    Ok(entries)
}

fn backwards(table: &Arc<TableReader>) -> Result<Vec<Entry>> {
    let (mut cursor, mut entries) = (TableCursor::new(table, table.clone())?, Vec::new());
    cursor.seek_last()?;
    while cursor.valid() {
        entries.push(here(&cursor));
        cursor.prev()?;
    }
    entries.reverse();
    Ok(entries)
}

fn scanned(table: &Arc<TableReader>) -> Result<Vec<Entry>> {
    let (mut scan, mut entries) = (table.scan(64)?, Vec::new());
    while scan.advance()? {
        entries.push((scan.key().to_vec(), scan.sequence(), scan.kind(), scan.value().to_vec()));
    }
    Ok(entries)
}

fn seek(table: &Arc<TableReader>, key: &[u8]) -> Result<()> {
    let mut cursor = TableCursor::new(table, table.clone())?;
    cursor.seek(key)?;
    cursor.prev()?;
    cursor.seek_before(key)?;
    cursor.next()?;
    table.scan(64)?.seek(key).map(drop)
}
