//! What the threads do in db_bench's benchmarks.

use std::time::Duration;

use crate::benchmark::{Asked, Order, Work};
use crate::error::{Error, Result};
use crate::keys::KeyBuffer;
use crate::meter::{Kind, Meter};
use crate::random::{Permutation, Random};
use crate::store::Start;
use crate::system;
use crate::task::{Task, get};
use crate::ycsb;

/// Nobody waits longer until a store is at rest.
const QUIET_WAIT_MAX: Duration = Duration::from_secs(3600);

/// The part of thread `index`. Indices beyond [`Task::threads`] are those that work beside.
pub(crate) fn run(task: &Task<'_>, index: u64, meter: &mut Meter<'_>) -> Result<()> {
    let random = Random::stream(task.settings.seed, task.phase, index);
    let keys = KeyBuffer::new(task.settings.key_bytes);
    let mut thread = Thread { task, random, keys, meter, index };
    match task.benchmark.work {
        Work::Put(order) => thread.put(order),
        Work::Delete(order) => thread.delete(order),
        Work::Get(asked) => thread.get(asked),
        Work::Walk { backwards } => thread.walk(backwards),
        Work::Seek { ordered } => thread.seek(ordered),
        Work::ReadWhileWriting if index < task.threads() => thread.get(Asked::Random),
        Work::ReadWhileWriting => thread.write_while_others_work(),
        Work::ReadRandomWriteRandom => thread.read_and_write(),
        Work::YcsbLoad => ycsb::load(task, thread.random, meter),
        Work::Ycsb(workload) => ycsb::run(workload, task, thread.random, meter),
        Work::Flush => thread.maintain(task.store.flush()),
        Work::Compact => thread.maintain(task.store.compact()),
        Work::Wait => thread.maintain(wait_until_quiet(task.settings.quiet)),
        Work::Recover | Work::Describe(_) => Ok(()),
    }
}

/// One thread at work.
struct Thread<'t, 'm, 's> {
    task: &'t Task<'t>,
    random: Random,
    keys: KeyBuffer,
    meter: &'m mut Meter<'s>,
    index: u64,
}

impl Thread<'_, '_, '_> {
    fn put(&mut self, order: Order) -> Result<()> {
        let task = self.task;
        let (num, value_bytes) = (task.settings.num, task.value_bytes());
        let batch_size = task.benchmark.scale.batch_size.unwrap_or(task.settings.batch_size);
        let mut values = task.values.from_somewhere(&mut self.random);
        let permutation = Permutation::new(num, task.settings.seed ^ task.phase);
        let bytes = (task.settings.key_bytes + value_bytes) as u64;
        // The threads of a permutation have each their part of it.
        let (operations, step) = match order {
            Order::Unique => ((num + task.threads() - 1 - self.index) / task.threads(), task.threads()),
            Order::Sequential | Order::Random => (task.operations(), 1),
        };
        let number = |random: &mut Random, operation: u64| match order {
            Order::Sequential => operation,
            Order::Random => random.below(num),
            Order::Unique => permutation.at(operation * step + self.index),
        };
        let mut batch: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let numbers = task.numbers(operations);
        let mut operation = 0;
        while operation < numbers.end && self.meter.goes_on() {
            let count = batch_size.min(numbers.end - operation);
            if count == 1 {
                let key = self.keys.key(number(&mut self.random, operation));
                task.store.put(key, values.value(value_bytes))?;
            } else {
                batch.resize_with(count as usize, Default::default);
                for (entry, operation) in batch.iter_mut().zip(operation..) {
                    entry.0.clear();
                    entry.0.extend_from_slice(self.keys.key(number(&mut self.random, operation)));
                    entry.1.clear();
                    entry.1.extend_from_slice(values.value(value_bytes));
                }
                let entries: Vec<(&[u8], &[u8])> =
                    batch.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
                task.store.put_all(&entries)?;
            }
            self.meter.finished_put(Kind::Write, count, count * bytes);
            operation += count;
        }
        Ok(())
    }

    fn delete(&mut self, order: Order) -> Result<()> {
        let (task, num) = (self.task, self.task.settings.num);
        for operation in task.numbers(task.operations()) {
            if !self.meter.goes_on() {
                break;
            }
            let number = if order == Order::Random { self.random.below(num) } else { operation };
            task.store.delete(self.keys.key(number))?;
            self.meter.finished(Kind::Delete, 1, 0);
        }
        Ok(())
    }

    fn get(&mut self, asked: Asked) -> Result<()> {
        let task = self.task;
        let num = match asked {
            Asked::Hot => task.settings.num.div_ceil(100),
            Asked::Random | Asked::Missing => task.settings.num,
        };
        for _ in task.numbers(task.operations()) {
            if !self.meter.goes_on() {
                break;
            }
            let number = self.random.below(num);
            let key = if asked == Asked::Missing { self.keys.missing(number) } else { self.keys.key(number) };
            let bytes = get(task, key, self.meter)?;
            self.meter.finished(Kind::Read, 1, bytes);
        }
        Ok(())
    }

    fn walk(&mut self, backwards: bool) -> Result<()> {
        let (task, meter) = (self.task, &mut *self.meter);
        let mut left = task.operations();
        let start = if backwards { Start::Last } else { Start::First };
        task.store.walk(start, &mut |entry| {
            let bytes = entry.key().len();
            let value = entry.value()?;
            task.look_at(value);
            meter.finished_entry((bytes + value.len()) as u64);
            left -= 1;
            Ok(left > 0 && meter.goes_on())
        })
    }

    fn seek(&mut self, ordered: bool) -> Result<()> {
        let (task, num) = (self.task, self.task.settings.num);
        let mut number = 0;
        for _ in task.numbers(task.operations()) {
            if !self.meter.goes_on() {
                break;
            }
            number = if ordered { (number + self.random.below(100)) % num } else { self.random.below(num) };
            let key = self.keys.key(number);
            let (mut found, mut bytes, mut seen) = (false, 0, 0);
            task.store.walk(Start::At(key), &mut |entry| {
                found |= seen == 0 && entry.key() == key;
                if task.settings.seek_nexts == 0 {
                    return Ok(false);
                }
                bytes += entry.key().len();
                let value = entry.value()?;
                task.look_at(value);
                bytes += value.len();
                seen += 1;
                Ok(seen < task.settings.seek_nexts)
            })?;
            self.meter.asked(found);
            self.meter.finished(Kind::Seek, 1, bytes as u64);
        }
        Ok(())
    }

    /// Puts random keys for as long as others read. Nothing of it is in the result but how much it was.
    fn write_while_others_work(&mut self) -> Result<()> {
        let task = self.task;
        let mut values = task.values.from_somewhere(&mut self.random);
        let bytes = (task.settings.key_bytes + task.value_bytes()) as u64;
        loop {
            let number = self.random.below(task.settings.num);
            task.store.put(self.keys.key(number), values.value(task.value_bytes()))?;
            self.meter.finished_put(Kind::Write, 1, bytes);
            if self.meter.ended_threads() >= task.threads() || !self.meter.goes_on() {
                return Ok(());
            }
        }
    }

    fn read_and_write(&mut self) -> Result<()> {
        let task = self.task;
        let mut values = task.values.from_somewhere(&mut self.random);
        let put_bytes = (task.settings.key_bytes + task.value_bytes()) as u64;
        for _ in task.numbers(task.operations()) {
            if !self.meter.goes_on() {
                break;
            }
            let reads = self.random.below(100) < task.settings.read_percent;
            let key = self.keys.key(self.random.below(task.settings.num));
            if reads {
                let bytes = get(task, key, self.meter)?;
                self.meter.finished(Kind::Read, 1, bytes);
            } else {
                task.store.put(key, values.value(task.value_bytes()))?;
                self.meter.finished_put(Kind::Write, 1, put_bytes);
            }
        }
        Ok(())
    }

    fn maintain(&mut self, done: Result<()>) -> Result<()> {
        done?;
        self.meter.finished(Kind::Maintain, 1, 0);
        Ok(())
    }
}

/// Waits until the process does nothing any more.
fn wait_until_quiet(quiet: Duration) -> Result<()> {
    if system::wait_until_idle(quiet, QUIET_WAIT_MAX) {
        return Ok(());
    }
    let minutes = QUIET_WAIT_MAX.as_secs() / 60;
    Err(Error::Refused(format!("the store was still at work after {minutes} minutes; leave waitforcompaction out")))
}
