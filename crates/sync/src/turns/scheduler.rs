//! Under shuttle.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::{epoch, scheduled};

const STACK_BYTES: usize = 1 << 20;
/// A run that takes more steps counts as one that does not end.
const STEPS_MAX: usize = 20_000_000;

static RUNS: AtomicU64 = AtomicU64::new(0);
static PLACES: AtomicU64 = AtomicU64::new(0);

/// How many runs there were in this process, and how many places at which a thread was chosen to go on.
pub fn counts() -> (u64, u64) {
    (RUNS.load(Ordering::Relaxed), PLACES.load(Ordering::Relaxed))
}

/// Runs it; what is wrong with the run itself: a panic, a deadlock, or no end.
pub fn take<T: Send + 'static>(seed: u64, run: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    scheduled::begin_anew();
    epoch::begin_anew();
    let (run, result) = (Mutex::new(Some(run)), Arc::new(Mutex::new(None)));
    let to = result.clone();
    let runner = Runner::new(Turns::new(seed), config);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        runner.run(move || {
            let run = run.lock().unwrap_or_else(PoisonError::into_inner).take();
            let done = run.map(|run| run());
            epoch::end();
            *to.lock().unwrap_or_else(PoisonError::into_inner) = done;
        })
    }));
    if let Err(panic) = ran {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
        return Err(text.unwrap_or_else(|| "a panic".into()));
    }
    let done = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    done.ok_or_else(|| "the run came to no end".into())
}

/// The number of the calling task in its run; `None`: it is none.
pub fn task() -> Option<u32> {
    shuttle::current::try_get_current_task().map(|task| usize::from(task) as u32)
}

/// The thread that goes on.
#[derive(Debug)]
struct Turns {
    random: u64,
    begun: bool,
    manner: Manner,
    /// By task: those of a higher number go first ([`Manner::ByRank`]).
    ranks: Vec<u64>,
    /// The lowest rank given.
    lowest: u64,
    /// By task: it wants others to go first, and has not gone on since.
    yielded: Vec<bool>,
}

/// How it is chosen.
#[derive(Debug, Clone, Copy)]
enum Manner {
    /// Any, by chance, at one place in so many.
    ByChance { one_in: u64 },
    /// The one of the highest rank. Ranks are given by chance, and at one place in so many the thread that goes on becomes the last: few
    /// interruptions, and long ones (after "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010).
    ByRank { one_in: u64 },
}

/// One task in so many that go on, of those that can, may be one that wants others to go first.
const YIELDED_ONE_IN: u64 = 16;

impl Turns {
    fn new(seed: u64) -> Turns {
        let mut turns = Turns {
            random: seed,
            begun: false,
            manner: Manner::ByChance { one_in: 1 },
            ranks: Vec::new(),
            lowest: u64::MAX / 2,
            yielded: Vec::new(),
        };
        let often = turns.below(4);
        turns.manner = match turns.below(2) {
            0 => Manner::ByChance { one_in: [1, 4, 20, 100][often as usize] },
            _ => Manner::ByRank { one_in: [50, 500, 5_000, 50_000][often as usize] },
        };
        turns
    }

    /// SplitMix64.
    fn number(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// Makes room for a task.
    fn know(&mut self, task: usize) {
        while self.ranks.len() <= task {
            let rank = u64::MAX / 2 + self.number() / 2;
            self.ranks.push(rank);
            self.yielded.push(false);
        }
    }

    fn becomes_last(&mut self, task: usize) {
        self.lowest -= 1;
        self.ranks[task] = self.lowest;
    }

    fn by_chance(&mut self, runnable: &[usize], current: Option<usize>, one_in: u64) -> usize {
        let stays = current.filter(|current| !self.yielded[*current] && runnable.contains(current));
        if let Some(current) = stays.filter(|_| one_in > 1) {
            if self.below(one_in) != 0 {
                return current;
            }
        }
        let eager: Vec<usize> = runnable.iter().copied().filter(|task| !self.yielded[*task]).collect();
        let from = if eager.is_empty() || self.below(YIELDED_ONE_IN) == 0 { runnable } else { &eager };
        from[self.below(from.len() as u64) as usize]
    }
}

impl Scheduler for Turns {
    fn new_execution(&mut self) -> Option<Schedule> {
        RUNS.fetch_add(u64::from(!self.begun), Ordering::Relaxed);
        (!std::mem::replace(&mut self.begun, true)).then(|| Schedule::new(0))
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        PLACES.fetch_add(1, Ordering::Relaxed);
        let runnable: Vec<usize> = runnable.iter().map(|task| usize::from(task.id())).collect();
        let current = current.map(usize::from);
        for &task in runnable.iter().chain(&current) {
            self.know(task);
        }
        if let Some(current) = current.filter(|_| is_yielding) {
            self.yielded[current] = true;
        }
        let next = match self.manner {
            Manner::ByChance { one_in } => self.by_chance(&runnable, current, one_in),
            Manner::ByRank { one_in } => {
                if let Some(current) = current {
                    if is_yielding || (runnable.len() > 1 && self.below(one_in) == 0) {
                        self.becomes_last(current);
                    }
                }
                *runnable.iter().max_by_key(|task| self.ranks[**task])?
            }
        };
        self.yielded[next] = false;
        Some(TaskId::from(next))
    }

    fn next_u64(&mut self) -> u64 {
        self.number()
    }
}
