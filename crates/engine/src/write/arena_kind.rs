//! [`KindOfArena`]: which kind of arena the next MemTable gets, one for synced writes or one for others
//! ([`ArenaKind`]).
//!
//! An arena's kind can't change once it is written to. So the next one gets the kind that would have suited the last:
//! for synced writes if that was synced at least once per `BYTES_A_SYNC`. A sync then costs far more than the page
//! faults that this kind takes. The first is as the options say.

use std::sync::atomic::Ordering;

use slmdb_pmem::ArenaKind;
use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::atomic::AtomicU64;

use crate::lock_order;

/// With fewer bytes between two syncs, arenas are for synced writes: with values of 1 KiB, one sync for 64 puts.
const BYTES_A_SYNC: u64 = 64 << 10;

/// Chooses the kind of the next arena by how often the last was synced.
#[derive(Debug)]
pub struct KindOfArena {
    syncs: AtomicU64,
    last: Mutex<Last>,
}

/// The last choice, and the counters at that time.
#[derive(Debug)]
struct Last {
    kind: ArenaKind,
    syncs: u64,
    bytes_put: u64,
}

/// The kind for a store whose writes are all synced, or are not.
pub fn at_first(syncs_writes: bool) -> ArenaKind {
    if syncs_writes { ArenaKind::Synced } else { ArenaKind::Unsynced }
}

impl KindOfArena {
    /// Before the first write. `syncs_writes`: every write will be synced.
    pub fn new(syncs_writes: bool) -> KindOfArena {
        let last = Last { kind: at_first(syncs_writes), syncs: 0, bytes_put: 0 };
        KindOfArena { syncs: AtomicU64::new(0), last: Mutex::ranked(lock_order::ARENA_KIND, last) }
    }

    /// Counts a sync of the active arena.
    pub fn synced(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// The kind of the next arena. `bytes_put`: since the store was opened. Less than an eighth of an arena does not
    /// change the choice.
    /// LOCKS: arena kind
    pub fn next(&self, bytes_put: u64, arena_bytes: u64) -> ArenaKind {
        let syncs = self.syncs.load(Ordering::Relaxed);
        let mut last = self.last.lock();
        let since_bytes = bytes_put.saturating_sub(last.bytes_put);
        if since_bytes >= arena_bytes / 8 {
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
            (0..syncs).for_each(|_| chosen.synced());
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
    fn the_options_say_how_to_begin() {
        assert_eq!(KindOfArena::new(true).next(0, ARENA_BYTES), ArenaKind::Synced);
        assert_eq!(KindOfArena::new(false).next(0, ARENA_BYTES), ArenaKind::Unsynced);
    }
}
