//! The MANIFEST: what a store consists of.
//!
//! As in LevelDB (section 2.1 of the SLM-DB paper), and so in SLM-DB, one file says which table files belong to the store,
//! and grows by one record with each flush and each compaction. SLM-DB adds to a file's metadata how many of its entries
//! there are and how many are live, and the compaction candidate list (sections 3.3 and 5). slmdb adds the arenas of
//! MemTables that are not flushed yet (the MemTable is the log), the medium the fast tier lives on, and the counters that
//! `stats` shows as `lifetime`.
//!
//! A reading order:
//!
//! - [`StoreState`], and the [`Edit`] that changes it (`state.rs`, `edit.rs`): no bytes, no files;
//! - `apply.rs`: when an edit makes sense. Everything read is checked here too, so that no state that contradicts itself
//!   reaches an engine;
//! - `encoding.rs`, `payload.rs`: both as tagged fields;
//! - `format.rs`: the file, with its byte tables and the rule for where the log ends;
//! - [`Manifest`] (`log.rs`): creating, reading, appending, renewing;
//! - [`dump()`]: a state as text for people.
//!
//! **What survives what.** A state given to [`Manifest::create`] or [`Manifest::rewrite`] and an edit given to
//! [`Manifest::append`] are durable when the call returns `Ok`: against the death of the process, and against a power
//! cut as far as the file system keeps its promise about syncing. A call that fails leaves the state before it or the
//! state after it, never anything else. `docs/formats/manifest.md` has the same for people who want to read the file.
#![forbid(unsafe_code)]

mod apply;
mod dump;
mod edit;
mod encoding;
mod format;
mod log;
mod payload;
mod state;

pub use apply::NUMBERS_MAX;
pub use dump::dump;
pub use edit::Edit;
pub use format::MAGIC;
pub use log::{Excess, FILE_NAME, Manifest, Reading, TEMPORARY_FILE_NAME};
pub use state::{
    ArenaRecord, Counters, EngineSection, FileRecord, Home, MediumKind, MediumRecord, StoreState, UnfinishedRepair,
};
