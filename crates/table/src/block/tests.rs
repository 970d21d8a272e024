use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::EntryKind;
use crate::block_builder::BlockBuilder;
use crate::cursor::BlockCursor;
use crate::entry::NewEntry;
use crate::layout::{TAIL_BYTES, tag_of};
use crate::testing::config;

/// Sequence number and value; none for a delete.
type Version = (u64, Option<Vec<u8>>);
type Model = BTreeMap<Vec<u8>, Version>;

fn kind_of(value: &Option<Vec<u8>>) -> EntryKind {
    if value.is_some() { EntryKind::Put } else { EntryKind::Delete }
}

fn content_of(model: &Model, restart_interval: u16) -> Vec<u8> {
    let mut builder = BlockBuilder::new(restart_interval);
    let mut out = b"what was in the buffer before".to_vec();
    let start = out.len();
    for (key, (sequence, value)) in model {
        let (sequence, kind, value) = (*sequence, kind_of(value), value.as_deref().unwrap_or_default());
        builder.add(&mut out, start, &NewEntry { key, sequence, kind, value });
    }
    builder.finish(&mut out);
    out.split_off(start)
}

fn block_of(content: &[u8]) -> Result<Block> {
    let content = Content { bytes: content.into(), length: content.len(), was_compressed: false };
    Block::new(content, Path::new("7.table").into(), 4711, slmdb_order::KeyOrder::Bytewise)
}

fn assert_at(cursor: &BlockCursor, expected: Option<(&Vec<u8>, &Version)>) {
    assert_eq!(cursor.valid(), expected.is_some());
    if let Some((key, (sequence, value))) = expected {
        assert_eq!(cursor.key(), key);
        assert_eq!(cursor.sequence(), *sequence);
        assert_eq!(cursor.kind(), kind_of(value));
        assert_eq!(cursor.value(), value.as_deref().unwrap_or_default());
        assert_eq!(cursor.value_slice(), cursor.value());
    }
}

/// Does everything that can be done with a block, whatever is in it: nothing may panic or go on for ever, every error
/// must name the place.
fn exercise(block: &Block, keys: &[Vec<u8>]) {
    let most = block.len();
    let check = |result: Result<()>| match result {
        Ok(()) => true,
        Err(Error::Corruption { file, offset: 4711, .. }) if file == Path::new("7.table") => false,
        Err(other) => panic!("not an error about this block: {other}"),
    };
    for key in keys {
        check(block.get(key).map(drop));
        let mut cursor = block.cursor();
        check(cursor.seek(key));
        check(cursor.seek_before(key));
        for _ in 0..3 {
            check(cursor.prev());
        }
    }
    let mut cursor = block.cursor();
    let mut steps = 0;
    let mut sound = check(cursor.seek_first());
    while sound && cursor.valid() {
        steps += 1;
        assert!(steps <= most, "walks in circles");
        sound = check(cursor.next());
    }
    assert!(sound || !cursor.valid(), "valid after an error");
    sound = check(cursor.seek_last());
    steps = 0;
    while sound && cursor.valid() {
        steps += 1;
        assert!(steps <= most, "walks back in circles");
        sound = check(cursor.prev());
    }
    assert!(block.entries().count() <= most + 1);
}

/// Short keys of few different bytes, so that many share heads or are heads of others.
fn models() -> impl Strategy<Value = Model> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(b'a'), Just(0xff)];
    let value = proptest::option::weighted(0.8, vec(any::<u8>(), 0..40));
    btree_map(vec(byte, 0..6), (any::<u64>(), value), 1..60)
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn a_block_is_its_entries(model in models(), restart_interval in 1..20u16, others in vec(vec(any::<u8>(), 0..6), 0..10)) {
        let block = block_of(&content_of(&model, restart_interval)).unwrap();
        let entries: Result<Vec<_>> = block.entries().collect();
        let entries = entries.unwrap().into_iter().map(|entry| (entry.key, entry.sequence, entry.kind, entry.value));
        let expected = model.iter().map(|(key, (sequence, value))| {
            (key.clone(), *sequence, kind_of(value), Slice::from(value.clone().unwrap_or_default()))
        });
        prop_assert!(entries.eq(expected));
        for key in model.keys().chain(&others) {
            let found = block.get(key).unwrap().map(|entry| (entry.sequence, entry.kind, entry.value.to_vec()));
            let expected = model.get(key).map(|(sequence, value)| (*sequence, kind_of(value), value.clone().unwrap_or_default()));
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_cursor_goes_both_ways(model in models(), restart_interval in 1..20u16, others in vec(vec(any::<u8>(), 0..6), 0..10)) {
        let block = block_of(&content_of(&model, restart_interval)).unwrap();
        let mut cursor = block.cursor();
        assert_at(&cursor, None);
        cursor.seek_first().unwrap();
        for entry in &model {
            assert_at(&cursor, Some(entry));
            cursor.next().unwrap();
        }
        assert_at(&cursor, None);
        cursor.seek_last().unwrap();
        for entry in model.iter().rev() {
            assert_at(&cursor, Some(entry));
            cursor.prev().unwrap();
        }
        assert_at(&cursor, None);
        for key in model.keys().chain(&others) {
            let from = (Bound::Included(key.as_slice()), Bound::Unbounded);
            cursor.seek(key).unwrap();
            assert_at(&cursor, model.range::<[u8], _>(from).next());
            cursor.prev().unwrap();
            if model.range::<[u8], _>(from).next().is_some() {
                assert_at(&cursor, model.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(key.as_slice()))).next_back());
            }
            cursor.seek_before(key).unwrap();
            assert_at(&cursor, model.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(key.as_slice()))).next_back());
            cursor.next().unwrap();
        }
    }

    #[test]
    fn hostile_content_gives_errors(model in models(), restart_interval in 1..20u16, edits in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut content = content_of(&model, restart_interval);
        for (at, byte) in edits {
            let at = at.index(content.len());
            content[at] = byte;
        }
        if let Ok(block) = block_of(&content) {
            let keys: Vec<_> = model.keys().cloned().collect();
            exercise(&block, &keys);
        }
    }

    #[test]
    fn noise_gives_errors(content in vec(prop_oneof![0..4u8, any::<u8>()], 0..80)) {
        if let Ok(block) = block_of(&content) {
            exercise(&block, &[vec![], vec![0], vec![0, 1, 2], vec![0xff; 9]]);
        }
    }
}

fn small_model() -> Model {
    let mut model = Model::new();
    for (number, key) in ["", "a", "ab", "abc", "b", "ba", "bb"].into_iter().enumerate() {
        let value = (number != 2).then(|| vec![number as u8; number]);
        model.insert(key.into(), (100 + number as u64, value));
    }
    model
}

#[test]
fn every_byte_can_be_anything() {
    let model = small_model();
    let keys: Vec<_> = model.keys().cloned().collect();
    let content = content_of(&model, 3);
    for at in 0..content.len() {
        for byte in 0..=255 {
            let mut content = content.clone();
            content[at] = byte;
            if let Ok(block) = block_of(&content) {
                exercise(&block, &keys);
            }
        }
        if let Ok(block) = block_of(&content[..at]) {
            exercise(&block, &keys);
        }
    }
}

#[test]
fn a_block_without_entries_is_none() {
    for content in [&[][..], &[0; 5], &[0; 6], &[1, 0, 0, 0, 0, 0], &[1, 0, 1, 0, 0, 0], &[0xff; 12]] {
        assert!(block_of(content).is_err(), "{content:?}");
    }
}

/// A block of these entries, each as bytes, with the tail that belongs to it.
fn with_tail(entries: &[&[u8]], restart_interval: u16) -> Vec<u8> {
    let mut content = entries.concat();
    let starts = entries.iter().scan(0u16, |next, entry| Some(std::mem::replace(next, *next + entry.len() as u16)));
    let starts: Vec<u8> = starts.flat_map(u16::to_le_bytes).collect();
    content.extend(starts);
    content.extend(entries.iter().map(|entry| tag_of(&entry[3..])));
    content.extend(restart_interval.to_le_bytes());
    content.extend((entries.len() as u32).to_le_bytes());
    content
}

#[test]
fn a_walk_finds_what_is_wrong() {
    let walk = |entries: &[&[u8]]| block_of(&with_tail(entries, 16)).unwrap().entries().collect::<Result<Vec<_>>>();
    let says = |entries: &[&[u8]], expected: &str| {
        let said = walk(entries).expect_err(expected).to_string();
        assert!(said.contains(expected), "{said}");
    };
    // Each entry: bytes shared, key bytes × 2, sequence number, key bytes.
    assert_eq!(walk(&[&[0, 2, 1, b'a'], &[1, 2, 1, b'b']]).unwrap()[1].key, b"ab");
    says(&[&[0, 2, 1, b'b'], &[0, 2, 1, b'a']], "do not ascend");
    says(&[&[0, 2, 1, b'a'], &[0, 2, 1, b'a']], "do not ascend");
    assert_eq!(walk(&[&[0, 2, 2, b'a'], &[0, 2, 1, b'a']]).unwrap()[1].sequence, 1);
    says(&[&[0, 2, 1, b'a'], &[0, 2, 2, b'a']], "do not ascend");
    says(&[&[1, 2, 1, b'a']], "cut off");
    says(&[&[0, 2, 1, b'a'], &[2, 2, 1, b'b']], "shares more than there is");
    says(&[&[0, 4, 1, b'a']], "cut off");
    says(&[&[0, 3, 1, b'a', b'v']], "cut off");
}

#[test]
fn versions_of_a_key_are_found_by_their_numbers() {
    let versions: [(&[u8], u64); 6] = [(b"a", 4), (b"b", 9), (b"b", 7), (b"b", 5), (b"b", 2), (b"c", 6)];
    for restart_interval in [1, 2, 16] {
        let (mut builder, mut content) = (BlockBuilder::new(restart_interval), Vec::new());
        for (key, sequence) in versions {
            let kind = if sequence == 7 { EntryKind::Delete } else { EntryKind::Put };
            let value = [10 + sequence as u8];
            let value = if kind == EntryKind::Put { &value[..] } else { &[] };
            builder.add(&mut content, 0, &NewEntry { key, sequence, kind, value });
        }
        builder.finish(&mut content);
        let block = block_of(&content).unwrap();
        assert_eq!(block.get(b"b").unwrap().unwrap().sequence, 9);
        for sequence in [9, 5, 2] {
            assert_eq!(block.get_version(b"b", sequence).unwrap().unwrap().value, [10 + sequence as u8]);
        }
        assert_eq!(block.get_version(b"b", 7).unwrap().unwrap().kind, EntryKind::Delete);
        assert!(block.get_version(b"b", 8).unwrap().is_none() && block.get_version(b"a", 9).unwrap().is_none());
        let mut cursor = block.cursor();
        cursor.seek(b"b").unwrap();
        assert_eq!((cursor.key(), cursor.sequence()), (b"b".as_slice(), 9));
        cursor.seek_before(b"c").unwrap();
        assert_eq!((cursor.key(), cursor.sequence()), (b"b".as_slice(), 2));
        cursor.prev().unwrap();
        assert_eq!((cursor.key(), cursor.sequence()), (b"b".as_slice(), 5));
        cursor.seek_before(b"b").unwrap();
        assert_eq!((cursor.key(), cursor.sequence()), (b"a".as_slice(), 4));
    }
}

#[test]
fn nothing_lies_before_the_first_entry() {
    let mut content = with_tail(&[&[0, 2, 1, b'a'], &[0, 2, 1, b'b']], 16);
    assert!(block_of(&content).is_ok());
    let offsets_at = 8;
    content[offsets_at] = 1;
    assert!(block_of(&content).is_err());
}

#[test]
fn offsets_are_wide_only_where_they_must_be() {
    for (length, wide) in [(60_000, false), (70_000, true)] {
        let long = || Some(vec![7; length]);
        let model: Model = [(b"a".to_vec(), (1, long())), (b"b".to_vec(), (2, long()))].into();
        let content = content_of(&model, 16);
        assert_eq!(content[content.len() - 1] & 0x80 != 0, wide);
        assert_eq!(content.len(), 2 * (length + 4) + 2 * if wide { 5 } else { 3 } + TAIL_BYTES);
        let block = block_of(&content).unwrap();
        assert_eq!(block.get(b"b").unwrap().unwrap().value.len(), length);
    }
    // One long entry starts at 0.
    let model: Model = [(b"a".to_vec(), (1, Some(vec![7; 1 << 20])))].into();
    let content = content_of(&model, 16);
    assert_eq!(content.len(), (1 << 20) + 4 + 3 + TAIL_BYTES);
}

#[test]
fn tags_name_their_slots() {
    for count in 1..40u8 {
        let model: Model = (0..count).map(|number| (vec![number], (1, Some(vec![])))).collect();
        let block = block_of(&content_of(&model, 16)).unwrap();
        for tag in 0..=255 {
            let tagged: Vec<_> = block.view().tagged(tag).filter(|&slot| slot < block.len()).collect();
            assert!(tagged.is_sorted_by(|one, other| one < other));
            for slot in 0..count {
                assert!(tag_of(&[slot]) != tag || tagged.contains(&slot.into()), "slot {slot} of {count}");
            }
        }
        assert!((0..count).all(|number| block.has_tag_of(number.into(), &[number])));
    }
}

#[test]
fn values_outlive_their_block() {
    let value = {
        let block = block_of(&content_of(&small_model(), 16)).unwrap();
        block.get(b"ba").unwrap().unwrap().value
    };
    assert_eq!(value, [5; 5]);
}

#[test]
fn memory_is_counted() {
    let content = content_of(&small_model(), 16);
    let block = block_of(&content).unwrap();
    assert!(block.memory_bytes() > content.len());
    assert!(block.memory_bytes() < content.len() + 200);
}
