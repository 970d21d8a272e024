//! The MANIFEST: read; what was read is written anew, goes on from there, and is read again.

use std::path::Path;
use std::sync::OnceLock;

use slmdb_manifest::{ArenaRecord, Edit, FileRecord, Manifest, MediumKind, MediumRecord, StoreState, dump};
use slmdb_slm::manifest_section::{CheckpointRecord, Section};
use slmdb_testkit::MemoryEnv;

use crate::memory::within;
use crate::mend;
use crate::mode::{Mode, expected};

const DIRECTORY: &str = "/db";
const FILE: &str = "/db/MANIFEST";

struct Sound {
    bytes: Vec<u8>,
    states: Vec<StoreState>,
}

/// A machine with an empty, durable directory.
fn machine() -> MemoryEnv {
    let env = MemoryEnv::new();
    env.set_content("/db/LOCK", b"");
    env
}

/// A flush of one file, as an edit; and what else may be in one.
fn edits() -> Vec<Edit> {
    let file = |number: u64| FileRecord {
        length_bytes: 4096 + number,
        entries: 100,
        deletes: 3,
        live_keys: 90,
        smallest_key: format!("a{number}").into_bytes(),
        largest_key: format!("z{number}").into_bytes(),
        lowest_sequence: number * 100,
        highest_sequence: number * 100 + 99,
        created_unix_ns: 1_700_000_000_000_000_000,
        level: if number.is_multiple_of(2) { 3 } else { 0 },
    };
    let arena = |sealed_last_sequence| ArenaRecord { sealed_last_sequence, length_bytes: 65_536 };
    let flush = |number: u64| Edit {
        job: number,
        files_added: vec![(number as u32, file(number))],
        next_file_number: Some(number as u32 + 1),
        flushed_through: Some(number * 100 + 99),
        ..Edit::default()
    };
    vec![
        Edit { next_generation: Some(3), arenas_added: vec![(1, arena(None)), (2, arena(None))], ..Edit::default() },
        Edit { arenas_added: vec![(1, arena(Some(199)))], ..Edit::default() },
        Edit { arenas_removed: vec![1], ..flush(1) },
        Edit { live_changes: vec![(1, -20)], ..flush(2) },
        with_section(Edit { next_file_number: Some(4), ..Edit::default() }),
        Edit { job: 4, files_removed: vec![1], live_changes: vec![(2, 5)], ..Edit::default() },
        Edit { closed_at_sequence: Some(310), ..Edit::default() },
    ]
}

/// An edit that brings SLM-DB's section.
fn with_section(edit: Edit) -> Edit {
    let mut state = StoreState::new([0; 16], "slm", "bytewise", emulated_alone());
    let checkpoints = vec![CheckpointRecord { number: 3, through: 250, entries: 180, length_bytes: 5000 }];
    Section { candidates: vec![1, 2], checkpoints, deletes_dropped_through: 240 }.write_to(&mut state);
    Edit { engine_section: state.engine_section, ..edit }
}

fn sounds() -> &'static [Sound] {
    static SOUNDS: OnceLock<Vec<Sound>> = OnceLock::new();
    SOUNDS.get_or_init(|| {
        let dram = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id: [0; 16] };
        let emulated = MediumRecord {
            kind: MediumKind::Emulated,
            pool_path: Some("/pool".into()),
            pool_uuid: Some([9; 16]),
            boot_id: [1; 16],
        };
        vec![sound(dram, edits()), sound(emulated, edits()), sound(emulated_alone(), Vec::new())]
    })
}

fn emulated_alone() -> MediumRecord {
    MediumRecord { kind: MediumKind::Dax, pool_path: Some("/dev/dax".into()), pool_uuid: None, boot_id: [0; 16] }
}

fn sound(medium: MediumRecord, edits: Vec<Edit>) -> Sound {
    let (env, state) = (machine(), StoreState::new(*b"a hostile store!", "slm", "bytewise", medium));
    let mut manifest = Manifest::create(&env, Path::new(DIRECTORY), &state).expect("a sound MANIFEST");
    let mut states = vec![manifest.state().clone()];
    for edit in edits {
        manifest.append(&edit).expect("an edit that fits");
        states.push(manifest.state().clone());
    }
    Sound { bytes: env.content(FILE).expect("a MANIFEST"), states }
}

pub fn files() -> Vec<Vec<u8>> {
    sounds().iter().map(|sound| sound.bytes.clone()).collect()
}

pub fn run(input: &[u8]) {
    let Some((mode, rest)) = Mode::split(input) else { return };
    let sound = &sounds()[mode.sound(sounds().len())];
    let mut bytes = mode.file(rest, &sound.bytes);
    mode.mend(&mut bytes, &sound.bytes, mend::manifest::mend);
    within(64 * bytes.len() + (1 << 20), || {
        let env = machine();
        env.set_content(FILE, &bytes);
        let reading = match Manifest::read(&env, Path::new(DIRECTORY)) {
            Ok(reading) => reading,
            Err(error) => {
                assert!(!mode.is_strict() || bytes != sound.bytes, "a sound MANIFEST is refused: {error}");
                return expected(&error);
            }
        };
        if mode.is_strict() {
            // The end of a log that was cut off can't be told from a crash.
            assert!(sound.states.contains(&reading.state), "a state that never was");
        }
        assert!(!dump(&reading.state).is_empty());
        let _ = Section::of(&reading.state).map_err(|error| expected(&error));
        let directory = Path::new(DIRECTORY);
        let mut anew = Manifest::rewrite(&env, directory, &reading.state).expect("what was read can be written");
        let next = reading.state.next_generation.checked_add(1).filter(|&next| next < u64::MAX);
        let edit = Edit { next_generation: next, ..Edit::default() };
        anew.append(&edit).expect("an edit that fits what was read");
        let again = Manifest::read(&env, directory).expect("what was written can be read");
        assert_eq!((&again.state, again.edits, again.torn_tail), (anew.state(), 1, None));
        // Only the last edit may have closed the store.
        let expected = StoreState {
            closed_at_sequence: None,
            next_generation: next.unwrap_or(reading.state.next_generation),
            ..reading.state
        };
        assert_eq!(again.state, expected);
    });
}
