//! The directory of a store: opening and locking it, its pool, copying it, destroying it.

pub mod contents;
pub mod destroy;
pub mod home;
pub mod open;
pub mod pool_binding;
pub mod store_copy;

use std::path::Path;
use std::sync::Arc;

use slmdb_env::Result;
use slmdb_manifest::{MediumKind, StoreState};
use slmdb_pmem::AnyMedium;
use slmdb_table::TableForm;

use crate::{Capabilities, Engine, Options, RepairProgress, RepairReport};

/// An engine: what opening a directory must know of it, and how its stores are opened and repaired.
#[derive(Debug, Clone, Copy)]
pub struct EngineKind {
    /// The name that the MANIFEST records.
    pub name: &'static str,
    /// What it does worse than others.
    pub capabilities: Capabilities,
    /// The names of its background threads, beside those that every store has.
    pub threads: &'static [&'static str],
    /// The form of the table files that MemTables become.
    pub table_form: TableForm,
    /// [`slmdb_env::Error::Invalid`] if a pool with these options, and no larger than the given length of a device in
    /// bytes, would refuse every write.
    pub check_pool: fn(&Options, MediumKind, Option<u64>) -> Result<()>,
    /// The files that its section of the MANIFEST tells of. They never change once they are written.
    pub own_files: OwnFiles,
    /// [`crate::store::opening::open`] of this engine.
    pub open: Open,
    /// [`crate::repair::repair`] of this engine.
    pub repair: Repair,
}

/// The names and lengths of files.
pub type OwnFiles = fn(&StoreState) -> Result<Vec<(String, u64)>>;
/// How a store is opened.
pub type Open = fn(&Options, &Path, Option<AnyMedium>) -> Result<Arc<dyn Engine>>;
/// How a store is repaired.
pub type Repair = fn(&Options, &Path, Option<AnyMedium>, &mut dyn FnMut(RepairProgress)) -> Result<RepairReport>;

/// For tests that need one.
#[cfg(test)]
const ANY: EngineKind = EngineKind {
    name: "any",
    capabilities: Capabilities::INDEXED,
    threads: &[],
    table_form: TableForm::ByPlace,
    check_pool: |_, _, _| Ok(()),
    own_files: |_| Ok(Vec::new()),
    open: |_, _, _| unreachable!("no store is opened"),
    repair: |_, _, _, _| unreachable!("no store is repaired"),
};
