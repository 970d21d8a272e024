//! [`Workers`]: the background threads of a store. They are started before a byte is changed, so that an opening that
//! can't have a thread fails with everything as it was. They get their work when the store is open.

use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use slmdb_env::{Error, Result, START_THREAD};
use slmdb_sync::scheduled::mpsc::{SyncSender, sync_channel};
use slmdb_sync::scheduled::thread::{self, Builder, JoinHandle, Scope, ScopedJoinHandle};
use slmdb_sync::scheduled::try_spawn;

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

/// The work of a thread, which ends with it.
pub type Work = Box<dyn FnOnce() + Send>;

/// Wraps the work of a background thread: if it panics, the store takes no more writes, so that no thread waits for it.
pub fn work(context: &Arc<StoreContext>, run: impl FnOnce() + Send + 'static) -> Work {
    let context = context.clone();
    Box::new(move || {
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            let name = thread::current().name().unwrap_or_default().to_string();
            context.fail(Error::invalid(format!("the thread {name} panicked, which is a bug in slmdb")));
        }
    })
}

/// The thread that makes MemTables ahead. It gets its work last.
const AHEAD: &str = "slmdb-ahead";

/// Threads that wait for their work, and the event listener's thread.
#[derive(Default)]
pub struct Workers {
    waiting: Vec<(SyncSender<Work>, JoinHandle<()>)>,
    /// The listener and its thread.
    pub events: Events,
}

impl Workers {
    /// The threads of a store: those for compactions, then those of the engine with these names, then the one that makes MemTables.
    /// None if it is opened read-only.
    pub fn of(options: &Options, of_engine: &[&'static str]) -> Result<Workers> {
        if options.read_only {
            return Ok(Workers::default());
        }
        let mut workers = Workers { waiting: Vec::new(), events: Events::to(&options.event_listener)? };
        let compactions = iter::repeat_n("slmdb-compaction", options.compaction.threads_to_start());
        for name in compactions.chain(of_engine.iter().copied()).chain([AHEAD]) {
            let (sender, receiver) = sync_channel::<Work>(1);
            let wait = move || receiver.recv().map_or((), |work| work());
            let thread = Builder::new().name(name.into()).spawn(wait);
            workers.waiting.push((sender, thread.map_err(|error| Error::io(START_THREAD, name, error))?));
        }
        Ok(workers)
    }

    /// Gives each thread its work.
    pub fn begin(mut self, work: impl Iterator<Item = Work>) -> Vec<JoinHandle<()>> {
        let begin = |((sender, thread), work): ((SyncSender<Work>, JoinHandle<()>), Work)| {
            // The thread waits for this alone.
            let _ = sender.send(work);
            thread
        };
        self.waiting.drain(..).zip(work).map(begin).collect()
    }
}

impl Drop for Workers {
    /// Ends the threads that have no work.
    fn drop(&mut self) {
        for (sender, thread) in self.waiting.drain(..) {
            drop(sender);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CompactionOptions;

    #[test]
    fn each_gets_its_own_work_and_ends_without() {
        let options = Options {
            compaction: CompactionOptions { threads: 3, ..CompactionOptions::default() },
            ..Options::default()
        };
        let of_engine = ["slmdb-flush", "slmdb-index"];
        drop(Workers::of(&options, &of_engine).unwrap());
        assert!(Workers::of(&Options { read_only: true, ..options.clone() }, &of_engine).unwrap().waiting.is_empty());
        let (sender, done) = std::sync::mpsc::channel();
        let work = (0..6).map(|number| {
            let sender = sender.clone();
            Box::new(move || {
                let name = std::thread::current().name().unwrap_or_default().to_string();
                sender.send((number, name)).unwrap();
            }) as Work
        });
        let threads = Workers::of(&options, &of_engine).unwrap().begin(work);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut names: Vec<(i32, String)> = done.try_iter().collect();
        names.sort();
        let names: Vec<String> = names.into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, [["slmdb-compaction"; 3].as_slice(), &of_engine, &[AHEAD]].concat());
    }
}
