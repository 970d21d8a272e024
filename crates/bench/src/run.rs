//! [`Bench`]: benchmarks one after the other on one store, each a phase with everything measured beside it.
//!
//! After a phase, outside the time that counts, the file system is synced and the block device's own counters are read: what a
//! phase has written is then what came to the device, not what still waits in memory. What a store works in the background
//! between two phases is counted to the second, so the sums over phases are all it has done since it was opened.

use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::benchmark::{Benchmark, Work};
use crate::error::{Error, Result};
use crate::meter::{Counts, Kind, Meter, Shared};
use crate::over_time::{Moment, OverTime};
use crate::phase::Phase;
use crate::records::Records;
use crate::settings::Settings;
use crate::store::{Numbers, Opener, Store, Which};
use crate::system::{DeviceTraffic, FileCalls, Resident, processor_time, space_bytes};
use crate::task::Task;
use crate::values::Values;

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

/// Has another process open the store, write into it and be killed.
pub type Killed = Box<dyn Fn() -> Result<()>>;

/// A store that is being measured.
pub struct Bench {
    opener: Box<dyn Opener>,
    killed: Option<Killed>,
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
    /// What was counted at the end of its last phase.
    last: Option<Sample>,
}

/// What counts on from when the process or the machine was started.
struct Sample {
    numbers: Numbers,
    calls: Option<FileCalls>,
    processor: Duration,
    device: Option<DeviceTraffic>,
}

impl Sample {
    fn now(store: &dyn Store, device: Option<DeviceTraffic>) -> Sample {
        Sample { numbers: store.numbers(), calls: FileCalls::so_far(), processor: processor_time(), device }
    }
}

impl Bench {
    /// Opens the store: a new one, in place of what a benchmark left there, unless [`Settings::use_existing`] says otherwise.
    pub fn new(opener: Box<dyn Opener>, settings: Settings) -> Result<Bench> {
        settings.check()?;
        let value_bytes_max = settings.value_bytes.max(settings.record_bytes).max(100_000);
        let values = Values::new(value_bytes_max, settings.compression_ratio, settings.seed);
        let records = Records::of(settings.num);
        let mut bench = Bench { opener, killed: None, settings, values, records, open: None, phases: 0 };
        let which = if bench.settings.use_existing { Which::Existing } else { Which::Fresh };
        bench.open(which, bench.settings.sync)?;
        Ok(bench)
    }

    /// Has `recover` measured, after this.
    pub fn with_killed(self, killed: Killed) -> Bench {
        Bench { killed: Some(killed), ..self }
    }

    /// Has the next benchmarks do other than the ones before: operations, threads and how they choose. What is put must stay as
    /// it is.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
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
        if benchmark.work == Work::Recover {
            return self.recover(benchmark);
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
        self.open = Some(Open { store, sync, untouched: which == Which::Fresh, last: None });
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

    fn measure(&mut self, benchmark: Benchmark, watch: &mut dyn FnMut(Progress)) -> Result<Phase> {
        let before = match self.open.as_mut().and_then(|open| open.last.take()) {
            Some(last) => last,
            None => Sample::now(self.store()?, self.device()),
        };
        let (settings, values, records) = (&self.settings, &self.values, &self.records);
        let task = Task { benchmark, settings, store: self.store()?, values, records, phase: self.phases };
        let threads = task.threads();
        let (counts, beside, over_time) = work(&task, watch)?;
        let mut after = Sample::now(self.store()?, None);
        let resident = Resident::now();
        after.device = self.device();
        let phase = Phase {
            benchmark: benchmark.name,
            store: self.name().to_string(),
            threads,
            counts,
            beside,
            numbers: after.numbers.since(&before.numbers),
            calls: after.calls.zip(before.calls).map(|(after, before)| after.since(&before)),
            device: after.device.zip(before.device).map(|(after, before)| after.since(&before)),
            space_bytes: self.opener.directory().and_then(space_bytes),
            resident,
            over_time,
            processor: after.processor - before.processor,
            num: self.settings.num,
        };
        if let Some(open) = &mut self.open {
            open.last = Some(after);
        }
        Ok(phase)
    }

    /// Closes the store, has another process be killed that writes into it, and measures how long opening it takes then.
    fn recover(&mut self, benchmark: Benchmark) -> Result<Outcome> {
        if self.killed.is_none() {
            return Ok(Outcome::Skipped("no other process can be had to be killed; slmdb-compare has one"));
        }
        let sync = self.settings.sync;
        self.close_store()?;
        self.killed.as_ref().map_or(Ok(()), |killed| killed())?;
        let (calls, processor, device) = (FileCalls::so_far(), processor_time(), self.device());
        let shared = Shared::default();
        let mut meter = Meter::start(&shared, None);
        self.open(Which::Existing, sync)?;
        meter.finished(Kind::Maintain, 1, 0);
        let counts = meter.end();
        let after = Sample::now(self.store()?, None);
        Ok(Outcome::Measured(Box::new(Phase {
            benchmark: benchmark.name,
            store: self.name().to_string(),
            threads: 1,
            counts,
            beside: Counts::default(),
            numbers: after.numbers,
            calls: after.calls.zip(calls).map(|(after, before)| after.since(&before)),
            device: self.device().zip(device).map(|(after, before)| after.since(&before)),
            space_bytes: self.opener.directory().and_then(space_bytes),
            resident: Resident::now(),
            over_time: Vec::new(),
            processor: after.processor - processor,
            num: 1,
        })))
    }

    fn device(&self) -> Option<DeviceTraffic> {
        self.opener.directory().and_then(DeviceTraffic::after_sync)
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

/// Has all threads do the task. Gives what those did that count, what those did that work beside, and how it went.
fn work(task: &Task<'_>, watch: &mut dyn FnMut(Progress)) -> Result<(Counts, Counts, Vec<Moment>)> {
    let threads = task.threads() + task.threads_beside();
    let (shared, barrier) = (Shared::default(), Barrier::new(threads as usize + 1));
    let watcher = thread::current();
    let (counted, over_time) = thread::scope(|scope| {
        let one = |index: u64| {
            let (shared, barrier, watcher) = (&shared, &barrier, watcher.clone());
            move || {
                barrier.wait();
                let _end = End { shared, watcher };
                let mut meter = Meter::start(shared, task.duration());
                let done = crate::work::run(task, index, &mut meter);
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
        // To look, or to write for whoever watches, would look like the store's work.
        let is_watched = task.benchmark.work != Work::Wait;
        let report_interval = task.settings.report_interval.filter(|_| is_watched);
        let mut over_time = report_interval.map(|every| OverTime::new(every, started));
        while shared.ended.load(Ordering::Acquire) < threads {
            let until_next = over_time.as_ref().map_or(WATCH_EVERY, OverTime::until_next);
            thread::park_timeout(until_next.min(WATCH_EVERY));
            if let Some(over_time) = &mut over_time {
                over_time.look(shared.done.load(Ordering::Relaxed), &|| task.store.numbers());
            }
            if !is_watched {
                continue;
            }
            watch(Progress { done: shared.done.load(Ordering::Relaxed), of, elapsed: started.elapsed() });
        }
        let counted = workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>();
        (counted, over_time.map_or_else(Vec::new, |over_time| over_time.moments))
    });
    let (mut counts, mut beside) = (Counts::default(), Counts::default());
    for (index, worker) in (0..).zip(counted) {
        // A panic in a worker goes on in this thread.
        let done = worker.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        if index < task.threads() { &mut counts } else { &mut beside }.add(&done);
    }
    Ok((counts, beside, over_time))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::atomic::AtomicU64;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::distributions::Distribution;
    use crate::empty::EmptyOpener;
    use crate::store::{Entry, Start};

    /// Says that it has written what it is told to say, and finds everything.
    #[derive(Clone, Default)]
    struct Told {
        written_bytes: Arc<AtomicU64>,
        asked: Arc<Mutex<BTreeMap<Vec<u8>, u64>>>,
    }

    impl Opener for Told {
        fn name(&self) -> &str {
            "told"
        }

        fn open(&self, _which: Which, _sync: bool) -> Result<Box<dyn Store>> {
            Ok(Box::new(self.clone()))
        }

        fn directory(&self) -> Option<&Path> {
            None
        }
    }

    impl Store for Told {
        fn put(&self, _key: &[u8], _value: &[u8]) -> Result<()> {
            Ok(())
        }

        fn put_all(&self, _entries: &[(&[u8], &[u8])]) -> Result<()> {
            Ok(())
        }

        fn delete(&self, _key: &[u8]) -> Result<()> {
            Ok(())
        }

        fn get(&self, key: &[u8], look: &mut dyn FnMut(&[u8])) -> Result<bool> {
            *self.asked.lock().unwrap().entry(key.to_vec()).or_default() += 1;
            look(b"value");
            Ok(true)
        }

        fn walk(&self, _start: Start<'_>, _visit: &mut dyn FnMut(&mut dyn Entry) -> Result<bool>) -> Result<()> {
            Ok(())
        }

        fn sync(&self) -> Result<()> {
            Ok(())
        }

        fn numbers(&self) -> Numbers {
            let written_bytes = self.written_bytes.load(Ordering::Relaxed);
            Numbers { file_bytes_written: Some(written_bytes), ..Numbers::default() }
        }
    }

    fn measured(bench: &mut Bench, benchmark: &str) -> Phase {
        match bench.run(Benchmark::by_name(benchmark).unwrap(), &mut |_| {}).unwrap() {
            Outcome::Measured(phase) => *phase,
            other => panic!("{other:?}"),
        }
    }

    /// (What a store compacted while it was synced between two benchmarks was in neither.)
    #[test]
    fn what_happens_between_two_phases_counts_to_the_second() {
        let store = Told::default();
        let settings = Settings { num: 10, ..Settings::default() };
        let mut bench = Bench::new(Box::new(store.clone()), settings).unwrap();
        store.written_bytes.fetch_add(7, Ordering::Relaxed);
        assert_eq!(measured(&mut bench, "fillrandom").numbers.file_bytes_written, Some(0), "opening is in none");
        store.written_bytes.fetch_add(100, Ordering::Relaxed);
        assert_eq!(measured(&mut bench, "readrandom").numbers.file_bytes_written, Some(100));
        assert_eq!(measured(&mut bench, "readrandom").numbers.file_bytes_written, Some(0));
    }

    /// Loads are done whole, so that what follows has the same store whatever the limit.
    #[test]
    fn a_time_limit_is_of_what_does_not_begin_a_store() {
        let operations = |time_limit| {
            let settings = Settings { num: 20_000, time_limit, ..Settings::default() };
            let mut bench = Bench::new(Box::new(Told::default()), settings).unwrap();
            ["filluniquerandom", "readrandom", "overwrite"].map(|name| measured(&mut bench, name).operations())
        };
        assert_eq!(operations(Some(Duration::ZERO)), [20_000, 0, 0]);
        assert_eq!(operations(Some(Duration::from_secs(3600))), [20_000; 3]);
        assert_eq!(operations(None), [20_000; 3]);
    }

    #[test]
    fn records_are_chosen_as_the_workload_has_it_or_as_is_said() {
        const RECORDS: u64 = 1000;
        const READS: u64 = 100_000;
        // How often the record was read that was read most, and the newest; how many were read at all.
        let chosen = |distribution| {
            let store = Told::default();
            let settings = Settings {
                num: RECORDS,
                operations: Some(READS),
                request_distribution: distribution,
                ..Settings::default()
            };
            let mut bench = Bench::new(Box::new(store.clone()), settings).unwrap();
            measured(&mut bench, "ycsbload");
            measured(&mut bench, "ycsbc");
            let asked = store.asked.lock().unwrap();
            let newest = crate::keys::KeyBuffer::new(0).user(RECORDS - 1).to_vec();
            (asked.values().max().copied().unwrap(), asked.get(&newest).copied().unwrap_or(0), asked.len() as u64)
        };
        let (most, ..) = chosen(None);
        assert!((3_000..20_000).contains(&most), "zipfian: {most}");
        assert_eq!(chosen(Some(Distribution::Zipfian)).0, most);
        let (most, newest, _) = chosen(Some(Distribution::Latest));
        assert!(most == newest && newest > 10_000, "latest: {most} {newest}");
        let (most, _, records) = chosen(Some(Distribution::Uniform));
        assert!(most < 200 && records == RECORDS, "uniform: {most} {records}");
    }

    /// What counts is opening, not what came before.
    #[test]
    fn only_a_store_of_which_another_process_was_killed_is_recovered() {
        let recover = Benchmark::by_name("recover").unwrap();
        let mut bench = Bench::new(Box::new(Told::default()), Settings::default()).unwrap();
        assert!(matches!(bench.run(recover, &mut |_| {}).unwrap(), Outcome::Skipped(_)));
        let mut bench = bench.with_killed(Box::new(|| {
            thread::sleep(Duration::from_millis(200));
            Ok(())
        }));
        let Outcome::Measured(phase) = bench.run(recover, &mut |_| {}).unwrap() else { panic!("it was not measured") };
        assert!(phase.operations() == 1 && phase.elapsed() < Duration::from_millis(100), "{:?}", phase.elapsed());
        let mut bench = bench.with_killed(Box::new(|| Err(Error::Refused("it was not killed".to_string()))));
        assert!(bench.run(recover, &mut |_| {}).is_err());
    }

    /// (What a progress bar wrote looked like work, and a wait on a terminal had no end.)
    #[test]
    fn a_wait_is_not_kept_up_by_what_is_written_for_who_watches() {
        let settings = Settings { report_interval: Some(Duration::from_millis(1)), ..Settings::default() };
        let mut bench = Bench::new(Box::new(EmptyOpener), settings).unwrap();
        let watch = &mut |_| panic!("who watches may write");
        let waited = bench.run(Benchmark::by_name("waitforcompaction").unwrap(), watch).unwrap();
        assert!(matches!(waited, Outcome::Measured(phase) if phase.operations() == 1 && phase.over_time.is_empty()));
    }
}
