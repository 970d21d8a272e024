//! SLM-DB: Kaiyrakhmet, Lee, Nam, Noh, Choi: «SLM-DB: Single-Level Key-Value Store with Persistent Memory», FAST '19.
//!
//! Where each part of the paper is:
//!
//! | paper | here |
//! |---|---|
//! | 3.1 the persistent MemTable, no write-ahead log | `slmdb_structures::memtable` over `slmdb_structures::log`; its arenas: `slmdb_engine::write::arenas` |
//! | 3.1 put, Immutable MemTables | `slmdb_engine::write::{write_path, memtables, memtable_preparer}` |
//! | 3.1 Algorithm 1: the persistent skiplist | `slmdb_structures::memtable::chain` |
//! | 3.2 the B+-tree index in persistent memory | `slmdb_structures::fast_fair`, `index::in_pool`; `index::key_index`: what is asked of it |
//! | 3.2 a tree of integers, keys of strings | `slmdb_structures::fast_fair::fences` |
//! | 3.2 the file creation thread, the B+-tree insertion thread | `flush::file_creation`, `flush::index_insertion` |
//! | 3.2 the queue between them | `flush::finished` |
//! | 3.2 B+-tree insertion; the location object | `index::in_pool::insertion`, `compaction::repointing`; `index::in_pool::{location, key_segments}` |
//! | 3.2 scanning the index | `index::index_iterator` |
//! | 3.3 selective compaction | `compaction::compactor` and the files beside it |
//! | 3.3 the compaction candidate list, the live-key ratio | `paper::candidate_list`, `selection::live_key_ratio` |
//! | 3.3 leaf node scans | `paper::leaf_node_scan` |
//! | 3.3 the degree of sequentiality per range query | `paper::sequentiality_degree`, watched by `operations::range_query` |
//! | 3.3 overlap ratios, and the choice | `selection::distances`, `selection::overlap_ratio`, `paper::choice` |
//! | 3.3 the validity check | `compaction::validity_check` |
//! | 3.3 the compaction log: key and old file | the replaced-file word of a key record, and `index::in_pool::compaction_log` |
//! | 4 get | `operations::get` |
//! | 4 range query | `operations::range_query` |
//! | 4 reading blocks ahead for it | `slmdb_engine::read::scan_buffers`, `operations::ask_ahead` |
//! | 4 insert if absent, update if present | `slmdb_engine::write`, `WritePath::write_if` |
//! | 5 recovery | `recovery::open`, `recovery::recover`, `slmdb_engine::store::opening`, `slmdb_engine::recovery` |
//!
//! Not in the paper:
//!
//! - snapshots: `slmdb_engine::store::snapshot`, `slmdb_engine::read::{snapshots, replaced_versions}`, `slmdb_engine::flush::older_versions`;
//! - an index made from files alone (`recovery::rebuild`, `recovery::repair`), and the index checkpoints that spare
//!   most of that work (`recovery::index_checkpoint`);
//! - space on a full disk or pool: `space`, beside `slmdb_engine::space`;
//! - copies and checks of a store: `slmdb_engine::store`, `operations::verify`.
//!
//! Reading order: `slmdb_engine::store`, `tier`, `slmdb_engine::write::write_path`, `flush::file_creation`,
//! `flush::index_insertion`, `operations::get`, `operations::range_query`, `recovery::recover`.
//!
//! # Locks
//!
//! `docs/internals/locking.md` has the order of locks, and their names. In a method's comment, `LOCKS: a, b; c` says
//! that it takes lock a, then b while it holds a, then c without them. `LOCKS: a (held)` says that its caller holds
//! lock a.

#![forbid(unsafe_code)]

mod compaction;
mod flush;
mod index;
pub mod manifest_section;
mod operations;
mod paper;
mod recovery;
mod selection;
mod space;
mod state;
mod tier;

use slmdb_engine::directory::EngineKind;
use slmdb_engine::store::opening::open;
use slmdb_engine::{Capabilities, repair};

use crate::recovery::open::SlmOpening;
use crate::recovery::repair::SlmRepair;

/// This engine.
pub const KIND: EngineKind = EngineKind {
    name: "slm",
    capabilities: Capabilities::INDEXED,
    threads: tier::THREADS,
    table_form: slmdb_table::TableForm::ByPlace,
    check_pool: space::smallest_pool::check_pool,
    own_files: manifest_section::own_files,
    open: open::<SlmOpening>,
    repair: repair::repair::<SlmRepair>,
};
