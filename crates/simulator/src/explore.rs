//! Crashing everywhere: goes through records of workloads, stops where a crash is worth looking at, and checks the images.
//!
//! The first few times that the program comes to a stop on a call path are looked at, later ones by chance. Images that were
//! checked already are left out. Some openings after a crash are recorded themselves and crashed again: all that come a way that
//! no opening came before, others by chance; and some of these a third time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use crate::Random;
use crate::call_paths::CallPaths;
use crate::crashed::{Crashed, record_workload};
use crate::failure::Failure;
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
    /// Where crashes are looked at.
    pub looks: Looks,
}

/// Where crashes are looked at, and what of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looks {
    /// Everywhere but where a step is left out: as if it were not in the code.
    Everywhere,
    /// Where something should be durable and is not, since a step was left out; of such crashes the images without it. In a
    /// workload that comes to no such place, everywhere, with many openings after it.
    AtOwed,
    /// In workloads everywhere; in openings as with `AtOwed`.
    AtOwedInOpenings,
}

/// About so many places of one record where something is owed are looked at, besides the first on each call path.
const OWED_STOPS: u64 = 50;

impl Default for Effort {
    fn default() -> Effort {
        Effort {
            hits: 2,
            one_in: 200,
            images: 8,
            thorough_one_in: 4,
            again_one_in: 1000,
            kills: 30,
            threads: 2,
            looks: Looks::Everywhere,
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

/// What came of checking an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checked {
    Sound,
    Wrong,
    /// It was checked before.
    Before,
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
        let is_of_openings = self.effort.looks == Looks::AtOwed && record.stops.iter().all(|stop| stop.done);
        let again_one_in = if is_of_openings { 3 } else { self.effort.again_one_in };
        let (sender, receiver) = sync_channel(4);
        let receiver = Mutex::new(receiver);
        std::thread::scope(|scope| {
            for _ in 0..self.effort.threads {
                scope.spawn(|| self.check_all(plan, &receiver, again_one_in));
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
        let owed = self.owed_stops(record, Looks::AtOwed, &mut random);
        let is_directed = owed.is_some();
        let mut moments: Vec<(u64, Option<u32>)> = owed.unwrap_or_else(|| {
            let stops = record.stops.iter().filter(|stop| stop.done).map(|stop| (stop.moment, Some(stop.call_path)));
            stops.chain((0..self.effort.kills).map(|_| (random.below(record.end.max(1)), None))).collect()
        });
        moments.push((record.end, None));
        moments.sort_unstable();
        for (moment, path) in moments {
            let (is_wanted, is_new) = path.map_or((true, false), |path| self.wants(0, path, &mut random));
            if !is_wanted && !is_directed {
                continue;
            }
            record.to_moment(moment);
            self.shared().counts.stops += 1;
            let closed = moment == record.end;
            let picks = match path {
                None if !closed => vec![Pick::KILL],
                _ => self.picks_at(record, is_directed && !closed, random.number()),
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

    /// What of a crash where the record stands is looked at.
    fn picks_at(&self, record: &Record, is_directed: bool, seed: u64) -> Vec<Pick> {
        let limit = self.effort.images;
        if is_directed { Pick::without_owed(record, limit, seed) } else { Pick::all_at(record, limit, seed) }
    }

    /// Where in a record something is owed: the first such places on each call path, others by chance. `None`: crashes of this
    /// record are looked at everywhere.
    fn owed_stops(&self, record: &Record, from: Looks, random: &mut Random) -> Option<Vec<(u64, Option<u32>)>> {
        let is_meant = self.effort.looks == Looks::AtOwed || self.effort.looks == from;
        if !is_meant || record.stops.iter().all(|stop| stop.done) {
            return None;
        }
        let (mut ahead, mut paths, mut first, mut others) = (record.clone(), HashSet::new(), Vec::new(), Vec::new());
        for stop in &record.stops {
            ahead.to_moment(stop.moment);
            if ahead.owes() {
                let stops = if paths.insert(stop.call_path) { &mut first } else { &mut others };
                stops.push((stop.moment, Some(stop.call_path)));
            }
        }
        let count = others.len() as u64;
        others.retain(|_| random.below(count) < OWED_STOPS);
        first.append(&mut others);
        Some(first)
    }

    /// Whether a stop on this path is looked at, and whether it is the first there.
    fn wants(&self, depth: usize, path: u32, random: &mut Random) -> (bool, bool) {
        let mut shared = self.shared();
        let hits = shared.hits[depth].entry(path).or_default();
        *hits += 1;
        (*hits <= self.effort.hits || random.one_in(self.effort.one_in), *hits == 1)
    }

    fn check_all(&self, plan: &Plan, receiver: &Mutex<Receiver<Task>>, again_one_in: u64) {
        let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
        while let Some(task) = next() {
            let mut random = Random(task.seed);
            let thorough = random.one_in(self.effort.thorough_one_in);
            let checked = self.check_image(plan, &task, thorough, 0);
            let is_chosen = match checked {
                Checked::Sound => task.is_new || random.one_in(again_one_in),
                // The same image came another way before. This way's recovery is crashed in any case.
                Checked::Before => task.is_new,
                Checked::Wrong => false,
            };
            if is_chosen {
                self.crash_opening(plan, &task, &mut random, 1);
            }
        }
    }

    /// Checks an image, unless it was checked before.
    fn check_image(&self, plan: &Plan, task: &Task, thorough: bool, depth: usize) -> Checked {
        {
            let key = task.crashed.image.fingerprint() ^ task.crashed.expected.fingerprint().rotate_left(17);
            let mut shared = self.shared();
            if !shared.checked.insert(key) {
                shared.counts.duplicates += 1;
                return Checked::Before;
            }
            shared.counts.images += 1;
            shared.counts.pool_images += u64::from(plan.setup.has_pool);
            shared.counts.joint_images += u64::from(task.joint && plan.setup.has_pool);
            shared.counts.second_crashes += u64::from(depth == 1);
            shared.counts.third_crashes += u64::from(depth == 2);
        }
        let _watched = Watched::new(format!("seed {}: {}", plan.seed, task.crashed.id));
        let Err(what) = task.crashed.check(plan, thorough) else { return Checked::Sound };
        self.failed(plan, &task.crashed, what);
        Checked::Wrong
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
        let owed = self.owed_stops(&record, Looks::AtOwedInOpenings, random);
        if owed.is_none() && self.effort.looks != Looks::Everywhere {
            return;
        }
        let is_directed = owed.is_some();
        let done = record.stops.iter().filter(|stop| stop.done);
        let everywhere = || done.map(|stop| (stop.moment, Some(stop.call_path))).collect();
        let mut stops = owed.unwrap_or_else(everywhere);
        stops.sort_unstable();
        stops.push((record.end, None));
        for (moment, path) in stops {
            let (is_wanted, is_new) = path.map_or((true, false), |path| self.wants(depth, path, random));
            if !is_wanted && !is_directed {
                continue;
            }
            record.to_moment(moment);
            for pick in self.picks_at(&record, is_directed && moment < record.end, random.number()) {
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
                let is_sound = self.check_image(plan, &again, thorough, depth) == Checked::Sound;
                let is_its = |failure: &&mut Failure| failure.plan.seed == plan.seed && failure.id == again.crashed.id;
                if let Some(failure) = self.shared().failures.iter_mut().find(is_its) {
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
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// A check that is under way: if it does not end, the program says which it was and stops.
struct Watched {
    number: u64,
}

/// What is under way, since when.
static UNDER_WAY: Mutex<BTreeMap<u64, (Instant, String)>> = Mutex::new(BTreeMap::new());

impl Watched {
    fn new(what: String) -> Watched {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        static WATCHER: Once = Once::new();
        WATCHER.call_once(|| drop(std::thread::spawn(watch)));
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner).insert(number, (Instant::now(), what));
        Watched { number }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

fn watch() {
    loop {
        std::thread::sleep(LOOK);
        let under_way = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, what)) = under_way.values().find(|(began, _)| began.elapsed() > PATIENCE) {
            // (What a test prints with `eprintln` is kept back until it ends.)
            let _ = writeln!(std::io::stderr(), "hangs: {what}");
            std::process::abort();
        }
    }
}
