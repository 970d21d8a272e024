use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::entry::{EntryKind, Place};
use crate::key_chunk_sizes::CHUNK_BYTES_AT_MOST;
use crate::key_section::KeySectionBuilder;
use crate::testing::config;

/// How long a run is, and its entries.
type Run = (u32, Vec<(Vec<u8>, u64, EntryKind)>);

/// The contents of a section's chunks.
fn chunks(runs: &[Run]) -> Vec<Vec<u8>> {
    let mut builder = KeySectionBuilder::default();
    let mut offset = 0;
    for (length, entries) in runs {
        for (key, sequence, kind) in entries {
            builder.add(key, *sequence, *kind);
        }
        let place = Place { offset, length: *length };
        builder.end_run(place);
        offset = offset.wrapping_add(*length);
    }
    builder.finish()
}

fn shortened(content: &[u8]) -> Vec<u8> {
    let mut shortened = Vec::new();
    shorten(content, &mut shortened).expect("a chunk's content");
    shortened
}

fn kinds() -> impl Strategy<Value = EntryKind> {
    prop_oneof![Just(EntryKind::Put), Just(EntryKind::Delete)]
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(0..3u8, 0..12), vec(any::<u8>(), 0..200), (0..5000u32).prop_map(|key| format!("{key:020}").into())]
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn what_was_shortened_is_made_whole(
        keys in btree_map(keys(), (any::<u64>(), kinds()), 1..200),
        several in vec((1..5usize, any::<u32>()), 1..200),
    ) {
        let mut keys = keys.into_iter().map(|(key, (sequence, kind))| (key, sequence, kind)).peekable();
        let mut runs = Vec::new();
        for (count, length) in several.iter().cycle() {
            if keys.peek().is_none() {
                break;
            }
            runs.push((*length, keys.by_ref().take(*count).collect()));
        }
        for content in chunks(&runs) {
            let shortened = shortened(&content);
            prop_assert_eq!(&expand(&shortened, content.len()), &Some(content.clone()));
            prop_assert_eq!(expand(&shortened, content.len() + 1), None, "too long");
            prop_assert_eq!(expand(&shortened, content.len() - 1), None, "too short");
        }
    }

    #[test]
    fn hostile_bytes_are_refused_or_a_content(
        edits in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        content_bytes in 0..4000usize,
    ) {
        let content = chunk_of_neighbours();
        let mut shortened = shortened(&content);
        for (at, byte) in edits {
            let at = at.index(shortened.len());
            shortened[at] = byte;
        }
        expand(&shortened, content.len());
        expand(&shortened, content_bytes);
    }

    #[test]
    fn noise_ends(noise in vec(prop_oneof![0..8u8, any::<u8>()], 0..200), content_bytes in 0..1000usize) {
        expand(&noise, content_bytes);
        shorten(&noise, &mut Vec::new());
    }
}

fn chunk_of_neighbours() -> Vec<u8> {
    let entries = (0..60u32).map(|number| (format!("key{number:05}").into(), 7, EntryKind::Put)).collect();
    chunks(&[(900, entries)]).remove(0)
}

#[test]
fn what_is_cut_off_or_goes_on_is_refused() {
    let content = chunk_of_neighbours();
    let shortened = shortened(&content);
    for length in 0..shortened.len() {
        assert_eq!(expand(&shortened[..length], content.len()), None, "{length} bytes");
    }
    assert_eq!(expand(&[&shortened[..], &[0]].concat(), content.len()), None);
}

/// A key shares its bytes with the one before, which may be long: few bytes ask for many.
#[test]
fn nothing_grows_beyond_its_length() {
    let mut bomb = vec![0; CHUNK_HEADER_BYTES];
    // A run of as many entries as can be said: a key of 60,000 bytes, and then the same again and again.
    put_varint(&mut bomb, HAS_SEVERAL);
    put_varint(&mut bomb, u64::MAX);
    put_varint(&mut bomb, 0);
    put_varint(&mut bomb, 60_000);
    put_varint(&mut bomb, 0);
    bomb.extend([7; 60_000]);
    for _ in 0..20_000 {
        put_varint(&mut bomb, 60_000 << 2 | IS_AS_LONG);
        put_varint(&mut bomb, 0);
    }
    assert_eq!(expand(&bomb, CHUNK_BYTES_AT_MOST), None);
    // More is shared than there is, or than can be.
    for shared in [1, 1 << 40, u64::MAX >> 2] {
        let mut much = vec![0; CHUNK_HEADER_BYTES];
        put_varint(&mut much, 0);
        put_varint(&mut much, shared << 2 | IS_AS_LONG);
        put_varint(&mut much, 0);
        assert_eq!(expand(&much, CHUNK_BYTES_AT_MOST), None, "{shared} bytes of an empty key");
    }
}

/// Entries by themselves, of which a file has one in twenty of the store's keys.
#[test]
fn a_key_among_its_neighbours_takes_few_bytes() {
    let runs: Vec<Run> = (0..2000_u64)
        .map(|number| {
            let sequence = 5_000_000 + number * 7919 % 250_000;
            (92 + (number % 2) as u32, vec![(format!("{:020}", number * 20).into_bytes(), sequence, EntryKind::Put)])
        })
        .collect();
    let content = chunks(&runs);
    let [whole, short] = [content[0].len(), shortened(&content[0]).len()].map(|bytes| bytes as f64 / 2000.0);
    assert!(whole > 25.0 && short < 8.0, "{whole} and {short} bytes for a key of 20");
}
