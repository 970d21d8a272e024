//! Lists in a damaged pool: opened, verified, every entry found at its moments, walked both ways.
//!
//! An input is choices of words, as for the index ([`super::tree`]): words that name an entry get the places of others.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use slmdb_env::{Error, ErrorKind, Result};
use slmdb_order::KeyOrder;
use slmdb_pmem::{Claim, Dram, Emulated, Extent, ExtentKind, Pool, PoolOptions};
use slmdb_structures::EntryKind;
use slmdb_structures::list::{
    List, ListCursor, ListOptions, ListWriter, Persists, SegmentOptions, SegmentWriter, entry_bytes,
};
use slmdb_testkit::MemoryEnv;

use crate::memory::within;
use crate::mode::{Mode, expected};
use crate::script::Choices;
use crate::{mend, script};

const PATH: &str = "/pool";
const NUMBERS: [u32; 2] = [3, 4];
/// Segments are so short that a list has several.
const SEGMENT_BYTES: u64 = 64 << 10;

/// Key, sequence number, kind, value: in the order of the keys, the newest version first.
type Entry = (Vec<u8>, u64, EntryKind, Vec<u8>);

struct Image {
    bytes: Vec<u8>,
    /// What lists and segments take, in bytes from the beginning, padding left out.
    parts: Vec<(u64, u64)>,
    entries: Vec<Entry>,
    /// Where each entry is.
    places: Vec<u64>,
}

/// Two lists over the same entries, of which one was made by pointing; with filters and without.
fn images() -> &'static [Image] {
    static IMAGES: OnceLock<Vec<Image>> = OnceLock::new();
    IMAGES.get_or_init(|| [0, 10].map(|bits| image(bits).expect("sound lists")).into())
}

fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for number in 0..150_u64 {
        let keys = [format!("key{number:04}"), format!("key0005 and {number:04}")];
        for (key, sequence) in keys.into_iter().zip([7, 3000].map(|first| first + number)) {
            let kind = if sequence % 5 == 4 { EntryKind::Delete } else { EntryKind::Put };
            let value = if kind == EntryKind::Put { vec![sequence as u8; sequence as usize % 40] } else { Vec::new() };
            if sequence % 3 == 0 {
                entries.push((key.clone().into_bytes(), sequence + 10_000, EntryKind::Put, b"newer".to_vec()));
            }
            entries.push((key.into_bytes(), sequence, kind, value));
        }
    }
    // One that has a segment nearly to itself.
    entries.push((b"long".to_vec(), 99, EntryKind::Put, vec![8; SEGMENT_BYTES as usize - 100]));
    entries.sort_by(|left, right| left.0.cmp(&right.0).then(right.1.cmp(&left.1)));
    entries
}

fn image(filter_bits_per_key: u32) -> Result<Image> {
    let env = MemoryEnv::new();
    let options = PoolOptions { initial_bytes: 0, growth_bytes: 64 << 10, maximum_bytes: 4 << 20, uuid: [7; 16] };
    let pool = Arc::new(Pool::create(&env, Path::new(PATH), Emulated::new(), &options)?);
    let options = SegmentOptions { segment_bytes: SEGMENT_BYTES, owner: 2, claim: Claim::Privileged };
    let mut segments = SegmentWriter::new(Arc::clone(&pool), options);
    let entries = entries();
    let places = entries.iter().map(|(key, sequence, kind, value)| segments.add(key, *sequence, *kind, value));
    let places = places.collect::<Result<Vec<_>>>()?;
    let mut lists = Vec::new();
    for number in NUMBERS {
        let options = ListOptions {
            order: KeyOrder::Bytewise,
            filter_bits_per_key,
            claim: Claim::Privileged,
            persists: Persists::Once,
        };
        let mut list = ListWriter::new(Arc::clone(&pool), number, options);
        for ((key, sequence, kind, _), place) in entries.iter().zip(&places) {
            list.add(key, *sequence, *kind, *place)?;
        }
        lists.push(list.finish(123)?);
    }
    segments.complete(&lists)?;
    let mut parts = Vec::new();
    for list in &lists {
        let nodes_bytes = 18 * entries.len() as u64 + 1000;
        parts.push((list.record().extent.offset, nodes_bytes.min(list.record().extent.length_bytes)));
        parts.extend(list.record().segments.iter().map(|share| (share.segment, share.live_bytes.min(8 << 10))));
    }
    let places = places.iter().map(|place| place.offset()).collect();
    drop((lists, pool));
    Ok(Image { bytes: env.content(PATH).unwrap_or_default(), parts, entries, places })
}

/// Runs an input.
pub fn run(input: &[u8]) {
    let Some((mode, rest)) = Mode::split(input) else { return };
    let image = &images()[mode.sound(images().len())];
    let mut bytes = image.bytes.clone();
    if mode.has_option() {
        let mut file = [bytes];
        script::apply(rest, &mut file);
        [bytes] = file;
    } else {
        image.damage(&mut bytes, &mut Choices::new(rest));
    }
    mode.mend(&mut bytes, &image.bytes, mend::pool::mend);
    within(4 * bytes.len() + (16 << 20), || image.exercise(bytes, mode));
}

impl Image {
    /// Damages some words.
    fn damage(&self, bytes: &mut [u8], choices: &mut Choices<'_>) {
        for _ in 0..script::EDITS_MAX {
            if choices.is_empty() {
                return;
            }
            let (offset, length) = self.parts[choices.below(self.parts.len())];
            let word = match choices.below(4) {
                0 => self.places[choices.below(self.places.len())] + 8 * (choices.byte() % 4) as u64,
                1 => offset + 8 * (choices.byte() % 16) as u64,
                _ => offset + 8 * (choices.below(1 << 16) as u64 % (length / 8)),
            } as usize;
            let old = mend::u64_at(bytes, word);
            let entry = self.places[choices.below(self.places.len())];
            let new = match choices.below(8) {
                0 => u64::from_le_bytes(choices.bytes()),
                1 => old ^ 1 << (choices.byte() % 64),
                2 => u64::from(choices.byte() % 3),
                3 => old.wrapping_add(u64::from(choices.byte())),
                4 => choices.below(bytes.len()) as u64 / 8,
                5 => entry / 8 + u64::from(choices.byte() % 64),
                _ => entry / 8,
            };
            mend::put(bytes, word, &new.to_le_bytes());
        }
    }

    /// Everything that can be done with a list is done with a damaged one.
    fn exercise(&self, bytes: Vec<u8>, mode: Mode) {
        let is_sound = bytes == self.bytes;
        let pool = match Pool::from_image(Dram, bytes) {
            Ok(pool) => Arc::new(pool),
            Err(_) => return assert!(!is_sound, "a sound pool is refused"),
        };
        let lists: Vec<Extent> = pool.extents().into_iter().filter(|extent| extent.kind == ExtentKind::List).collect();
        assert!(!is_sound || lists.len() == NUMBERS.len());
        for extent in lists {
            for number in NUMBERS {
                match List::open(Arc::clone(&pool), extent, number, KeyOrder::Bytewise) {
                    Ok(list) => self.read(&Arc::new(list), mode, is_sound),
                    Err(error) => {
                        assert!(!is_sound || extent.owner != number, "a sound list is refused: {error}");
                        expected(&error);
                    }
                }
            }
        }
    }

    /// Reads all of a list. One that was damaged and not mended has what was written, or gives an error.
    fn read(&self, list: &Arc<List<Dram>>, mode: Mode, is_sound: bool) {
        let findings = list.verify();
        findings.iter().for_each(damaged);
        assert!(!is_sound || findings.is_empty(), "{findings:?}");
        let is_right = |right: bool, what: &str| assert!(right || !mode.is_strict(), "{what}, and no error");
        for (key, sequence, ..) in &self.entries {
            for moment in [0, *sequence, u64::MAX] {
                let newest = self.entries.iter().find(|other| other.0 == *key && other.1 <= moment);
                match list.get(key, moment) {
                    Ok(found) => {
                        let found = found.map(|found| (found.sequence, found.kind, found.value));
                        let written = newest.map(|(_, sequence, kind, value)| (*sequence, *kind, &value[..]));
                        is_right(found == written, "another answer");
                    }
                    Err(error) => damaged(&error),
                }
            }
            let behind = self.entries.partition_point(|other| other.0 < *key) as u64;
            list.rank(key).map_or_else(|error| damaged(&error), |rank| is_right(rank == behind, "another rank"));
        }
        for walked in [forwards(list), backwards(list)] {
            walked.map_or_else(|error| damaged(&error), |entries| is_right(entries == self.entries, "other entries"));
        }
        let named_bytes: u64 =
            self.entries.iter().map(|entry| entry_bytes(entry.0.len() as u64, entry.3.len() as u64)).sum();
        is_right(list.record().data_bytes == named_bytes, "other bytes");
    }
}

fn current(cursor: &ListCursor<Dram>) -> Result<Entry> {
    Ok((cursor.key().to_vec(), cursor.sequence(), cursor.kind(), cursor.value()?.to_vec()))
}

fn forwards(list: &Arc<List<Dram>>) -> Result<Vec<Entry>> {
    let (mut cursor, mut entries) = (ListCursor::new(Arc::clone(list)), Vec::new());
    cursor.seek_first()?;
    while cursor.valid() {
        entries.push(current(&cursor)?);
        cursor.next()?;
    }
    Ok(entries)
}

fn backwards(list: &Arc<List<Dram>>) -> Result<Vec<Entry>> {
    let (mut cursor, mut entries) = (ListCursor::new(Arc::clone(list)), Vec::new());
    cursor.seek_last()?;
    while cursor.valid() {
        entries.push(current(&cursor)?);
        cursor.prev()?;
    }
    entries.reverse();
    Ok(entries)
}

fn damaged(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}
