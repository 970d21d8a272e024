//! [`KindOfArena`]: which kind of arena the next MemTable gets, one for synced writes or one for others
//! ([`ArenaKind`]).
//!
//! An arena's kind can't change once it is written to. So the next one gets the kind that would have suited the last:
//! for synced writes if that was synced at least once per `BYTES_A_SYNC`. A sync then costs far more than the page
//! faults that this kind takes. The first is as the options say.
//!
//! A store that begins to sync does not wait for the next arena: after `SYNCS_IN_A_ROW` syncs, each after few bytes,
//! the write path has an arena of the other kind made, and begins it early ([`Step`]).

use std::sync::atomic::Ordering;

use slmdb_pmem::ArenaKind;
use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::atomic::AtomicU64;

use crate::lock_order;

/// With fewer bytes between two syncs, arenas are for synced writes: with values of 1 KiB, one sync for 64 puts.
const BYTES_A_SYNC: u64 = 64 << 10;
/// After so many syncs with so few bytes between them, a store has begun to sync.
const SYNCS_IN_A_ROW: u64 = 64;

/// Chooses the kind of the next arena by how often the last was synced.
#[derive(Debug)]
pub struct KindOfArena {
    syncs: AtomicU64,
    last: Mutex<Last>,
    beginning: Mutex<Beginning>,
}

/// The last choice, and the counters at that time.
#[derive(Debug)]
struct Last {
    kind: ArenaKind,
    syncs: u64,
    bytes_put: u64,
}

/// How a store with another arena has begun to sync.
#[derive(Debug, Default)]
struct Beginning {
    /// How many syncs were counted, and what was put before the first of them.
    syncs: u64,
    bytes_put: u64,
    /// Whether an arena for synced writes was asked for.
    asked: bool,
}

/// What there is to do about an arena that is not for synced writes, at a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Stay,
    /// Have the next arena made: it will be for synced writes.
    Ask,
    /// Begin it as soon as it is there.
    Begin,
}

/// The kind for a store whose writes are all synced, or are not.
pub fn at_first(syncs_writes: bool) -> ArenaKind {
    if syncs_writes { ArenaKind::Synced } else { ArenaKind::Unsynced }
}

impl KindOfArena {
    /// Before the first write. `syncs_writes`: every write will be synced.
    pub fn new(syncs_writes: bool) -> KindOfArena {
        let last = Last { kind: at_first(syncs_writes), syncs: 0, bytes_put: 0 };
        KindOfArena {
            syncs: AtomicU64::new(0),
            last: Mutex::ranked(lock_order::ARENA_KIND, last),
            beginning: Mutex::new(Beginning::default()),
        }
    }

    /// Counts a sync of an active arena of this kind, and says what to do about that. `bytes_put`: since the store was
    /// opened.
    pub fn synced(&self, active: ArenaKind, bytes_put: u64) -> Step {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let mut beginning = self.beginning.lock();
        if active == ArenaKind::Synced {
            *beginning = Beginning::default();
            return Step::Stay;
        }
        if beginning.asked {
            return Step::Begin;
        }
        beginning.syncs += 1;
        let since_bytes = bytes_put.saturating_sub(beginning.bytes_put);
        if beginning.syncs == 1 || since_bytes > beginning.syncs * BYTES_A_SYNC {
            *beginning = Beginning { syncs: 1, bytes_put, asked: false };
        }
        beginning.asked = beginning.syncs > SYNCS_IN_A_ROW;
        if beginning.asked { Step::Ask } else { Step::Stay }
    }

    /// The arena that was asked for can't be had: what is made next is chosen as usual.
    pub fn begin_anew(&self) {
        *self.beginning.lock() = Beginning::default();
    }

    /// The kind of the next arena. `bytes_put`: since the store was opened. Less than an eighth of an arena does not
    /// change the choice.
    /// LOCKS: arena kind
    pub fn next(&self, bytes_put: u64, arena_bytes: u64) -> ArenaKind {
        let syncs = self.syncs.load(Ordering::Relaxed);
        let begins = self.beginning.lock().asked;
        let mut last = self.last.lock();
        let since_bytes = bytes_put.saturating_sub(last.bytes_put);
        if begins {
            *last = Last { kind: ArenaKind::Synced, syncs, bytes_put };
        } else if since_bytes >= arena_bytes / 8 {
            let kind = at_first((syncs - last.syncs).saturating_mul(BYTES_A_SYNC) > since_bytes);
            *last = Last { kind, syncs, bytes_put };
        }
        last.kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARENA_BYTES: u64 = 1 << 20;

    #[test]
    fn the_kind_follows_what_is_done() {
        let chosen = KindOfArena::new(false);
        let mut bytes_put = 0;
        let mut next = |syncs: u64, more_bytes: u64| {
            (0..syncs).for_each(|_| assert_eq!(chosen.synced(ArenaKind::Synced, bytes_put), Step::Stay));
            bytes_put += more_bytes;
            chosen.next(bytes_put, ARENA_BYTES)
        };
        assert_eq!(next(0, ARENA_BYTES), ArenaKind::Unsynced);
        assert_eq!(next(16, ARENA_BYTES), ArenaKind::Unsynced);
        assert_eq!(next(17, ARENA_BYTES), ArenaKind::Synced);
        assert_eq!(next(0, 1000), ArenaKind::Synced, "another attempt, or a flush of little");
        assert_eq!(next(0, ARENA_BYTES), ArenaKind::Unsynced);
        assert_eq!(next(1000, ARENA_BYTES), ArenaKind::Synced);
    }

    #[test]
    fn a_store_that_begins_to_sync_asks_once() {
        let chosen = KindOfArena::new(false);
        let mut bytes_put = 100 << 20;
        let mut steps = |syncs: u64, bytes_before_each: u64| {
            let mut sync = || {
                bytes_put += bytes_before_each;
                chosen.synced(ArenaKind::Unsynced, bytes_put)
            };
            (0..syncs).map(|_| sync()).collect::<Vec<Step>>()
        };
        let stays = |steps: Vec<Step>| steps.into_iter().all(|step| step == Step::Stay);
        assert!(stays(steps(1000, BYTES_A_SYNC * 3)), "syncs are rare");
        assert!(stays(steps(SYNCS_IN_A_ROW - 1, 1000)));
        assert_eq!(chosen.next(0, ARENA_BYTES), ArenaKind::Unsynced);
        assert_eq!(steps(3, 1000), [Step::Ask, Step::Begin, Step::Begin]);
        assert_eq!(chosen.next(0, ARENA_BYTES), ArenaKind::Synced, "whatever was done before");
        assert_eq!(chosen.synced(ArenaKind::Synced, bytes_put), Step::Stay);
        assert_eq!(chosen.synced(ArenaKind::Unsynced, bytes_put), Step::Stay, "it is counted anew");
    }

    #[test]
    fn the_options_say_how_to_begin() {
        assert_eq!(KindOfArena::new(true).next(0, ARENA_BYTES), ArenaKind::Synced);
        assert_eq!(KindOfArena::new(false).next(0, ARENA_BYTES), ArenaKind::Unsynced);
    }
}
