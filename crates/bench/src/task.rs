//! What the threads of a phase are given, and how much of it each does.

use std::time::Duration;

use crate::benchmark::{Benchmark, Order, Work};
use crate::error::Result;
use crate::meter::Meter;
use crate::records::Records;
use crate::settings::Settings;
use crate::store::Store;
use crate::values::Values;

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
            _ => {
                let limit = self.settings.time_limit.filter(|_| !self.benchmark.scale.fresh);
                [self.settings.duration, limit].into_iter().flatten().min()
            }
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
