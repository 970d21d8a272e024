//! Level 0: a pair of B+-trees in the fast tier, and the run files that their records lead to (paper, section 3.1).
//!
//! One tree is *mutable*: flushes go there. The other is *immutable*, or empty: compactions take it apart, chunk by
//! chunk, from its left end. Which is which follows from the epoch in the MANIFEST: tree `epoch % 2` is the mutable one.
//!
//! A record says in which run file an entry lies. A run file is a table file of level 0: a flush writes one, and it
//! stays until no record leads to it. Run files leave the MANIFEST oldest first (I4). So a version in one of them always
//! has what replaced it in a younger one that is still there, and the trees can be made again from the files.

pub(crate) mod state;
pub(crate) mod switch;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::files::location::Location;
use slmdb_engine::read::snapshots;
use slmdb_engine::{Options, lock_order};
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_pmem::{AnyMedium, Medium, Pool, Slots};
use slmdb_structures::hybrid_tree::{HybridTree, Version};
use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::atomic::AtomicU64;
use slmdb_table::Place;

/// In plain memory level 0 takes this part of the memory budget at most,
const BUDGET_PART: u64 = 4;
/// but so many bytes are always allowed.
const BYTES_LEAST: u64 = 256 << 10;

/// Bytes of a key of 20 bytes: its record, and its part of a leaf.
const USUAL_BYTES_PER_KEY: u64 = 64;
/// Fewer keys say little of what a key takes.
const FEW_KEYS: u64 = 1000;

/// What readers of earlier moments still see, and the trees no longer have.
pub(crate) type Snapshots = snapshots::Snapshots<Version>;

/// Level 0 of an open store, and its pool.
pub(crate) struct LevelZero {
    pub(crate) pool: Arc<Pool<AnyMedium>>,
    pub(crate) slots: Arc<Slots<AnyMedium>>,
    trees: [HybridTree<AnyMedium>; 2],
    epoch: AtomicU64,
    /// How many keys the immutable tree had when it became that, or when the store was opened.
    keys_at_switch: AtomicU64,
    bytes_max: u64,
    pub(crate) snapshots: Snapshots,
    /// Held from a flush's first change of the mutable tree to its commit, and by a chunk's commit (3.5 (d) of the
    /// design). If it is `true`, a flush was given up in between.
    pub(crate) indexing: Mutex<bool>,
}

impl LevelZero {
    /// Level 0 of a store that has just been recovered.
    pub(crate) fn new(options: &Options, trees: [HybridTree<AnyMedium>; 2], epoch: u32) -> LevelZero {
        let [first, _] = &trees;
        let immutable = trees.get(1 - epoch as usize % 2);
        let (slots, order) = (first.slots().clone(), first.order().clone());
        let is_persistent = slots.pool().medium().is_persistent();
        LevelZero {
            pool: slots.pool().clone(),
            slots,
            keys_at_switch: AtomicU64::new(immutable.map_or(0, |tree| tree.size().keys)),
            trees,
            epoch: AtomicU64::new(u64::from(epoch)),
            bytes_max: bytes_max(options, is_persistent),
            snapshots: Snapshots::new(order),
            indexing: Mutex::ranked(lock_order::INDEXING, false),
        }
    }

    /// The epoch: how often the trees have changed their roles.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire) as u32
    }

    /// Both trees, the mutable one first. A reader takes them after its MemTables, and looks in this order.
    pub(crate) fn trees(&self) -> [&HybridTree<AnyMedium>; 2] {
        let [even, odd] = &self.trees;
        if self.epoch().is_multiple_of(2) { [even, odd] } else { [odd, even] }
    }

    /// The tree that flushes go to.
    pub(crate) fn mutable(&self) -> &HybridTree<AnyMedium> {
        self.trees()[0]
    }

    /// The tree that compactions take apart.
    pub(crate) fn immutable(&self) -> &HybridTree<AnyMedium> {
        self.trees()[1]
    }

    /// What level 0 says of a key now, deletes too.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Version>> {
        let [mutable, immutable] = self.trees();
        mutable.get(key)?.map_or_else(|| immutable.get(key), |version| Ok(Some(version)))
    }

    /// What level 0 says of a key at a registered moment. A version may move from a tree to the map of replaced ones
    /// meanwhile, never the other way.
    pub(crate) fn get_at(&self, key: &[u8], moment: u64) -> Result<Option<Version>> {
        let mut found: Option<Version> = None;
        let [mutable, immutable] = self.trees();
        for version in [mutable.get(key)?, immutable.get(key)?, self.snapshots.replaced(key, moment)] {
            found = newer(found, version.filter(|version| version.sequence <= moment));
        }
        Ok(found)
    }

    /// Bytes of leaves and records of both trees. Waits for nobody.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.trees.iter().map(|tree| tree.size().bytes).sum()
    }

    /// Bytes that both trees may have.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// About how many keys both trees may have, by what those take that they have.
    pub(crate) fn keys_max(&self) -> u64 {
        let bytes_per_key = match self.keys() {
            keys if keys < FEW_KEYS => USUAL_BYTES_PER_KEY,
            keys => self.used_bytes() / keys,
        };
        self.bytes_max / bytes_per_key.max(1)
    }

    /// Keys of both trees, those of deletes too. Waits for nobody.
    pub(crate) fn keys(&self) -> u64 {
        self.trees.iter().map(|tree| tree.size().keys).sum()
    }

    /// Whether less than this part of the immutable tree's keys has left it.
    pub(crate) fn has_compacted_less_than(&self, part: f64) -> bool {
        let (keys, all) = (self.immutable().size().keys, self.keys_at_switch.load(Ordering::Relaxed));
        keys as f64 > all as f64 * (1.0 - part)
    }

    /// How many records lead to each run file.
    pub(crate) fn live(&self) -> BTreeMap<u32, u64> {
        let mut live = BTreeMap::new();
        for (file, records) in self.trees.iter().flat_map(|tree| tree.counts().live) {
            *live.entry(file).or_default() += records;
        }
        live
    }

    /// Plain memory of the directories, in bytes.
    pub(crate) fn directory_bytes(&self) -> u64 {
        self.trees.iter().map(HybridTree::directory_bytes).sum()
    }
}

/// Bytes that both trees may have. In plain memory they are at most a part of the memory budget.
fn bytes_max(options: &Options, is_persistent: bool) -> u64 {
    let wanted = options.own::<crate::options::LabOptions>().level_zero_bytes;
    if is_persistent { wanted } else { wanted.min((options.memory_budget_bytes / BUDGET_PART).max(BYTES_LEAST)) }
}

/// The newer of two versions of a key.
pub(crate) fn newer(left: Option<Version>, right: Option<Version>) -> Option<Version> {
    match (left, right) {
        (Some(left), Some(right)) if right.sequence > left.sequence => Some(right),
        (None, right) => right,
        (left, _) => left,
    }
}

/// Where a version lies.
pub(crate) fn location(version: &Version) -> Location {
    let place = Place { offset: version.offset, length: version.length_bytes };
    Location { file: version.file, place, sequence: version.sequence }
}

/// The run files of a store, oldest first: by their highest sequence numbers.
pub(crate) fn run_files(state: &StoreState) -> Vec<(u32, u64)> {
    let mut files: Vec<(u32, u64)> = state
        .files
        .iter()
        .filter(|(_, file)| file.level == 0)
        .map(|(&number, file)| (number, file.highest_sequence))
        .collect();
    files.sort_by_key(|&(_, highest)| highest);
    files
}

/// The run files that may leave the MANIFEST: the oldest ones, up to the first that a record leads to (I4).
pub(crate) fn run_files_done(state: &StoreState, live: &BTreeMap<u32, u64>) -> Vec<u32> {
    run_files(state).into_iter().map(|(number, _)| number).take_while(|number| !live.contains_key(number)).collect()
}

/// Deletes with numbers below this may be dropped at the bottom: no run file has anything as old (I8).
pub(crate) fn deletes_below(state: &StoreState) -> u64 {
    let lowest = state.files.values().filter(|file| file.level == 0).map(|file| file.lowest_sequence).min();
    lowest.unwrap_or(state.flushed_through + 1)
}
