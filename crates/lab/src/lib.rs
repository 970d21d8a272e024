//! LAB-DB: Kim, Choi, Lee, Nam, and others: «LAB-DB», ACM Transactions on Storage 20(1), article 4, 2024.
//!
//! An LSM tree whose level 0 is a pair of persistent B+-trees. Where each part of the paper is:
//!
//! | paper | here |
//! |---|---|
//! | 3.1 the MemTable, the log of values | `slmdb_structures::memtable` over `slmdb_structures::log`: the MemTable's arena is the log |
//! | 3.1 level 0, a pair of B+-trees | `level_zero`; the tree itself: `slmdb_structures::hybrid_tree` |
//! | 3.1 level 1 and below | `slmdb_levels` |
//! | 3.2 flush, in-place update (Figure 7) | `flush` |
//! | 3.2 the mutable tree becomes immutable | `level_zero::switch` |
//! | 3.2 level 0 to level 1, chunk by chunk (Figure 8) | `compaction::chunk`, `compaction::compactor` |
//! | 3.3 leaf scan, file scan | `compaction::chunk`, `compaction::level_zero_compaction` |
//! | 3.2 point reads, range queries | `operations::get`, `operations::range_query` |
//! | 3.2 recovery | `recovery`; what is not in the paper: `recovery::repair` |
//!
//! What differs, and why, is in `docs/internals/lab.md`. Not there yet: the hot buffer.
#![forbid(unsafe_code)]

mod compaction;
mod flush;
mod level_zero;
mod operations;
mod options;
mod recovery;
mod space;
mod state;
mod tier;

use slmdb_engine::directory::EngineKind;
use slmdb_engine::store::opening::open;
use slmdb_engine::{Capabilities, repair};
use slmdb_table::TableForm;

pub use crate::options::LabOptions;
use crate::recovery::open::LabOpening;
use crate::recovery::repair::LabRepair;

/// This engine.
pub const KIND: EngineKind = EngineKind {
    name: "lab",
    capabilities: Capabilities::LEVELED,
    threads: tier::THREADS,
    table_form: TableForm::ByPlace,
    check_pool: space::check_pool,
    own_files: |_| Ok(Vec::new()),
    open: open::<LabOpening>,
    repair: repair::repair::<LabRepair>,
};
