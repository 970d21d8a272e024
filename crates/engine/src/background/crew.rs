//! [`Crew`]: threads that do the background work of stores, step by step.
//!
//! A [`Job`] is the work of one kind that a store has: flushing, say. It is done in steps, between which it holds no thread. A
//! store by itself has a crew for each kind of work. Stores that [share](crate::Shared) have the same crews, so that a
//! hundred of them take no more threads than one. Jobs that have something to do take turns, a step each.
//!
//! A step may wait for other crews, as a flush does for a compaction, but never for another step of its own crew: no thread
//! might be left to do that. One that waits for space waits for something outside, which may take for ever. So another
//! thread takes its place meanwhile ([`blocked`]).

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_env::{Error, Result, START_THREAD, process_number};
use slmdb_sync::scheduled::atomic::{AtomicU64, AtomicUsize};
use slmdb_sync::scheduled::thread::{self, JoinHandle};
use slmdb_sync::scheduled::{Condvar, Instant, Mutex, MutexGuard};

/// What follows a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another step: there may be more to do.
    Go,
    /// Nothing, until the job's [bell](super::bell) rings, or this time has passed.
    Wait(Option<Duration>),
    /// Nothing any more.
    End,
}

/// A step of a job.
pub type Step = Box<dyn FnMut() -> Next + Send>;

/// It waits to be woken.
const IDLE: usize = 0;
/// It is in the queue of its crew.
const QUEUED: usize = 1;
/// A thread does a step.
const RUNNING: usize = 2;
/// A thread does a step, after which another one follows: it was woken.
const WOKEN: usize = 3;

/// Work of one kind that a store has.
pub struct Job {
    id: u64,
    crew: Arc<Inner>,
    state: AtomicUsize,
    /// `None` once it has ended. Held while a step is done.
    step: Mutex<Option<Step>>,
}

impl Job {
    /// Has the job look whether there is something to do. May be called under any lock.
    pub fn wake(self: &Arc<Job>) {
        loop {
            match self.state.load(Ordering::Acquire) {
                RUNNING => {
                    if self.change(RUNNING, WOKEN) {
                        return;
                    }
                }
                IDLE => {
                    let mut crew = self.crew.state.lock();
                    if self.change(IDLE, QUEUED) {
                        crew.forget_timer(self.id);
                        return self.crew.queue(crew, self);
                    }
                }
                _ => return,
            }
        }
    }

    fn change(&self, from: usize, to: usize) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Does a step.
    fn run(self: &Arc<Job>) {
        let next = {
            let mut step = self.step.lock();
            let Some(work) = &mut *step else { return };
            self.state.store(RUNNING, Ordering::Release);
            let next = work();
            if next == Next::End {
                *step = None;
            }
            next
        };
        let mut crew = self.crew.state.lock();
        match next {
            Next::End => return,
            Next::Wait(time) if self.change(RUNNING, IDLE) => {
                if let Some(time) = time {
                    crew.set_timer(Instant::now() + time, self);
                    self.crew.came.notify_one();
                }
                return;
            }
            Next::Wait(_) | Next::Go => self.state.store(QUEUED, Ordering::Release),
        }
        self.crew.queue(crew, self);
    }

    /// Does what is left, here, and ends the job. REQUIRES: its store closes, so that what there is to do comes to an end.
    pub fn finish(&self) {
        let mut step = self.step.lock();
        while step.as_mut().is_some_and(|work| work() == Next::Go) {}
        *step = None;
        drop(step);
        self.crew.state.lock().forget_timer(self.id);
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Job").field("crew", &self.crew.name).field("state", &self.state).finish_non_exhaustive()
    }
}

struct Inner {
    name: &'static str,
    /// How many threads do steps at once.
    threads: usize,
    state: Mutex<State>,
    /// Threads without work wait here.
    came: Condvar,
    jobs: AtomicU64,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Arc<Job>>,
    /// Jobs that wait for a time, by that.
    timers: BTreeMap<(Instant, u64), Arc<Job>>,
    /// The time that a job waits for, by its number.
    times: BTreeMap<u64, Instant>,
    /// Threads that are there.
    threads: usize,
    /// Those of them that wait for something outside.
    blocked: usize,
    /// Those that wait for work.
    idle: usize,
    is_ending: bool,
}

impl State {
    fn set_timer(&mut self, at: Instant, job: &Arc<Job>) {
        self.timers.insert((at, job.id), job.clone());
        self.times.insert(job.id, at);
    }

    fn forget_timer(&mut self, id: u64) {
        if let Some(at) = self.times.remove(&id) {
            self.timers.remove(&(at, id));
        }
    }

    /// Whether there is work, and no thread that may do it because one of them is blocked.
    fn lacks_a_thread(&self, threads: usize) -> bool {
        self.idle == 0 && self.threads - self.blocked < threads && !self.ready.is_empty() && !self.is_ending
    }

    /// Queues the jobs whose time has come. Returns how long the next one still waits.
    fn look_at_timers(&mut self) -> Option<Duration> {
        while let Some(first) = self.timers.first_entry() {
            let ((at, id), now) = (*first.key(), Instant::now());
            if at > now {
                return Some(at - now);
            }
            let job = first.remove();
            self.times.remove(&id);
            // (It can't be anything but idle, because whoever wakes it removes the timer.)
            if job.change(IDLE, QUEUED) {
                self.ready.push_back(job);
            }
        }
        None
    }
}

impl Inner {
    /// Puts a job into the queue.
    fn queue(self: &Arc<Inner>, mut state: MutexGuard<'_, State>, job: &Arc<Job>) {
        state.ready.push_back(job.clone());
        let lacks_a_thread = state.lacks_a_thread(self.threads);
        drop(state);
        self.came.notify_one();
        if lacks_a_thread {
            self.take_one_more();
        }
    }

    /// Starts a thread in the place of one that is blocked. If there can't be one, work waits until the other goes on.
    fn take_one_more(self: &Arc<Inner>) {
        self.state.lock().threads += 1;
        if let Err(error) = self.spawn() {
            self.state.lock().threads -= 1;
            tracing::warn!(%error, "no thread can be had, and another one waits for space");
        }
    }

    fn spawn(self: &Arc<Inner>) -> Result<JoinHandle<()>> {
        let crew = self.clone();
        let spawned = thread::Builder::new().name(self.name.into()).spawn(move || crew.work());
        spawned.map_err(|error| Error::io(START_THREAD, self.name, error))
    }

    /// What a thread does.
    fn work(self: &Arc<Inner>) {
        OWN.set(Some(self.clone()));
        let mut state = self.state.lock();
        loop {
            let next_in = state.look_at_timers();
            if let Some(job) = state.ready.pop_front() {
                drop(state);
                job.run();
                drop(job);
                state = self.state.lock();
            } else if state.is_ending {
                break;
            } else {
                state.idle += 1;
                state = match next_in {
                    None => self.came.wait(state),
                    Some(time) => self.came.wait_timeout(state, time),
                };
                state.idle -= 1;
            }
            if state.threads - state.blocked > self.threads {
                break;
            }
        }
        state.threads -= 1;
        drop(state);
        OWN.set(None);
    }
}

thread_local! {
    /// The crew of this thread.
    static OWN: RefCell<Option<Arc<Inner>>> = const { RefCell::new(None) };
}

/// While this lives, the thread waits for something that no crew brings about.
#[must_use = "the thread counts as blocked until it is dropped"]
pub struct Blocked(Option<Arc<Inner>>);

/// Lets another thread of the same crew take this one's place. Nothing on a thread of no crew. May be called under any lock.
pub fn blocked() -> Blocked {
    // (Under shuttle all tasks are on one thread, and no stores share.)
    let own = if cfg!(shuttle) { None } else { OWN.with_borrow(Clone::clone) };
    if let Some(crew) = &own {
        let mut state = crew.state.lock();
        state.blocked += 1;
        let lacks_a_thread = state.lacks_a_thread(crew.threads);
        drop(state);
        if lacks_a_thread {
            crew.take_one_more();
        }
    }
    Blocked(own)
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(crew) = &self.0 {
            crew.state.lock().blocked -= 1;
        }
    }
}

/// Threads that do the same kind of work. Dropping it ends them, but not in a process that was forked from theirs. REQUIRES: all
/// jobs have ended before.
pub struct Crew {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
    process: u64,
}

impl Crew {
    /// Starts so many threads.
    pub fn start(name: &'static str, threads: usize) -> Result<Crew> {
        let inner =
            Inner { name, threads, state: Mutex::new(State::default()), came: Condvar::new(), jobs: AtomicU64::new(0) };
        let mut crew = Crew { inner: Arc::new(inner), threads: Vec::new(), process: process_number() };
        for _ in 0..threads {
            crew.inner.state.lock().threads += 1;
            match crew.inner.spawn() {
                Ok(thread) => crew.threads.push(thread),
                Err(error) => {
                    crew.inner.state.lock().threads -= 1;
                    return Err(error);
                }
            }
        }
        Ok(crew)
    }

    /// A job of this crew, which has not begun.
    pub fn job(&self, step: Step) -> Arc<Job> {
        let id = self.inner.jobs.fetch_add(1, Ordering::Relaxed);
        let (crew, state) = (self.inner.clone(), AtomicUsize::new(IDLE));
        Arc::new(Job { id, crew, state, step: Mutex::new(Some(step)) })
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if self.process != process_number() {
            // Nothing there is whole: neither the threads nor what they held.
            return std::mem::forget(std::mem::take(&mut self.threads));
        }
        self.inner.state.lock().is_ending = true;
        self.inner.came.notify_all();
        for thread in self.threads.drain(..) {
            // (The last to let go of a shared crew may be one of its own threads.)
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Crew").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A job that tells of each step, and does next what it is told. The first step has begun.
    fn obedient(crew: &Crew) -> (Arc<Job>, Receiver<()>, Sender<Next>) {
        let ((told, steps), (next, orders)) = (channel(), channel());
        let job = crew.job(Box::new(move || {
            let _ = told.send(());
            orders.recv().unwrap_or(Next::End)
        }));
        job.wake();
        steps.recv().unwrap();
        (job, steps, next)
    }

    #[test]
    fn jobs_that_have_work_take_turns() {
        let crew = Crew::start("test", 1).unwrap();
        let (told, steps) = channel();
        let jobs = (0..3).map(|number| {
            let (told, mut left) = (told.clone(), 4);
            crew.job(Box::new(move || {
                told.send(number).unwrap();
                left -= 1;
                if left > 0 { Next::Go } else { Next::End }
            }))
        });
        let jobs: Vec<_> = jobs.collect();
        let (_first, _steps, next) = obedient(&crew);
        jobs.iter().for_each(Job::wake);
        next.send(Next::End).unwrap();
        let order: Vec<i32> = steps.iter().take(12).collect();
        assert_eq!(order, [0, 1, 2].repeat(4));
    }

    #[test]
    fn a_job_that_is_woken_during_a_step_looks_again() {
        let crew = Crew::start("test", 2).unwrap();
        let (job, steps, next) = obedient(&crew);
        job.wake();
        job.wake();
        next.send(Next::Wait(None)).unwrap();
        steps.recv().unwrap();
        next.send(Next::Wait(None)).unwrap();
        assert!(steps.recv_timeout(Duration::from_millis(20)).is_err(), "nobody has woken it since");
        job.wake();
        steps.recv().unwrap();
        next.send(Next::End).unwrap();
        job.wake();
        drop(crew);
    }

    #[test]
    fn a_job_looks_again_after_its_time_once() {
        let crew = Crew::start("test", 1).unwrap();
        let (job, steps, next) = obedient(&crew);
        next.send(Next::Wait(Some(Duration::from_millis(1)))).unwrap();
        steps.recv().unwrap();
        // Woken before its time, it does not look once more when that comes.
        next.send(Next::Wait(Some(Duration::from_millis(50)))).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        job.wake();
        steps.recv().unwrap();
        next.send(Next::Wait(None)).unwrap();
        assert!(steps.recv_timeout(Duration::from_millis(100)).is_err());
    }

    /// (One store on a full disk would keep all others from being flushed.)
    #[test]
    fn another_thread_takes_the_place_of_one_that_is_blocked() {
        let crew = Crew::start("test", 1).unwrap();
        let ((told, is_blocked), (go_on, may_go_on)) = (channel(), channel::<()>());
        let waits = crew.job(Box::new(move || {
            let _blocked = blocked();
            told.send(()).unwrap();
            let _ = may_go_on.recv();
            Next::End
        }));
        waits.wake();
        is_blocked.recv().unwrap();
        let (other, steps, next) = obedient(&crew);
        next.send(Next::Wait(None)).unwrap();
        drop(go_on);
        while crew.inner.state.lock().threads > 1 {
            other.wake();
            steps.recv().unwrap();
            next.send(Next::Wait(None)).unwrap();
        }
    }

    #[test]
    fn what_is_left_is_done_by_whoever_finishes_a_job() {
        let crew = Crew::start("test", 1).unwrap();
        let (_keeps_the_thread, _steps, next) = obedient(&crew);
        let (told, done) = channel();
        let mut left = 3;
        let job = crew.job(Box::new(move || {
            left -= 1;
            told.send(std::thread::current().id()).unwrap();
            if left > 0 { Next::Go } else { Next::Wait(None) }
        }));
        job.wake();
        job.finish();
        assert_eq!(done.iter().collect::<Vec<_>>(), [std::thread::current().id(); 3], "the step was dropped, too");
        next.send(Next::End).unwrap();
    }
}
