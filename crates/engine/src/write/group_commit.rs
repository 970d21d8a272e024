//! Group sync on `Dram`: one leader syncs for all waiting callers.
//!
//! A write survives a power cut when every arena up to it is on the device: its own, and every earlier one that is not
//! flushed to a table file yet, or else replay would end before it. The first caller becomes the leader. It notes how
//! far publication has come, syncs the arenas with one call each, and answers for all callers up to there. Writers
//! without `sync` wait for none of this (INV-4).

use std::sync::atomic::Ordering;

use slmdb_env::Result;
use slmdb_sync::modelled::{AtomicU64, Condvar, Mutex, MutexGuard};

use crate::lock_order;

/// How far the arenas are synced, and whether a leader is syncing them.
#[derive(Debug)]
pub struct GroupSync {
    synced: AtomicU64,
    has_leader: Mutex<bool>,
    done: Condvar,
}

impl GroupSync {
    /// With everything up to `sequence` on the device.
    pub fn new(sequence: u64) -> GroupSync {
        GroupSync {
            synced: AtomicU64::new(sequence),
            has_leader: Mutex::ranked(lock_order::GROUP_SYNC, false),
            done: Condvar::new(),
        }
    }

    fn has_leader(&self) -> MutexGuard<'_, bool> {
        self.has_leader.lock()
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
    /// caller leads, and fails, for itself.
    /// LOCKS: group sync, not during `sync`
    pub fn through(&self, sequence: u64, published: impl Fn() -> u64, sync: impl Fn() -> Result<()>) -> Result<()> {
        let mut has_leader = self.has_leader();
        loop {
            if self.synced() >= sequence {
                return Ok(());
            }
            if !*has_leader {
                break;
            }
            has_leader = self.done.wait(has_leader);
        }
        *has_leader = true;
        drop(has_leader);
        let reached = published();
        let led = sync();
        if led.is_ok() {
            self.advance(reached);
        }
        *self.has_leader() = false;
        self.done.notify_all();
        led
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
        group.through(3, || 10, sync).unwrap();
        group.through(10, || 10, sync).unwrap();
        assert_eq!((calls.load(Ordering::SeqCst), group.synced()), (1, 10));
        assert!(group.through(11, || 11, || Err(Error::invalid("no"))).is_err());
        assert_eq!(group.synced(), 10);
    }

    #[test]
    fn what_is_published_during_a_sync_does_not_count_as_synced() {
        let (group, published) = (GroupSync::new(0), AtomicU64::new(1));
        let sync = || {
            published.store(2, Ordering::SeqCst);
            Ok(())
        };
        group.through(1, || published.load(Ordering::SeqCst), sync).unwrap();
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
                        group.through(mine, || published.load(Ordering::SeqCst), sync).unwrap();
                        assert!(group.synced() >= mine);
                    }
                });
            }
        });
        assert!(calls.load(Ordering::SeqCst) <= 400);
    }
}
