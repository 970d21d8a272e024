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

use slmdb_env::Error;
use slmdb_levels::jobs::unreadable_files::UnreadableFiles;
use slmdb_levels::{Run, TableRun, Version};
use slmdb_order::KeyOrder;
use slmdb_sync::scheduled::Mutex;

/// What of level 0 compactions could not read since the store was opened. No other lock is taken under its own.
pub(crate) struct Unreadable {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
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
        Unreadable { inner: Mutex::new(Inner::default()) }
    }
}

impl Unreadable {
    /// Takes note of keys of the immutable tree whose values, of these numbers, can't be read.
    pub(super) fn note_keys(&self, keys: impl IntoIterator<Item = (Vec<u8>, u64)>) {
        let mut inner = self.inner.lock();
        Arc::make_mut(&mut inner.keys).extend(keys);
    }

    /// What chunks leave behind now.
    pub(super) fn passed_over(&self, files: &UnreadableFiles, levels: &Version<TableRun>) -> PassedOver {
        if !files.has_some() {
            return PassedOver::default();
        }
        let unreadable = levels.level(1).iter().filter(|run| !files.is_readable(&***run));
        let bounds = unreadable.map(|run| (run.record().smallest_key.clone(), run.record().largest_key.clone()));
        PassedOver { ranges: bounds.collect(), run_files: files.numbers(), keys: self.inner.lock().keys.clone() }
    }

    /// The error for who needs more of level 0 to go, if nothing has happened since nothing but what is passed over was
    /// left.
    pub(super) fn why_stuck(&self, files: &UnreadableFiles, moment: u64) -> Option<Error> {
        let is_stuck = files.has_some() && self.inner.lock().stuck_since == Some(moment);
        is_stuck.then(|| why_stuck(files))
    }

    /// Nothing but what is passed over is left of the immutable tree, after so many flushes and compactions. Returns the
    /// error for who needs more of it to go.
    pub(super) fn note_stuck(&self, files: &UnreadableFiles, moment: u64) -> Error {
        self.inner.lock().stuck_since = Some(moment);
        why_stuck(files)
    }
}

fn why_stuck(files: &UnreadableFiles) -> Error {
    let cause = files.first_cause().map(|cause| cause.to_string()).unwrap_or_default();
    let what = format!(
        "what is left of level 0 can't be compacted, because an input can't be read: {cause}; `slmdb repair` saves \
         what can be read"
    );
    Error::ReadOnly { cause: what }
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
