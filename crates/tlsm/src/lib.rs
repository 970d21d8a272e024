//! TLSM: Lee, Choi, Kim, Sung, Park: «TLSM: Tiered Log-Structured Merge-Tree Utilizing Non-Volatile Memory», IEEE Access 8,
//! 2020.
//!
//! An LSM tree, LevelDB's, below the MemTables of every store. Where each part of the paper is:
//!
//! | paper | here |
//! |---|---|
//! | IV-A the MemTable, the write-ahead log | `slmdb_structures::memtable` over `slmdb_structures::log`: the arena is the log |
//! | IV-A levels, triggers, picking | `slmdb_levels` |
//! | IV-C flush | `flush` |
//! | IV-B compaction | `compaction`, over `slmdb_levels::jobs` |
//! | IV-E recovery | `recovery` |
//!
//! Runs are table files so far: persistent skiplists (IV-A), persistent buffers (IV-C), compaction by pointers (IV-B), and tiering
//! (IV-D) are not there yet. That is what the paper's policies leave on a machine without persistent memory.
#![forbid(unsafe_code)]

mod compaction;
mod flush;
mod operations;
mod options;
mod recovery;
mod state;
mod tier;

use slmdb_engine::directory::EngineKind;
use slmdb_engine::store::opening::open;
use slmdb_engine::{Capabilities, repair};
use slmdb_table::TableForm;

pub use crate::options::TlsmOptions;
use crate::recovery::open::TlsmOpening;
use crate::recovery::repair::TlsmRepair;

/// This engine.
pub const KIND: EngineKind = EngineKind {
    name: "tlsm",
    capabilities: Capabilities::LEVELED,
    threads: tier::THREADS,
    table_form: TableForm::LEVELS,
    check_pool: recovery::check_pool,
    own_files: |_| Ok(Vec::new()),
    open: open::<TlsmOpening>,
    repair: repair::repair::<TlsmRepair>,
};
