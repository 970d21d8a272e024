//! What stats say of the fast tier (trap 15).

use slmdb_engine::Engine;
use slmdb_pmem::ExtentKind;
use slmdb_testkit::MemoryEnv;

use super::repaired::{KEYS, fill};

/// Arenas take persistent memory, too. So they count, and keys are not told to take less than leaves and records have of it.
#[test]
fn stats_tell_leaves_records_and_arenas_apart() {
    let env = MemoryEnv::new();
    let store = fill(&env);
    let stats = store.stats();
    let used = |kind| store.shared.tier.state.level_zero.slots.usage(kind).used_bytes;
    let arenas =
        store.shared.tier.state.level_zero.pool.extents().into_iter().filter(|extent| extent.kind == ExtentKind::Arena);
    let arena_bytes: u64 = arenas.map(|extent| extent.length_bytes).sum();
    let (leaf_bytes, record_bytes) = (stats.fast_tier_node_bytes, stats.fast_tier_key_segment_bytes);
    assert!(arena_bytes > 0 && used(ExtentKind::Leaves) > 0 && used(ExtentKind::Records) > 0);
    assert!(leaf_bytes >= used(ExtentKind::Leaves), "{leaf_bytes} bytes of leaves");
    assert!(record_bytes >= used(ExtentKind::Records), "{record_bytes} bytes of records");
    assert!(stats.fast_tier_bytes >= leaf_bytes + record_bytes + arena_bytes, "{stats:#?}");
    assert_eq!(stats.index_keys, u64::from(KEYS));
    let per_key = (leaf_bytes + record_bytes) as f64 / f64::from(KEYS);
    assert!((stats.fast_tier_index_bytes_per_key - per_key).abs() < 1e-9, "{stats:#?}");
    let live: u64 = store.table_files().iter().map(|file| file.live_keys).sum();
    assert_eq!(live, u64::from(KEYS));
    let levels = &stats.levels;
    assert_eq!(levels.iter().map(|level| level.runs).sum::<u64>(), stats.table_files);
    assert_eq!(levels.iter().map(|level| level.bytes).sum::<u64>(), stats.table_bytes);
    assert!(levels[0].runs > 0 && levels.iter().all(|level| level.bytes_in_pool == 0), "{levels:?}");
    store.close().unwrap();
}
