//! [`Unreadable`]: inputs that can't be read are passed over, until the next opening.
//!
//! - *A run file* of which an entry can't be read: that entry stays in the immutable tree, and all others go on. So the
//!   first compaction that finds it is given up, and its listeners are told. Later ones of this file leave such entries
//!   out.
//! - *A file of level 1*: what level 0 has between its bounds stays there. So chunks end before it, and go on behind it.
//! - *Any file of a level*: no compaction is planned with it.
//!
//! A key that the mutable tree has anew needs not be read any more, and leaves the immutable tree. When nothing else can
//! leave it, and the mutable tree is full too, writes are refused, and the error names the cause.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slmdb_env::Error;
use slmdb_levels::{Run, TableRun, Version};
use slmdb_order::KeyOrder;
use slmdb_sync::scheduled::Mutex;

/// The inputs that compactions could not read since the store was opened. No other lock is taken under its own.
pub(crate) struct Unreadable {
    has_some: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Table files, with what is wrong with each.
    files: BTreeMap<u32, Error>,
    /// Keys of the immutable tree whose values can't be read, and the numbers of these.
    keys: Arc<BTreeMap<Vec<u8>, u64>>,
    /// Nothing but what is passed over was left of the immutable tree, after so many flushes and compactions.
    stuck_since: Option<u64>,
}

/// What a chunk leaves behind.
#[derive(Clone, Default)]
pub(crate) struct PassedOver {
    /// Run files of which something can't be read.
    pub(crate) run_files: BTreeSet<u32>,
    keys: Arc<BTreeMap<Vec<u8>, u64>>,
    /// The bounds of files of level 1 that can't be read.
    ranges: Vec<Bounds>,
}

/// The smallest and the largest key of a file.
type Bounds = (Arc<[u8]>, Arc<[u8]>);

impl Default for Unreadable {
    fn default() -> Unreadable {
        Unreadable { has_some: AtomicBool::new(false), inner: Mutex::new(Inner::default()) }
    }
}

impl Unreadable {
    /// Takes note of a file that can't be read.
    pub(super) fn note(&self, file: u32, cause: &Error) {
        self.has_some.store(true, Ordering::Relaxed);
        self.inner.lock().files.insert(file, cause.clone());
    }

    /// How many files can't be read.
    pub(super) fn files(&self) -> usize {
        self.inner.lock().files.len()
    }

    /// Takes note of keys of the immutable tree whose values, of these numbers, can't be read.
    pub(super) fn note_keys(&self, keys: impl IntoIterator<Item = (Vec<u8>, u64)>) {
        let mut inner = self.inner.lock();
        Arc::make_mut(&mut inner.keys).extend(keys);
    }

    /// Whether a file was read so far as it was to be.
    pub(super) fn is_readable(&self, file: u32) -> bool {
        !self.has_some.load(Ordering::Relaxed) || !self.inner.lock().files.contains_key(&file)
    }

    /// What chunks leave behind now.
    pub(super) fn passed_over(&self, levels: &Version<TableRun>) -> PassedOver {
        if !self.has_some.load(Ordering::Relaxed) {
            return PassedOver::default();
        }
        let inner = self.inner.lock();
        let unreadable = levels.level(1).iter().filter(|run| inner.files.contains_key(&run.number()));
        let bounds = unreadable.map(|run| (run.record().smallest_key.clone(), run.record().largest_key.clone()));
        PassedOver {
            run_files: inner.files.keys().copied().collect(),
            keys: inner.keys.clone(),
            ranges: bounds.collect(),
        }
    }

    /// The error for who needs more of level 0 to go, if nothing has happened since nothing but what is passed over was
    /// left.
    pub(super) fn why_stuck(&self, moment: u64) -> Option<Error> {
        if !self.has_some.load(Ordering::Relaxed) {
            return None;
        }
        let inner = self.inner.lock();
        (inner.stuck_since == Some(moment)).then(|| inner.why_stuck())
    }

    /// Nothing but what is passed over is left of the immutable tree, after so many flushes and compactions. Returns the
    /// error for who needs more of it to go.
    pub(super) fn note_stuck(&self, moment: u64) -> Error {
        let mut inner = self.inner.lock();
        inner.stuck_since = Some(moment);
        inner.why_stuck()
    }
}

impl Inner {
    fn why_stuck(&self) -> Error {
        let cause = self.files.values().next().map(Error::to_string).unwrap_or_default();
        let what = format!(
            "what is left of level 0 can't be compacted, because an input can't be read: {cause}; `slmdb repair` saves \
             what can be read"
        );
        Error::ReadOnly { cause: what }
    }
}

impl PassedOver {
    /// Whether there is anything.
    pub(super) fn has_some(&self) -> bool {
        !self.run_files.is_empty()
    }

    /// Whether a key's value of this number can't be read.
    pub(super) fn has_entry(&self, key: &[u8], sequence: u64) -> bool {
        self.keys.get(key) == Some(&sequence)
    }

    /// Whether a file of level 1 that can't be read has a part of what is from one key to another.
    pub(super) fn has_range_within(&self, order: &KeyOrder, first: &[u8], last: &[u8]) -> bool {
        let overlaps = |(smallest, largest): &Bounds| {
            order.compare(smallest, last).is_le() && order.compare(first, largest).is_le()
        };
        self.ranges.iter().any(overlaps)
    }
}
