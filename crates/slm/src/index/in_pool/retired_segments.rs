//! [`RetiredSegments`]: key segments of table files that a compaction has removed, until their space goes back to the
//! pool.
//!
//! The index no longer points into such a segment, but a reader may stand on one of its records. So the extents are
//! freed when every epoch guard that existed at that time is gone (INV-19).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_engine::lock_order;
use slmdb_pmem::{AnyMedium, ExtentKind, Pool};
use slmdb_sync::epoch;
use slmdb_sync::scheduled::atomic::AtomicU64;
use slmdb_sync::scheduled::{Instant, Mutex};

/// How long a writer that needs the space of a key segment waits for its readers. A look-up takes microseconds, but its
/// thread may lose the processor meanwhile.
const READERS_PATIENCE: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub(crate) struct RetiredSegments {
    pool: Arc<Pool<AnyMedium>>,
    /// Files whose key segment waits for readers, and since when.
    waiting: Arc<Mutex<BTreeMap<u32, Instant>>>,
    /// How often waiting segments have been freed.
    returned: Arc<AtomicU64>,
}

impl RetiredSegments {
    /// With no segment waiting.
    pub(crate) fn new(pool: &Arc<Pool<AnyMedium>>) -> RetiredSegments {
        RetiredSegments {
            pool: pool.clone(),
            waiting: Arc::new(Mutex::ranked(lock_order::RETIRED_SEGMENTS, BTreeMap::new())),
            returned: Arc::default(),
        }
    }

    /// Frees the key segments of these files once no reader can be there.
    /// LOCKS: retired key segments
    pub(crate) fn retire(&self, numbers: &[u32]) {
        let is_theirs = |owner: u32| numbers.contains(&owner);
        let extents = self.pool.extents().into_iter();
        let offsets: Vec<u64> = extents
            .filter(|extent| extent.kind == ExtentKind::KeySegment && is_theirs(extent.owner))
            .map(|extent| extent.offset)
            .collect();
        let now = Instant::now();
        self.waiting.lock().extend(numbers.iter().map(|&number| (number, now)));
        // Weak: the deferred call must neither keep a closed pool mapped nor touch one that has been opened again.
        let (pool, numbers) = (Arc::downgrade(&self.pool), numbers.to_vec());
        let (waiting, returned) = (self.waiting.clone(), self.returned.clone());
        let guard = epoch::pin();
        guard.defer(move || {
            let Some(pool) = pool.upgrade() else { return };
            for offset in offsets {
                // If the pool's use has ended, the next opening frees it.
                if let Err(error) = pool.free_extent(offset) {
                    tracing::warn!(%error, "a key segment stays for now");
                }
            }
            // Count first, then clear: a writer that still sees them waiting keeps waiting, and one that does not sees
            // the count.
            returned.fetch_add(1, Ordering::Release);
            waiting.lock().retain(|number, _| !numbers.contains(number));
        });
        guard.flush();
    }

    /// Whether a file's segment may still be there after the file was removed.
    pub(crate) fn linger(&self, number: u32) -> bool {
        self.waiting.lock().contains_key(&number)
    }

    /// Whether space of a key segment will come soon, once its last readers have gone. They don't signal it.
    pub(crate) fn awaits_readers(&self) -> bool {
        self.waiting.lock().values().any(|since| since.elapsed() < READERS_PATIENCE)
    }

    /// How often space of key segments was freed. A change is a reason to look for space again.
    pub(crate) fn returned(&self) -> u64 {
        self.returned.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests;
