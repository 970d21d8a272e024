//! How the engines open and repair stores on a medium that records.

use std::path::Path;
use std::sync::Arc;

use slmdb::engines::of_name;
use slmdb_engine::{Engine, EngineName, Options, RepairReport, Result};
use slmdb_pmem::AnyMedium;
use slmdb_testkit::Simulated;

/// Opens a store of the engine that the options name: on this medium, or, without one, on the machine's own.
pub fn open(options: &Options, directory: &Path, medium: Option<&Simulated>) -> Result<Arc<dyn Engine>> {
    (of_name(options.engine.unwrap_or_default())?.open)(options, directory, medium.map(any))
}

/// Repairs one.
pub fn repair(options: &Options, directory: &Path, medium: Option<&Simulated>) -> Result<RepairReport> {
    (of_name(options.engine.unwrap_or_default())?.repair)(options, directory, medium.map(any), &mut |_| ())
}

fn any(medium: &Simulated) -> AnyMedium {
    AnyMedium::other(medium.clone())
}

/// How many keys a client of a workload has. A tree of LAB-DB has to have several leaves, so that chunks are parts of it.
pub fn keys_of_client(engine: EngineName) -> u64 {
    if engine == EngineName::Slm { 24 } else { 96 }
}
