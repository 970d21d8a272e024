//! How a chunk's commit and a flush take turns; and what becomes of level 0 where something is damaged.

mod passed_over;
mod repaired;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use slmdb_engine::background::workers::Workers;
use slmdb_engine::directory::open::prepare;
use slmdb_engine::{Engine, Options, WriteBatch};
use slmdb_env::memory::MemoryEnv;
use slmdb_pmem::Dram;

use crate::KIND;
use crate::engine::Lab;
use crate::level_zero::state::LevelZeroState;
use crate::recovery::rebuild;
use crate::recovery::recover::recover;

/// A store whose one key is in the immutable tree. Nothing is compacted by itself.
fn store() -> Lab<Dram> {
    let options = Options { env: Arc::new(MemoryEnv::new()), ..Options::default() };
    let directory = Path::new("/db");
    let mut workers = Workers::of(&options).unwrap();
    let (state, lock) = prepare(&KIND, &options, directory).unwrap();
    let trees = rebuild::in_memory(&options, directory, &state).unwrap();
    let parts = recover(&options, directory, state, trees, lock).unwrap();
    let store = Lab::new(parts, std::mem::take(&mut workers.events));
    store.start(workers);
    let mut batch = WriteBatch::new();
    batch.put(b"key", b"value").unwrap();
    store.write(&batch, false).unwrap();
    store.flush().unwrap();
    let indexing = store.level_zero.indexing.lock();
    assert!(store.level_zero.switch(&store.catalog).unwrap());
    drop(indexing);
    store
}

fn compacted_through(store: &Lab<Dram>) -> Option<Vec<u8>> {
    LevelZeroState::of(store.catalog.lock().state()).unwrap().compacted_through
}

/// A chunk leaves out what a flush has replaced. If it were committed before that flush, a power cut could take both
/// versions: the new one's MemTable may not be durable.
#[test]
fn a_chunk_is_committed_only_after_the_flush_that_made_it_leave_entries_out() {
    let store = store();
    let indexing = store.level_zero.indexing.lock();
    std::thread::scope(|scope| {
        let moved = scope.spawn(|| store.compactor.compact_chunk());
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
    *store.level_zero.indexing.lock() = true;
    assert!(store.compactor.compact_chunk().is_err());
    assert_eq!(compacted_through(&store), None);
    *store.level_zero.indexing.lock() = false;
    assert!(store.compactor.compact_chunk().unwrap());
}
