//! YCSB: its load phase and its core workloads A to F.
//!
//! | workload | operations | records chosen by |
//! |---|---|---|
//! | A | 50 % reads, 50 % updates | zipfian, scrambled |
//! | B | 95 % reads, 5 % updates | zipfian, scrambled |
//! | C | reads | zipfian, scrambled |
//! | D | 95 % reads, 5 % inserts | latest |
//! | E | 95 % ranges, 5 % inserts | zipfian, scrambled; lengths uniform from 1 |
//! | F | 50 % reads, 50 % read-modify-writes | zipfian, scrambled |
//!
//! [`Settings::request_distribution`](crate::Settings::request_distribution) has them chosen otherwise. A record is one value. An update is "insert if exists" (section 4 of the SLM-DB paper): a record that is not there is not
//! made. Records that another thread is still inserting are not asked for.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::distributions::{Distribution, Latest, Scrambled};
use crate::error::Result;
use crate::keys::KeyBuffer;
use crate::meter::{Kind, Meter};
use crate::random::Random;
use crate::store::Start;
use crate::work::{Task, get};

/// YCSB's core workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Update heavy.
    A,
    /// Read mostly.
    B,
    /// Read only.
    C,
    /// Read latest.
    D,
    /// Short ranges.
    E,
    /// Read-modify-write.
    F,
}

impl Workload {
    /// What of a hundred operations are not reads (of E: not ranges), and which kind these are.
    fn others(self) -> (u64, Kind) {
        match self {
            Workload::A => (50, Kind::Update),
            Workload::B => (5, Kind::Update),
            Workload::C => (0, Kind::Update),
            Workload::D | Workload::E => (5, Kind::Insert),
            Workload::F => (50, Kind::ReadModifyWrite),
        }
    }

    /// The kind of the next operation.
    fn kind(self, random: &mut Random) -> Kind {
        let (percent, kind) = self.others();
        match self {
            _ if random.below(100) < percent => kind,
            Workload::E => Kind::Seek,
            _ => Kind::Read,
        }
    }
}

/// How many records there are.
#[derive(Debug, Default)]
pub(crate) struct Records {
    next: AtomicU64,
    /// Records below this are all there.
    there: AtomicU64,
    /// Records above it that are there already.
    early: Mutex<BTreeSet<u64>>,
}

impl Records {
    /// So many are there.
    pub fn of(count: u64) -> Records {
        Records { next: AtomicU64::new(count), there: AtomicU64::new(count), early: Mutex::default() }
    }

    pub fn there(&self) -> u64 {
        self.there.load(Ordering::Acquire)
    }

    /// The number of a record to be inserted.
    fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// It has been inserted.
    fn put(&self, record: u64) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        let mut there = self.there.load(Ordering::Relaxed);
        if record != there {
            early.insert(record);
            return;
        }
        there += 1;
        while early.remove(&there) {
            there += 1;
        }
        self.there.store(there, Ordering::Release);
    }
}

/// The load phase: each record once, in order, which is a random order of their keys.
pub(crate) fn load(task: &Task<'_>, mut random: Random, meter: &mut Meter<'_>) -> Result<()> {
    let mut keys = KeyBuffer::new(0);
    let mut values = task.values.from_somewhere(&mut random);
    while meter.goes_on() {
        let record = task.records.take();
        if record >= task.settings.num {
            break;
        }
        let key = keys.user(record);
        task.store.put(key, values.value(task.settings.record_bytes))?;
        task.records.put(record);
        meter.finished_put(Kind::Insert, 1, (key.len() + task.settings.record_bytes) as u64);
    }
    Ok(())
}

/// How records are chosen.
enum Choice {
    Scrambled(Scrambled),
    Latest(Latest),
    Uniform,
}

impl Choice {
    fn new(workload: Workload, task: &Task<'_>) -> Choice {
        let (there, theta) = (task.records.there(), task.settings.zipf);
        // As YCSB does: room for twice the insertions that are to be expected, so that new records are as popular as old ones.
        let inserted = match workload.others() {
            (percent, Kind::Insert) => task.operations_of_all().saturating_mul(2 * percent) / 100,
            _ => 0,
        };
        let usual = if workload == Workload::D { Distribution::Latest } else { Distribution::Zipfian };
        match task.settings.request_distribution.unwrap_or(usual) {
            Distribution::Zipfian => Choice::Scrambled(Scrambled::new(there.saturating_add(inserted), theta)),
            Distribution::Latest => Choice::Latest(Latest::new(there, theta)),
            Distribution::Uniform => Choice::Uniform,
        }
    }

    /// A record that is there.
    fn record(&mut self, random: &mut Random, records: &Records) -> u64 {
        let there = records.there().max(1);
        match self {
            Choice::Latest(latest) => latest.item(random, there),
            Choice::Uniform => random.below(there),
            Choice::Scrambled(scrambled) => loop {
                let record = scrambled.item(random);
                if record < there {
                    return record;
                }
            },
        }
    }
}

/// A workload.
pub(crate) fn run(workload: Workload, task: &Task<'_>, mut random: Random, meter: &mut Meter<'_>) -> Result<()> {
    let (store, record_bytes) = (task.store, task.settings.record_bytes);
    let mut keys = KeyBuffer::new(0);
    let mut values = task.values.from_somewhere(&mut random);
    let mut choice = Choice::new(workload, task);
    for _ in task.numbers(task.operations()) {
        if !meter.goes_on() {
            break;
        }
        let kind = workload.kind(&mut random);
        if kind == Kind::Insert {
            let record = task.records.take();
            let key = keys.user(record);
            store.put(key, values.value(record_bytes))?;
            task.records.put(record);
            meter.finished_put(kind, 1, (key.len() + record_bytes) as u64);
            continue;
        }
        let key = keys.user(choice.record(&mut random, task.records));
        let put_bytes = (key.len() + record_bytes) as u64;
        match kind {
            Kind::Update => {
                let found = store.update_if_present(key, values.value(record_bytes))?;
                meter.asked(found);
                meter.finished_put(kind, 1, if found { put_bytes } else { 0 });
            }
            Kind::ReadModifyWrite => {
                // Who has read a record knows that it is there.
                let bytes = get(task, key, meter)?;
                let put_bytes = if bytes > 0 { put_bytes } else { 0 };
                if put_bytes > 0 {
                    store.put(key, values.value(record_bytes))?;
                }
                meter.finished(kind, 1, bytes + put_bytes);
                meter.counts.bytes_put += put_bytes;
            }
            Kind::Seek => {
                let mut left = 1 + random.below(task.settings.scan_records_max);
                let (mut bytes, mut found) = (0, false);
                store.walk(Start::At(key), &mut |entry| {
                    found |= entry.key() == key;
                    bytes += entry.key().len();
                    let value = entry.value()?;
                    task.look_at(value);
                    bytes += value.len();
                    left -= 1;
                    Ok(left > 0)
                })?;
                meter.asked(found);
                meter.finished(kind, 1, bytes as u64);
            }
            _ => {
                let bytes = get(task, key, meter)?;
                meter.finished(kind, 1, bytes);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_mixed_as_the_table_says() {
        let mut random = Random::new(1);
        for (workload, kind, expected) in [
            (Workload::A, Kind::Update, 50_000),
            (Workload::B, Kind::Update, 5_000),
            (Workload::C, Kind::Read, 100_000),
            (Workload::D, Kind::Insert, 5_000),
            (Workload::E, Kind::Insert, 5_000),
            (Workload::E, Kind::Seek, 95_000),
            (Workload::F, Kind::ReadModifyWrite, 50_000),
        ] {
            let count = (0..100_000).filter(|_| workload.kind(&mut random) == kind).count();
            assert!(count.abs_diff(expected) <= 1_000, "{workload:?} {kind:?}: {count}");
        }
    }

    #[test]
    fn records_count_when_all_before_them_are_there() {
        let records = Records::of(10);
        assert_eq!([records.take(), records.take(), records.take()], [10, 11, 12]);
        records.put(11);
        assert_eq!(records.there(), 10);
        records.put(10);
        assert_eq!(records.there(), 12);
        records.put(12);
        assert_eq!(records.there(), 13);
    }
}
