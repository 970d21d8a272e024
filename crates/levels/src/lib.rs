//! The levels of a log-structured merge-tree: what LevelDB and RocksDB have from L1 down.
//!
//! Engines that keep only a part of their data in the fast tier bring the rest here. Data comes in at the top, and
//! moves down one level at a time. Each level may be ten times as large as the one above. From level 1 on the runs of
//! a level have no key in common, so a `get` asks one run a level. On level 0 runs may overlap; newer ones stand
//! first. An engine that has something else in place of level 0 (LAB-DB has a pair of B+-trees) begins at level 1.
//!
//! A [`Run`] is a sorted list of entries that never changes: a table file, or a persistent skiplist. This crate knows
//! no MemTable and no pool. The engine brings runs, writes the MANIFEST, and removes files. For runs that are table
//! files there are [`TableRun`] and [`TableOutput`].
//!
//! How a compaction goes:
//!
//! 1. [`Levels::pick`] chooses inputs: a [`Plan`]. They are busy until the plan is dropped.
//! 2. [`merge`] reads the inputs, and [`Retention`] says which versions are kept. A [`RunOutput`] writes what is
//!    kept. (A [trivial move](Plan::is_move) needs neither.)
//! 3. The engine makes the outputs durable, and commits the [`Change`] to its MANIFEST, as the [`edit_of`] it.
//! 4. [`Levels::apply`] makes the change visible to readers.
//! 5. Removed runs stay as long as a [`Version`] has them. [`Levels`] tells
//!    [`ObsoleteFiles`](slmdb_engine::files::obsolete_files::ObsoleteFiles) which they are.
//!
//! `docs/internals/levels.md` has the rules that all of this keeps.
//!
//! To read this crate: `run`, `version` and `change`, `levels`, `picking`, `retention` and `merge`, `moment_cursor` and
//! `levels_cursor`; `table_run` and `table_output`; `jobs`; `version_order`, `salvage`.
#![forbid(unsafe_code)]

mod around;
mod change;
mod debt;
mod depth;
pub mod jobs;
mod level_cursor;
mod level_stats;
mod levels;
mod levels_cursor;
mod live_bytes;
mod merge;
mod moment_cursor;
mod options;
mod picking;
mod plan;
mod retention;
mod run;
mod salvage;
mod table_output;
mod table_run;
mod version;
mod version_order;

#[cfg(test)]
mod tests;

pub use change::{Change, edit_of};
pub use debt::Debt;
pub use depth::{LEVEL_LAST, LEVELS_MAX};
pub use level_stats::level_stats;
pub use levels::Levels;
pub use levels_cursor::LevelsCursor;
pub use live_bytes::live_bytes;
pub use merge::{AddError, Cut, MergeCounts, MergeError, MergeSettings, Merged, RunOutput, merge};
pub use options::LevelOptions;
pub use picking::{Busy, Picked};
pub use plan::{Plan, PlanReason};
pub use retention::{Fate, Retention};
pub use run::{EntrySource, Found, Run, RunCursor, RunRecord};
pub use salvage::{save_level_files, value_in_levels};
pub use table_output::{LevelFiles, TableOutput};
pub use table_run::{TableRun, TableRunCursor, TableRunSource, runs_of, window_bytes};
pub use version::{Approximation, KeyRange, Version};
pub use version_order::verify_levels;
