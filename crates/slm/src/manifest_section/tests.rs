use slmdb_env::ErrorKind;
use slmdb_manifest::{Edit, FileRecord, MediumKind, MediumRecord};

use crate::manifest_section::*;

fn checkpoint(number: u32, through: u64) -> CheckpointRecord {
    CheckpointRecord { number, through, entries: 7, length_bytes: 9 }
}

/// Files 1 to 3, flushed through 100, and a section.
fn state(section: &Section) -> StoreState {
    let medium = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id: [0; 16] };
    let mut state = StoreState::new([1; 16], "slm", "bytewise", medium);
    state.files = (1..=3).map(|number| (number, FileRecord::default())).collect();
    (state.next_file_number, state.flushed_through) = (4, 100);
    section.write_to(&mut state);
    state
}

fn full() -> Section {
    let checkpoints = vec![checkpoint(1, 90), checkpoint(2, 100)];
    Section { candidates: vec![1, 3], checkpoints, deletes_dropped_through: 100 }
}

#[test]
fn what_is_written_is_read() {
    for section in [Section::default(), full(), Section { deletes_dropped_through: 0, ..full() }] {
        assert_eq!(Section::of(&state(&section)).unwrap(), section);
    }
    assert!(state(&Section::default()).engine_section.is_empty(), "what is not used takes no byte");
}

#[test]
fn a_file_that_is_gone_is_no_candidate() {
    let mut state = state(&full());
    state.apply(&Edit { files_removed: vec![3], ..Edit::default() }).unwrap();
    assert_eq!(Section::of(&state).unwrap().candidates, [1]);
}

#[test]
fn what_contradicts_itself_is_refused() {
    let checkpoints = |of: &[(u32, u64)]| Section {
        checkpoints: of.iter().map(|&(number, through)| checkpoint(number, through)).collect(),
        ..Section::default()
    };
    let candidates = |of: &[u32]| Section { candidates: of.to_vec(), ..Section::default() };
    let endless = CheckpointRecord { entries: u64::MAX, ..checkpoint(1, 1) };
    let cases = [
        ("index checkpoint 3 through 3", checkpoints(&[(1, 1), (2, 2), (3, 3)])),
        ("index checkpoint 2 through 2", checkpoints(&[(2, 1), (2, 2)])),
        ("index checkpoint 3 through 8", checkpoints(&[(2, 9), (3, 8)])),
        ("index checkpoint 1 through 101", checkpoints(&[(1, 101)])),
        ("index checkpoint 0", checkpoints(&[(0, 1)])),
        ("index checkpoint 4294967295", checkpoints(&[(u32::MAX, 1)])),
        ("of 18446744073709551615 entries", Section { checkpoints: vec![endless], ..Section::default() }),
        ("deletes dropped through [101]", Section { deletes_dropped_through: 101, ..Section::default() }),
        ("candidates", candidates(&[0])),
        ("candidates", candidates(&[1, 4])),
        ("candidates", candidates(&[1, 1, 2])),
    ];
    for (why, section) in cases {
        let refused = Section::of(&state(&section)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corruption, "{why}");
        assert!(refused.to_string().contains(why), "{refused} lacks {why:?}");
    }
}

#[test]
fn every_byte_is_needed() {
    for part in [CANDIDATES, CHECKPOINTS, DELETES_DROPPED_THROUGH] {
        for more in [1, -1] {
            let mut state = state(&full());
            let bytes = state.engine_section.get_mut(&part).unwrap();
            bytes.resize(bytes.len().wrapping_add_signed(more), 0);
            let refused = Section::of(&state).unwrap_err();
            assert!(refused.to_string().contains("half"), "{part}: {refused}");
        }
    }
}

#[test]
fn a_part_of_a_newer_version_is_refused() {
    for part in [0, DELETES_DROPPED_THROUGH + 1, u8::MAX] {
        let mut state = state(&full());
        state.engine_section.insert(part, Vec::new());
        assert_eq!(Section::of(&state).unwrap_err().kind(), ErrorKind::Unsupported, "{part}");
    }
}
