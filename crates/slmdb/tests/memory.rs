//! What a store says that it keeps in memory ([`slmdb::Stats::memory_bytes`]) is what its process takes, within a quarter (with
//! LAB-DB a third); and where that is up to the block cache, it stays within the budget.
//!
//! Each store lives in a process of its own: this test program, started again as a child. What the process took before the store
//! was opened is taken off. On `Dram` all resident memory counts but mapped table files: arenas are mapped files, too; on other media what is the process's
//! own: the pool is a shared mapping, and not plain memory but its emulation.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::Command;

use common::{Home, On, Random};
use slmdb::{Db, Stats};

const MIB: u64 = 1 << 20;

/// With less than this in memory, what a process takes anyway tells more than what the store takes.
const TELLING_BYTES: u64 = 64_000_000;

/// How often the same keys are overwritten once more, and how many iterators are made meanwhile each time.
const ROUNDS: u64 = 3;
const ITERATORS_PER_ROUND: u64 = 20;

/// The part of what the store says that the process may take more or less. With LAB-DB the allocator keeps more of what many
/// iterators had.
fn part() -> u64 {
    if common::engine() == slmdb::EngineName::Slm { 4 } else { 3 }
}

struct Plan {
    name: &'static str,
    on: On,
    key_bytes: usize,
    value_bytes: usize,
    keys: u64,
    budget_bytes: u64,
    memtable_bytes: u64,
    /// Iterators held at once.
    iterators: usize,
    /// With compactions whenever there is something to gain, and not without any.
    compacts: bool,
}

const PLANS: [Plan; 6] = [
    Plan {
        name: "small values",
        on: On::Emulated,
        key_bytes: 20,
        value_bytes: 100,
        keys: 500_000,
        budget_bytes: 68 * MIB,
        memtable_bytes: 8 * MIB,
        iterators: 1000,
        compacts: false,
    },
    Plan {
        name: "values of a block",
        on: On::Emulated,
        key_bytes: 20,
        value_bytes: 3000,
        keys: 30_000,
        budget_bytes: 72 * MIB,
        memtable_bytes: 16 * MIB,
        iterators: 1000,
        compacts: false,
    },
    Plan {
        name: "values larger than a block",
        on: On::Emulated,
        key_bytes: 20,
        value_bytes: 40_000,
        keys: 3_000,
        budget_bytes: 80 * MIB,
        memtable_bytes: 16 * MIB,
        iterators: 100,
        compacts: false,
    },
    Plan {
        name: "a large index",
        on: On::Dram,
        key_bytes: 120,
        value_bytes: 10,
        keys: 300_000,
        budget_bytes: 96 * MIB,
        memtable_bytes: 8 * MIB,
        iterators: 1000,
        compacts: false,
    },
    Plan {
        name: "a large index, compactions and iterators of many moments",
        on: On::Dram,
        key_bytes: 120,
        value_bytes: 10,
        keys: 300_000,
        budget_bytes: 96 * MIB,
        memtable_bytes: 8 * MIB,
        iterators: 1000,
        compacts: true,
    },
    Plan {
        name: "large MemTables",
        on: On::Dram,
        key_bytes: 20,
        value_bytes: 400,
        keys: 200_000,
        budget_bytes: 160 * MIB,
        memtable_bytes: 32 * MIB,
        iterators: 100,
        compacts: false,
    },
];

/// A field of `/proc/self/status`, in bytes.
fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// What the process takes that a store on this medium can be the cause of.
fn resident_bytes(on: On) -> u64 {
    let other = if on == On::Dram { status("RssFile") + status("RssShmem") - mapped_table_bytes() } else { 0 };
    status("RssAnon") + other
}

/// What is in memory of table files that are mapped: the page cache's, and not the store's.
fn mapped_table_bytes() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut bytes, mut is_table) = (0, false);
    for line in maps.lines() {
        if let Some(kib) = line.strip_prefix("Rss:") {
            let kib: u64 = kib.trim().trim_end_matches(" kB").parse().unwrap();
            bytes += if is_table { kib * 1024 } else { 0 };
        } else if line.as_bytes()[0].is_ascii_hexdigit() && !line.as_bytes()[0].is_ascii_uppercase() {
            is_table = line.contains(".sst");
        }
    }
    bytes
}

/// Key number so much, of this length.
fn key(number: u64, bytes: usize) -> Vec<u8> {
    format!("{:016x}{:k>2$}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15), "", bytes - 16).into_bytes()
}

/// Values half of which is noise.
fn value(random: &mut Random, bytes: usize) -> Vec<u8> {
    let mut value = vec![b'v'; bytes];
    for part in value[..bytes / 2].chunks_mut(8) {
        part.copy_from_slice(&random.next().to_le_bytes()[..part.len()]);
    }
    value
}

struct Child {
    plan: &'static Plan,
    db: Db,
    before_bytes: u64,
    telling_steps: u64,
    wrong: Vec<String>,
}

impl Child {
    /// Compares what the store says with what the process takes.
    fn compare(&mut self, step: &str) -> Stats {
        let stats = self.db.stats();
        let taken = resident_bytes(self.plan.on).saturating_sub(self.before_bytes);
        let said = stats.memory_bytes;
        let parts = stats.memory.parts();
        let parts: Vec<String> = parts
            .iter()
            .filter(|(_, bytes)| *bytes >= MIB / 4)
            .map(|(name, bytes)| format!("{name} {:.1}", *bytes as f64 / MIB as f64))
            .collect();
        let line = format!(
            "{}, {step}: says {:.1} MiB, takes {:.1} MiB ({:.2}); {}",
            self.plan.name,
            said as f64 / MIB as f64,
            taken as f64 / MIB as f64,
            taken as f64 / said as f64,
            parts.join(", ")
        );
        println!("{line}");
        if said.max(taken) >= TELLING_BYTES {
            self.telling_steps += 1;
            if said.abs_diff(taken) > said / part() {
                self.wrong.push(line);
            }
        }
        stats
    }

    fn key(&self, number: u64) -> Vec<u8> {
        key(number, self.plan.key_bytes)
    }

    fn fill(&self, from: u64, to: u64) {
        let mut random = Random(from);
        for number in from..to {
            self.db.put(self.key(number), value(&mut random, self.plan.value_bytes)).unwrap();
        }
    }

    /// Reads everything, key by key and then as a scan. (A scan alone would leave little in the cache.)
    fn read(&self) {
        for number in 0..self.plan.keys {
            assert!(self.db.get(self.key(number)).unwrap().is_some());
        }
        assert_eq!(self.db.iter().unwrap().map(Result::unwrap).count() as u64, self.plan.keys);
    }

    /// Overwrites the same keys several times more, with an iterator made every now and then.
    fn overwrite_under_later_ones(&mut self, overwritten: u64) -> Vec<slmdb::Range> {
        let mut later = Vec::new();
        for round in 0..ROUNDS {
            for part in 0..ITERATORS_PER_ROUND {
                let mut iterator = self.db.iter().unwrap();
                iterator.next().unwrap().unwrap();
                later.push(iterator);
                let bounds = [part, part + 1].map(|part| overwritten * part / ITERATORS_PER_ROUND);
                self.fill(bounds[0], bounds[1]);
            }
            self.compare(&format!("overwritten again, round {round}"));
        }
        self.db.flush().unwrap();
        self.compare("overwritten under later ones");
        later
    }

    fn run(&mut self) {
        let plan = self.plan;
        self.fill(0, plan.keys);
        self.compare("filled");
        self.db.flush().unwrap();
        self.compare("flushed");
        self.read();
        self.compare("read");
        let mut random = Random(8);
        let iterators: Vec<_> = (0..plan.iterators)
            .map(|_| {
                let mut range = self.db.range(self.key(random.below(plan.keys))..).unwrap();
                range.next().unwrap().unwrap();
                range
            })
            .collect();
        self.compare("iterators held");
        let overwritten = plan.keys / 4;
        self.fill(0, overwritten);
        self.db.flush().unwrap();
        let stats = self.compare("overwritten under them");
        if common::engine() == slmdb::EngineName::Slm {
            // (In LAB-DB many of them are in the levels.)
            assert_eq!(stats.replaced_records_kept, overwritten);
        }
        let later = if plan.compacts { self.overwrite_under_later_ones(overwritten) } else { Vec::new() };
        drop(iterators);
        if plan.compacts {
            self.compare("earlier iterators dropped");
            // One after the other, as they were made: each frees little.
            later.into_iter().for_each(drop);
            assert!(self.db.stats().since_open.compactions >= 5, "{:#?}", self.db.stats());
        }
        let stats = self.compare("iterators dropped");
        assert_eq!(stats.memory.replaced_records_bytes, 0);
        self.read();
        let stats = self.compare("read again");

        // What is needed beside the cache is given; the cache has the rest, or its floor.
        let cache_bytes = stats.memory.block_cache_bytes;
        let needed_bytes = stats.memory_bytes - cache_bytes;
        let share_bytes = stats.memory_budget_bytes.saturating_sub(needed_bytes).max(stats.memory_budget_bytes / 16);
        assert!(cache_bytes <= share_bytes + share_bytes / 20, "over the budget: {stats:#?}");
        assert!(self.wrong.is_empty(), "too far beside it:\n{}", self.wrong.join("\n"));
        assert!(self.telling_steps >= 3, "too small to tell anything");
    }
}

/// The child: one store. Does nothing when the tests are run as usual.
#[test]
fn child_with_a_store() {
    let Ok(number) = std::env::var("SLMDB_MEMORY_TEST") else { return };
    let plan = &PLANS[number.parse::<usize>().unwrap()];
    let home = Home::new(plan.on);
    let compaction = if plan.compacts { common::eager_compaction() } else { common::no_compaction() };
    let compaction = slmdb::CompactionOptions { table_file_bytes: 4 * MIB, ..compaction };
    let options = crate::common::options().compaction(compaction);
    let options = options.memtable_bytes(plan.memtable_bytes).memory_budget_bytes(plan.budget_bytes);
    let before_bytes = resident_bytes(plan.on);
    let db = home.on(options).open(home.store()).unwrap();
    Child { plan, db, before_bytes, telling_steps: 0, wrong: Vec::new() }.run();
}

#[test]
fn what_a_store_says_it_keeps_is_what_its_process_takes() {
    for (number, plan) in PLANS.iter().enumerate() {
        // (SLM-DB alone has all keys in memory. TLSM keeps so little there with a pool that it tells nothing.)
        let is_slm = common::engine() == slmdb::EngineName::Slm;
        if plan.name == "a large index" && !is_slm || common::is_tlsm() && !common::flushes_to_files(plan.on) {
            continue;
        }
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["child_with_a_store", "--exact", "--nocapture", "--test-threads=1"])
            .env("SLMDB_MEMORY_TEST", number.to_string())
            // With these the allocator would keep what the store has given back.
            .env_remove("MALLOC_TRIM_THRESHOLD_")
            .env_remove("MALLOC_MMAP_THRESHOLD_")
            // One thread's memory is then used again by another. Else chance says how much of it is not.
            .env("MALLOC_ARENA_MAX", "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        println!("{said}");
        let errors = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{}: {errors}", plan.name);
    }
}

#[test]
fn every_other_engine_passes() {
    common::every_other_engine_passes();
}
