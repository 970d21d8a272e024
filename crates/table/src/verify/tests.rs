//! Files whose every checksum is right and that yet contradict themselves: what a faulty program writes, or somebody on
//! purpose.

use std::path::Path;

use slmdb_env::{Env, OpenMode};
use slmdb_testkit::MemoryEnv;

use super::*;
use crate::block_builder::BlockBuilder;
use crate::compression::Compression;
use crate::entry::{EntryKind, NewEntry};
use crate::footer::{FOOTER_BYTES, Footer};
use crate::key_section::KeySectionBuilder;
use crate::part::{Identity, PartKind};
use crate::writer::PartWriter;

const UUID: [u8; 16] = [7; 16];
const PATH: &str = "/7.table";

type Item = (&'static str, u64, EntryKind);
/// A change to something.
type Change<T> = Box<dyn Fn(&mut T)>;

/// What a forged file is made of; at first all is as it should be.
struct Forgery {
    /// What the blocks have.
    blocks: Vec<Vec<Item>>,
    /// What the key section says that they have; blocks beyond these are not named.
    keys: Vec<Vec<Item>>,
    properties: Change<Properties>,
    /// Works on the lengths of the key chunks as the properties have them.
    chunk_lengths: Change<Vec<u32>>,
    /// Works on the contents of the key chunks.
    chunks: Change<Vec<Vec<u8>>>,
    /// Works on the content of the last block.
    last_block: Change<[u8]>,
    /// Blocks of one entry are entries by themselves.
    has_singles: bool,
}

fn items() -> Vec<Vec<Item>> {
    let (put, delete) = (EntryKind::Put, EntryKind::Delete);
    vec![vec![("a", 5, put), ("b", 3, delete)], vec![("c", 9, put)], vec![("d", 4, put), ("e", 6, put)]]
}

fn value_of(kind: EntryKind) -> &'static [u8] {
    if kind == EntryKind::Put { b"value" } else { b"" }
}

impl Forgery {
    fn new() -> Forgery {
        Forgery {
            blocks: items(),
            keys: items(),
            properties: Box::new(|_| {}),
            chunk_lengths: Box::new(|_| {}),
            chunks: Box::new(|_| {}),
            last_block: Box::new(|_| {}),
            has_singles: false,
        }
    }

    fn write(&self, env: &MemoryEnv) -> Result<()> {
        let file = env.open_file(Path::new(PATH), OpenMode::CreateNew)?;
        let mut writer = PartWriter::new(file, Identity::new(UUID, 7), Compression::None);
        let mut properties = Properties::new(7, 0);
        let mut keys = KeySectionBuilder::default();
        for (index, block) in self.blocks.iter().enumerate() {
            let named = self.keys.get(index).cloned().unwrap_or_default();
            if self.has_singles {
                for &(key, sequence, kind) in block {
                    let value = value_of(kind);
                    let is_older = properties.entries > 0 && properties.largest_key == key.as_bytes();
                    properties.count(key.as_bytes(), sequence, kind, value.len(), is_older);
                    properties.largest_key = key.into();
                    properties.blocks += 1;
                    let place = writer.add_single(&NewEntry { key: key.as_bytes(), sequence, kind, value })?;
                    for &(key, sequence, kind) in &named {
                        keys.add(key.as_bytes(), sequence, kind);
                    }
                    keys.end_run(place);
                }
                continue;
            }
            let mut builder = BlockBuilder::new(16);
            let start = writer.part_start();
            for &(key, sequence, kind) in block {
                let value = value_of(kind);
                builder.add(writer.buffer(), start, &NewEntry { key: key.as_bytes(), sequence, kind, value });
                let is_older = properties.entries > 0 && properties.largest_key == key.as_bytes();
                properties.count(key.as_bytes(), sequence, kind, value.len(), is_older);
                properties.largest_key = key.into();
            }
            builder.finish(writer.buffer());
            if index + 1 == self.blocks.len() {
                (self.last_block)(&mut writer.buffer()[start..]);
            }
            let place = writer.seal(PartKind::Block)?;
            properties.blocks += 1;
            if let Some(named) = self.keys.get(index) {
                for &(key, sequence, kind) in named {
                    keys.add(key.as_bytes(), sequence, kind);
                }
                keys.end_run(place);
            }
        }
        properties.data_bytes = writer.offset();
        let data_bytes = writer.offset();
        let mut chunks = keys.finish();
        (self.chunks)(&mut chunks);
        let mut chunk_lengths = Vec::new();
        for content in chunks {
            writer.buffer().extend_from_slice(&content);
            chunk_lengths.push(writer.seal(PartKind::Keys)?.length);
        }
        let properties_offset = writer.offset();
        (self.properties)(&mut properties);
        (self.chunk_lengths)(&mut chunk_lengths);
        properties.encode(&chunk_lengths, writer.buffer());
        let properties_bytes = writer.seal(PartKind::Properties)?.length.into();
        let footer = Footer {
            optional_parts: 0,
            store_uuid: UUID,
            number: 7,
            key_section_offset: data_bytes,
            key_section_bytes: properties_offset - data_bytes,
            properties_offset,
            properties_bytes,
            file_bytes: properties_offset + properties_bytes + FOOTER_BYTES as u64,
        };
        writer.buffer().extend_from_slice(&footer.encode());
        writer.finish()?;
        Ok(())
    }

    /// What opening and verifying finds.
    fn findings(&self) -> Vec<String> {
        let env = MemoryEnv::new();
        self.write(&env).unwrap();
        let findings = match TableReader::open(&env, Path::new(PATH), 7, UUID) {
            Ok(table) => {
                let mut last = 0;
                let findings = table.verify(&mut |done_bytes| {
                    assert!(done_bytes >= last && done_bytes <= table.length_bytes());
                    last = done_bytes;
                });
                assert_eq!(last, table.length_bytes());
                findings
            }
            Err(error) => vec![error],
        };
        findings.iter().map(Error::to_string).collect()
    }
}

fn assert_finds(forgery: &Forgery, expected: &[&str]) {
    let findings = forgery.findings();
    let same = findings.len() == expected.len() && findings.iter().zip(expected).all(|(a, b)| a.contains(b));
    assert!(same, "found {findings:#?}, expected {expected:?}");
}

#[test]
fn a_sound_file_is_sound() {
    assert_finds(&Forgery::new(), &[]);
}

#[test]
fn a_key_section_that_says_otherwise_is_found() {
    let others: [Item; 3] = [("c", 8, EntryKind::Put), ("c", 9, EntryKind::Delete), ("bb", 9, EntryKind::Put)];
    for other in others {
        let mut forgery = Forgery::new();
        forgery.keys[1][0] = other;
        assert_finds(&forgery, &["its entries are not those of the key section"]);
    }
    let mut forgery = Forgery::new();
    forgery.keys[0].pop();
    assert_finds(&forgery, &["it has entries that the key section has not", "not those of the entries"]);
    let mut forgery = Forgery::new();
    forgery.blocks[0].pop();
    assert_finds(&forgery, &["the key section has entries that it has not"]);
}

/// Each block is an entry by itself then.
#[test]
fn an_entry_that_is_not_what_the_key_section_says_is_found() {
    let put = EntryKind::Put;
    let with = |keys: [Item; 2]| {
        let blocks = vec![vec![("a", 5, put)], vec![("b", 3, put)]];
        Forgery { blocks, keys: vec![vec![keys[0]], vec![keys[1]]], has_singles: true, ..Forgery::new() }
    };
    let right = [("a", 5, put), ("b", 3, put)];
    assert_finds(&with(right), &[]);
    for wrong in [("b", 4, put), ("b", 3, EntryKind::Delete), ("c", 3, put)] {
        assert_finds(&with([right[0], wrong]), &["its entries are not those of the key section"]);
    }
    let mut forgery = with(right);
    forgery.keys[0].push(("aa", 4, put));
    assert_finds(&forgery, &["the key section has entries that it has not"]);
}

#[test]
fn keys_that_do_not_ascend_are_found() {
    let mut forgery = Forgery::new();
    forgery.blocks.swap(1, 2);
    forgery.keys.swap(1, 2);
    forgery.properties = Box::new(|properties| properties.largest_key = b"e".to_vec());
    assert_finds(&forgery, &["key chunk: its keys do not ascend"]);
    let mut forgery = Forgery::new();
    forgery.blocks[0].swap(0, 1);
    forgery.keys[0].swap(0, 1);
    assert_finds(&forgery, &["block: its keys do not ascend", "key chunk: its keys do not ascend"]);
}

#[test]
fn versions_of_a_key_are_sound_newest_first_alone() {
    let put = EntryKind::Put;
    let with = |versions: &[&[Item]]| {
        let items: Vec<Vec<Item>> = versions.iter().map(|block| block.to_vec()).collect();
        Forgery { blocks: items.clone(), keys: items, ..Forgery::new() }
    };
    // In one block, over the end of one, and of one key alone.
    assert_finds(&with(&[&[("a", 9, put), ("a", 5, put), ("a", 2, EntryKind::Delete), ("b", 3, put)]]), &[]);
    assert_finds(&with(&[&[("a", 9, put)], &[("a", 5, put)], &[("a", 4, put), ("b", 8, put)]]), &[]);
    assert_finds(&with(&[&[("a", 9, put), ("a", 5, put)]]), &[]);
    let out_of_order = ["block: its keys do not ascend", "key chunk: its keys do not ascend"];
    assert_finds(&with(&[&[("a", 5, put), ("a", 9, put)]]), &out_of_order);
    assert_finds(&with(&[&[("a", 5, put), ("a", 5, put)]]), &out_of_order);
    assert_finds(&with(&[&[("a", 5, put)], &[("a", 5, put)]]), &out_of_order[1..]);
    // Smallest and largest key are one if there is but one.
    let mut forgery = with(&[&[("a", 9, put), ("a", 5, put)]]);
    forgery.properties = Box::new(|properties| properties.largest_key = b"b".to_vec());
    assert_finds(&forgery, &["no such smallest and largest key"]);
}

#[test]
fn wrong_properties_are_found() {
    let changes: [fn(&mut Properties); 10] = [
        |properties| properties.entries += 1,
        |properties| properties.older_versions += 1,
        |properties| properties.deletes += 1,
        |properties| properties.blocks -= 1,
        |properties| properties.key_bytes += 1,
        |properties| properties.value_bytes -= 1,
        |properties| properties.lowest_sequence -= 1,
        |properties| properties.highest_sequence += 1,
        |properties| properties.smallest_key.clear(),
        |properties| properties.largest_key.push(0),
    ];
    for change in changes {
        let forgery = Forgery { properties: Box::new(change), ..Forgery::new() };
        assert_finds(&forgery, &["properties: not those of the entries"]);
    }
    // These need no reading of entries.
    type Refused = (fn(&mut Properties), &'static str);
    let changes: [Refused; 7] = [
        (|properties| properties.entries = 0, "no such numbers of entries and blocks"),
        (|properties| properties.older_versions = 5, "no such number of older versions"),
        (|properties| properties.older_versions = u64::MAX, "no such number of older versions"),
        (|properties| properties.deletes = 6, "more deletes than entries"),
        (|properties| properties.lowest_sequence = 10, "the lowest sequence number is above"),
        (|properties| properties.smallest_key = b"f".to_vec(), "no such smallest and largest key"),
        (|properties| properties.data_bytes += 1, "not where the footer says"),
    ];
    for (change, expected) in changes {
        assert_finds(&Forgery { properties: Box::new(change), ..Forgery::new() }, &[expected]);
    }
}

#[test]
fn wrong_chunk_lengths_are_found() {
    let changes: [fn(&mut Vec<u32>); 4] = [
        |lengths| lengths[0] -= 1,
        |lengths| lengths[0] = u32::MAX,
        |lengths| lengths.push(1),
        |lengths| lengths.clear(),
    ];
    for change in changes {
        let forgery = Forgery { chunk_lengths: Box::new(change), ..Forgery::new() };
        assert_finds(&forgery, &["not where the footer says"]);
    }
    // As long together as they should be.
    let forgery = Forgery { chunk_lengths: Box::new(|lengths| lengths.push(0)), ..Forgery::new() };
    assert_finds(&forgery, &["key chunk: too short for its trailer"]);
}

#[test]
fn another_sound_file_in_its_place_is_found() {
    let env = MemoryEnv::new();
    Forgery::new().write(&env).unwrap();
    let table = TableReader::open(&env, Path::new(PATH), 7, UUID).unwrap();
    let other = MemoryEnv::new();
    let later = |properties: &mut Properties| properties.created_unix_ns += 1;
    Forgery { properties: Box::new(later), ..Forgery::new() }.write(&other).unwrap();
    env.set_content(PATH, &other.content(PATH).unwrap());
    let findings = table.verify(&mut |_| {});
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].to_string().contains("changed since the file was opened"), "{findings:?}");
}

#[test]
fn blocks_that_no_key_names_are_found() {
    let mut forgery = Forgery::new();
    forgery.keys.pop();
    assert_finds(&forgery, &["key section: does not cover all blocks"]);
}

#[test]
fn a_chunk_that_comes_twice_is_found() {
    let forgery = Forgery { chunks: Box::new(|chunks| chunks.push(chunks[0].clone())), ..Forgery::new() };
    assert_finds(&forgery, &["key chunk: does not go on where the one before ended"]);
}

/// However often chunks name a block, it is read once: a small file can't keep a verifier busy for ever.
#[test]
fn damage_between_does_not_let_a_chunk_come_twice() {
    let chunks = |chunks: &mut Vec<Vec<u8>>| {
        for _ in 0..3 {
            chunks.push(vec![0; 5]);
            chunks.push(chunks[0].clone());
        }
    };
    let (short, again) = ("key chunk: shorter than its header", "does not go on where the one before ended");
    assert_finds(&Forgery { chunks: Box::new(chunks), ..Forgery::new() }, &[short, again, short, again, short, again]);
}

#[test]
fn a_wrong_tag_is_found() {
    let last_block = |content: &mut [u8]| {
        // Behind it lie the interval and the count.
        let last_tag = content.len() - 7;
        content[last_tag] ^= 1;
    };
    assert_finds(
        &Forgery { last_block: Box::new(last_block), ..Forgery::new() },
        &["block: a tag is not that of its key"],
    );
}

/// More keys than the properties tell of could take more memory than the caller reckons with.
#[test]
fn a_key_section_longer_than_told_is_refused() {
    let key_bytes = |properties: &mut Properties| properties.key_bytes = 0;
    let chunks = |chunks: &mut Vec<Vec<u8>>| chunks[0].resize(1000, 0);
    let forgery = Forgery { properties: Box::new(key_bytes), chunks: Box::new(chunks), ..Forgery::new() };
    let env = MemoryEnv::new();
    forgery.write(&env).unwrap();
    let table = TableReader::open(&env, Path::new(PATH), 7, UUID).unwrap();
    let error = table.key_section().expect_err("too long");
    assert!(error.to_string().contains("more keys than the properties tell of"), "{error}");
}
