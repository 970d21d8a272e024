//! [`CompactionQueue`]: when compaction threads look for work, and who waits for them.
//!
//! Flushes may fill a place of limited size below the MemTables (level 0 of LAB-DB). The compaction that takes entries out of
//! there is the *drain*: flushes wait for it where the place is full.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use slmdb_env::{Error, Result};
use slmdb_sync::scheduled::{Condvar, Instant, Mutex, MutexGuard};

use super::bell::Bell;
use super::crew::blocked;
use crate::lock_order;
use crate::space::controller::Resource;

/// How long a thread waits before it looks again, if nobody wakes it.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// If the reserve was not enough for the drain, it is not lent for another one before this time has passed or
/// something has changed. Each try writes outputs and gives them up.
const IN_VAIN_PAUSE: Duration = Duration::from_secs(1);

/// When compaction threads look for work.
#[derive(Debug)]
pub struct CompactionQueue {
    inner: Mutex<Inner>,
    /// There may be work: for jobs that look for some.
    bell: Arc<Bell>,
    /// A compaction has ended: for whoever waits for one.
    compaction_ended: Condvar,
}

/// Somebody needs space.
#[derive(Debug, Clone, Copy)]
pub struct SpaceWanted {
    /// Of which kind.
    pub resource: Resource,
    /// Even the least garbage is worth a compaction.
    pub at_any_cost: bool,
}

/// The resources for which a compaction for space has found nothing to do, or no space itself. It holds until something changes.
#[derive(Debug, Default)]
pub struct FoundNothing(
    /// With the cost at which it was looked for: `true` is any cost.
    BTreeMap<Resource, bool>,
);

impl FoundNothing {
    /// Notes that nothing was found.
    pub fn record(&mut self, wanted: SpaceWanted) {
        *self.0.entry(wanted.resource).or_default() |= wanted.at_any_cost;
    }

    /// Whether another look would find nothing, either.
    pub fn covers(&self, wanted: SpaceWanted) -> bool {
        self.0.get(&wanted.resource).is_some_and(|&at_any_cost| at_any_cost >= wanted.at_any_cost)
    }

    /// Something has changed.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

#[derive(Debug, Default)]
struct Inner {
    /// How often there may have come work, or an end of some.
    changes: u64,
    space_wanted: Option<SpaceWanted>,
    found_nothing: FoundNothing,
    /// Threads that compact, or look whether they should.
    running: usize,
    /// One of them compacts alone, and no other begins.
    is_alone: bool,
    /// Somebody waits for what runs, although it was begun for something else.
    is_awaited: bool,
    /// Why the drain could do nothing when that was last tried.
    lack: Option<Error>,
    /// Until then the reserve would not be enough for the drain, unless something changes.
    in_vain_until: Option<Instant>,
    is_stopping: bool,
}

impl Default for CompactionQueue {
    fn default() -> CompactionQueue {
        CompactionQueue {
            inner: Mutex::ranked(lock_order::COMPACTIONS, Inner::default()),
            bell: Arc::default(),
            compaction_ended: Condvar::new(),
        }
    }
}

/// While this lives, no other thread compacts.
#[must_use = "others compact as soon as it is dropped"]
pub struct Alone<'q>(&'q CompactionQueue);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.inner.lock().is_alone = false;
        self.0.compaction_ended.notify_all();
    }
}

impl CompactionQueue {
    /// Lets all threads look again: there may be more to compact than before.
    /// LOCKS: compactions
    pub fn wake(&self) {
        let mut inner = self.inner.lock();
        inner.found_nothing.forget();
        inner.in_vain_until = None;
        // Something may be left that is not passed over. The next try shows it.
        inner.lack.take_if(|lack| matches!(lack, Error::ReadOnly { .. }));
        inner.changes += 1;
        self.bell.ring();
    }

    /// Ends the threads.
    /// LOCKS: compactions
    pub fn stop(&self) {
        self.inner.lock().is_stopping = true;
        self.bell.ring();
        self.compaction_ended.notify_all();
    }

    /// Whether the threads are to end.
    /// LOCKS: compactions
    pub fn is_stopping(&self) -> bool {
        self.inner.lock().is_stopping
    }

    /// Asks for a compaction for space. Returns whether one runs or will.
    /// LOCKS: compactions
    pub fn want_space(&self, wanted: SpaceWanted) -> bool {
        let mut inner = self.inner.lock();
        if inner.is_stopping {
            return false;
        }
        if inner.found_nothing.covers(wanted) {
            // The one that runs may change that.
            inner.is_awaited = inner.running > 0;
            return inner.is_awaited;
        }
        let at_any_cost = wanted.at_any_cost || inner.space_wanted.is_some_and(|before| before.at_any_cost);
        inner.space_wanted = Some(SpaceWanted { at_any_cost, ..wanted });
        inner.changes += 1;
        self.bell.ring();
        true
    }

    /// Takes note that a thread looks for work. Returns of what space is wanted: it alone compacts for that. Waits while another
    /// one [compacts alone](CompactionQueue::alone).
    /// LOCKS: compactions
    pub fn begin(&self) -> Option<SpaceWanted> {
        self.enter().space_wanted.take()
    }

    /// Takes note that a requested compaction begins. Space that is wanted is not its business.
    /// LOCKS: compactions
    pub fn begin_request(&self) {
        drop(self.enter());
    }

    fn enter(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock();
        while inner.is_alone {
            inner = self.compaction_ended.wait_timeout(inner, LOOK_AGAIN);
        }
        inner.running += 1;
        inner
    }

    /// Takes note that it has ended. `has_worked`: something was compacted. `wanted`: that was for space alone. Returns whether
    /// somebody may wait for that. A thread that has looked for work in vain wakes no other, or they would do so in turn.
    /// LOCKS: compactions
    pub fn end(&self, has_worked: bool, wanted: Option<SpaceWanted>) -> bool {
        let mut inner = self.inner.lock();
        inner.running -= 1;
        if has_worked {
            inner.found_nothing.forget();
            inner.changes += 1;
            self.bell.ring();
        } else if let Some(wanted) = wanted {
            inner.found_nothing.record(wanted);
        }
        self.compaction_ended.notify_all();
        std::mem::take(&mut inner.is_awaited) || has_worked || wanted.is_some()
    }

    /// Waits until no other thread compacts, and lets none begin. REQUIRES: the caller compacts, and holds neither a plan nor the
    /// reserve.
    /// LOCKS: compactions
    pub fn alone(&self) -> Alone<'_> {
        let mut inner = self.inner.lock();
        // Another one may want the same.
        inner.running -= 1;
        self.compaction_ended.notify_all();
        while inner.running > 0 || inner.is_alone {
            inner = self.compaction_ended.wait_timeout(inner, LOOK_AGAIN);
        }
        inner.running += 1;
        inner.is_alone = true;
        Alone(self)
    }

    /// Where there is no space, tries once more while nothing else compacts: others may have had the space, the reserve or the
    /// inputs for a moment.
    /// LOCKS: those of `compact`; compactions
    pub fn again_alone<T>(&self, compact: impl Fn() -> Result<T>) -> Result<T> {
        match compact() {
            Err(Error::Full { .. }) => {}
            compacted => return compacted,
        }
        let _alone = self.alone();
        compact()
    }

    /// Waits until no thread compacts. REQUIRES: the caller is none of them.
    /// LOCKS: compactions
    pub fn wait_until_idle(&self) {
        let mut inner = self.inner.lock();
        while inner.running > 0 && !inner.is_stopping {
            inner = self.compaction_ended.wait_timeout(inner, LOOK_AGAIN);
        }
    }

    /// Waits until another compaction has ended, for a while at most.
    /// LOCKS: compactions
    pub fn wait_for_another(&self) {
        let inner = self.inner.lock();
        if !inner.is_stopping {
            drop(self.compaction_ended.wait_timeout(inner, LOOK_AGAIN));
        }
    }

    /// Records how the drain has ended.
    /// LOCKS: compactions
    pub fn record_drain(&self, lack: Option<Error>) {
        let mut inner = self.inner.lock();
        if matches!(lack, Some(Error::Full { .. })) {
            let now = Instant::now();
            inner.in_vain_until = inner.in_vain_until.filter(|until| *until > now).or(Some(now + IN_VAIN_PAUSE));
        }
        inner.lack = lack;
        self.compaction_ended.notify_all();
    }

    /// Whether the reserve was not enough for the drain a moment ago, and nothing has changed since.
    /// LOCKS: compactions
    pub fn was_in_vain(&self) -> bool {
        self.inner.lock().in_vain_until.is_some_and(|until| Instant::now() < until)
    }

    /// How often there may have come work, or an end of some. `None`: compactions are to end.
    /// LOCKS: compactions
    pub fn changes(&self) -> Option<u64> {
        let inner = self.inner.lock();
        (!inner.is_stopping).then_some(inner.changes)
    }

    /// Rung where there may be work.
    pub fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// Waits while the place that flushes fill is full. `false`: the caller gives up. An error: why the drain can do nothing. But where it is the
    /// disk that is full, nobody waits: what was accepted is flushed whatever happens, and there are few writes that the disk
    /// still has space for.
    /// LOCKS: compactions
    pub fn wait_for_drain(&self, is_full: impl Fn() -> bool, gives_up: impl Fn() -> bool) -> Result<bool> {
        while is_full() {
            if gives_up() {
                return Ok(false);
            }
            let mut inner = self.inner.lock();
            if inner.is_stopping {
                return Ok(false);
            }
            match &inner.lack {
                None => {}
                Some(Error::Full { .. }) => return Ok(true),
                Some(lack) => return Err(lack.clone()),
            }
            inner.changes += 1;
            self.bell.ring();
            let _blocked = blocked();
            drop(self.compaction_ended.wait_timeout(inner, LOOK_AGAIN));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Instant;

    use slmdb_env::ErrorKind;

    use super::*;
    use crate::background::crew::{Crew, Next};

    /// A disk was so full that no part of level 0 could go to level 1: with long values, which the reserve does not count. Then
    /// what had been accepted was never flushed.
    #[test]
    fn a_full_disk_keeps_no_flush_waiting_for_the_drain() {
        let queue = CompactionQueue::default();
        assert!(queue.wait_for_drain(|| false, || false).unwrap());
        assert!(!queue.wait_for_drain(|| true, || true).unwrap(), "the store closes");
        queue.record_drain(Some(Error::Full { path: "/db".into(), what: "compact".into() }));
        assert!(queue.wait_for_drain(|| true, || false).unwrap());
        queue.record_drain(Some(Error::corruption("/db/1.sst", 0, "a block")));
        let told = queue.wait_for_drain(|| true, || false).unwrap_err();
        assert_eq!(told.kind(), ErrorKind::Corruption, "what can't be read is another matter");
    }

    /// (It was tried some 20 times a second, and outputs were given up each time.)
    #[test]
    fn the_reserve_is_lent_in_vain_once_until_something_changes() {
        let queue = CompactionQueue::default();
        let full = || Some(Error::Full { path: "/db".into(), what: "compact".into() });
        assert!(!queue.was_in_vain());
        queue.record_drain(Some(Error::corruption("/db/1.sst", 0, "a block")));
        assert!(!queue.was_in_vain(), "that is no lack of space");
        queue.record_drain(full());
        assert!(queue.was_in_vain());
        queue.wake();
        assert!(!queue.was_in_vain());
        queue.record_drain(full());
        let until = queue.inner.lock().in_vain_until;
        queue.record_drain(full());
        assert_eq!(queue.inner.lock().in_vain_until, until, "tries without the reserve put it off no further");
        queue.inner.lock().in_vain_until = Some(Instant::now());
        assert!(!queue.was_in_vain(), "something may have changed outside");
    }

    /// (Whoever wants both in turn would have the threads look in vain for ever.)
    #[test]
    fn what_was_found_of_one_resource_says_nothing_of_another() {
        let queue = CompactionQueue::default();
        let wanted = |resource, at_any_cost| SpaceWanted { resource, at_any_cost };
        let looks_in_vain = |expected| {
            let begun = queue.begin();
            assert_eq!(begun.map(|wanted| wanted.resource), Some(expected));
            queue.end(false, begun);
        };
        for resource in [Resource::Pool, Resource::Disk] {
            assert!(queue.want_space(wanted(resource, false)));
            looks_in_vain(resource);
        }
        for resource in [Resource::Pool, Resource::Disk] {
            assert!(!queue.want_space(wanted(resource, false)), "nothing has changed");
        }
        assert!(queue.want_space(wanted(Resource::Pool, true)), "that is more");
        looks_in_vain(Resource::Pool);
        assert!(!queue.want_space(wanted(Resource::Pool, false)));
        queue.wake();
        assert!(queue.want_space(wanted(Resource::Disk, false)));
    }

    /// (It was taken for what a request failed at, and whoever waited heard that there was nothing to do.)
    #[test]
    fn a_request_leaves_space_that_is_wanted_to_others() {
        let queue = CompactionQueue::default();
        let wanted = SpaceWanted { resource: Resource::Disk, at_any_cost: true };
        assert!(queue.want_space(wanted));
        queue.begin_request();
        queue.end(false, None);
        assert_eq!(queue.begin().map(|begun| begun.resource), Some(Resource::Disk));
        queue.end(false, Some(wanted));
        assert!(!queue.want_space(wanted));
    }

    /// (Each woke the others, which looked in vain, too, and so on: a hundredth of a processor for a store at rest.)
    #[test]
    fn jobs_that_look_in_vain_wake_no_others() {
        const JOBS: usize = 3;
        let (queue, looks) = (Arc::new(CompactionQueue::default()), Arc::new(AtomicUsize::new(0)));
        let crew = Crew::start("test", JOBS).unwrap();
        let jobs = (0..JOBS).map(|_| {
            let (queue, looks) = (queue.clone(), looks.clone());
            crew.job(Box::new(move || {
                if queue.changes().is_none() {
                    return Next::End;
                }
                assert!(queue.begin().is_none());
                assert!(!queue.end(false, None), "nobody waits for that");
                looks.fetch_add(1, Ordering::SeqCst);
                Next::Wait(None)
            }))
        });
        let jobs: Vec<_> = jobs.collect();
        queue.bell().hang(jobs.clone());
        for round in 1..=2 {
            queue.wake();
            let expected = round * JOBS;
            while looks.load(Ordering::SeqCst) < expected {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(LOOK_AGAIN);
            assert_eq!(looks.load(Ordering::SeqCst), expected);
        }
        queue.stop();
        jobs.iter().for_each(|job| job.finish());
    }

    /// Another compaction may have the reserve for a moment. Then `compact_range` would say that the disk is full.
    #[test]
    fn who_compacts_alone_waits_for_those_that_run_and_lets_none_begin() {
        let queue = CompactionQueue::default();
        let (before, during) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            queue.begin();
            queue.begin();
            scope.spawn(|| {
                std::thread::sleep(LOOK_AGAIN);
                before.store(true, Ordering::SeqCst);
                queue.end(false, None);
            });
            let alone = queue.alone();
            assert!(before.load(Ordering::SeqCst), "another one still runs");
            let later = scope.spawn(|| {
                queue.begin();
                assert!(during.load(Ordering::SeqCst), "one began beside it");
                queue.end(false, None);
            });
            std::thread::sleep(LOOK_AGAIN);
            during.store(true, Ordering::SeqCst);
            drop(alone);
            later.join().unwrap();
            queue.end(true, None);
        });
    }

    #[test]
    fn who_waits_for_what_runs_is_told_when_that_was_in_vain() {
        let queue = CompactionQueue::default();
        let wanted = SpaceWanted { resource: Resource::Disk, at_any_cost: true };
        assert!(queue.want_space(wanted));
        let begun = queue.begin();
        queue.end(false, begun);
        assert!(queue.begin().is_none());
        assert!(queue.want_space(wanted), "one runs");
        assert!(queue.end(false, None), "nobody is woken");
        assert!(!queue.want_space(wanted));
    }

    /// Each gives way to the other while it waits.
    #[test]
    fn two_may_want_to_compact_alone() {
        let queue = CompactionQueue::default();
        let inside = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        queue.begin();
                        let alone = queue.alone();
                        assert!(!inside.swap(true, Ordering::SeqCst));
                        std::thread::yield_now();
                        inside.store(false, Ordering::SeqCst);
                        drop(alone);
                        queue.end(true, None);
                    }
                });
            }
        });
    }
}
