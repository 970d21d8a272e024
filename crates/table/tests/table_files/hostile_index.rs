//! As `hostile_bytes`, for files that are searched by key.

use std::sync::Arc;

use crate::by_key::options;
use crate::support::testing::config;
use crate::support::{Entry, PATH, build, open, small_entries};
use proptest::collection::vec;
use proptest::prelude::*;
use slmdb_env::{Error, Result};
use slmdb_table::{Compression, EntryKind, TableCursor, TableReader};
use slmdb_testkit::MemoryEnv;

fn entries() -> Vec<Entry> {
    let mut entries = small_entries();
    // Long enough for a second chunk.
    entries.extend((0..4u8).map(|number| Entry::put([&[0xff; 1100][..], &[number]].concat(), 6, [number; 30])));
    entries
}

fn sound(compression: Compression) -> Vec<u8> {
    let env = MemoryEnv::new();
    build(&env, &entries(), options(144, compression, 10)).unwrap();
    env.content(PATH).unwrap()
}

fn sounds() -> Vec<Vec<u8>> {
    Compression::BUILT_IN.iter().map(|&compression| sound(compression)).collect()
}

fn owned<P: slmdb_table::TableParts>(cursor: &TableCursor<P>) -> Entry {
    let (key, sequence, kind) = (cursor.key().to_vec(), cursor.sequence(), cursor.kind());
    Entry { key, sequence, kind, value: cursor.value().to_vec() }
}

/// All entries by a cursor forwards, and how many there are backwards.
fn walk(table: &TableReader) -> Result<(Vec<Entry>, usize)> {
    let mut cursor = TableCursor::new(table, table)?;
    let (mut entries, mut backwards) = (Vec::new(), 0);
    cursor.seek_first()?;
    while cursor.valid() {
        entries.push(owned(&cursor));
        cursor.next()?;
    }
    cursor.seek_last()?;
    while cursor.valid() {
        backwards += 1;
        assert!(backwards <= table.properties().entries as usize, "a walk without end");
        cursor.prev()?;
    }
    Ok((entries, backwards))
}

fn scan(table: &Arc<TableReader>) -> Result<Vec<Entry>> {
    let (mut scan, mut entries) = (table.scan(1000)?, Vec::new());
    while scan.advance()? {
        let (key, sequence, kind) = (scan.key().to_vec(), scan.sequence(), scan.kind());
        entries.push(Entry { key, sequence, kind, value: scan.value().to_vec() });
    }
    Ok(entries)
}

/// Everything that is found wrong with these bytes. Panics if an answer is wrong.
fn problems(bytes: &[u8]) -> Vec<Error> {
    let env = MemoryEnv::new();
    env.set_content(PATH, bytes);
    let mut table = match open(&env) {
        Ok(table) => table,
        Err(error) => return vec![error],
    };
    table.map();
    let (table, entries, mut problems) = (Arc::new(table), entries(), Vec::new());
    match walk(&table) {
        Ok(walked) => assert!(walked == (entries.clone(), entries.len()), "wrong entries, and no error"),
        Err(error) => problems.push(error),
    }
    match scan(&table) {
        Ok(scanned) => assert!(scanned == entries, "wrong entries, and no error"),
        Err(error) => problems.push(error),
    }
    for entry in &entries {
        match table.find(&entry.key, entry.sequence, &table) {
            Ok(Some(found)) => {
                assert_eq!((found.sequence, found.kind), (entry.sequence, entry.kind));
                assert_eq!(found.value, entry.value, "a wrong value, and no error");
            }
            Ok(None) => panic!("an entry is not found, and no error"),
            Err(error) => problems.push(error),
        }
        for key in [[&entry.key[..], b"?"].concat(), b"between".to_vec()] {
            match table.find(&key, u64::MAX, &table) {
                Ok(found) => assert_eq!(found, None),
                Err(error) => problems.push(error),
            }
            problems.extend(table.entries_before(&key, &table).err());
        }
    }
    let found = table.verify(&mut |done_bytes| assert!(done_bytes <= bytes.len() as u64));
    assert_eq!(found.is_empty(), problems.is_empty(), "verify: {found:?}, reading: {problems:?}");
    problems.extend(found);
    problems
}

/// There must be problems, and all about one part of the file.
fn assert_corrupt(bytes: &[u8], change: &str) {
    let problems = problems(bytes);
    assert!(!problems.is_empty(), "{change}: not noticed");
    for problem in &problems {
        let Error::Corruption { file, .. } = problem else { panic!("{change}: {problem}") };
        assert_eq!(file.to_str(), Some(PATH));
    }
    let offsets: std::collections::BTreeSet<u64> = problems
        .iter()
        .filter_map(|problem| match problem {
            Error::Corruption { offset, .. } => Some(*offset),
            _ => None,
        })
        .collect();
    assert_eq!(offsets.len(), 1, "{change}: {problems:?}");
}

#[test]
fn a_sound_file_has_no_problems() {
    for sound in sounds() {
        assert!(problems(&sound).is_empty());
        let deletes = entries().iter().filter(|entry| entry.kind == EntryKind::Delete).count();
        assert!(deletes > 0);
    }
}

#[test]
fn every_bit_counts() {
    for sound in sounds() {
        for at in 0..sound.len() {
            // The long keys repeat one byte; some of those are enough.
            if sound[at] == 0xff && at % 16 != 0 {
                continue;
            }
            let mut bytes = sound.clone();
            let flips: &[u8] = if at % 8 == 0 { &[1, 2, 4, 8, 16, 32, 64, 128, 255] } else { &[1, 128] };
            for flip in flips {
                bytes[at] = sound[at] ^ flip;
                assert_corrupt(&bytes, &format!("byte {at} ^ {flip:#x}"));
            }
        }
    }
}

#[test]
fn cut_zeroed_moved_and_doubled_stretches_are_noticed() {
    for sound in sounds() {
        for length in 0..sound.len() {
            assert!(matches!(problems(&sound[..length])[..], [Error::Corruption { .. }]), "cut to {length} bytes");
        }
        for start in (0..sound.len()).step_by(17) {
            for length in [1, 9, 80, 700] {
                let end = (start + length).min(sound.len());
                let mut bytes = sound.clone();
                bytes[start..end].fill(0);
                assert_eq!(!problems(&bytes).is_empty(), bytes != sound, "{start}..{end} zeroed");
                let without = [&sound[..start], &sound[end..]].concat();
                assert!(!problems(&without).is_empty(), "without {start}..{end}");
                let twice = [&sound[..end], &sound[start..]].concat();
                assert!(!problems(&twice).is_empty(), "{start}..{end} twice");
                bytes = sound.clone();
                bytes.copy_within(start..end, (start + 300).min(sound.len() - (end - start)));
                assert_eq!(!problems(&bytes).is_empty(), bytes != sound, "{start}..{end} moved");
            }
        }
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn random_damage_is_noticed(
        edits in vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        kind in 0..Compression::BUILT_IN.len(),
    ) {
        let sound = sound(Compression::BUILT_IN[kind]);
        let mut bytes = sound.clone();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        prop_assert_eq!(problems(&bytes).is_empty(), bytes == sound);
    }
}
