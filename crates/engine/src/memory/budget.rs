//! The memory budget: what the store keeps in plain memory, and what that leaves of the budget for the block cache
//! (`docs/internals/memory.md`).
//!
//! Most of what a store keeps in memory it needs: the lists of its MemTables, the open table files, what cursors still
//! see; on `Dram` also the MemTables' records and the whole index. Only the block cache can be any size. So it gets
//! what the rest leaves of the budget, but never less than a floor: with no cache at all, an index that outgrew the
//! budget would be slower still to read through, and refusing to open would help no user.
//!
//! The rest grows and shrinks by whole MemTables. So background threads look at it when a MemTable is taken for its
//! flush, when a flush has ended, and when the store has opened; no put or get pays for it. While writes go on, the
//! active MemTable counts as full, because it soon will be, and one that is being flushed counts even if there is none
//! just now.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb_pmem::trim_heap;
use slmdb_sync::scheduled::Mutex;

use crate::batch::Totals;
use crate::files::caches::Caches;
use crate::{Options, lock_order};

/// The floor of the block cache, as a part of the budget,
pub(crate) const FLOOR_PART: u64 = 16;
/// and in bytes; the larger one holds.
const FLOOR_BYTES: u64 = 1 << 20;

/// The cache changes its size in steps of this part of the budget, because resizing rounds and should be rare.
const STEP_PART: u64 = 64;

/// Memory per cursor, in bytes, apart from its blocks of table files: the keys and places of an index leaf, its own
/// key, its sources, the files that it has met.
pub const CURSOR_BYTES: u64 = 3584;

/// What a flush keeps per entry beside twice its key: its head in the key section, and its
/// [`SegmentEntry`](slmdb_structures::fast_fair::SegmentEntry).
const FLUSHED_ENTRY_BYTES: u64 = 13 + 40;

/// This part of a flush's buffers stays at the end of its thread's heap, where the allocator keeps it for the next
/// (measured with glibc: 0.41 to 0.53).
const KEPT_PART: u64 = 2;

/// A budget, and what the stores that have it take of it beside the block cache.
#[derive(Debug)]
pub struct WholeBudget {
    bytes: u64,
    /// MemTables count up to here: stores that share keep them within it.
    memtables_bytes_max: u64,
    /// Held while the cache changes its size.
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// What MemTables take, or soon will.
    memtables_bytes: u64,
    /// What the rest takes.
    rest_bytes: u64,
    /// What the cache may take now.
    cache_bytes: u64,
}

impl WholeBudget {
    /// A budget that is all the cache's, as long as there is nothing else.
    pub fn new(bytes: u64, memtables_bytes_max: u64) -> WholeBudget {
        let taken = Taken { cache_bytes: bytes, ..Taken::default() };
        WholeBudget { bytes, memtables_bytes_max, taken: Mutex::ranked(lock_order::CACHE_BYTES, taken) }
    }

    /// What the cache may take if the rest takes `rest_bytes`.
    fn cache_share(&self, rest_bytes: u64) -> u64 {
        let floor = self.noticeable_bytes().min(self.bytes);
        let step = (self.bytes / STEP_PART).max(1);
        let left = self.bytes.saturating_sub(rest_bytes);
        (left / step * step).max(floor)
    }

    /// A part of the budget that matters, in bytes.
    fn noticeable_bytes(&self) -> u64 {
        (self.bytes / FLOOR_PART).max(FLOOR_BYTES)
    }

    /// Takes note that a store takes `now` instead of `before`. Returns the size of the cache, if that changes.
    fn replace(&self, before: Told, now: Told) -> Option<u64> {
        let mut taken = self.taken.lock();
        let replaced = |all: u64, before: u64, now: u64| all.wrapping_sub(before).wrapping_add(now);
        taken.memtables_bytes = replaced(taken.memtables_bytes, before.memtables_bytes, now.memtables_bytes);
        taken.rest_bytes = replaced(taken.rest_bytes, before.rest_bytes, now.rest_bytes);
        let memtables_bytes = taken.memtables_bytes.min(self.memtables_bytes_max);
        let wanted = self.cache_share(taken.rest_bytes.saturating_add(memtables_bytes));
        (std::mem::replace(&mut taken.cache_bytes, wanted) != wanted).then_some(wanted)
    }
}

/// What a store takes beside the block cache.
#[derive(Debug, Clone, Copy, Default)]
pub struct Told {
    /// Its MemTables, as they are or soon will be.
    pub memtables_bytes: u64,
    /// The rest.
    pub rest_bytes: u64,
}

/// A store's part of the budget, and gauges for what comes and goes.
#[derive(Debug)]
pub struct Budget {
    whole: Arc<WholeBudget>,
    /// What it has told last. Held while the cache is resized by that.
    told: Mutex<Told>,
    /// Bytes that the cache and cursors have freed since the allocator was last asked to give memory back.
    freed_bytes: AtomicU64,
    /// Bytes that the largest flush so far has left with its thread.
    kept_bytes: AtomicU64,
    /// Bytes that the largest compaction so far has left with its thread.
    kept_by_compaction_bytes: AtomicU64,
    /// Buffers of running flushes and compactions.
    pub background: Gauge,
    /// Blocks and pieces of table files that cursors hold.
    pub cursor_blocks: Gauge,
}

impl Budget {
    /// The part of a store that has nothing yet.
    pub fn new(options: &Options) -> Budget {
        let whole = match &options.shared {
            Some(shared) => shared.budget().clone(),
            None => Arc::new(WholeBudget::new(options.memory_budget_bytes, u64::MAX)),
        };
        Budget {
            whole,
            told: Mutex::ranked(lock_order::TOLD_BYTES, Told::default()),
            freed_bytes: AtomicU64::new(0),
            kept_bytes: AtomicU64::new(0),
            kept_by_compaction_bytes: AtomicU64::new(0),
            background: Gauge::default(),
            cursor_blocks: Gauge::default(),
        }
    }

    /// Gives the cache what the rest leaves.
    /// LOCKS: told bytes, cache size
    pub fn share(&self, caches: &Caches, now: Told) {
        let mut told = self.told.lock();
        let wanted = self.whole.replace(std::mem::replace(&mut told, now), now);
        let freed_bytes = wanted.map_or(0, |bytes| caches.set_bytes(bytes));
        drop(told);
        if freed_bytes > 0 {
            self.freed(freed_bytes);
        }
    }

    /// Counts memory that threads had allocated and have freed, and that other threads want. Once it is noticeable,
    /// asks the allocator to give it back. Returns whether it did.
    pub fn freed(&self, bytes: u64) -> bool {
        self.freed_among(bytes, self.noticeable_bytes())
    }

    /// The same, with another bound for what is noticeable.
    pub fn freed_among(&self, bytes: u64, noticeable_bytes: u64) -> bool {
        let is_noticeable = bytes + self.freed_bytes.fetch_add(bytes, Ordering::Relaxed) >= noticeable_bytes;
        if is_noticeable {
            self.freed_bytes.store(0, Ordering::Relaxed);
            trim_heap();
        }
        is_noticeable
    }

    /// Counts memory that cursors and snapshots have freed. Returns whether the cache may have it. `was_last`: no other is
    /// left, and none may come for long whose freed memory could be counted with this.
    pub fn readers_freed(&self, bytes: u64, was_last: bool) -> bool {
        let noticeable_bytes = if was_last { FLOOR_BYTES } else { self.noticeable_bytes() };
        bytes > 0 && self.freed_among(bytes, noticeable_bytes)
    }

    /// Notes that a compaction that held `had_bytes` has ended.
    pub fn compaction_has_ended(&self, had_bytes: u64) {
        self.kept_by_compaction_bytes.fetch_max(had_bytes / KEPT_PART, Ordering::Relaxed);
    }

    /// Notes that a flush has ended: its buffers are free, except what stays with its thread, and so is its MemTable's
    /// list.
    pub fn flush_ended(&self, totals: &Totals, list_bytes: u64) {
        let kept_bytes = flush_bytes(totals) / KEPT_PART;
        self.kept_bytes.fetch_max(kept_bytes, Ordering::Relaxed);
        self.freed(flush_bytes(totals) - kept_bytes + list_bytes);
    }

    /// Bytes that flushes and compactions have left with their threads.
    pub fn left_with_threads(&self) -> u64 {
        self.kept_bytes.load(Ordering::Relaxed) + self.kept_by_compaction_bytes.load(Ordering::Relaxed)
    }

    /// A part of the budget that matters, in bytes.
    pub fn noticeable_bytes(&self) -> u64 {
        self.whole.noticeable_bytes()
    }
}

impl Drop for Budget {
    /// Others have what the store had.
    fn drop(&mut self) {
        let told = std::mem::take(&mut *self.told.lock());
        self.whole.replace(told, Told::default());
    }
}

/// A number of bytes in use.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Adds `bytes` until the returned guard is dropped.
    pub fn hold(&self, bytes: u64) -> Held<'_> {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Held { gauge: self, bytes }
    }

    /// Replaces `old_bytes` by `new_bytes`.
    pub fn replace(&self, old_bytes: u64, new_bytes: u64) {
        self.0.fetch_add(new_bytes.wrapping_sub(old_bytes), Ordering::Relaxed);
    }

    /// The bytes in use now.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// See [`Gauge::hold`].
#[derive(Debug)]
#[must_use = "what is held is let go at once"]
pub struct Held<'a> {
    gauge: &'a Gauge,
    bytes: u64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.gauge.replace(self.bytes, 0);
    }
}

/// The bytes that a flush of these entries keeps in memory until its key segment is written.
pub fn flush_bytes(totals: &Totals) -> u64 {
    2 * totals.key_bytes + totals.entries * FLUSHED_ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(budget_bytes: u64, rest_bytes: u64) -> u64 {
        WholeBudget::new(budget_bytes, u64::MAX).cache_share(rest_bytes)
    }

    #[test]
    fn stores_that_share_leave_the_cache_what_all_of_them_leave() {
        let mib = 1 << 20;
        let whole = WholeBudget::new(64 * mib, 32 * mib);
        let told = |memtables, rest| Told { memtables_bytes: memtables * mib, rest_bytes: rest * mib };
        assert_eq!(whole.replace(told(0, 0), told(8, 4)), Some(52 * mib));
        assert_eq!(whole.replace(told(0, 0), told(8, 4)), Some(40 * mib));
        assert_eq!(
            whole.replace(told(8, 4), told(90, 4)),
            Some(24 * mib),
            "MemTables are flushed before they take more"
        );
        assert_eq!(whole.replace(told(90, 4), told(91, 4)), None);
        assert_eq!(whole.replace(told(91, 4), told(0, 0)), Some(52 * mib), "one has closed");
    }

    #[test]
    fn the_cache_has_what_the_rest_leaves_and_at_least_its_floor() {
        let mib = 1 << 20;
        assert_eq!(share(256 * mib, 0), 256 * mib);
        assert_eq!(share(256 * mib, 100 * mib), 156 * mib);
        assert_eq!(share(256 * mib, 100 * mib + 1), 152 * mib, "in steps of 4 MiB");
        assert_eq!(share(256 * mib, 250 * mib), 16 * mib);
        assert_eq!(share(256 * mib, u64::MAX), 16 * mib);
        assert_eq!(share(8 * mib, 9 * mib), mib);
        assert_eq!((share(1000, 0), share(1000, 5000), share(0, 0), share(0, 5)), (1000, 1000, 0, 0));
    }

    #[test]
    fn a_gauge_forgets_what_is_no_longer_held() {
        let gauge = Gauge::default();
        let (first, second) = (gauge.hold(10), gauge.hold(5));
        gauge.replace(0, 7);
        assert_eq!(gauge.bytes(), 22);
        drop(first);
        gauge.replace(7, 3);
        assert_eq!(gauge.bytes(), 8);
        drop(second);
        assert_eq!(gauge.bytes(), 3);
    }
}
