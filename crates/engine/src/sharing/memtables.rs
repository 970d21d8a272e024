//! [`SharedMemTables`]: the memory of all MemTables of stores that share. Where they take too much, the largest is flushed.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::atomic::AtomicU64;

/// A store looks how large its active MemTable is when it has written this part of what all may take.
const LOOK_PART: u64 = 64;

/// The active MemTables of stores that share.
pub struct SharedMemTables {
    bytes_max: u64,
    /// What the active MemTables took when their stores looked last, in bytes.
    bytes: AtomicU64,
    stores: Mutex<Vec<Weak<dyn ActiveMemTable>>>,
}

/// The active MemTable of a store.
pub trait ActiveMemTable: Send + Sync {
    /// What was told of it.
    fn told(&self) -> &ToldMemTable;
    /// The memory that it takes, in bytes. 0: it is empty.
    /// LOCKS: memtables
    fn bytes(&self) -> u64;
    /// Has it flushed before it is full, if there is room in the queue.
    /// LOCKS: memtables
    fn flush_early(&self);
}

/// What a store has told of its active MemTable.
#[derive(Debug, Default)]
pub struct ToldMemTable {
    /// How large it was.
    bytes: AtomicU64,
    /// What was written since then, in bytes.
    written_bytes: AtomicU64,
}

impl SharedMemTables {
    /// Active MemTables that take so much together.
    pub(super) fn new(bytes_max: u64) -> SharedMemTables {
        SharedMemTables { bytes_max, bytes: AtomicU64::new(0), stores: Mutex::new(Vec::new()) }
    }

    /// One more store.
    pub fn join(&self, store: Weak<dyn ActiveMemTable>) {
        self.stores.lock().push(store);
    }

    /// Takes note of what a store has written. If that is too much with what others have, the largest MemTable is flushed.
    /// LOCKS: arenas; memtables
    pub fn wrote(&self, store: &dyn ActiveMemTable, bytes: u64) {
        let written_bytes = bytes + store.told().written_bytes.fetch_add(bytes, Ordering::Relaxed);
        if written_bytes < self.bytes_max / LOOK_PART {
            return;
        }
        self.look_at(store);
        if self.bytes.load(Ordering::Relaxed) > self.bytes_max {
            self.flush_largest();
        }
    }

    /// Looks how large a store's active MemTable is.
    /// LOCKS: memtables
    pub fn look_at(&self, store: &dyn ActiveMemTable) {
        store.told().written_bytes.store(0, Ordering::Relaxed);
        self.tell(store.told(), store.bytes());
    }

    fn tell(&self, told: &ToldMemTable, bytes: u64) {
        let before_bytes = told.bytes.swap(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes.wrapping_sub(before_bytes), Ordering::Relaxed);
    }

    /// A store has none any more.
    pub fn leave(&self, store: &dyn ActiveMemTable) {
        self.tell(store.told(), 0);
    }

    /// Has the largest of the active MemTables flushed.
    /// LOCKS: memtables
    fn flush_largest(&self) {
        let stores: Vec<Arc<dyn ActiveMemTable>> = {
            let mut stores = self.stores.lock();
            stores.retain(|store| store.strong_count() > 0);
            stores.iter().filter_map(Weak::upgrade).collect()
        };
        if let Some(store) = stores.into_iter().max_by_key(|store| store.bytes()) {
            store.flush_early();
            self.look_at(&*store);
        }
    }
}

impl fmt::Debug for SharedMemTables {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SharedMemTables").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
