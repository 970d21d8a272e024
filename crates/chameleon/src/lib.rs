//! ChameleonDB: Zhang, Zhao, Jiang, Jiang: «ChameleonDB: a Key-value Store for Optane Persistent Memory», EuroSys '21.
//!
//! Hash tables, cut into shards, lead to the newest entry of each key. Entries lie in the MemTables' arenas first, then in table
//! files, each in key order. Where each part of the paper is:
//!
//! | paper | here |
//! |---|---|
//! | 2 the storage log | the arena of a MemTable, then the table file of its flush |
//! | 2.1 shards, hash tables | `slmdb_structures::hash`; `shards` |
//! | 2.1 MemTable, flush | one MemTable for all shards; `flush` deals its keys out |
//! | 2.1 upper levels | tables of flushes, which only openings read: `flush`, `recovery::load` |
//! | 2.1, 2.2 last level, its compaction | `compaction::last_level` |
//! | 2.2 Auxiliary Bypass Index | `shards`, the bypass |
//! | 2.3 Write-Intensive Mode | `UpperLevels::None` |
//! | 2.5 random load factors | `slmdb_structures::hash::KeyHasher` |
//!
//! Get-Protect Mode (2.4) is not here yet. Not in the paper: garbage is collected (`compaction::garbage`), there are ranges
//! (`operations::range_query`), snapshots, deletes.
#![forbid(unsafe_code)]

mod compaction;
mod flush;
mod operations;
mod options;
mod recovery;
mod shards;
mod space;
mod state;
mod tier;

use slmdb_engine::directory::EngineKind;
use slmdb_engine::store::opening::open;
use slmdb_engine::{Capabilities, repair};
use slmdb_table::TableForm;

pub use crate::options::{ChameleonOptions, UpperLevels};
use crate::recovery::open::ChameleonOpening;
use crate::recovery::repair::ChameleonRepair;

/// This engine.
pub const KIND: EngineKind = EngineKind {
    name: "chameleon",
    capabilities: Capabilities::HASHED,
    threads: tier::THREADS,
    table_form: TableForm::ByPlace,
    check_pool: space::check_pool,
    own_files: shards::section::own_files,
    open: open::<ChameleonOpening>,
    repair: repair::repair::<ChameleonRepair>,
};
