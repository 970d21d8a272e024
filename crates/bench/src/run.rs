//! [`Bench`]: benchmarks one after the other on one store, each a phase with everything measured beside it.
//!
//! Before and after a phase, outside the time that counts, the file system is synced and the block device's own counters are
//! read: what a phase has written is then what came to the device, not what still waits in memory.

use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::benchmark::{Benchmark, Work};
use crate::error::{Error, Result};
use crate::meter::{Counts, Meter, Shared};
use crate::phase::Phase;
use crate::settings::Settings;
use crate::store::{Opener, Store, Which};
use crate::system::{DeviceTraffic, FileCalls, Resident, processor_time, space_bytes};
use crate::values::Values;
use crate::work::Task;
use crate::ycsb::Records;

/// How often whoever watches is told how far a phase is.
const WATCH_EVERY: Duration = Duration::from_millis(100);

/// What came of a benchmark.
#[derive(Debug)]
pub enum Outcome {
    /// It was measured.
    Measured(Box<Phase>),
    /// It was not done, and why.
    Skipped(&'static str),
    /// What the store says of itself; `None`: it says nothing.
    Described(Option<String>),
}

impl Outcome {
    /// As one object, whatever came of it.
    pub fn json(&self, benchmark: Benchmark, store: &str) -> Value {
        let named = || json!({ "benchmark": benchmark.name, "store": store });
        match self {
            Outcome::Measured(phase) => phase.json(),
            Outcome::Skipped(why) => with(named(), "skipped", (*why).into()),
            Outcome::Described(text) => with(named(), "text", text.clone().into()),
        }
    }
}

fn with(mut object: Value, name: &str, value: Value) -> Value {
    object[name] = value;
    object
}

/// How far a phase is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Operations done, about.
    pub done: u64,
    /// Of so many, if that is known.
    pub of: Option<u64>,
    /// For so long.
    pub elapsed: Duration,
}

/// A store that is being measured.
pub struct Bench {
    opener: Box<dyn Opener>,
    settings: Settings,
    values: Values,
    records: Records,
    open: Option<Open>,
    phases: u64,
}

struct Open {
    store: Box<dyn Store>,
    sync: bool,
    /// Nothing has been done to it.
    untouched: bool,
}

impl Bench {
    /// Opens the store: a new one, in place of what a benchmark left there, unless [`Settings::use_existing`] says otherwise.
    pub fn new(opener: Box<dyn Opener>, settings: Settings) -> Result<Bench> {
        settings.check()?;
        let value_bytes_max = settings.value_bytes.max(settings.record_bytes).max(100_000);
        let values = Values::new(value_bytes_max, settings.compression_ratio, settings.seed);
        let records = Records::of(settings.num);
        let mut bench = Bench { opener, settings, values, records, open: None, phases: 0 };
        let which = if bench.settings.use_existing { Which::Existing } else { Which::Fresh };
        bench.open(which, bench.settings.sync)?;
        Ok(bench)
    }

    /// What the store is called.
    pub fn name(&self) -> &str {
        self.opener.name()
    }

    /// Does one benchmark. `watch` is told now and then how far it is, from this thread.
    pub fn run(&mut self, benchmark: Benchmark, watch: &mut dyn FnMut(Progress)) -> Result<Outcome> {
        self.phases += 1;
        if let Work::Describe(what) = benchmark.work {
            return Ok(Outcome::Described(self.store()?.describe(what)));
        }
        if benchmark.scale.fresh && self.settings.use_existing {
            return Ok(Outcome::Skipped("--use_existing_db is true"));
        }
        self.prepare(benchmark)?;
        let phase = self.measure(benchmark, watch)?;
        if benchmark.work == Work::YcsbLoad {
            // Threads have taken numbers that they have not used.
            self.records = Records::of(self.records.there());
        }
        Ok(Outcome::Measured(Box::new(phase)))
    }

    /// Closes the store.
    pub fn close(mut self) -> Result<()> {
        self.close_store()
    }

    fn close_store(&mut self) -> Result<()> {
        self.open.take().map_or(Ok(()), |open| open.store.close())
    }

    fn open(&mut self, which: Which, sync: bool) -> Result<()> {
        self.close_store()?;
        let store = self.opener.open(which, sync)?;
        self.open = Some(Open { store, sync, untouched: which == Which::Fresh });
        Ok(())
    }

    fn store(&self) -> Result<&dyn Store> {
        match &self.open {
            Some(open) => Ok(&*open.store),
            None => Err(Error::Refused("the store is not open after an earlier error; begin anew".to_string())),
        }
    }

    /// The store as the benchmark wants it: new or not, synced or not.
    fn prepare(&mut self, benchmark: Benchmark) -> Result<()> {
        let sync = self.settings.sync || benchmark.scale.sync;
        let as_wanted = |open: &Open| open.sync == sync && (!benchmark.scale.fresh || open.untouched);
        if !self.open.as_ref().is_some_and(as_wanted) {
            self.open(if benchmark.scale.fresh { Which::Fresh } else { Which::Existing }, sync)?;
        }
        if let Some(open) = &mut self.open {
            open.untouched = false;
        }
        if benchmark.scale.fresh {
            self.records = Records::of(if benchmark.work == Work::YcsbLoad { 0 } else { self.settings.num });
        }
        Ok(())
    }

    fn measure(&self, benchmark: Benchmark, watch: &mut dyn FnMut(Progress)) -> Result<Phase> {
        let store = self.store()?;
        let (settings, values, records) = (&self.settings, &self.values, &self.records);
        let task = Task { benchmark, settings, store, values, records, phase: self.phases };
        let device = || self.opener.directory().and_then(DeviceTraffic::after_sync);

        let device_before = device();
        let numbers_before = store.numbers();
        let calls_before = FileCalls::so_far();
        let processor_before = processor_time();
        let (counts, beside) = work(&task, watch)?;
        let processor = processor_time() - processor_before;
        let numbers = store.numbers().since(&numbers_before);
        let calls = FileCalls::so_far();
        let resident = Resident::now();
        let device_after = device();
        Ok(Phase {
            benchmark: benchmark.name,
            store: self.name().to_string(),
            threads: task.threads(),
            counts,
            beside,
            numbers,
            calls: calls.zip(calls_before).map(|(after, before)| after.since(&before)),
            device: device_after.zip(device_before).map(|(after, before)| after.since(&before)),
            space_bytes: self.opener.directory().and_then(space_bytes),
            resident,
            processor,
            num: settings.num,
        })
    }
}

/// Says that a thread has ended, in whatever way: others wait for that.
struct End<'s> {
    shared: &'s Shared,
    watcher: Thread,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.shared.ended.fetch_add(1, Ordering::AcqRel);
        self.watcher.unpark();
    }
}

/// Has all threads do the task. Gives what those did that count, and what those did that work beside.
fn work(task: &Task<'_>, watch: &mut dyn FnMut(Progress)) -> Result<(Counts, Counts)> {
    let threads = task.threads() + task.threads_beside();
    let (shared, barrier) = (Shared::default(), Barrier::new(threads as usize + 1));
    let watcher = thread::current();
    let counted = thread::scope(|scope| {
        let one = |index: u64| {
            let (shared, barrier, watcher) = (&shared, &barrier, watcher.clone());
            move || {
                barrier.wait();
                let _end = End { shared, watcher };
                let mut meter = Meter::start(shared, task.duration());
                let done = task.run(index, &mut meter);
                let counts = meter.end();
                if done.is_err() {
                    shared.stop.store(true, Ordering::Relaxed);
                }
                done.map(|()| counts)
            }
        };
        let workers: Vec<_> = (0..threads).map(|index| scope.spawn(one(index))).collect();
        barrier.wait();
        let started = Instant::now();
        let of = task.duration().is_none().then(|| task.operations_of_all());
        while shared.ended.load(Ordering::Acquire) < threads {
            thread::park_timeout(WATCH_EVERY);
            // What is written for whoever watches would look like the store's work.
            if task.benchmark.work == Work::Wait {
                continue;
            }
            watch(Progress { done: shared.done.load(Ordering::Relaxed), of, elapsed: started.elapsed() });
        }
        workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>()
    });
    let (mut counts, mut beside) = (Counts::default(), Counts::default());
    for (index, worker) in (0..).zip(counted) {
        // A panic in a worker goes on in this thread.
        let done = worker.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        if index < task.threads() { &mut counts } else { &mut beside }.add(&done);
    }
    Ok((counts, beside))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::empty::EmptyOpener;

    /// (What a progress bar wrote looked like work, and a wait on a terminal had no end.)
    #[test]
    fn a_wait_is_not_kept_up_by_what_is_written_for_who_watches() {
        let mut bench = Bench::new(Box::new(EmptyOpener), Settings::default()).unwrap();
        let watch = &mut |_| panic!("who watches may write");
        let waited = bench.run(Benchmark::by_name("waitforcompaction").unwrap(), watch).unwrap();
        assert!(matches!(waited, Outcome::Measured(phase) if phase.operations() == 1));
    }
}
