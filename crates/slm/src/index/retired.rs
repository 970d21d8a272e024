//! [`Retired`]: files that the MANIFEST has given up and that are not gone yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_engine::lock_order;
use slmdb_sync::scheduled::atomic::{AtomicU64, AtomicUsize};
use slmdb_sync::scheduled::{Instant, Mutex};

/// For how long who needs the space of a key segment waits for its readers. (A look-up takes microseconds; but the processor may be
/// taken from its thread.)
const READERS_PATIENCE: Duration = Duration::from_secs(2);

/// The files that the MANIFEST has given up and that are not gone yet.
#[derive(Debug)]
pub(crate) struct Retired {
    /// Files whose end is about to be in the MANIFEST, or is and they have not come further.
    pub(crate) leaving: Mutex<BTreeSet<u32>>,
    pub(crate) waiting: Mutex<Waiting>,
    /// While it is not 0 no file is removed: a copy of the store is being made.
    pub(crate) holds: AtomicUsize,
    /// Files whose key segment waits for readers, and since when.
    pub(crate) segments: Arc<Mutex<BTreeMap<u32, Instant>>>,
    /// How often some of these have gone.
    pub(crate) returned: Arc<AtomicU64>,
}

/// Files that nobody looks for any more, unless he sees an old version there.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Those that are pinned, or were when they came here.
    pub(crate) pinned: BTreeSet<u32>,
    /// Those that are being removed.
    pub(crate) going: BTreeSet<u32>,
}

impl Default for Retired {
    fn default() -> Retired {
        Retired {
            leaving: Mutex::ranked(lock_order::RETIRED_LEAVING, BTreeSet::new()),
            waiting: Mutex::ranked(lock_order::RETIRED_WAITING, Waiting::default()),
            holds: AtomicUsize::new(0),
            segments: Arc::new(Mutex::ranked(lock_order::RETIRED_SEGMENTS, BTreeMap::new())),
            returned: Arc::default(),
        }
    }
}

impl Retired {
    /// Whether something of the file is still there, rightly.
    pub(crate) fn lingers(&self, number: u32) -> bool {
        let is_waiting = |waiting: &Waiting| waiting.pinned.contains(&number) || waiting.going.contains(&number);
        self.leaving.lock().contains(&number)
            || is_waiting(&self.waiting.lock())
            || self.segments.lock().contains_key(&number)
    }

    /// Whether the space of a key segment will come soon, once its last readers have gone. (Nobody tells when.)
    pub(crate) fn awaits_readers(&self) -> bool {
        self.segments.lock().values().any(|since| since.elapsed() < READERS_PATIENCE)
    }

    /// How often key segments' space has been given back: a reason to look for space again.
    pub(crate) fn returned(&self) -> u64 {
        self.returned.load(Ordering::Acquire)
    }

    /// The next MANIFEST record removes these files.
    pub(crate) fn announce(&self, numbers: &[u32]) {
        self.leaving.lock().extend(numbers);
    }
}
