//! How the engines open and repair stores on a medium that records.

use std::path::Path;
use std::sync::Arc;

use slmdb::engines::of_name;
use slmdb::{ChameleonOptions, LabOptions, Tiering, TlsmOptions, UpperLevels};
use slmdb_engine::{Engine, EngineName, Options, OwnOptions, RepairReport, Result};
use slmdb_pmem::AnyMedium;
use slmdb_testkit::Simulated;

use crate::machine::Setup;

/// Opens a store of the engine that the options name: on this medium, or, without one, on the machine's own.
pub fn open(options: &Options, directory: &Path, medium: Option<&Simulated>) -> Result<Arc<dyn Engine>> {
    (of_name(options.engine.unwrap_or_default())?.open)(options, directory, medium.map(any))
}

/// Repairs one.
pub fn repair(options: &Options, directory: &Path, medium: Option<&Simulated>) -> Result<RepairReport> {
    (of_name(options.engine.unwrap_or_default())?.repair)(options, directory, medium.map(any), &mut |_| ())
}

/// What an engine alone is told: its structures are so small that a few flushes go through all of them.
pub fn own_options(setup: Setup) -> Option<Arc<dyn OwnOptions>> {
    match setup.engine {
        // The trees change their roles after a few flushes, and what leaves them goes on to the second level and the third.
        EngineName::Lab => Some(Arc::new(LabOptions {
            level_zero_bytes: 4 << 10,
            level_zero_compaction_at: if setup.is_paper { 0.75 } else { 0.3 },
            leaf_scan_part: if setup.is_paper { 0.8 } else { 0.5 },
            level_base_bytes: 4 << 10,
            level_growth: 2,
        })),
        // (A segment has a unit at least, so where little is needed of one, all would be copied always.)
        EngineName::Tlsm => Some(Arc::new(TlsmOptions {
            tiering: match (setup.is_paper, setup.compacts_twice, setup.is_dirty) {
                (true, ..) => Tiering::None,
                (false, true, _) => Tiering::Leveled { last_in_pool: 1 },
                (false, false, true) => Tiering::Lru,
                (false, false, false) => Tiering::Upper,
            },
            fast_tier_bytes: 512 << 10,
            segment_bytes: 64 << 10,
            run_bytes: 16 << 10,
            segment_live_min: if setup.persists_links { 0.5 } else { 0.0 },
            level_base_bytes: 8 << 10,
            level_growth: 4,
            level_zero_runs: 2,
            ..TlsmOptions::default()
        })),
        // (Bypasses have 64 homes at least.)
        EngineName::Chameleon => Some(Arc::new(ChameleonOptions {
            shards: Some(if setup.is_paper { 1 } else { 2 }),
            bypass_bytes: Some(1),
            upper_levels: if setup.is_dirty { UpperLevels::None } else { UpperLevels::Flat },
            dumped_tables_max: if setup.compacts_twice { 2 } else { 0 },
            dumped_above: 0,
            job_bytes: 1,
        })),
        _ => None,
    }
}

fn any(medium: &Simulated) -> AnyMedium {
    AnyMedium::other(medium.clone())
}

/// How many keys a client of a workload has. A tree of LAB-DB has to have several leaves, so that chunks are parts of it.
pub fn keys_of_client(engine: EngineName) -> u64 {
    if engine == EngineName::Slm { 24 } else { 96 }
}
