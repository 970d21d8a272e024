//! Everything that can be written is read back the same, and nothing else is taken.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use slmdb_env::FileIdentity;

use super::*;

/// Test cases, times the budget.
fn config() -> ProptestConfig {
    let budget = std::env::var("SLMDB_TEST_BUDGET").ok().and_then(|budget| budget.parse().ok()).unwrap_or(1);
    ProptestConfig { cases: 300 * budget, failure_persistence: None, ..ProptestConfig::default() }
}

fn any_file() -> impl Strategy<Value = FileRecord> {
    (any::<[u64; 7]>(), any::<[Vec<u8>; 2]>()).prop_map(|(numbers, [smallest_key, largest_key])| FileRecord {
        length_bytes: numbers[0],
        entries: numbers[1],
        deletes: numbers[2],
        live_keys: numbers[3],
        smallest_key,
        largest_key,
        lowest_sequence: numbers[4],
        highest_sequence: numbers[5],
        created_unix_ns: numbers[6],
        level: numbers[6] as u8 / 64,
    })
}

fn any_arena() -> impl Strategy<Value = ArenaRecord> {
    any::<(Option<u64>, u64)>()
        .prop_map(|(sealed_last_sequence, length_bytes)| ArenaRecord { sealed_last_sequence, length_bytes })
}

fn any_medium() -> impl Strategy<Value = MediumRecord> {
    let kind = prop_oneof![Just(MediumKind::Dram), Just(MediumKind::Emulated), Just(MediumKind::Dax)];
    (kind, option::of(any::<Vec<u8>>()), any::<Option<[u8; 16]>>(), any::<[u8; 16]>()).prop_map(
        |(kind, path, pool_uuid, boot_id)| MediumRecord {
            kind,
            pool_path: path.map(|path| PathBuf::from(OsStr::from_bytes(&path))),
            pool_uuid,
            boot_id,
        },
    )
}

fn any_state() -> impl Strategy<Value = StoreState> {
    let texts = (any::<([u8; 16], Option<[u8; 16]>)>(), any::<String>(), any::<String>(), any_medium());
    let maps = (btree_map(any::<u32>(), any_file(), 0..8), btree_map(any::<u64>(), any_arena(), 0..8));
    let unfinished = option::of((any::<Option<[u8; 16]>>(), any::<[u8; 16]>()));
    let unfinished =
        unfinished.prop_map(|pools| pools.map(|(old_pool, new_pool)| UnfinishedRepair { old_pool, new_pool }));
    let numbers = (any::<u32>(), any::<[u64; 3]>(), any::<Option<u64>>(), any::<[u64; LIFETIME_COUNTERS]>());
    let home = option::of(any::<(u64, u64, u32)>()).prop_map(|home| {
        home.map(|(inode, born_ns, pool_openings)| Home { directory: FileIdentity { inode, born_ns }, pool_openings })
    });
    let own = (unfinished, any_section(), home, btree_map(any::<u32>(), any_file(), 0..8));
    (texts, maps, numbers, own).prop_map(|(texts, (files, arenas), numbers, own)| StoreState {
        uuid: texts.0.0,
        files_uuid: texts.0.1.unwrap_or(texts.0.0),
        engine: texts.1,
        comparator: texts.2,
        medium: texts.3,
        files,
        lists: own.3,
        arenas,
        next_file_number: numbers.0,
        next_generation: numbers.1[0],
        flushed_through: numbers.1[1],
        last_job: numbers.1[2],
        closed_at_sequence: numbers.2,
        lifetime: Counters::from_values(numbers.3),
        unfinished_repair: own.0,
        engine_section: own.1,
        home: own.2,
    })
}

fn any_section() -> impl Strategy<Value = EngineSection> {
    btree_map(any::<u8>(), any::<Vec<u8>>(), 0..4)
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let files = (vec((any::<u32>(), any_file()), 0..6), any::<Vec<u32>>(), any::<Vec<(u32, i64)>>());
    let lists = (vec((any::<u32>(), any_file()), 0..6), any::<Vec<u32>>());
    let own = (any::<Vec<(u32, u8)>>(), any_section(), lists);
    let arenas = (vec((any::<u64>(), any_arena()), 0..6), any::<Vec<u64>>());
    let numbers = any::<(u64, Option<u32>, Option<u64>, Option<u64>, Option<u64>)>();
    let others = (any::<Option<[u64; LIFETIME_COUNTERS]>>(), option::of(any_medium()));
    let all = (files, arenas, numbers, others, own);
    all.prop_map(|(files, arenas, numbers, others, own)| Edit {
        job: numbers.0,
        files_added: files.0,
        files_removed: files.1,
        lists_added: own.2.0,
        lists_removed: own.2.1,
        live_changes: files.2,
        arenas_added: arenas.0,
        arenas_removed: arenas.1,
        next_file_number: numbers.1,
        next_generation: numbers.2,
        flushed_through: numbers.3,
        closed_at_sequence: numbers.4,
        lifetime: others.0.map(Counters::from_values),
        medium: others.1,
        level_changes: own.0,
        engine_section: own.1,
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn states_come_back_as_they_were(state in any_state()) {
        prop_assert_eq!(decode_state(&encode_state(&state)), Ok(state));
    }

    #[test]
    fn edits_come_back_as_they_were(edit in any_edit()) {
        prop_assert_eq!(decode_edit(&encode_edit(&edit)), Ok(edit));
    }

    /// Whatever is decoded from damaged bytes is what those bytes say: encoding it gives a payload that means the same.
    #[test]
    fn damaged_payloads_never_panic(
        state in any_state(), edit in any_edit(), place in any::<prop::sample::Index>(), value: u8, cut: bool,
    ) {
        for (is_state, mut bytes) in [(true, encode_state(&state)), (false, encode_edit(&edit))] {
            let at = place.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] = value }
            if is_state {
                if let Ok(state) = decode_state(&bytes) {
                    prop_assert_eq!(decode_state(&encode_state(&state)), Ok(state));
                }
                let _ = decode_edit(&bytes);
            } else {
                if let Ok(edit) = decode_edit(&bytes) {
                    prop_assert_eq!(decode_edit(&encode_edit(&edit)), Ok(edit));
                }
                let _ = decode_state(&bytes);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let _ = (decode_state(&bytes), decode_edit(&bytes));
    }
}

fn state() -> StoreState {
    let medium = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id: [3; 16] };
    StoreState::new([7; 16], "slm", "bytewise", medium)
}

/// The fields of a payload: tag and all bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let length = 6 + u32::from_le_bytes(bytes[2..6].try_into().unwrap()) as usize;
        fields.push((u16::from_le_bytes(bytes[..2].try_into().unwrap()), bytes[..length].to_vec()));
        bytes = &bytes[length..];
    }
    fields
}

fn joined<'a>(fields: impl Iterator<Item = &'a (u16, Vec<u8>)>) -> Vec<u8> {
    fields.flat_map(|(_, bytes)| bytes.clone()).collect()
}

#[track_caller]
fn assert_malformed<T: std::fmt::Debug>(result: Decoded<T>, part: &str) {
    match result {
        Err(Undecodable::Malformed(what)) => assert!(what.contains(part), "{what:?} lacks {part:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_field_of_a_state_is_needed_once_in_any_order() {
    let bytes = encode_state(&state());
    let all = fields(&bytes);
    assert_eq!(decode_state(&joined(all.iter().rev())), Ok(state()));
    for (index, field) in all.iter().enumerate() {
        let others = all.iter().enumerate().filter(|&(other, _)| other != index).map(|(_, field)| field);
        assert_malformed(decode_state(&joined(others)), "no ");
        assert_malformed(decode_state(&joined(all.iter().chain([field]))), "twice");
    }
    let edit = encode_edit(&Edit { job: 1, ..Edit::default() });
    assert_malformed(decode_edit(&[edit.as_slice(), &edit].concat()), "twice");
    assert_malformed(decode_edit(&[]), "no job");
}

#[test]
fn files_arenas_and_parts_of_a_state_are_there_once() {
    let mut state = state();
    state.files.insert(4, FileRecord::default());
    state.arenas.insert(5, ArenaRecord::default());
    state.engine_section.insert(6, Vec::new());
    let all = fields(&encode_state(&state));
    for (tag, what) in [(FILE_ADDED, "file 4 twice"), (ARENA_ADDED, "arena 5 twice"), (ENGINE_SECTION, "there twice")] {
        let again = all.iter().filter(|field| field.0 == tag);
        assert_malformed(decode_state(&joined(all.iter().chain(again))), what);
    }
}

#[test]
fn states_and_edits_are_not_mistaken_for_each_other() {
    assert_malformed(decode_edit(&encode_state(&state())), "identity");
    let edits = [
        Edit { files_removed: vec![1], ..Edit::default() },
        Edit { live_changes: vec![(1, -1)], ..Edit::default() },
        Edit { arenas_removed: vec![1], ..Edit::default() },
        Edit { lists_removed: vec![1], ..Edit::default() },
    ];
    for edit in edits {
        let changes: Vec<_> = fields(&encode_edit(&edit)).into_iter().filter(|field| field.0 != JOB).collect();
        assert_malformed(decode_state(&[encode_state(&state()), joined(changes.iter())].concat()), "changes");
    }
}

#[test]
fn what_is_not_known_is_told_from_what_is_wrong() {
    let unknown = |bytes: &[u8]| matches!(decode_state(bytes), Err(Undecodable::Unknown(_)));
    for tag in [0_u16, 23, 24, u16::MAX] {
        let mut writer = FieldWriter::default();
        writer.put(tag, &[b"abc"]);
        let more = writer.into_bytes();
        assert!(unknown(&[encode_state(&state()), more.clone()].concat()), "{tag}");
        assert!(matches!(decode_edit(&more), Err(Undecodable::Unknown(_))), "{tag}");
    }
    let value_of = |tag, at: usize, value: u8| {
        let mut all = fields(&encode_state(&state()));
        all.iter_mut().filter(|field| field.0 == tag).for_each(|field| field.1[6 + at] = value);
        joined(all.iter())
    };
    assert!(unknown(&value_of(MEDIUM, 0, 4)), "a medium of a newer version");
    assert_malformed(decode_state(&value_of(MEDIUM, 1, 4)), "presence");
    assert_malformed(decode_state(&value_of(MEDIUM, 20, 1)), "absent");
    assert_malformed(decode_state(&value_of(ENGINE, 0, 0xff)), "UTF-8");
}

#[test]
fn lengths_are_exact() {
    let mut state = state();
    state.files.insert(1, FileRecord { smallest_key: b"abc".to_vec(), ..FileRecord::default() });
    state.arenas.insert(5, ArenaRecord { sealed_last_sequence: Some(3), length_bytes: 9 });
    state.closed_at_sequence = Some(8);
    let all = fields(&encode_state(&state));
    // Texts and a path may have any length, so growing them is not wrong by itself.
    let any_length = [ENGINE, COMPARATOR, MEDIUM, FILE_ADDED];
    for (index, (tag, bytes)) in all.iter().enumerate() {
        let with_length = |length: usize| {
            let mut changed = all.clone();
            let mut value = bytes[6..].to_vec();
            value.resize(length, 0);
            let header = [&tag.to_le_bytes()[..], &(length as u32).to_le_bytes()].concat();
            changed[index].1 = [header, value].concat();
            decode_state(&joined(changed.iter()))
        };
        if !any_length.contains(tag) {
            assert_malformed(with_length(bytes.len() - 6 + 1), "field");
            assert_malformed(with_length(bytes.len() - 6 - 1), "field");
        }
    }
}

/// A store whose engine has one level and keeps nothing here is written as before there were levels and sections.
#[test]
fn what_an_engine_does_not_use_takes_no_byte() {
    let mut plain = state();
    plain.files.insert(1, FileRecord::default());
    let edit = Edit { files_added: vec![(2, FileRecord::default())], ..Edit::default() };
    for bytes in [encode_state(&plain), encode_edit(&edit)] {
        assert!(fields(&bytes).iter().all(|(tag, _)| ![LEVELS, ENGINE_SECTION].contains(tag)));
    }
}

#[test]
fn levels_are_of_files_that_are_there() {
    let levels = |levels: &[(u32, u8)]| {
        let mut to = FieldWriter::default();
        put_levels(&mut to, [].into_iter(), levels);
        to.into_bytes()
    };
    let mut with_file = state();
    with_file.files.insert(3, FileRecord::default());
    let (bare, with_file) = (encode_state(&state()), encode_state(&with_file));

    let decoded = decode_state(&[&with_file[..], &levels(&[(3, 7)])].concat()).unwrap();
    assert_eq!(decoded.files[&3].level, 7);
    for (bytes, wrong) in
        [(&bare, &[(3, 7)][..]), (&with_file, &[(4, 7)]), (&with_file, &[(3, 0)]), (&with_file, &[(3, 7), (3, 8)])]
    {
        let decoded = decode_state(&[&bytes[..], &levels(wrong)].concat());
        assert!(matches!(decoded, Err(Undecodable::Malformed(_))), "{wrong:?}: {decoded:?}");
    }

    let edit = Edit { files_added: vec![(3, FileRecord { level: 2, ..FileRecord::default() })], ..Edit::default() };
    let with_change = decode_edit(&encode_edit(&Edit { level_changes: vec![(1, 0)], ..edit.clone() })).unwrap();
    assert_eq!((with_change.files_added, with_change.level_changes), (edit.files_added, vec![(1, 0)]));
}
