//! TLSM: Lee, Choi, Kim, Sung, Park: «TLSM: Tiered Log-Structured Merge-Tree Utilizing Non-Volatile Memory», IEEE Access 8,
//! 2020.
//!
//! An LSM tree below the MemTables of every store. Its upper levels are lists in persistent memory, which a compaction makes new by
//! pointing at old entries. What does not fit there lies in table files. On `Dram` all runs are table files. Where each part of the
//! paper is:
//!
//! | paper | here |
//! |---|---|
//! | IV-A the MemTable, the write-ahead log | `slmdb_structures::memtable` over `slmdb_structures::log`: the arena is the log |
//! | IV-A persistent skiplist | `slmdb_structures::list`; as a run of a level: `persistent_skiplist` |
//! | IV-A levels, triggers, picking | `slmdb_levels` |
//! | IV-B byte-addressable compaction | `compaction::pool_output`, over `slmdb_levels::jobs` |
//! | IV-C persistent buffer, flush | `slmdb_structures::list::SegmentWriter`; `flush` |
//! | IV-D tiering | `tiering` |
//! | IV-E recovery | `recovery` |
//!
//! Not in the paper: segments that are little needed are emptied (`compaction::cleaning`).
#![forbid(unsafe_code)]

mod compaction;
mod flush;
mod operations;
mod options;
mod persistent_skiplist;
mod recovery;
mod space;
mod state;
mod tier;
mod tiering;

use slmdb_engine::directory::EngineKind;
use slmdb_engine::store::opening::open;
use slmdb_engine::{Capabilities, repair};
use slmdb_table::TableForm;

pub use crate::options::{Tiering, TlsmOptions};
use crate::recovery::open::TlsmOpening;
use crate::recovery::repair::TlsmRepair;

/// This engine.
pub const KIND: EngineKind = EngineKind {
    name: "tlsm",
    capabilities: Capabilities::LEVELED,
    threads: tier::THREADS,
    table_form: TableForm::LEVELS,
    check_pool: space::check_pool,
    own_files: |_| Ok(Vec::new()),
    open: open::<TlsmOpening>,
    repair: repair::repair::<TlsmRepair>,
};
