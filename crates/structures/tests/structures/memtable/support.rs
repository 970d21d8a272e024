//! What the MemTable's tests share: budgets, seeds, a small generator of random numbers, and arenas in plain memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};
use slmdb_order::KeyOrder;
use slmdb_pmem::{Arena, Dram, Medium};
use slmdb_structures::EntryKind;
use slmdb_structures::log::Payload;
use slmdb_structures::memtable::{LinkPolicy, MemTable, MemTableOptions};

pub const UUID: [u8; 16] = *b"a store of tests";
/// The path that errors about [`arena`]s name.
pub const PATH: &str = "an arena of tests";

/// The order of most tests.
pub const BYTEWISE: KeyOrder = KeyOrder::Bytewise;

/// What a MemTable by bytes with such links is made with.
pub fn with_links(links: LinkPolicy) -> MemTableOptions {
    MemTableOptions { links, ..MemTableOptions::default() }
}

/// `length` times the environment's `SLMDB_TEST_BUDGET` (1 if it is not set), at least 1.
pub fn budget(length: usize) -> usize {
    let factor = std::env::var("SLMDB_TEST_BUDGET").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0_f64);
    ((length as f64 * factor) as usize).max(1)
}

/// The seed of this run: the environment's `SLMDB_TEST_SEED`, or always the same. Printed, so that a failure shows it.
pub fn seed() -> u64 {
    let seed = std::env::var("SLMDB_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_190_225);
    println!("SLMDB_TEST_SEED={seed}");
    seed
}

/// Runs a property over `cases` values, times the budget, from the run's seed.
pub fn check<S: Strategy>(cases: usize, strategy: S, property: impl Fn(S::Value) -> TestCaseResult) {
    let config = Config { cases: budget(cases) as u32, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed().to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    if let Err(failure) = TestRunner::new_with_rng(config, rng).run(&strategy, property) {
        panic!("{failure}");
    }
}

/// Xorshift.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }
}

/// An arena in plain memory.
pub fn arena(bytes: Vec<u8>) -> Arena<Dram> {
    Arena::from_bytes(Dram, Path::new(PATH), bytes)
}

/// What the arena of a MemTable holds. Nobody may be writing to it.
pub fn image<M: Medium>(memtable: &MemTable<M>) -> Vec<u8> {
    // SAFETY: the tests call this when no writer runs.
    unsafe { memtable.arena().bytes(0, memtable.capacity_bytes()) }.unwrap().to_vec()
}

/// Versions of keys in the MemTable's order.
pub type Model = BTreeMap<(Vec<u8>, Reverse<u64>), (EntryKind, Vec<u8>)>;

/// Adds a batch to a model, void entries left out.
pub fn apply(model: &mut Model, payload: &Payload, first_sequence: u64) {
    for (entry, sequence) in payload.iter().zip(first_sequence..) {
        if let Some(kind) = entry.kind.of_key() {
            model.insert((entry.key.to_vec(), Reverse(sequence)), (kind, entry.value.to_vec()));
        }
    }
}

/// All that a MemTable holds, as a model.
pub fn contents<M: Medium>(memtable: &std::sync::Arc<MemTable<M>>) -> Model {
    let mut model = Model::new();
    let mut cursor = memtable.cursor();
    cursor.seek_first();
    while let Some(entry) = cursor.entry() {
        model.insert((entry.key.to_vec(), Reverse(entry.sequence)), (entry.kind, entry.value.to_vec()));
        cursor.next();
    }
    model
}
