//! [`Workers`]: the threads for the background work of a store. They are started before a byte is changed, so that an opening
//! that can't have a thread fails with everything as it was. They get their work when the store is open.

use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use slmdb_env::{Error, Result, START_THREAD};
use slmdb_sync::scheduled::thread::{self, Scope, ScopedJoinHandle};
use slmdb_sync::scheduled::try_spawn;

use super::bell::Bell;
use super::crew::{Crew, Job, Next, Step};
use crate::Options;
use crate::context::StoreContext;
use crate::events::delivery::Events;

/// A thread of an opening, which ends before the opening does.
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    try_spawn(scope, work).map_err(|error| Error::io(START_THREAD, "(of an opening)", error))
}

/// Work of one kind that a store does in the background: its steps, and who has it look for something to do.
pub struct Task {
    step: Step,
    bell: Arc<Bell>,
}

/// A task that does these steps. If one panics, the store takes no more writes, so that no thread waits for it.
pub fn task(context: &Arc<StoreContext>, bell: &Arc<Bell>, mut step: impl FnMut() -> Next + Send + 'static) -> Task {
    let context = context.clone();
    let step = move || {
        catch_unwind(AssertUnwindSafe(&mut step)).unwrap_or_else(|_| {
            let name = thread::current().name().unwrap_or_default().to_string();
            context.fail(Error::invalid(format!("the thread {name} panicked, which is a bug in slmdb")));
            Next::End
        })
    };
    Task { step: Box::new(step), bell: bell.clone() }
}

/// The threads for compactions, and the one that makes MemTables ahead. It gets its work last.
const COMPACTION: &str = "slmdb-compaction";
const AHEAD: &str = "slmdb-ahead";

/// Crews that wait for their work, and the event listener's thread.
#[derive(Default)]
pub struct Workers {
    /// One for each task.
    crews: Vec<Arc<Crew>>,
    /// The listener and its thread.
    pub events: Events,
}

impl Workers {
    /// The crews of a store: for each compaction that may run at once, then those of the engine with these names, then the one that
    /// makes MemTables. None if it is opened read-only.
    pub fn of(options: &Options, of_engine: &[&'static str]) -> Result<Workers> {
        if options.read_only {
            return Ok(Workers::default());
        }
        let mut workers = Workers { crews: Vec::new(), events: Events::to(&options.event_listener)? };
        let compactions = options.compaction.threads_to_start();
        let crew = |name, threads| match &options.shared {
            Some(shared) => shared.crew(name, name == COMPACTION),
            None => Crew::start(name, threads).map(Arc::new),
        };
        workers.crews.extend(iter::repeat_n(crew(COMPACTION, compactions)?, compactions));
        for name in of_engine.iter().copied().chain([AHEAD]) {
            workers.crews.push(crew(name, 1)?);
        }
        Ok(workers)
    }

    /// Gives each crew its task.
    pub fn begin(self, tasks: Vec<Task>) -> Working {
        let bells: Vec<Arc<Bell>> = tasks.iter().map(|task| task.bell.clone()).collect();
        let jobs: Vec<Arc<Job>> = self.crews.iter().zip(tasks).map(|(crew, task)| crew.job(task.step)).collect();
        for (position, bell) in bells.iter().enumerate() {
            if !bells[..position].iter().any(|before| Arc::ptr_eq(before, bell)) {
                let hears = |other: &&Arc<Bell>| Arc::ptr_eq(other, bell);
                bell.hang(
                    bells.iter().zip(&jobs).filter(|(other, _)| hears(other)).map(|(_, job)| job.clone()).collect(),
                );
            }
        }
        jobs.iter().for_each(Job::wake);
        Working { jobs, _crews: self.crews }
    }
}

/// The background work of an open store.
#[derive(Debug, Default)]
pub struct Working {
    jobs: Vec<Arc<Job>>,
    /// Those that the store has for itself end with it.
    _crews: Vec<Arc<Crew>>,
}

impl Working {
    /// Ends it: what is under way is waited for, what is left to do is done here. REQUIRES: the store closes, or has failed.
    pub fn finish(self) {
        self.jobs.iter().for_each(|job| job.finish());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CompactionOptions;

    #[test]
    fn each_crew_gets_its_own_task_and_ends_without() {
        let options = Options {
            compaction: CompactionOptions { threads: 3, ..CompactionOptions::default() },
            ..Options::default()
        };
        let of_engine = ["slmdb-flush", "slmdb-index"];
        drop(Workers::of(&options, &of_engine).unwrap());
        assert!(Workers::of(&Options { read_only: true, ..options.clone() }, &of_engine).unwrap().crews.is_empty());
        let (sender, done) = std::sync::mpsc::channel();
        let bell = Arc::new(Bell::default());
        let tasks = (0..6).map(|_| {
            let sender = sender.clone();
            let step = move || {
                sender.send(thread::current().name().unwrap_or_default().to_string()).unwrap();
                Next::Wait(None)
            };
            Task { step: Box::new(step), bell: bell.clone() }
        });
        let working = Workers::of(&options, &of_engine).unwrap().begin(tasks.collect());
        let names = || {
            let mut names: Vec<String> = done.iter().take(6).collect();
            names.sort();
            names
        };
        let all = [[AHEAD].as_slice(), &["slmdb-compaction"; 3], &of_engine].concat();
        assert_eq!(names(), all, "each looks when it begins");
        bell.ring();
        assert_eq!(names(), all, "and when the bell rings");
        working.finish();
    }
}
