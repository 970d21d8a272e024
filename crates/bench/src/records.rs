//! Which of YCSB's records are there, while threads insert more of them.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many records there are.
#[derive(Debug, Default)]
pub(crate) struct Records {
    next: AtomicU64,
    /// Records below this are all there.
    there: AtomicU64,
    /// Records above it that are there already.
    early: Mutex<BTreeSet<u64>>,
}

impl Records {
    /// So many are there.
    pub fn of(count: u64) -> Records {
        Records { next: AtomicU64::new(count), there: AtomicU64::new(count), early: Mutex::default() }
    }

    pub fn there(&self) -> u64 {
        self.there.load(Ordering::Acquire)
    }

    /// The number of a record to be inserted.
    pub fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// It has been inserted.
    pub fn put(&self, record: u64) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        let mut there = self.there.load(Ordering::Relaxed);
        if record != there {
            early.insert(record);
            return;
        }
        there += 1;
        while early.remove(&there) {
            there += 1;
        }
        self.there.store(there, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_when_all_before_them_are_there() {
        let records = Records::of(10);
        assert_eq!([records.take(), records.take(), records.take()], [10, 11, 12]);
        records.put(11);
        assert_eq!(records.there(), 10);
        records.put(10);
        assert_eq!(records.there(), 12);
        records.put(12);
        assert_eq!(records.there(), 13);
    }
}
