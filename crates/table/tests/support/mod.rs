//! What the tests of table files share.
#![allow(dead_code)]

#[path = "../../src/testing.rs"]
pub mod testing;
pub mod watched;

use std::path::Path;

use slmdb_env::{Env, Error, Result};
use slmdb_table::{EntryKind, FinishedTable, KeyEntry, Place, TableBuilder, TableOptions, TableReader};

pub const UUID: [u8; 16] = *b"0123456789abcdef";
pub const NUMBER: u32 = 7;
pub const PATH: &str = "/7.table";

/// An entry as the test put it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: Vec<u8>,
    pub sequence: u64,
    pub kind: EntryKind,
    pub value: Vec<u8>,
}

impl Entry {
    pub fn put(key: impl Into<Vec<u8>>, sequence: u64, value: impl Into<Vec<u8>>) -> Entry {
        Entry { key: key.into(), sequence, kind: EntryKind::Put, value: value.into() }
    }

    pub fn delete(key: impl Into<Vec<u8>>, sequence: u64) -> Entry {
        Entry { key: key.into(), sequence, kind: EntryKind::Delete, value: Vec::new() }
    }
}

/// A key section's entry that owns its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedKey {
    pub key: Vec<u8>,
    pub sequence: u64,
    pub kind: EntryKind,
    pub place: Place,
}

impl From<KeyEntry<'_>> for OwnedKey {
    fn from(entry: KeyEntry<'_>) -> OwnedKey {
        OwnedKey { key: entry.key.to_vec(), sequence: entry.sequence, kind: entry.kind, place: entry.place }
    }
}

pub fn builder(env: &dyn Env, options: TableOptions) -> Result<TableBuilder> {
    TableBuilder::new(env, Path::new(PATH), NUMBER, UUID, options)
}

/// Writes a table of these entries at [`PATH`].
pub fn build(env: &dyn Env, entries: &[Entry], options: TableOptions) -> Result<FinishedTable> {
    let mut builder = builder(env, options)?;
    for entry in entries {
        builder.add(&entry.key, entry.sequence, entry.kind, &entry.value)?;
    }
    builder.finish()
}

pub fn open(env: &dyn Env) -> Result<TableReader> {
    TableReader::open(env, Path::new(PATH), NUMBER, UUID)
}

pub fn keys_of(section: &slmdb_table::KeySection) -> Result<Vec<OwnedKey>> {
    section.entries().map(|entry| entry.map(OwnedKey::from)).collect()
}

/// The places of all blocks, in order.
pub fn places_of(section: &slmdb_table::KeySection) -> Result<Vec<Place>> {
    let mut places: Vec<Place> = keys_of(section)?.into_iter().map(|key| key.place).collect();
    places.dedup();
    Ok(places)
}

/// Reads every entry the way a `get` does: place from the key section, key looked up in the block.
pub fn read_all(env: &dyn Env) -> Result<Vec<Entry>> {
    let table = open(env)?;
    let mut entries = Vec::new();
    for key in keys_of(&table.key_section()?)? {
        let Some(found) = table.read_block(key.place)?.get_version(&key.key, key.sequence)? else {
            return Err(Error::corruption(PATH, key.place.offset.into(), "a key is not in its block"));
        };
        assert_eq!((found.sequence, found.kind), (key.sequence, key.kind), "key section and block disagree");
        let (sequence, kind, value) = (found.sequence, found.kind, found.value.to_vec());
        entries.push(Entry { key: key.key, sequence, kind, value });
    }
    Ok(entries)
}

/// A small table with everything in it: several blocks, deletes, empty key and value, keys that are heads of others, a
/// value with a block of its own, one that compresses, older versions.
pub fn small_entries() -> Vec<Entry> {
    let mut entries = vec![
        Entry::put("", 9, "of the empty key"),
        Entry::put("a", 8, ""),
        Entry::delete("aa", 20),
        Entry::put("ab", 7, vec![b'x'; 300]),
        Entry::put([0xff; 9], 1, "last"),
    ];
    for number in 0..30u64 {
        entries.push(Entry::put(format!("key{number:03}"), 100 + number, format!("value {number}")));
    }
    // Versions in one block, and some that go over its end.
    entries.push(Entry::put("ab", 5, "older"));
    entries.push(Entry::delete("key004", 9));
    entries.push(Entry::put("key004", 8, "deleted"));
    entries.extend((0..12).map(|number| Entry::put("key020", 50 + number, [number as u8; 20])));
    entries.sort_by(|left, right| left.key.cmp(&right.key).then(right.sequence.cmp(&left.sequence)));
    entries
}

/// Options that make several blocks of [`small_entries`].
pub fn small_options(compression: slmdb_table::Compression) -> TableOptions {
    TableOptions { block_bytes: 144, restart_interval: 4, compression, ..TableOptions::default() }
}
