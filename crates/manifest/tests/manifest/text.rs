//! The dump for people, and a file of each format version.

use std::path::{Path, PathBuf};

use crate::common::{DIRECTORY, FILE, machine, machine_with, read};
use slmdb_manifest::{ArenaRecord, Counters, Edit, FileRecord, Manifest, MediumKind, MediumRecord, StoreState, dump};

fn first_state() -> StoreState {
    let medium = MediumRecord {
        kind: MediumKind::Emulated,
        pool_path: Some(PathBuf::from("/pools/a")),
        pool_uuid: Some([0xab; 16]),
        boot_id: [0x01; 16],
    };
    StoreState::new([0x5a; 16], "slm", "bytewise", medium)
}

fn edits() -> [Edit; 3] {
    let arena = |sealed_last_sequence| ArenaRecord { sealed_last_sequence, length_bytes: 65_536 };
    let file = |live, smallest: &[u8], largest: &[u8]| FileRecord {
        length_bytes: 4096,
        entries: 100,
        deletes: 3,
        live_keys: live,
        smallest_key: smallest.to_vec(),
        largest_key: largest.to_vec(),
        lowest_sequence: 1,
        highest_sequence: 100,
        created_unix_ns: 1_700_000_000_000_000_000,
        level: 0,
    };
    [
        Edit { arenas_added: vec![(1, arena(None))], next_generation: Some(2), ..Edit::default() },
        Edit {
            job: 1,
            files_added: vec![
                (1, file(100, b"", b"tab\there")),
                (2, file(7, "\u{fc}\u{0}\\".as_bytes(), &[b'x'; 100])),
            ],
            arenas_added: vec![(1, arena(Some(100))), (2, arena(None))],
            next_file_number: Some(3),
            next_generation: Some(3),
            flushed_through: Some(100),
            lifetime: Some(Counters::default()),
            engine_section: [(1, vec![2, 0xa1]), (3, Vec::new())].into(),
            ..Edit::default()
        },
        Edit {
            job: 2,
            files_added: vec![(5, file(50, b"a", b"\xff"))],
            files_removed: vec![1],
            live_changes: vec![(2, -4)],
            arenas_removed: vec![1],
            next_file_number: Some(6),
            closed_at_sequence: Some(123),
            lifetime: Some(Counters { user_bytes_put: 5, compactions: 1, ..Counters::default() }),
            medium: Some(MediumRecord { boot_id: [0x02; 16], ..first_state().medium }),
            engine_section: [(3, vec![7])].into(),
            ..Edit::default()
        },
    ]
}

const TEXT: &str = r#"store 5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a
engine slm
comparator bytewise
medium Emulated, pool /pools/a, pool uuid abababababababababababababababab, boot 02020202020202020202020202020202
closed at sequence number 123
flushed through 100
last job 2
next file number 6
next generation 3
files 2
  2: 4096 bytes, 100 entries, 3 deletes, 3 live, sequence 1..100, keys "ü\x00\\".."xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"… (100 bytes), made 1700000000000000000
  5: 4096 bytes, 100 entries, 3 deletes, 50 live, sequence 1..100, keys "a".."\xff", made 1700000000000000000
arenas 1
  2: 65536 bytes, open
engine's part 1: 02a1
engine's part 3: 07
lifetime
  user_bytes_put 5
  file_bytes_written 0
  persists 0
  lines_flushed 0
  media_bytes 0
  fast_tier_bytes_asked 0
  flushes 0
  compactions 1
  compaction_bytes_read 0
  compaction_bytes_written 0
  stall_us 0
"#;

#[test]
fn a_state_as_text() {
    let mut state = first_state();
    for edit in edits() {
        state.apply(&edit).unwrap();
    }
    assert_eq!(dump(&state), TEXT);
    let empty = dump(&first_state());
    for line in ["not closed", "files 0", "arenas 0"] {
        assert!(empty.lines().any(|found| found == line), "{empty}");
    }
}

/// After a deliberate change of the format, which takes a new version number once there is a release, this test writes the
/// file of the new one with `SLMDB_WRITE_FIXTURE=FILE`.
#[test]
fn the_kept_file_is_read_and_the_same_is_written() {
    let env = machine();
    let mut manifest = Manifest::create(&env, Path::new(DIRECTORY), &first_state()).unwrap();
    for edit in edits() {
        manifest.append(&edit).unwrap();
    }
    // The nonce, and with it every checksum, follows from the test machine's seed.
    let bytes = env.content(FILE).unwrap();
    if let Some(path) = std::env::var_os("SLMDB_WRITE_FIXTURE") {
        std::fs::write(path, &bytes).unwrap();
    }

    let kept = include_bytes!("../fixtures/MANIFEST-version-1");
    let reading = read(&machine_with(kept)).unwrap();
    assert_eq!(dump(&reading.state), TEXT);
    assert_eq!((&reading.state, reading.edits, reading.torn_tail), (manifest.state(), 3, None));
    assert!(bytes == kept, "the format has changed without a new version number");
}
