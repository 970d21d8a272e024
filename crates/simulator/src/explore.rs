//! Crashing everywhere: goes through records of workloads, stops where a crash is worth looking at, and checks the images.
//!
//! The first few times that the program comes to a stop on a call path are looked at, later ones by chance. Images that were
//! checked already are left out. Some openings after a crash are recorded themselves and crashed again: all that come a way that
//! no opening came before, others by chance; and some of these a third time.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use slmdb_pmem::simulated::Stop;

use crate::Random;
use crate::call_paths::CallPaths;
use crate::crashed::{Crashed, record_workload};
use crate::machine::{Image, Record};
use crate::picks::{CrashId, Pick};
use crate::workload::{Done, Plan};

/// How much is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// How many stops on one call path are looked at in any case.
    pub hits: u32,
    /// One in so many of the others is.
    pub one_in: u64,
    /// How many images are made at a stop, at most.
    pub images: usize,
    /// One image in so many goes on to be written to, and is opened again.
    pub thorough_one_in: u64,
    /// One opening in so many is crashed again, besides those that come a new way.
    pub again_one_in: u64,
    /// How many moments of each record are looked at as kills, wherever they are.
    pub kills: usize,
    /// How many threads check images.
    pub threads: usize,
    /// Look only at so many stops behind each step that was left out. 0: everywhere.
    pub behind_left_out: usize,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort {
            hits: 2,
            one_in: 200,
            images: 6,
            thorough_one_in: 4,
            again_one_in: 1000,
            kills: 30,
            threads: 2,
            behind_left_out: 0,
        }
    }
}

/// What was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Workloads that were recorded.
    pub runs: u64,
    /// Places in their records at which crashes were looked at.
    pub stops: u64,
    /// Images that were opened and checked.
    pub images: u64,
    /// Of these, those of a pool.
    pub pool_images: u64,
    /// Of these, those where pool and files were picked apart.
    pub joint_images: u64,
    /// Images that had been checked already.
    pub duplicates: u64,
    /// Images of second crashes, while a store was opened after a first.
    pub second_crashes: u64,
    /// Images of third crashes.
    pub third_crashes: u64,
}

/// A crash after which something was wrong.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What was done before.
    pub plan: Plan,
    /// Where the crash was, and what it left; where there were several, each. None: it went wrong without.
    pub id: CrashId,
    /// What was wrong.
    pub what: String,
    /// What the crash left.
    pub image: Image,
    /// What had happened to files before, since the store was last opened after a crash.
    pub trace: Vec<String>,
}

impl Failure {
    fn new(plan: &Plan, id: CrashId, what: String, image: &Image) -> Failure {
        Failure { plan: *plan, id, what, image: image.clone(), trace: Vec::new() }
    }

    /// The options with which the simulator finds it again.
    pub fn options(&self) -> String {
        let crash = if self.id.crashes.is_empty() { String::new() } else { format!("={}", self.id) };
        format!("--medium {} --seed {} --crash{crash}", self.plan.medium(), self.plan.seed)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let crash = if self.id.crashes.is_empty() { "no crash".into() } else { format!("crash {}", self.id) };
        write!(formatter, "seed {}, {}, {crash}: {}", self.plan.seed, self.plan.medium(), self.what)
    }
}

/// Crashes stores, and remembers what it has looked at.
pub struct Explorer {
    paths: CallPaths,
    effort: Effort,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    counts: Counts,
    /// How often each call path was stopped at: in workloads, in openings after a crash, and in openings after those.
    hits: [HashMap<u32, u32>; 3],
    checked: HashSet<u64>,
    failures: Vec<Failure>,
}

/// An image to be checked.
struct Task {
    crashed: Crashed,
    joint: bool,
    seed: u64,
    /// The call path is new: what opening it does is worth crashing.
    is_new: bool,
}

impl Explorer {
    /// One that has looked at nothing.
    pub fn new(paths: CallPaths, effort: Effort) -> Explorer {
        Explorer { paths, effort, shared: Mutex::default() }
    }

    /// What was looked at so far.
    pub fn counts(&self) -> Counts {
        self.shared().counts
    }

    /// How many distinct call paths crashes were looked at on: in workloads, and while stores were opened after a crash.
    pub fn paths_crashed(&self) -> (usize, usize) {
        let shared = self.shared();
        (shared.hits[0].len(), shared.hits[1].len())
    }

    /// The call paths that steps came from.
    pub fn paths(&self) -> &CallPaths {
        &self.paths
    }

    /// Runs a workload and crashes it, until something is wrong or the time is up; what was wrong.
    pub fn explore(&self, plan: &Plan, until: Option<Instant>) -> Vec<Failure> {
        let recorded = {
            let _watched = Watched::new(format!("seed {}: the workload", plan.seed));
            record_workload(plan, &self.paths)
        };
        self.shared().counts.runs += 1;
        let (mut record, done) = match recorded {
            Ok(recorded) => recorded,
            Err(what) => return vec![Failure::new(plan, CrashId::default(), what, &Image::default())],
        };
        let (sender, receiver) = sync_channel(4);
        let receiver = Mutex::new(receiver);
        std::thread::scope(|scope| {
            for _ in 0..self.effort.threads {
                scope.spawn(|| self.check_all(plan, &receiver));
            }
            self.crash_everywhere(plan, &mut record, &done, &sender, until);
            drop(sender);
        });
        std::mem::take(&mut self.shared().failures)
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the images of a workload's crashes, and sends them to be checked.
    fn crash_everywhere(
        &self,
        plan: &Plan,
        record: &mut Record,
        done: &Done,
        sender: &SyncSender<Task>,
        until: Option<Instant>,
    ) {
        let mut random = Random(plan.seed);
        let stops = self.stops_of(record);
        let mut moments: Vec<(u64, Option<u32>)> =
            stops.iter().map(|stop| (stop.moment, Some(stop.call_path))).collect();
        moments.extend((0..self.effort.kills).map(|_| (random.below(record.end.max(1)), None)));
        moments.push((record.end, None));
        moments.sort_unstable();
        for (moment, path) in moments {
            let (is_wanted, is_new) = path.map_or((true, false), |path| self.wants(0, path, &mut random));
            if !is_wanted {
                continue;
            }
            record.to_moment(moment);
            self.shared().counts.stops += 1;
            let closed = moment == record.end;
            let picks = match path {
                None if !closed => vec![Pick::KILL],
                _ => Pick::all_at(record, self.effort.images, random.number()),
            };
            for pick in picks {
                if until.is_some_and(|until| Instant::now() >= until) || !self.shared().failures.is_empty() {
                    return;
                }
                let task = Task {
                    crashed: Crashed::in_workload(plan, record, done, moment, pick),
                    joint: pick.is_joint(),
                    seed: random.number(),
                    is_new,
                };
                if sender.send(task).is_err() {
                    return;
                }
            }
        }
    }

    /// The stops of a record that may be looked at.
    fn stops_of(&self, record: &Record) -> Vec<Stop> {
        let behind = self.effort.behind_left_out;
        if behind == 0 {
            return record.stops.clone();
        }
        let mut left = 0_usize;
        let is_behind = |stop: &&Stop| {
            left = if stop.done { left.saturating_sub(1) } else { behind };
            left > 0
        };
        record.stops.iter().filter(is_behind).copied().collect()
    }

    /// Whether a stop on this path is looked at, and whether it is the first there.
    fn wants(&self, depth: usize, path: u32, random: &mut Random) -> (bool, bool) {
        let mut shared = self.shared();
        let hits = shared.hits[depth].entry(path).or_default();
        *hits += 1;
        (*hits <= self.effort.hits || random.one_in(self.effort.one_in), *hits == 1)
    }

    fn check_all(&self, plan: &Plan, receiver: &Mutex<Receiver<Task>>) {
        let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
        while let Some(task) = next() {
            let mut random = Random(task.seed);
            let thorough = random.one_in(self.effort.thorough_one_in);
            if !self.check_image(plan, &task, thorough, 0) {
                continue;
            }
            if task.is_new || random.one_in(self.effort.again_one_in) {
                self.crash_opening(plan, &task, &mut random, 1);
            }
        }
    }

    /// Checks an image, unless it was checked before; whether it was sound.
    fn check_image(&self, plan: &Plan, task: &Task, thorough: bool, depth: usize) -> bool {
        {
            let key = task.crashed.image.fingerprint() ^ task.crashed.expected.fingerprint().rotate_left(17);
            let mut shared = self.shared();
            if !shared.checked.insert(key) {
                shared.counts.duplicates += 1;
                return false;
            }
            shared.counts.images += 1;
            shared.counts.pool_images += u64::from(plan.setup.has_pool);
            shared.counts.joint_images += u64::from(task.joint && plan.setup.has_pool);
            shared.counts.second_crashes += u64::from(depth == 1);
            shared.counts.third_crashes += u64::from(depth == 2);
        }
        let _watched = Watched::new(format!("seed {}: {}", plan.seed, task.crashed.id));
        let Err(what) = task.crashed.check(plan, thorough) else { return true };
        self.failed(plan, &task.crashed, what);
        false
    }

    fn failed(&self, plan: &Plan, crashed: &Crashed, what: String) {
        self.shared().failures.push(Failure::new(plan, crashed.id.clone(), what, &crashed.image));
    }

    /// Opens the store that a crash left, and crashes that.
    fn crash_opening(&self, plan: &Plan, task: &Task, random: &mut Random, depth: usize) {
        let recorded = {
            let _watched = Watched::new(format!("seed {}: opening after {}", plan.seed, task.crashed.id));
            task.crashed.record_opening(plan, &self.paths)
        };
        let mut record = match recorded {
            Ok(record) => record,
            Err(what) => return self.failed(plan, &task.crashed, what),
        };
        let mut stops: Vec<_> = self.stops_of(&record).iter().map(|stop| (stop.moment, Some(stop.call_path))).collect();
        stops.push((record.end, None));
        for (moment, path) in stops {
            let (is_wanted, is_new) = path.map_or((true, false), |path| self.wants(depth, path, random));
            if !is_wanted {
                continue;
            }
            record.to_moment(moment);
            for pick in Pick::all_at(&record, self.effort.images, random.number()) {
                let again = Task {
                    crashed: task.crashed.in_opening(&record, moment, pick),
                    joint: pick.is_joint(),
                    seed: random.number(),
                    is_new,
                };
                if !self.shared().failures.is_empty() {
                    return;
                }
                let thorough = random.one_in(self.effort.thorough_one_in);
                let is_sound = self.check_image(plan, &again, thorough, depth);
                if let Some(failure) = self.shared().failures.last_mut().filter(|failure| failure.trace.is_empty()) {
                    failure.trace = record.files.trace();
                }
                if is_sound && depth == 1 && is_new && random.one_in(4) {
                    self.crash_opening(plan, &again, random, 2);
                }
            }
        }
    }
}

/// How long one check may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// A check that is under way: if it does not end, the program says which it was and stops.
struct Watched {
    done: Arc<(Mutex<bool>, Condvar)>,
}

impl Watched {
    fn new(what: String) -> Watched {
        let done = Arc::new((Mutex::new(false), Condvar::new()));
        let watched = done.clone();
        std::thread::spawn(move || {
            let (is_done, changed) = &*watched;
            let guard = is_done.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = changed.wait_timeout_while(guard, PATIENCE, |is_done| !*is_done);
            if !*waited.unwrap_or_else(PoisonError::into_inner).0 {
                eprintln!("hangs: {what}");
                std::process::abort();
            }
        });
        Watched { done }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        *self.done.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.done.1.notify_all();
    }
}
