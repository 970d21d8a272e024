//! A full disk whose garbage can't be compacted away for a while: a snapshot sees it, or compactions run only when somebody asks
//! for them. Once the snapshot is gone, or somebody asks, there is a way out: deletes and `compact_range`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::machine::{Machine, STORE, Scarce, fill, tables, value_bytes};
use crate::common::{
    Model, Random, assert_same, assert_verified, budget, contents, eager_compaction, rounds, wait_until, watched,
};
use slmdb::{CompactionOptions, CompactionPolicy, Db, ErrorKind, Medium, TableFile};
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

/// The pool's size where there is one. The disk has as much more for it.
const POOL_BYTES: u64 = 16 << 20;
const PLENTY_BYTES: u64 = 1 << 30;

/// A store on a disk that is to be filled up.
#[derive(Debug, Clone, Copy)]
struct Case {
    seed: u64,
    disk_bytes: u64,
    memtable_bytes: u64,
    table_file_bytes: u64,
    value_bytes_max: u64,
    has_pool: bool,
    has_snapshot: bool,
    /// Whether it is closed and opened when it is full and deletes are refused.
    is_opened_again: bool,
    policy: CompactionPolicy,
}

impl Case {
    /// As it was found, at a sixteenth of the size.
    fn found(has_pool: bool, has_snapshot: bool, policy: CompactionPolicy) -> Case {
        Case {
            seed: 1,
            disk_bytes: 4 << 20,
            memtable_bytes: 64 << 10,
            table_file_bytes: 256 << 10,
            value_bytes_max: 4000,
            has_pool,
            has_snapshot,
            is_opened_again: false,
            policy,
        }
    }

    /// Disks that are to memory and files what 2 to 64 MiB are to usual ones.
    fn random(seed: u64) -> Case {
        let mut random = Random(seed);
        let disk_bytes = 1 << (19 + random.below(3));
        Case {
            seed,
            disk_bytes,
            memtable_bytes: disk_bytes >> (5 + random.below(2)),
            table_file_bytes: disk_bytes >> (3 + random.below(4)),
            value_bytes_max: [100, 400, 1000, 4000][random.below(4) as usize],
            has_pool: random.one_in(2),
            has_snapshot: !random.one_in(3),
            is_opened_again: random.one_in(3),
            policy: if random.one_in(2) { CompactionPolicy::GarbageFirst } else { CompactionPolicy::Manual },
        }
    }

    fn env(&self) -> MemoryEnv {
        let env = MemoryEnv::with_real_clock();
        env.set_capacity(self.disk_bytes + if self.has_pool { POOL_BYTES } else { 0 });
        env
    }

    fn open(&self, env: &MemoryEnv) -> Db {
        let compaction = CompactionOptions {
            policy: self.policy,
            table_file_bytes: self.table_file_bytes,
            ..CompactionOptions::default()
        };
        let options = crate::common::options()
            .env(Arc::new(env.clone()))
            .sync(true)
            .memtable_bytes(self.memtable_bytes)
            .memory_budget_bytes(1 << 16)
            .compaction(compaction)
            .pool_initial_bytes(if self.has_pool { POOL_BYTES } else { 1 << 19 })
            .pool_growth_bytes(1 << 16)
            .pool_maximum_bytes(if self.has_pool { POOL_BYTES } else { PLENTY_BYTES });
        let options = if self.has_pool { options.medium(Medium::Emulated { path: "/pool".into() }) } else { options };
        options.open(STORE).unwrap()
    }
}

/// A store that is used, and what it should hold.
struct Used<'a> {
    case: Case,
    db: Db,
    model: Model,
    random: Random,
    moves: &'a AtomicU64,
}

impl Used<'_> {
    /// Whether a write was taken; nothing but want of space may keep it from that.
    #[track_caller]
    fn is_taken(&self, outcome: slmdb::Result<()>) -> bool {
        self.moves.fetch_add(1, Ordering::Relaxed);
        outcome.map_err(|error| assert_eq!(error.kind(), ErrorKind::Full, "{:?}: {error}", self.case)).is_ok()
    }

    /// Puts new keys until one is refused. Returns how long they and their values are together, in bytes.
    fn fill(&mut self) -> u64 {
        let mut bytes = 0;
        loop {
            let (key, length) =
                (self.random.next().to_be_bytes().to_vec(), self.random.below(self.case.value_bytes_max));
            let value = self.random.bytes(length as usize);
            if !self.is_taken(self.db.put(&key, &value)) {
                return bytes;
            }
            bytes += key.len() as u64 + length;
            self.model.insert(key, value);
        }
    }

    /// Deletes keys, whichever, until one is refused or so many are left. Returns how many were deleted.
    fn delete_down_to(&mut self, left: usize) -> usize {
        let mut keys: Vec<Vec<u8>> = self.model.keys().cloned().collect();
        let before = keys.len();
        while keys.len() > left {
            let at = self.random.below(keys.len() as u64) as usize;
            if !self.is_taken(self.db.delete(&keys[at])) {
                break;
            }
            self.model.remove(&keys.swap_remove(at));
        }
        before - keys.len()
    }

    /// What nobody needs in table files, but for deletes: in bytes, about.
    fn garbage_bytes(&self) -> u64 {
        let garbage = |file: &TableFile| {
            let part = (file.entries - file.deletes - file.live_keys) as f64 / file.entries.max(1) as f64;
            (file.bytes as f64 * part) as u64
        };
        self.db.table_files().iter().map(garbage).sum()
    }

    /// Fills the disk, and deletes three of four keys, or as many as it takes: first while a snapshot sees them, if it is to be.
    fn fill_and_delete(&mut self) -> u64 {
        let filled_bytes = self.fill();
        let left = self.model.len() / 4;
        let snapshot = self.case.has_snapshot.then(|| self.db.snapshot().unwrap());
        let seen = self.model.clone();
        self.delete_down_to(left);
        for (key, value) in seen.iter().step_by(16) {
            let found = snapshot.as_ref().map(|snapshot| snapshot.get(key).unwrap());
            assert!(found.is_none_or(|found| found.as_deref() == Some(&value[..])), "{:?}: the snapshot", self.case);
        }
        drop(snapshot);
        filled_bytes
    }

    fn opened_again(self, env: &MemoryEnv) -> Self {
        self.db.close().unwrap();
        Used { db: self.case.open(env), ..self }
    }

    #[track_caller]
    fn assert_same(&self) {
        assert_same(&contents(&self.db).unwrap(), &self.model, &format!("{:?}", self.case));
    }

    /// All garbage goes, at once.
    #[track_caller]
    fn compact(&self, env: &MemoryEnv) {
        self.moves.fetch_add(1, Ordering::Relaxed);
        let before_bytes = self.garbage_bytes();
        let compacted = self.db.compact_range::<&[u8]>(..);
        compacted.unwrap_or_else(|error| panic!("{:?}: with {before_bytes} bytes of garbage: {error}", self.case));
        if self.case.policy == CompactionPolicy::GarbageFirst {
            // It may be merging small files by now, half of which are garbage on the way.
            return wait_until("all garbage goes", || self.garbage_bytes() == 0);
        }
        assert_eq!(self.garbage_bytes(), 0, "{:?}: of {before_bytes}", self.case);
        let files = self.db.table_files().into_iter().filter(|file| !file.is_in_pool);
        let named: Vec<String> = files.map(|file| format!("{:010}.sst", file.number)).collect();
        assert_eq!(tables(env), named, "{:?}", self.case);
    }
}

/// Fills a disk and has everything deleted again.
fn way_out(case: Case) {
    let moves = AtomicU64::new(0);
    watched(&format!("{case:?}"), &moves, || {
        let env = case.env();
        let (db, model, random) = (case.open(&env), Model::new(), Random(case.seed));
        let mut used = Used { case, db, model, random, moves: &moves };
        let filled_bytes = used.fill_and_delete();
        if case.is_opened_again {
            used = used.opened_again(&env);
        }

        let garbage_bytes = used.garbage_bytes();
        if case.policy == CompactionPolicy::GarbageFirst {
            // Whoever deletes waits for the compactions that it takes. (For a flush only 250 ms, which on a busy machine may be too
            // little. Then the next try does it.)
            let left = used.model.len() - 1;
            wait_until(&format!("{case:?}: with {garbage_bytes} bytes of garbage a delete is taken"), || {
                used.delete_down_to(left) == 1
            });
        }
        used.compact(&env);
        used.assert_same();
        if case.value_bytes_max > 100 {
            // (The deletes themselves take as much as tiny values.)
            let again_bytes = used.fill();
            assert!(
                again_bytes >= garbage_bytes / 4,
                "{case:?}: {garbage_bytes} bytes of garbage, then {again_bytes} more"
            );
        }
        while !used.model.is_empty() {
            wait_until(&format!("{case:?}: a delete is taken"), || used.delete_down_to(0) > 0);
            used.compact(&env);
        }
        used.assert_same();
        let mut again_bytes = used.fill();
        if case.value_bytes_max == 1 && case.policy == CompactionPolicy::Manual {
            // As long as space was not short, the deletes of the last keys were let be.
            used.compact(&env);
            again_bytes += used.fill();
        }
        assert!(again_bytes > filled_bytes / 8, "{case:?}: {filled_bytes} bytes, all deleted, then {again_bytes} more");
        used.assert_same();
        assert_verified(&used.db, &format!("{case:?}"));
        // Nor does anything that was deleted come back.
        let used = used.opened_again(&env);
        used.assert_same();
        assert_verified(&used.db, &format!("{case:?}, opened again"));
    });
}

/// (They used up what compactions need, and when the snapshot was gone nothing could be compacted away any more.)
#[test]
fn deletes_under_a_snapshot_leave_compactions_their_space() {
    for has_pool in [false, true] {
        way_out(Case::found(has_pool, true, CompactionPolicy::GarbageFirst));
    }
}

/// (The same, and after an opening deletes were refused again.)
#[test]
fn deletes_leave_a_compaction_that_is_asked_for_its_space() {
    let cases = [(false, false), (true, true), (false, true), (true, false)];
    for &(is_opened_again, has_pool) in &cases[..rounds(4).min(4) as usize] {
        way_out(Case { is_opened_again, ..Case::found(has_pool, false, CompactionPolicy::Manual) });
    }
}

/// (It was not, and `compact_range` said that the disk was full, with much of it free.)
#[test]
fn garbage_that_did_not_fit_is_tried_again_when_there_is_space() {
    let has_pool = !crate::common::is_tlsm();
    let case = Case { has_pool, ..Case::found(false, false, CompactionPolicy::Manual) };
    let env = case.env();
    let moves = AtomicU64::new(0);
    let (db, model, random) = (case.open(&env), Model::new(), Random(case.seed));
    let mut used = Used { case, db, model, random, moves: &moves };
    used.fill();
    used.delete_down_to(used.model.len() - 200);
    used.db.flush().unwrap();
    // The next file with a number.
    env.fail_next(&format!("write {STORE}/000"), Failure::Full, Repeat::Once);
    used.compact(&env);
    assert_eq!(env.failures_struck(), 1);
    used.assert_same();
    used.db.close().unwrap();
}

/// Of SLM-DB: its pool has all keys, and deletes take no more than they free.
mod slm {
    use super::*;

    /// (Of tiny values few are in a file that are deleted, and it takes many until one becomes noticeably smaller. So they used it up where
    /// compactions ran all the time, too. The MANIFEST, which each of these makes longer, took much as well.)
    #[test]
    fn deletes_of_tiny_values_leave_compactions_their_space() {
        for (memtable_bytes, table_file_bytes) in [(64 << 10, 32 << 10), (64 << 10, 128 << 10)] {
            let found = Case::found(false, false, CompactionPolicy::GarbageFirst);
            way_out(Case { disk_bytes: 2 << 20, memtable_bytes, table_file_bytes, value_bytes_max: 100, ..found });
        }
    }

    #[test]
    fn a_full_disk_has_a_way_out() {
        (0..8 * budget()).map(Case::random).for_each(way_out);
    }

    /// (It said that all was well, and left garbage behind, of which `CompactionPolicy::Manual` takes no notice: in one run of three, with
    /// eight beside each other.)
    #[test]
    fn a_request_that_runs_out_of_space_leaves_no_garbage() {
        let found = Case::found(false, false, CompactionPolicy::Manual);
        way_out(Case {
            seed: 2,
            disk_bytes: 1 << 20,
            memtable_bytes: 32 << 10,
            table_file_bytes: 16 << 10,
            value_bytes_max: 400,
            ..found
        });
    }

    /// Of values of no length a delete takes as much as it frees, until nothing is left that it hides. (It stayed for ever where no index
    /// checkpoint was due. So deletes used up what is for them, and none was taken any more.)
    #[test]
    fn deletes_of_empty_values_lead_out_too() {
        for (has_snapshot, policy) in [(true, CompactionPolicy::GarbageFirst), (false, CompactionPolicy::Manual)] {
            let found = Case::found(false, has_snapshot, policy);
            way_out(Case {
                disk_bytes: 1 << 20,
                memtable_bytes: 32 << 10,
                table_file_bytes: 16 << 10,
                value_bytes_max: 1,
                ..found
            });
        }
    }

    /// The same of a full pool.
    #[test]
    fn a_full_pool_has_a_way_out() {
        for (scarce, policy, has_snapshot) in [
            (Scarce::PoolOnDram, CompactionPolicy::Manual, false),
            (Scarce::PoolOnDram, CompactionPolicy::GarbageFirst, true),
            (Scarce::PoolOnEmulated, CompactionPolicy::Manual, true),
        ] {
            let context = format!("{scarce:?} {policy:?}, snapshot: {has_snapshot}");
            let moves = AtomicU64::new(0);
            watched(&context, &moves, || {
                let machine = Machine::new(scarce, 3 << 19);
                let compaction = CompactionOptions { policy, table_file_bytes: 32 << 10, ..eager_compaction() };
                let db = machine.open_with(machine.options().compaction(compaction));
                let (mut model, mut random) = (Model::new(), Random(3));
                let full = fill(&db, &mut model, &mut random, value_bytes(scarce), &moves);
                let case = Case::found(false, has_snapshot, policy);
                let mut used = Used { case, db, model, random, moves: &moves };
                let snapshot = has_snapshot.then(|| used.db.snapshot().unwrap());
                used.delete_down_to(full as usize / 4);
                drop(snapshot);
                while !used.model.is_empty() {
                    used.db.compact_range::<&[u8]>(..).unwrap_or_else(|error| panic!("{context}: {error}"));
                    assert!(used.delete_down_to(0) > 0, "{context}: {} keys are left", used.model.len());
                }
                used.assert_same();
                assert_verified(&used.db, &context);
            });
        }
    }
}
