//! Files put together by hand: with right checksums and wrong content, or made to keep the search busy.

use std::path::Path;
use std::time::{Duration, Instant};

use slmdb_env::Env;
use slmdb_testkit::MemoryEnv;

use super::*;
use crate::edit::Edit;
use crate::log::{Manifest, Reading};
use crate::payload;
use crate::state::{MediumKind, MediumRecord, StoreState};

const PATH: &str = "/db/MANIFEST";
const HEADER: Header = Header { uuid: [7; 16], nonce: [9; 8] };

fn state() -> StoreState {
    let medium = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id: [0; 16] };
    StoreState::new(HEADER.uuid, "slm", "bytewise", medium)
}

fn read(bytes: &[u8]) -> Result<Reading> {
    let env = MemoryEnv::new();
    env.set_content(PATH, bytes);
    Manifest::read(&env, Path::new("/db"))
}

fn record(number: u64, kind: RecordKind, payload: Vec<u8>) -> Vec<u8> {
    encode_record(HEADER.seed(), number, kind, payload).unwrap()
}

fn edit(number: u64) -> Vec<u8> {
    record(number, RecordKind::Edit, payload::encode_edit(&Edit { job: number, ..Edit::default() }))
}

/// A file with the state and these records.
fn manifest(records: &[Vec<u8>]) -> Vec<u8> {
    let first = record(0, RecordKind::State, payload::encode_state(&state()));
    [&HEADER.encode(), first.as_slice(), &records.concat()].concat()
}

#[track_caller]
fn assert_corrupt(bytes: &[u8], at: usize, part: &str) {
    match read(bytes) {
        Err(Error::Corruption { file, offset, what }) => {
            assert_eq!((file.as_path(), offset), (Path::new(PATH), at as u64), "{what}");
            assert!(what.contains(part), "{what:?} lacks {part:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_unsupported(bytes: &[u8], part: &str) {
    match read(bytes) {
        Err(Error::Unsupported { file, what }) => {
            assert_eq!(file.as_deref(), Some(Path::new(PATH)));
            assert!(what.contains(part), "{what:?} lacks {part:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_put_together_by_hand_is_read() {
    let bytes = manifest(&[edit(1), edit(2)]);
    let reading = read(&bytes).unwrap();
    assert_eq!(reading.state, StoreState { last_job: 2, ..state() });
    assert_eq!((reading.edits, reading.torn_tail, reading.length_bytes), (2, None, bytes.len() as u64));
}

#[test]
fn a_newer_version_is_told_from_a_damaged_header() {
    let mut bytes = manifest(&[]);
    bytes[8] = 3;
    assert_corrupt(&bytes, 0, "checksum");
    let crc = header_crc(bytes[..HEADER_BYTES].try_into().unwrap());
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    assert_unsupported(&bytes, "format version 3");
    assert_corrupt(b"something else altogether, long enough for a header", 0, "not a MANIFEST");
    assert_corrupt(b"slmdbMAN", 8, "ends 32 bytes early");
    assert_corrupt(b"", 0, "ends 40 bytes early");
    assert_corrupt(&HEADER.encode(), HEADER_BYTES, "no state");
}

#[test]
fn fields_and_kinds_of_a_newer_version_are_unsupported() {
    let unknown_field = record(1, RecordKind::Edit, vec![99, 0, 0, 0, 0, 0]);
    assert_unsupported(&manifest(&[unknown_field]), "field 99");
    let mut unknown_kind = edit(1);
    let header = RecordHeader { kind: 3, ..RecordHeader::decode(&unknown_kind, HEADER.seed()).unwrap() };
    unknown_kind[..RECORD_HEADER_BYTES].copy_from_slice(&header.encode(HEADER.seed()));
    assert_unsupported(&manifest(&[unknown_kind]), "kind 3");
}

/// Wrong content with right checksums is corruption at its place.
#[test]
fn wrong_content_with_right_checksums_is_corruption_where_it_is() {
    let (start, second) = (manifest(&[]).len(), manifest(&[edit(1)]).len());
    assert_corrupt(&manifest(&[record(1, RecordKind::Edit, vec![8, 0, 3, 0])]), start, "record 1");
    assert_corrupt(
        &manifest(&[edit(1), record(2, RecordKind::State, payload::encode_state(&state()))]),
        second,
        "a state",
    );
    let unfit = payload::encode_edit(&Edit { files_removed: vec![5], ..Edit::default() });
    assert_corrupt(&manifest(&[edit(1), record(2, RecordKind::Edit, unfit)]), second, "file 5 is removed");
    // Damage that is found before the end of the log is not taken for its end.
    assert_corrupt(&manifest(&[edit(1), edit(3)]), second, "record 3 where record 2");
    assert_corrupt(&manifest(&[edit(1), edit(1)]), second, "record 1 where record 2");

    let first = |kind, payload| [&HEADER.encode(), record(0, kind, payload).as_slice()].concat();
    assert_corrupt(&first(RecordKind::Edit, payload::encode_edit(&Edit::default())), HEADER_BYTES, "an edit");
    let foreign = StoreState { uuid: [8; 16], ..state() };
    assert_corrupt(&first(RecordKind::State, payload::encode_state(&foreign)), HEADER_BYTES, "uuid");
    let implausible = StoreState { next_file_number: 0, ..state() };
    assert_corrupt(
        &first(RecordKind::State, payload::encode_state(&implausible)),
        HEADER_BYTES,
        "next_file_number is 0",
    );
}

#[test]
fn records_of_other_files_are_worth_nothing() {
    let start = manifest(&[]).len();
    let other_nonce = Header { nonce: [10; 8], ..HEADER };
    let other_uuid = Header { uuid: [8; 16], ..HEADER };
    for other in [other_nonce, other_uuid] {
        let payload = payload::encode_edit(&Edit { job: 1, ..Edit::default() });
        let foreign = encode_record(other.seed(), 1, RecordKind::Edit, payload).unwrap();
        let reading = read(&manifest(std::slice::from_ref(&foreign))).unwrap();
        assert_eq!((reading.edits, reading.torn_tail), (0, Some(start as u64)));
        assert_corrupt(&manifest(&[foreign, edit(2)]), start, "record 2 follows");
    }
}

#[test]
fn a_later_header_is_found_anywhere_behind_a_broken_place() {
    let start = manifest(&[]).len();
    // Around the edges of what is read at a time, and at the very end.
    let windows = [0, 8, 16, SEARCH_BYTES - 32, SEARCH_BYTES - 24, SEARCH_BYTES - 16, SEARCH_BYTES - 8, SEARCH_BYTES];
    for gap in windows.into_iter().chain([2 * SEARCH_BYTES - 16, 3 * SEARCH_BYTES + 8]) {
        let broken = vec![0xee; RECORD_HEADER_BYTES + gap];
        for number in [1, 2, 9] {
            let bytes = manifest(&[broken.clone(), edit(number)]);
            let place = start + broken.len();
            assert_corrupt(&bytes, start, &format!("record {number} follows at {place}"));
            let header_only = &bytes[..place + RECORD_HEADER_BYTES];
            assert_corrupt(header_only, start, &format!("record {number} follows at {place}"));
            let cut = read(&bytes[..place + RECORD_HEADER_BYTES - 1]).unwrap();
            assert_eq!((cut.edits, cut.torn_tail), (0, Some(start as u64)));
        }
    }
}

#[test]
fn the_search_is_not_led_astray() {
    let start = manifest(&[edit(1)]).len();
    // Earlier records do not count, nor do numbers there is no room for.
    for number in [0, 1, 1_000_000, u64::MAX] {
        let bytes = manifest(&[edit(1), vec![0xee; 64], edit(number)]);
        let reading = read(&bytes).unwrap();
        assert_eq!((reading.edits, reading.torn_tail), (1, Some(start as u64)), "{number}");
    }
}

/// Each of these headers has a right checksum and a payload that reaches to the end of the file: checking payloads, a
/// search would take as many passes over the file as there are headers.
#[test]
fn the_search_takes_one_pass() {
    let mut headers = vec![0xee; RECORD_HEADER_BYTES];
    let count = 100_000_u32;
    for left in (0..count).rev() {
        let payload_length = left * RECORD_HEADER_BYTES as u32;
        let header = RecordHeader { payload_crc: 0, payload_length, kind: 2, number: 0 };
        headers.extend_from_slice(&header.encode(HEADER.seed()));
    }
    let (bytes, began) = (manifest(&[headers]), Instant::now());
    assert_eq!(read(&bytes).unwrap().torn_tail, Some(manifest(&[]).len() as u64));
    let near_misses = (0..count).flat_map(|_| {
        let mut header = RecordHeader { payload_crc: 0, payload_length: 0, kind: 2, number: 9 }.encode(HEADER.seed());
        header[0] ^= 1;
        header
    });
    let bytes = manifest(&[near_misses.collect()]);
    assert_eq!(read(&bytes).unwrap().torn_tail, Some(manifest(&[]).len() as u64));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn the_search_reads_each_place_once() {
    let env = MemoryEnv::new();
    let bytes = manifest(&[vec![0xee; 5 * SEARCH_BYTES]]);
    env.set_content(PATH, &bytes);
    let file = env.open_file(Path::new(PATH), slmdb_env::OpenMode::Read).unwrap();
    let (start, length) = (manifest(&[]).len() as u64, bytes.len() as u64);
    let before = env.operation_count();
    assert!(matches!(read_record(&*file, HEADER.seed(), 1, start, length), Ok(Found::Torn)));
    let reads = env.operation_count() - before;
    assert!(reads <= 8, "{reads} reads");
}

#[test]
fn a_length_that_is_not_there_takes_no_memory() {
    let mut huge = edit(1);
    let header = RecordHeader::decode(&huge, HEADER.seed()).unwrap();
    let header = RecordHeader { payload_length: u32::MAX, ..header };
    huge[..RECORD_HEADER_BYTES].copy_from_slice(&header.encode(HEADER.seed()));
    let start = manifest(&[]).len();
    assert_eq!(read(&manifest(&[huge.clone()])).unwrap().torn_tail, Some(start as u64));
    assert_corrupt(&manifest(&[huge, edit(2)]), start, "cut off");
}

/// The tables for people say what the code does.
#[test]
fn the_document_has_the_same_tables() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    if !documents.is_dir() {
        eprintln!("SKIPPED: the documents are not in this package");
        return;
    }
    let document = std::fs::read_to_string(documents.join("formats/manifest.md")).unwrap();
    let essay = include_str!("../format.rs");
    let rows = |text: &str| -> Vec<String> {
        let rows = text.lines().map(|line| line.trim_start_matches("//! ").trim());
        rows.filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit()).map(str::to_string).collect()
    };
    let fields = include_str!("../payload.rs");
    let (mut expected, documented) = (rows(essay), rows(&document));
    expected.extend(rows(fields).into_iter().map(|row| row.replace("[`Counters`]", "`stats`")));
    assert_eq!(documented, expected);
    let places = [HEADER_MAGIC, HEADER_VERSION, HEADER_CRC, HEADER_UUID, HEADER_NONCE].into_iter().chain([
        RECORD_HEADER_CRC,
        RECORD_PAYLOAD_CRC,
        RECORD_PAYLOAD_LENGTH,
        RECORD_KIND,
        RECORD_NUMBER,
    ]);
    for ((offset, length), row) in places.zip(&documented) {
        assert!(row.starts_with(&format!("| {offset} | {length} | ")), "{row}");
    }
}
