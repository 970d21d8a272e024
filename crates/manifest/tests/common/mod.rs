//! What the integration tests share: plausible states and edits out of a seed.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use slmdb_env::Result;
use slmdb_manifest::{
    ArenaRecord, Counters, Edit, FileRecord, Manifest, MediumKind, MediumRecord, Reading, StoreState,
};
use slmdb_testkit::MemoryEnv;

pub const DIRECTORY: &str = "/db";
pub const FILE: &str = "/db/MANIFEST";

/// How many times longer than by default the tests may take.
pub fn budget() -> u64 {
    std::env::var("SLMDB_TEST_BUDGET").ok().and_then(|budget| budget.parse().ok()).unwrap_or(1)
}

/// A machine with a durable, empty store directory.
pub fn machine() -> MemoryEnv {
    let env = MemoryEnv::new();
    env.set_content("/db/LOCK", b"");
    env
}

/// A machine whose MANIFEST has these bytes.
pub fn machine_with(bytes: &[u8]) -> MemoryEnv {
    let env = machine();
    env.set_content(FILE, bytes);
    env
}

pub fn read(env: &MemoryEnv) -> Result<Reading> {
    Manifest::read(env, Path::new(DIRECTORY))
}

/// Splitmix64.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len() as u64) as usize])
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.next() as u8).collect()
    }

    fn counters(&mut self) -> Counters {
        Counters { user_bytes_put: self.next(), flushes: self.below(100), stall_us: self.next(), ..Default::default() }
    }

    pub fn medium(&mut self) -> MediumRecord {
        match self.below(3) {
            0 => MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id: [0; 16] },
            kind => MediumRecord {
                kind: if kind == 1 { MediumKind::Emulated } else { MediumKind::Dax },
                pool_path: Some(PathBuf::from("/mnt/pool")),
                pool_uuid: Some([self.next() as u8; 16]),
                boot_id: [self.next() as u8; 16],
            },
        }
    }

    fn file(&mut self, longest_key: u64) -> FileRecord {
        let entries = self.below(1000);
        let lowest_sequence = self.below(1 << 40);
        FileRecord {
            length_bytes: self.below(1 << 32),
            entries,
            deletes: self.below(entries + 1),
            live_keys: self.below(entries + 1),
            smallest_key: self.bytes(longest_key),
            largest_key: self.bytes(longest_key),
            lowest_sequence,
            highest_sequence: lowest_sequence + self.below(1000),
            created_unix_ns: self.next(),
            level: if self.one_in(3) { self.next() as u8 } else { 0 },
        }
    }

    /// A state with some files and arenas.
    pub fn state(&mut self) -> StoreState {
        let medium = self.medium();
        let mut state = StoreState::new([self.next() as u8; 16], "slm", "bytewise", medium);
        for _ in 0..3 + self.below(4) {
            let edit = self.edit(&state);
            state.apply(&edit).unwrap();
        }
        state
    }

    /// An edit that fits `state`, of any kind.
    pub fn edit(&mut self, state: &StoreState) -> Edit {
        self.edit_with_keys(state, 20)
    }

    /// An edit that fits `state`, with keys of up to `longest_key` bytes.
    pub fn edit_with_keys(&mut self, state: &StoreState, longest_key: u64) -> Edit {
        let mut edit = Edit::default();
        let files: Vec<u32> = state.files.keys().copied().collect();
        let arenas: Vec<u64> = state.arenas.keys().copied().collect();
        if self.one_in(2) {
            edit.job = state.last_job + 1 + self.below(3);
        }
        let mut next_file_number = state.next_file_number;
        for _ in 0..self.below(4) {
            next_file_number += self.below(2) as u32;
            edit.files_added.push((next_file_number, self.file(longest_key)));
            next_file_number += 1;
        }
        edit.next_file_number = (next_file_number != state.next_file_number).then_some(next_file_number);
        edit.files_removed = files.iter().copied().filter(|_| self.one_in(6)).collect();
        let mut live: BTreeMap<u32, i64> = state.files.iter().map(|(&n, file)| (n, file.live_keys as i64)).collect();
        for _ in 0..self.below(5) {
            let Some(number) = self.pick(&files) else { break };
            let after = self.below(state.files[&number].entries + 1) as i64;
            let before = live.insert(number, after).unwrap();
            edit.live_changes.push((number, after - before));
        }
        self.edit_arenas(&mut edit, state, &arenas);
        let flushed_through = state.flushed_through + self.below(100);
        edit.flushed_through = self.one_in(2).then_some(flushed_through);
        edit.closed_at_sequence = self.one_in(4).then_some(flushed_through + self.below(10));
        edit.lifetime = self.one_in(2).then(|| self.counters());
        edit.medium = self.one_in(5).then(|| self.medium());
        let kept = files.iter().copied().filter(|number| !edit.files_removed.contains(number));
        edit.level_changes = kept.filter(|_| self.one_in(6)).map(|number| (number, number as u8)).collect();
        edit.engine_section = (1..=3)
            .filter(|_| self.one_in(4))
            .collect::<Vec<u8>>()
            .into_iter()
            .map(|part| (part, self.bytes(longest_key)))
            .collect();
        edit
    }

    fn edit_arenas(&mut self, edit: &mut Edit, state: &StoreState, arenas: &[u64]) {
        let mut next_generation = state.next_generation;
        for _ in 0..self.below(3) {
            let sealed_last_sequence = self.one_in(3).then(|| self.next());
            let arena = ArenaRecord { sealed_last_sequence, length_bytes: self.next() };
            edit.arenas_added.push((next_generation, arena));
            next_generation += 1 + self.below(2);
        }
        edit.next_generation = (next_generation != state.next_generation).then_some(next_generation);
        if let Some(generation) = self.pick(arenas) {
            let sealed_last_sequence = Some(self.next());
            edit.arenas_added.push((generation, ArenaRecord { sealed_last_sequence, ..state.arenas[&generation] }));
        }
        edit.arenas_removed = arenas.iter().copied().filter(|_| self.one_in(4)).collect();
    }
}

/// A MANIFEST with several edits: its bytes, where each record begins (and the last ends), and the state after each.
pub struct Written {
    pub bytes: Vec<u8>,
    pub bounds: Vec<usize>,
    pub states: Vec<StoreState>,
}

/// Writes a state and `edits` edits.
pub fn written(seed: u64, edits: usize) -> Written {
    let (env, mut random) = (machine(), Random(seed));
    let mut manifest = Manifest::create(&env, Path::new(DIRECTORY), &random.state()).unwrap();
    const FILE_HEADER_BYTES: usize = 40;
    let mut bounds = vec![FILE_HEADER_BYTES, manifest.length_bytes() as usize];
    let mut states = vec![manifest.state().clone()];
    for _ in 0..edits {
        manifest.append(&random.edit(manifest.state())).unwrap();
        bounds.push(manifest.length_bytes() as usize);
        states.push(manifest.state().clone());
    }
    Written { bytes: env.content(FILE).unwrap(), bounds, states }
}
