//! The engines that are crashed, and how each opens and repairs a store on a medium that records.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::{Engine, EngineName, Error, Options, RepairReport, Result};
use slmdb_pmem::{AnyMedium, Simulated};

/// The engines that are crashed. To crash another one, name it here and let the two functions below know it.
pub const ENGINES: &[EngineName] = &[EngineName::Slm, EngineName::Lab];

/// Opens a store of the engine that the options name: on this medium, or, without one, on the machine's own.
pub fn open(options: &Options, directory: &Path, medium: Option<&Simulated>) -> Result<Arc<dyn Engine>> {
    match (options.engine.unwrap_or_default(), medium) {
        (EngineName::Slm, Some(medium)) => slmdb_slm::open_on(options, directory, AnyMedium::other(medium.clone())),
        (EngineName::Slm, None) => slmdb_slm::open(options, directory),
        (EngineName::Lab, Some(medium)) => slmdb_lab::open_on(options, directory, AnyMedium::other(medium.clone())),
        (EngineName::Lab, None) => slmdb_lab::open(options, directory),
        (other, _) => Err(unknown(other)),
    }
}

/// How many keys a client of a workload has. A tree of LAB-DB has to have several leaves, so that chunks are parts of it.
pub fn keys_of_client(engine: EngineName) -> u64 {
    if engine == EngineName::Slm { 24 } else { 96 }
}

/// Repairs one.
pub fn repair(options: &Options, directory: &Path, medium: Option<&Simulated>) -> Result<RepairReport> {
    match (options.engine.unwrap_or_default(), medium) {
        (EngineName::Slm, Some(medium)) => slmdb_slm::repair_on(options, directory, &AnyMedium::other(medium.clone())),
        (EngineName::Slm, None) => slmdb_slm::repair(options, directory, &mut |_| ()),
        (EngineName::Lab, Some(medium)) => slmdb_lab::repair_on(options, directory, &AnyMedium::other(medium.clone())),
        (EngineName::Lab, None) => slmdb_lab::repair(options, directory, &mut |_| ()),
        (other, _) => Err(unknown(other)),
    }
}

fn unknown(engine: EngineName) -> Error {
    Error::Unsupported { what: format!("the simulator does not know the engine {engine}"), file: None }
}
