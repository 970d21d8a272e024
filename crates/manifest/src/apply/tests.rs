//! Each refusal by itself, and what a fitting edit does.

use super::*;
use crate::state::{ArenaRecord, Counters, EngineSection, MediumKind, MediumRecord, UnfinishedRepair};

fn file(entries: u64, live: u64) -> FileRecord {
    FileRecord {
        entries,
        live_keys: live,
        deletes: 1,
        lowest_sequence: 5,
        highest_sequence: 9,
        ..FileRecord::default()
    }
}

fn arena(sealed_last_sequence: Option<u64>) -> ArenaRecord {
    ArenaRecord { sealed_last_sequence, length_bytes: 4096 }
}

fn medium(kind: MediumKind) -> MediumRecord {
    MediumRecord { kind, pool_path: None, pool_uuid: None, boot_id: [0; 16] }
}

/// Files 1 to 3 of 10 entries, 5 of them live; arenas 1 and 2; job 7; flushed through 100.
fn state() -> StoreState {
    let mut state = StoreState::new([1; 16], "slm", "bytewise", medium(MediumKind::Dram));
    state.files = (1..=3).map(|number| (number, file(10, 5))).collect();
    state.arenas = BTreeMap::from([(1, arena(Some(120))), (2, arena(None))]);
    (state.next_file_number, state.next_generation) = (4, 3);
    (state.flushed_through, state.last_job) = (100, 7);
    state.closed_at_sequence = Some(130);
    state.check().unwrap();
    state
}

#[test]
fn numbers_that_leave_no_room_to_count_on_are_refused() {
    let spoils: [fn(&mut StoreState); 3] = [
        |state| state.flushed_through = u64::MAX - 1,
        |state| state.next_generation = u64::MAX,
        |state| state.last_job = u64::MAX,
    ];
    for spoil in spoils {
        let mut state = state();
        state.closed_at_sequence = None;
        spoil(&mut state);
        assert!(state.check().is_err());
    }
    let edit = Edit { flushed_through: Some(u64::MAX - 1), ..Edit::default() };
    assert!(state().apply(&edit).is_err());
}

#[test]
fn a_flush_is_applied() {
    let mut state = state();
    let edit = Edit {
        job: 9,
        files_added: vec![(5, file(20, 20))],
        live_changes: vec![(1, -5), (2, 5), (5, -3), (2, -1)],
        arenas_added: vec![(2, arena(Some(140))), (3, arena(None))],
        arenas_removed: vec![1],
        next_file_number: Some(6),
        next_generation: Some(4),
        flushed_through: Some(120),
        lifetime: Some(Counters { flushes: 1, ..Counters::default() }),
        medium: Some(medium(MediumKind::Dax)),
        ..Edit::default()
    };
    state.apply(&edit).unwrap();
    let live: Vec<_> = state.files.iter().map(|(&number, file)| (number, file.live_keys)).collect();
    assert_eq!(live, [(1, 0), (2, 9), (3, 5), (5, 17)]);
    assert_eq!(state.arenas, BTreeMap::from([(2, arena(Some(140))), (3, arena(None))]));
    assert_eq!((state.next_file_number, state.next_generation, state.flushed_through), (6, 4, 120));
    assert_eq!((state.last_job, state.closed_at_sequence, state.lifetime.flushes), (9, None, 1));
    assert_eq!(state.medium.kind, MediumKind::Dax);
}

#[test]
fn a_compaction_is_applied() {
    let mut state = state();
    let edit = Edit {
        job: 8,
        files_added: vec![(4, file(7, 7))],
        files_removed: vec![3, 2],
        live_changes: vec![(3, -5), (1, -1)],
        next_file_number: Some(5),
        ..Edit::default()
    };
    state.apply(&edit).unwrap();
    assert_eq!(state.files, BTreeMap::from([(1, file(10, 4)), (4, file(7, 7))]));
}

#[test]
fn the_empty_edit_only_clears_the_clean_close() {
    let mut state = state();
    state.apply(&Edit::default()).unwrap();
    assert_eq!(state, StoreState { closed_at_sequence: None, ..self::state() });
    state.apply(&Edit { closed_at_sequence: Some(130), ..Edit::default() }).unwrap();
    assert_eq!(state, self::state());
}

#[test]
fn what_stays_the_same_may_be_said_again() {
    let mut state = state();
    let edit = Edit {
        next_file_number: Some(4),
        next_generation: Some(3),
        flushed_through: Some(100),
        closed_at_sequence: Some(100),
        live_changes: vec![(1, 0)],
        ..Edit::default()
    };
    state.apply(&edit).unwrap();
}

#[test]
fn edits_that_do_not_fit_are_refused_and_change_nothing() {
    let add = |number, record| Edit { files_added: vec![(number, record)], ..Edit::default() };
    let live = |changes: &[(u32, i64)]| Edit { live_changes: changes.to_vec(), ..Edit::default() };
    let remove = |files: &[u32]| Edit { files_removed: files.to_vec(), ..Edit::default() };
    let add_arena = |generation, record| Edit { arenas_added: vec![(generation, record)], ..Edit::default() };
    let remove_arenas = |arenas: &[u64]| Edit { arenas_removed: arenas.to_vec(), ..Edit::default() };
    let next = |number| Edit { next_file_number: Some(number), ..Edit::default() };
    let backwards = FileRecord { lowest_sequence: 10, ..file(10, 5) };
    let cases = [
        ("job 7 comes after", Edit { job: 7, ..Edit::default() }),
        ("job 1 comes after", Edit { job: 1, ..Edit::default() }),
        ("next_file_number goes back", next(3)),
        ("next_generation goes back", Edit { next_generation: Some(2), ..Edit::default() }),
        ("flushed_through goes back", Edit { flushed_through: Some(99), ..Edit::default() }),
        ("closed at", Edit { closed_at_sequence: Some(99), ..Edit::default() }),
        ("closed at", Edit { closed_at_sequence: Some(109), flushed_through: Some(110), ..Edit::default() }),
        ("means none", add(0, file(1, 1))),
        ("beyond next_file_number", add(4, file(1, 1))),
        ("there already", add(3, file(1, 1))),
        ("there already", Edit { files_added: vec![(4, file(1, 1)), (4, file(1, 1))], ..next(9) }),
        ("11 live", Edit { files_added: vec![(4, file(10, 11))], ..next(9) }),
        ("1 of them deletes", Edit { files_added: vec![(4, file(0, 0))], ..next(9) }),
        ("sequence numbers from 10 to 9", Edit { files_added: vec![(4, backwards)], ..next(9) }),
        ("file 4 is removed", remove(&[4])),
        ("file 2 is removed", remove(&[2, 1, 2])),
        ("file 4 is removed", Edit { files_added: vec![(4, file(1, 1))], files_removed: vec![4], ..next(9) }),
        ("changed by 6", live(&[(1, 6)])),
        ("changed by -6", live(&[(1, -3), (1, -3)])),
        ("overflow", live(&[(1, i64::MIN), (1, -1)])),
        ("changed by", live(&[(1, i64::MAX)])),
        ("changed by", live(&[(1, i64::MIN)])),
        ("not there", live(&[(9, 0)])),
        ("beyond next_generation", add_arena(3, arena(None))),
        ("there already", add_arena(2, arena(None))),
        ("is given 5 bytes", add_arena(2, ArenaRecord { sealed_last_sequence: Some(9), length_bytes: 5 })),
        ("twice", Edit { arenas_added: vec![(2, arena(Some(1))), (2, arena(Some(1)))], ..Edit::default() }),
        ("arena 3 is removed", remove_arenas(&[3])),
        ("arena 1 is removed", remove_arenas(&[1, 1])),
    ];
    for (why, edit) in cases {
        let mut state = state();
        let refused = state.apply(&edit).unwrap_err();
        assert!(refused.contains(why), "{refused:?} lacks {why:?}");
        assert_eq!(state, self::state(), "{why}");
    }
}

#[test]
fn states_that_contradict_themselves_are_refused() {
    type Change = fn(&mut StoreState);
    let cases: [(&str, Change); 8] = [
        ("unfinished repair", |state| {
            state.unfinished_repair = Some(UnfinishedRepair { old_pool: None, new_pool: [1; 16] });
            state.medium.pool_uuid = Some([2; 16]);
        }),
        ("beyond next_file_number", |state| state.next_file_number = 3),
        ("beyond next_generation", |state| state.next_generation = 2),
        ("next_file_number is 0", |state| {
            state.files = BTreeMap::new();
            state.next_file_number = 0;
        }),
        ("means none", |state| drop(state.files.insert(0, file(1, 1)))),
        ("closed at", |state| state.closed_at_sequence = Some(99)),
        ("11 live", |state| drop(state.files.insert(2, file(10, 11)))),
        ("sequence numbers", |state| drop(state.files.insert(2, FileRecord { lowest_sequence: 10, ..file(10, 5) }))),
    ];
    for (why, change) in cases {
        let mut state = state();
        change(&mut state);
        let refused = state.check().unwrap_err();
        assert!(refused.contains(why), "{refused:?} lacks {why:?}");
    }
}

#[test]
fn files_change_their_level_and_the_engine_its_section() {
    let mut state = state();
    let section =
        |parts: &[(u8, u8)]| -> EngineSection { parts.iter().map(|&(part, byte)| (part, vec![byte; 3])).collect() };
    let first = section(&[(1, 1), (2, 1)]);
    state.apply(&Edit { level_changes: vec![(1, 4)], engine_section: first.clone(), ..Edit::default() }).unwrap();
    assert_eq!((state.files[&1].level, state.files[&2].level, &state.engine_section), (4, 0, &first));
    state.apply(&Edit::default()).unwrap();
    assert_eq!((state.files[&1].level, &state.engine_section), (4, &first), "they stay");
    let second = section(&[(2, 2), (3, 2)]);
    state.apply(&Edit { level_changes: vec![(1, 0)], engine_section: second, ..Edit::default() }).unwrap();
    let both = section(&[(1, 1), (2, 2), (3, 2)]);
    assert_eq!((state.files[&1].level, &state.engine_section), (0, &both), "each part by itself");

    for wrong in [vec![(9, 1)], vec![(1, 1), (1, 2)]] {
        let before = state.clone();
        let refused = state.apply(&Edit { level_changes: wrong, ..Edit::default() }).unwrap_err();
        assert!(refused.contains("another level"), "{refused}");
        assert_eq!(state, before);
    }
}

/// A store with file 1 and list 2.
fn state_with_a_list() -> StoreState {
    let mut state = StoreState::new([1; 16], "tlsm", "bytewise", medium(MediumKind::Emulated));
    state.next_file_number = 2;
    state.apply(&Edit { files_added: vec![(1, file(10, 0))], ..Edit::default() }).unwrap();
    let list = (2, FileRecord { level: 1, ..file(20, 0) });
    state.apply(&Edit { lists_added: vec![list], next_file_number: Some(9), ..Edit::default() }).unwrap();
    state
}

#[test]
fn lists_come_move_and_go_as_files_do() {
    let mut state = state_with_a_list();
    assert_eq!(
        state.runs().map(|(number, run)| (number, run.entries, run.level)).collect::<Vec<_>>(),
        [(1, 10, 0), (2, 20, 1)]
    );
    state.apply(&Edit { level_changes: vec![(1, 1), (2, 3)], ..Edit::default() }).unwrap();
    assert_eq!((state.files[&1].level, state.lists[&2].level), (1, 3));
    state.apply(&Edit { lists_added: vec![(3, file(1, 0))], lists_removed: vec![2], ..Edit::default() }).unwrap();
    assert_eq!((state.files.len(), state.lists.keys().collect::<Vec<_>>()), (1, vec![&3]));
    state.check().unwrap();
}

#[test]
fn a_list_is_no_file_and_a_file_no_list() {
    let refused = [
        Edit { lists_removed: vec![1], ..Edit::default() },
        Edit { files_removed: vec![2], ..Edit::default() },
        Edit { lists_removed: vec![2, 2], ..Edit::default() },
        Edit { lists_added: vec![(1, file(1, 0))], ..Edit::default() },
        Edit { files_added: vec![(2, file(1, 0))], ..Edit::default() },
        Edit { files_added: vec![(3, file(1, 0))], lists_added: vec![(3, file(1, 0))], ..Edit::default() },
        Edit { lists_added: vec![(3, file(2, 1))], ..Edit::default() },
        Edit { lists_added: vec![(9, file(1, 0))], ..Edit::default() },
        Edit { live_changes: vec![(2, 1)], ..Edit::default() },
    ];
    for edit in refused {
        let mut state = state_with_a_list();
        assert!(state.apply(&edit).is_err(), "{edit:?}");
        assert_eq!(state, state_with_a_list());
    }
    let mut both = state_with_a_list();
    both.lists.insert(1, file(1, 0));
    assert!(both.check().is_err());
}
