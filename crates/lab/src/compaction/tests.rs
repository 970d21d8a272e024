//! How a chunk's commit and a flush take turns; what readers and openings see while chunks move on; and what becomes of level
//! 0 where something is damaged.

mod figures;
mod file_scan;
mod moving;
mod openings;
mod passed_over;
mod repaired;
mod requests;

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use slmdb_engine::store::opening::{Found, start};
use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, Options, WriteBatch};
use slmdb_order::{Comparator, KeyOrder};
use slmdb_testkit::MemoryEnv;

use crate::KIND;
use crate::level_zero::state::LevelZeroState;
use crate::recovery::open::LabOpening;
use crate::recovery::rebuild;
use crate::tier::Lab;

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        right.cmp(left)
    }
}

/// The order of keys from the last to the first.
fn backwards() -> KeyOrder {
    KeyOrder::Custom(Arc::new(Backwards))
}

/// The store at this path, with its parts.
pub(crate) fn open(options: &Options, directory: &Path) -> Lab {
    let found = Found::of(&KIND, options, directory).unwrap();
    let trees = rebuild::in_memory(options, directory, &found.state).unwrap();
    start::<LabOpening>(found, trees).unwrap()
}

/// A store whose one key is in the immutable tree. Nothing is compacted by itself.
fn store() -> Lab {
    let options = Options {
        env: Arc::new(MemoryEnv::new()),
        compaction: CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() },
        ..Options::default()
    };
    let store = open(&options, Path::new("/db"));
    let mut batch = WriteBatch::new();
    batch.put(b"key", b"value").unwrap();
    store.write(&batch, false).unwrap();
    store.flush().unwrap();
    let indexing = store.shared.tier.state.level_zero.indexing.lock();
    assert!(store.shared.tier.state.level_zero.switch(&store.shared.parts.catalog).unwrap());
    drop(indexing);
    store
}

fn compacted_through(store: &Lab) -> Option<Vec<u8>> {
    LevelZeroState::of(store.shared.parts.catalog.lock().state()).unwrap().compacted_through
}

/// A chunk leaves out what a flush has replaced. If it were committed before that flush, a power cut could take both
/// versions: the new one's MemTable may not be durable.
#[test]
fn a_chunk_is_committed_only_after_the_flush_that_made_it_leave_entries_out() {
    let store = store();
    let indexing = store.shared.tier.state.level_zero.indexing.lock();
    std::thread::scope(|scope| {
        let moved = scope.spawn(|| store.shared.tier.compactor.compact_chunk());
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(compacted_through(&store), None);
        drop(indexing);
        assert!(moved.join().unwrap().unwrap());
    });
    assert_eq!(compacted_through(&store), Some(b"key".to_vec()));
    assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// If that flush was given up, so is the chunk.
#[test]
fn a_chunk_is_given_up_where_a_flush_was() {
    let store = store();
    *store.shared.tier.state.level_zero.indexing.lock() = true;
    assert!(store.shared.tier.compactor.compact_chunk().is_err());
    assert_eq!(compacted_through(&store), None);
    *store.shared.tier.state.level_zero.indexing.lock() = false;
    assert!(store.shared.tier.compactor.compact_chunk().unwrap());
}

/// What it has replaced in the mutable tree is needed again after a power cut. So no run file goes, and no tree changes its role.
#[test]
fn no_run_file_goes_and_no_switch_comes_where_a_flush_was_given_up() {
    let store = store();
    assert!(store.shared.tier.compactor.compact_chunk().unwrap());
    for value in ["newer", "newest"] {
        let mut batch = WriteBatch::new();
        batch.put(b"key", value).unwrap();
        store.write(&batch, false).unwrap();
        store.flush().unwrap();
    }
    let epoch = store.shared.tier.state.level_zero.epoch();
    *store.shared.tier.state.level_zero.indexing.lock() = true;
    assert!(!store.shared.tier.compactor.drop_run_files().unwrap());
    assert!(!store.shared.tier.compactor.switch().unwrap());
    assert_eq!(store.shared.tier.state.level_zero.epoch(), epoch);
    *store.shared.tier.state.level_zero.indexing.lock() = false;
    assert!(store.shared.tier.compactor.drop_run_files().unwrap());
    assert!(store.shared.tier.compactor.switch().unwrap());
    assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"newest"[..]));
}
