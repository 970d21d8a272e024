//! YCSB: its load phase and its core workloads, at work.
//!
//! A record is one value. An update is "insert if exists" (section 4 of the SLM-DB paper): a record that is not there is not
//! made. Records that another thread is still inserting are not asked for.

use crate::distributions::{Distribution, Latest, Scrambled};
use crate::error::Result;
use crate::keys::KeyBuffer;
use crate::meter::{Kind, Meter};
use crate::random::Random;
use crate::records::Records;
use crate::store::Start;
use crate::task::{Task, get};
use crate::workload::Workload;

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
