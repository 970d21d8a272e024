//! How events come to the listener: the queue, and the thread that empties it. Also the conditions that are reported
//! once though they meet many writers: stalls, and refusals for want of space.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use slmdb_env::{Error, Result, START_THREAD};
use slmdb_sync::scheduled::thread::{self, JoinHandle};
use slmdb_sync::scheduled::{Condvar, Mutex};

use super::{Event, EventListener, Listener, SpaceFor};
use crate::{StallCause, lock_order};

/// The most events that wait for the listener.
const WAITING_MAX: usize = 4096;

/// The store's end of the delivery.
#[derive(Debug)]
pub struct Events {
    told: Option<Told>,
    /// For each [`StallCause`]: since when writers wait, in nanoseconds, and how many do.
    stalls: Mutex<[(u64, usize); StallCause::COUNT]>,
    /// What was refused and has not found space since.
    refused: Mutex<Vec<SpaceFor>>,
}

#[derive(Debug)]
struct Told {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Queue {
    listener: Arc<dyn EventListener>,
    waiting: Mutex<Waiting>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Event>,
    lost: u64,
    ended: bool,
}

impl Default for Events {
    fn default() -> Events {
        Events {
            told: None,
            stalls: Mutex::ranked(lock_order::EVENT_STALLS, Default::default()),
            refused: Mutex::ranked(lock_order::EVENT_REFUSALS, Vec::new()),
        }
    }
}

impl Events {
    /// Starts the thread of this listener, if there is one.
    pub fn to(listener: &Listener) -> Result<Events> {
        let mut events = Events::default();
        let Some(listener) = &listener.0 else { return Ok(events) };
        let queue = Queue {
            listener: listener.clone(),
            waiting: Mutex::ranked(lock_order::EVENT_QUEUE, Waiting::default()),
            came: Condvar::new(),
        };
        let queue = Arc::new(queue);
        let thread = thread::Builder::new().name("slmdb-events".into()).spawn({
            let queue = queue.clone();
            move || queue.deliver()
        });
        let thread = thread.map_err(|error| Error::io(START_THREAD, "slmdb-events", error))?;
        events.told = Some(Told { queue, thread: Mutex::new(Some(thread)) });
        Ok(events)
    }

    /// Queues an event, if there is a listener; otherwise the event is not made. May be called under any lock.
    pub fn notify(&self, make: impl FnOnce() -> Event) {
        if let Some(told) = &self.told {
            told.queue.push(make());
        }
    }

    /// Notes that one more writer waits, from `now_ns` on.
    pub fn stall_began(&self, waits_for: StallCause, now_ns: u64) {
        self.one_more(&mut self.stalls.lock()[waits_for as usize], waits_for, now_ns);
    }

    fn one_more(&self, (since_ns, writers): &mut (u64, usize), waits_for: StallCause, now_ns: u64) {
        *writers += 1;
        if *writers == 1 {
            *since_ns = now_ns;
            self.notify(|| Event::WriteStallBegan { waits_for });
        }
    }

    /// Notes that one writer less waits.
    pub fn stall_ended(&self, waits_for: StallCause, now_ns: u64) {
        self.one_less(&mut self.stalls.lock()[waits_for as usize], waits_for, now_ns);
    }

    fn one_less(&self, (since_ns, writers): &mut (u64, usize), waits_for: StallCause, now_ns: u64) {
        *writers -= 1;
        if *writers == 0 {
            let duration = Duration::from_nanos(now_ns.saturating_sub(*since_ns));
            self.notify(|| Event::WriteStallEnded { waits_for, duration });
        }
    }

    /// Notes whether writers are slowed for this, which may be no change. Several threads may find that out at once.
    pub fn paced(&self, waits_for: StallCause, is_limited: bool, now_ns: impl FnOnce() -> u64) {
        if self.told.is_none() {
            return;
        }
        let mut stalls = self.stalls.lock();
        let stall = &mut stalls[waits_for as usize];
        match (stall.1 > 0, is_limited) {
            (false, true) => self.one_more(stall, waits_for, now_ns()),
            (true, false) => self.one_less(stall, waits_for, now_ns()),
            _ => {}
        }
    }

    /// Notes that something found no space.
    pub fn space_refused(&self, needed_by: SpaceFor, cause: &Error) {
        let mut refused = self.refused.lock();
        if !refused.contains(&needed_by) {
            refused.push(needed_by);
            self.notify(|| Event::SpaceRefused { needed_by, cause: cause.clone() });
        }
    }

    /// Notes that something found space.
    pub fn space_found(&self, needed_by: SpaceFor) {
        let mut refused = self.refused.lock();
        let before = refused.len();
        refused.retain(|other| *other != needed_by);
        if refused.len() < before {
            self.notify(|| Event::SpaceFound { needed_by });
        }
    }

    /// Returns when every event is delivered and the listener's thread has ended. Called by the listener itself, it
    /// does not wait.
    pub fn end(&self) {
        let Some(told) = &self.told else { return };
        told.queue.waiting.lock().ended = true;
        told.queue.came.notify_all();
        let thread = told.thread.lock().take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            // The listener's panics were caught.
            let _ = thread.join();
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.end();
    }
}

impl Queue {
    fn push(&self, event: Event) {
        let mut waiting = self.waiting.lock();
        if waiting.ended {
            return;
        }
        if waiting.events.len() < WAITING_MAX {
            waiting.events.push_back(event);
            self.came.notify_one();
        } else {
            waiting.lost += 1;
        }
    }

    /// Waits for the next event. `None` when there will be none.
    fn next(&self) -> Option<Event> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(event) = waiting.events.pop_front() {
                // Lost events came after all that are queued now.
                let lost = std::mem::take(&mut waiting.lost);
                if lost > 0 {
                    waiting.events.push_back(Event::Lost { events: lost });
                }
                return Some(event);
            }
            if waiting.ended {
                return None;
            }
            waiting = self.came.wait(waiting);
        }
    }

    /// The loop of the listener's thread.
    fn deliver(&self) {
        while let Some(event) = self.next() {
            if catch_unwind(AssertUnwindSafe(|| self.listener.on_event(&event))).is_err() {
                tracing::error!(?event, "the event listener panicked");
            }
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Queue").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events to a listener that keeps them, and what it kept.
    fn kept() -> (Events, Arc<Mutex<Vec<String>>>) {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let into = kept.clone();
        let listener = move |event: &Event| into.lock().push(format!("{event:?}"));
        (Events::to(&Listener(Some(Arc::new(listener)))).unwrap(), kept)
    }

    #[test]
    fn without_a_listener_no_event_is_made() {
        let events = Events::to(&Listener::default()).unwrap();
        events.notify(|| panic!("made"));
        events.end();
    }

    /// (Each of two threads that found it over took one writer away, and there had been one.)
    #[test]
    fn several_threads_may_find_out_that_a_pace_is_over() {
        let (events, _) = kept();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..20_000_u64 {
                        events.paced(StallCause::Compaction, round % 2 == 0, || round);
                    }
                });
            }
        });
        events.end();
    }

    #[test]
    fn delays_of_several_writers_are_one() {
        let (events, kept) = kept();
        events.stall_began(StallCause::Flush, 1_000);
        events.stall_began(StallCause::Flush, 1_500);
        events.stall_ended(StallCause::Flush, 1_700);
        events.stall_ended(StallCause::Flush, 3_000);
        events.paced(StallCause::Pace, true, || 5_000);
        events.paced(StallCause::Pace, true, || panic!("no change"));
        events.paced(StallCause::Compaction, false, || panic!("no change"));
        events.paced(StallCause::Pace, false, || 6_000);
        events.paced(StallCause::Pace, false, || panic!("no change"));
        events.end();
        let expected = [
            "WriteStallBegan { waits_for: Flush }",
            "WriteStallEnded { waits_for: Flush, duration: 2µs }",
            "WriteStallBegan { waits_for: Pace }",
            "WriteStallEnded { waits_for: Pace, duration: 1µs }",
        ];
        assert_eq!(*kept.lock(), expected);
    }

    #[test]
    fn a_refusal_is_told_once_and_so_is_its_end() {
        let (events, kept) = kept();
        let cause = Error::Full { path: "d".into(), what: "w".into() };
        events.space_found(SpaceFor::Write);
        events.space_refused(SpaceFor::Write, &cause);
        events.space_refused(SpaceFor::Write, &cause);
        events.space_refused(SpaceFor::Job, &cause);
        events.space_found(SpaceFor::Write);
        events.space_found(SpaceFor::Write);
        events.end();
        let kept = kept.lock();
        assert_eq!(kept.len(), 3, "{kept:?}");
        assert!(kept[0].starts_with("SpaceRefused { needed_by: Write"), "{kept:?}");
        assert!(kept[1].starts_with("SpaceRefused { needed_by: Job"), "{kept:?}");
        assert_eq!(kept[2], "SpaceFound { needed_by: Write }");
    }

    #[test]
    fn a_listener_that_sleeps_loses_events_and_is_told_how_many() {
        let (gate, kept) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(Vec::new())));
        let (wait, into) = (gate.clone(), kept.clone());
        let listener = move |event: &Event| {
            drop(wait.lock());
            into.lock().push(event.clone());
        };
        let events = Events::to(&Listener(Some(Arc::new(listener)))).unwrap();
        let held = gate.lock();
        for sequence_number in 0..3 * WAITING_MAX as u64 {
            let duration = Duration::ZERO;
            events.notify(|| Event::IndexCheckpointTaken { sequence_number, keys: 0, bytes: 0, duration });
        }
        drop(held);
        events.end();
        let kept = kept.lock();
        assert!(matches!(kept.last(), Some(Event::Lost { .. })), "{:?}", kept.last());
        // (Twice, if the listener's thread began only when some were lost.)
        let lost =
            kept.iter().filter_map(|event| if let Event::Lost { events } = event { Some(*events) } else { None });
        let (times, lost) = (lost.clone().count() as u64, lost.sum::<u64>());
        assert!(times <= 2, "{times}");
        assert_eq!(kept.len() as u64 - times + lost, 3 * WAITING_MAX as u64);
        assert!((WAITING_MAX..=WAITING_MAX + 2).contains(&kept.len()), "{}", kept.len());
    }

    #[test]
    fn a_listener_that_panics_is_told_the_next_event_too() {
        let kept = Arc::new(Mutex::new(0));
        let into = kept.clone();
        let listener = move |_: &Event| {
            *into.lock() += 1;
            panic!("a listener of the test panics");
        };
        let events = Events::to(&Listener(Some(Arc::new(listener)))).unwrap();
        events.stall_began(StallCause::Space, 0);
        events.stall_ended(StallCause::Space, 1);
        events.end();
        assert_eq!(*kept.lock(), 2);
    }

    #[test]
    fn a_listener_may_end_it_itself() {
        let slot: Arc<Mutex<Option<Arc<Events>>>> = Arc::default();
        let (own, done) = (slot.clone(), Arc::new(Mutex::new(false)));
        let is_done = done.clone();
        let listener = move |_: &Event| {
            let events = own.lock().clone();
            events.expect("it was put there first").end();
            *is_done.lock() = true;
        };
        let events = Arc::new(Events::to(&Listener(Some(Arc::new(listener)))).unwrap());
        *slot.lock() = Some(events.clone());
        events.stall_began(StallCause::Space, 0);
        let start = std::time::Instant::now();
        while !*done.lock() {
            assert!(start.elapsed() < Duration::from_secs(60), "it waits for itself");
            std::thread::sleep(Duration::from_millis(1));
        }
        slot.lock().take();
    }
}
