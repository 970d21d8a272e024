//! Group sync on `Dram`: one leader syncs for all waiting callers.
//!
//! A write survives a power cut when every arena up to it is on the device: its own, and every earlier one that is not
//! flushed to a table file yet, or else replay would end before it. The first caller becomes the leader. It notes how
//! far publication has come, syncs the arenas with one call each, and answers for all callers up to there. Writers
//! without `sync` wait for none of this (INV-4).
//!
//! Callers that put, sync and put again would fall into two halves: one comes while the sync of the other is under way.
//! So a leader gathers first: it waits until as many callers are here as there were at the end of the last sync, but no
//! longer than a small part of what that took. A caller that is alone never waits so.

use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_env::Result;
use slmdb_sync::modelled::{AtomicU64, Condvar, Mutex, MutexGuard};

use crate::lock_order;

/// A leader gathers callers for at most this part of the time that the last sync took,
const GATHERING_PART: u64 = 8;
/// and for this long.
const GATHERING_NS_MAX: u64 = 1_000_000;

/// How far the arenas are synced, and who waits for that.
#[derive(Debug)]
pub struct GroupSync {
    synced: AtomicU64,
    callers: Mutex<Callers>,
    done: Condvar,
    all_here: Condvar,
    gathering_ns_max: u64,
}

/// Those who wait for a sync.
#[derive(Debug, Default)]
struct Callers {
    /// Whether one of them leads.
    has_leader: bool,
    /// What the last leader's sync answers, or will.
    reached: u64,
    /// How many have come for whom that was too early.
    here: usize,
    /// Whether a leader gathers them now.
    gathers: bool,
    /// How many the last sync answered, and how many came too late for it.
    expected: usize,
    /// How long it took.
    last_sync_ns: u64,
}

impl GroupSync {
    /// With everything up to `sequence` on the device.
    pub fn new(sequence: u64) -> GroupSync {
        GroupSync {
            synced: AtomicU64::new(sequence),
            callers: Mutex::ranked(lock_order::GROUP_SYNC, Callers::default()),
            done: Condvar::new(),
            all_here: Condvar::new(),
            gathering_ns_max: GATHERING_NS_MAX,
        }
    }

    /// Everything up to this sequence number is known to be on the device.
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Notes that something else (a flush) brought everything up to `sequence` to the device.
    pub fn advance(&self, sequence: u64) {
        self.synced.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Returns once everything up to `sequence` is on the device. The leader asks how far publication has come, then
    /// calls `sync`, because what is published meanwhile may come too late for it. After its failure every waiting
    /// caller leads, and fails, for itself. `clock_ns` never goes back.
    /// LOCKS: group sync, not during `sync`
    pub fn through(
        &self,
        sequence: u64,
        published: impl Fn() -> u64,
        clock_ns: impl Fn() -> u64,
        sync: impl Fn() -> Result<()>,
    ) -> Result<()> {
        if self.synced() >= sequence {
            return Ok(());
        }
        let mut callers = self.callers.lock();
        if sequence > callers.reached {
            callers.here += 1;
            if callers.gathers && callers.here >= callers.expected {
                self.all_here.notify_one();
            }
        }
        while callers.has_leader && self.synced() < sequence {
            callers = self.done.wait(callers);
        }
        if self.synced() >= sequence {
            return Ok(());
        }
        callers.has_leader = true;
        callers = self.gather(callers);
        let reached = published();
        callers.reached = reached;
        let answered = std::mem::take(&mut callers.here);
        drop(callers);
        let began_ns = clock_ns();
        let led = sync();
        if led.is_ok() {
            self.advance(reached);
        }
        let last_sync_ns = clock_ns().saturating_sub(began_ns);
        let mut callers = self.callers.lock();
        callers.has_leader = false;
        callers.expected = answered + callers.here;
        callers.last_sync_ns = last_sync_ns;
        drop(callers);
        self.done.notify_all();
        led
    }

    /// Waits a little if not all are here that are expected. An early end does no harm.
    /// LOCKS: group sync (held, but not while it waits)
    fn gather<'a>(&self, mut callers: MutexGuard<'a, Callers>) -> MutexGuard<'a, Callers> {
        let patience = Duration::from_nanos((callers.last_sync_ns / GATHERING_PART).min(self.gathering_ns_max));
        if callers.here < callers.expected && !patience.is_zero() {
            callers.gathers = true;
            callers = self.all_here.wait_timeout(callers, patience);
            callers.gathers = false;
        }
        callers
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use slmdb_env::Error;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn one_leader_answers_for_all_before_it() {
        let group = GroupSync::new(0);
        let calls = AtomicUsize::new(0);
        let sync = || {
            calls.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        group.through(3, || 10, || 0, sync).unwrap();
        group.through(10, || 10, || 0, sync).unwrap();
        assert_eq!((calls.load(Ordering::SeqCst), group.synced()), (1, 10));
        assert!(group.through(11, || 11, || 0, || Err(Error::invalid("no"))).is_err());
        assert_eq!(group.synced(), 10);
    }

    #[test]
    fn what_is_published_during_a_sync_does_not_count_as_synced() {
        let (group, published) = (GroupSync::new(0), AtomicU64::new(1));
        let sync = || {
            published.store(2, Ordering::SeqCst);
            Ok(())
        };
        group.through(1, || published.load(Ordering::SeqCst), || 0, sync).unwrap();
        assert_eq!(group.synced(), 1);
    }

    #[test]
    fn many_callers_share_few_syncs() {
        let group = GroupSync::new(0);
        let (published, calls) = (AtomicU64::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let mine = published.fetch_add(1, Ordering::SeqCst) + 1;
                        let sync = || {
                            calls.fetch_add(1, Ordering::SeqCst);
                            std::thread::sleep(std::time::Duration::from_micros(200));
                            Ok(())
                        };
                        group.through(mine, || published.load(Ordering::SeqCst), || 0, sync).unwrap();
                        assert!(group.synced() >= mine);
                    }
                });
            }
        });
        assert!(calls.load(Ordering::SeqCst) <= 400);
    }

    const AN_HOUR_NS: u64 = 3600 * 1_000_000_000;

    /// A clock by which each sync takes eight hours, and a leader that waits for an hour.
    fn patient() -> (GroupSync, impl Fn() -> u64 + Sync) {
        let clock_ns = AtomicU64::new(0);
        let group = GroupSync { gathering_ns_max: AN_HOUR_NS, ..GroupSync::new(0) };
        (group, move || clock_ns.fetch_add(8 * AN_HOUR_NS, Ordering::SeqCst))
    }

    #[test]
    fn who_is_alone_waits_for_nobody() {
        let (group, clock_ns) = patient();
        for sequence in 1..100 {
            group.through(sequence, || sequence, &clock_ns, || Ok(())).unwrap();
        }
        assert_eq!(group.synced(), 99);
    }

    /// One came while the sync of the other was under way. They took turns then, with a sync for each.
    #[test]
    fn callers_that_come_again_share_a_sync() {
        let (group, clock_ns) = patient();
        let (published, syncs) = (AtomicU64::new(0), AtomicUsize::new(0));
        let sync_next = |sync: &dyn Fn()| {
            let mine = published.fetch_add(1, Ordering::SeqCst) + 1;
            let counted = || {
                syncs.fetch_add(1, Ordering::SeqCst);
                sync();
                Ok(())
            };
            group.through(mine, || published.load(Ordering::SeqCst), &clock_ns, counted).unwrap();
        };
        let until_other_is_here = || {
            while group.callers.lock().here == 0 {
                std::thread::yield_now();
            }
        };
        let first_is_led = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                first_is_led.wait();
                for _ in 0..10 {
                    sync_next(&|| ());
                }
            });
            sync_next(&|| {
                first_is_led.wait();
                until_other_is_here();
            });
            for _ in 0..10 {
                sync_next(&|| ());
            }
        });
        assert_eq!(syncs.load(Ordering::SeqCst), 11, "of 21 calls");
    }

    #[test]
    fn who_does_not_come_again_is_waited_for_once() {
        let group = GroupSync { gathering_ns_max: 1000, ..GroupSync::new(0) };
        group.callers.lock().expected = 2;
        group.callers.lock().last_sync_ns = AN_HOUR_NS;
        group.through(1, || 1, || 0, || Ok(())).unwrap();
        assert_eq!((group.synced(), group.callers.lock().expected), (1, 1));
    }
}
