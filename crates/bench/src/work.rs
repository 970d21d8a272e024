//! What the threads do in db_bench's benchmarks.

use std::time::Duration;

use crate::benchmark::{Asked, Benchmark, Order, Work};
use crate::error::{Error, Result};
use crate::keys::KeyBuffer;
use crate::meter::{Kind, Meter};
use crate::random::{Permutation, Random};
use crate::settings::Settings;
use crate::store::{Start, Store};
use crate::system;
use crate::values::Values;
use crate::ycsb;
use crate::ycsb::Records;

/// A store that has done nothing for so long has nothing left to do.
const QUIET: Duration = Duration::from_secs(1);
/// Nobody waits longer for that.
const QUIET_WAIT_MAX: Duration = Duration::from_secs(3600);

/// What a phase is given.
pub(crate) struct Task<'t> {
    pub benchmark: Benchmark,
    pub settings: &'t Settings,
    pub store: &'t dyn Store,
    pub values: &'t Values,
    pub records: &'t Records,
    /// Which phase of the run this is: each has random numbers of its own.
    pub phase: u64,
}

impl Task<'_> {
    /// Threads whose operations count.
    pub fn threads(&self) -> u64 {
        match self.benchmark.work {
            Work::Flush | Work::Compact | Work::Wait | Work::Recover => 1,
            _ => self.settings.threads,
        }
    }

    /// Threads that work beside these.
    pub fn threads_beside(&self) -> u64 {
        u64::from(self.benchmark.work == Work::ReadWhileWriting)
    }

    /// Operations of each thread; those of YCSB are divided among them.
    pub fn operations(&self) -> u64 {
        let settings = self.settings;
        let wanted = match self.benchmark.work {
            Work::Put(Order::Sequential | Order::Unique) => settings.num,
            Work::Put(_) | Work::Delete(_) => settings.writes.unwrap_or(settings.num),
            Work::YcsbLoad => settings.num.div_ceil(settings.threads),
            Work::Ycsb(_) => settings.operations.unwrap_or(settings.num).div_ceil(settings.threads),
            Work::Flush | Work::Compact | Work::Wait | Work::Recover | Work::Describe(_) => 1,
            _ => settings.reads.unwrap_or(settings.num),
        };
        (wanted / self.benchmark.scale.divided_by).max(1)
    }

    /// Operations of all threads together, if no duration says otherwise.
    pub fn operations_of_all(&self) -> u64 {
        let settings = self.settings;
        match self.benchmark.work {
            Work::Put(Order::Unique) | Work::YcsbLoad => settings.num,
            Work::Ycsb(_) => settings.operations.unwrap_or(settings.num),
            _ => self.operations().saturating_mul(self.threads()),
        }
    }

    /// For how long the work goes on.
    pub fn duration(&self) -> Option<Duration> {
        match self.benchmark.work {
            Work::Flush | Work::Compact | Work::Wait | Work::Recover => None,
            _ => self.settings.duration,
        }
    }

    /// Whether the work has no end of its own when it is given a duration.
    fn is_endless(&self) -> bool {
        let sequential = matches!(
            self.benchmark.work,
            Work::Put(Order::Sequential | Order::Unique)
                | Work::Delete(Order::Sequential)
                | Work::Walk { .. }
                | Work::YcsbLoad
        );
        self.settings.duration.is_some() && !sequential
    }

    /// The numbers of one thread's operations.
    pub fn numbers(&self, operations: u64) -> std::ops::Range<u64> {
        0..if self.is_endless() { u64::MAX } else { operations }
    }

    pub fn value_bytes(&self) -> usize {
        self.benchmark.scale.value_bytes.unwrap_or(self.settings.value_bytes)
    }

    /// What a user would do with a value at least: look at every page of it. So a store that hands out a place in a mapped file has
    /// to have it in memory, too.
    pub fn look_at(&self, value: &[u8]) {
        const PAGE_BYTES: usize = 4096;
        if self.settings.look_at_values {
            let pages = value.iter().step_by(PAGE_BYTES).fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
            std::hint::black_box(pages.wrapping_add(value.last().copied().unwrap_or(0)));
        }
    }

    /// The part of thread `index`. Indices beyond [`Task::threads`] are those that work beside.
    pub fn run(&self, index: u64, meter: &mut Meter<'_>) -> Result<()> {
        let random = Random::stream(self.settings.seed, self.phase, index);
        let keys = KeyBuffer::new(self.settings.key_bytes);
        let mut thread = Thread { task: self, random, keys, meter, index };
        match self.benchmark.work {
            Work::Put(order) => thread.put(order),
            Work::Delete(order) => thread.delete(order),
            Work::Get(asked) => thread.get(asked),
            Work::Walk { backwards } => thread.walk(backwards),
            Work::Seek { ordered } => thread.seek(ordered),
            Work::ReadWhileWriting if index < self.threads() => thread.get(Asked::Random),
            Work::ReadWhileWriting => thread.write_while_others_work(),
            Work::ReadRandomWriteRandom => thread.read_and_write(),
            Work::YcsbLoad => ycsb::load(self, thread.random, meter),
            Work::Ycsb(workload) => ycsb::run(workload, self, thread.random, meter),
            Work::Flush => thread.maintain(self.store.flush()),
            Work::Compact => thread.maintain(self.store.compact()),
            Work::Wait => thread.maintain(wait_until_quiet()),
            Work::Recover | Work::Describe(_) => Ok(()),
        }
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
fn wait_until_quiet() -> Result<()> {
    if system::wait_until_idle(QUIET, QUIET_WAIT_MAX) {
        return Ok(());
    }
    let minutes = QUIET_WAIT_MAX.as_secs() / 60;
    Err(Error::Refused(format!("the store was still at work after {minutes} minutes; leave waitforcompaction out")))
}

/// Gets a key and looks at its value. Gives the bytes of both, or 0.
pub(crate) fn get(task: &Task<'_>, key: &[u8], meter: &mut Meter<'_>) -> Result<u64> {
    let mut bytes = 0;
    let found = task.store.get(key, &mut |value| {
        task.look_at(value);
        bytes = (key.len() + value.len()) as u64;
    })?;
    meter.asked(found);
    Ok(bytes)
}
