//! SLM-DB: Kaiyrakhmet, Lee, Nam, Noh, Choi: «SLM-DB: Single-Level Key-Value Store with Persistent Memory», FAST '19.
//!
//! Where each part of the paper is:
//!
//! | paper | here |
//! |---|---|
//! | 3.1 persistent MemTable, no write-ahead log | `slmdb_structures::memtable`; its arenas: `arenas`, `arena_kind`; the write path: `write`, `publication`, `group_sync`; what is made before it is needed: `ahead` |
//! | 3.1 MemTables that wait for their flush; space for it | `pacing`, `traffic`, `admission`, `set_aside`, `ballast`, `room` |
//! | 3.2 B+-tree index in persistent memory | `slmdb_structures::fast_fair` |
//! | 3.2 building it: file creation thread, B+-tree insertion thread, queue | `flush`, `commit` |
//! | 3.2 scanning it; 4 range query | `cursor`, `index_source`, `memtable_source`; `at_hand`, `read_ahead`, `ask_ahead` |
//! | not in the paper: snapshots; what they see across flushes | `snapshot`; `snapshots`, `replaced`, `older_versions` |
//! | 3.3 selective compaction: merging | `compaction` and the files under it, `merge`; the files that it leaves: `retired` |
//! | 3.3 which files: the compaction candidate list; the live-key ratio | `picker::candidates` |
//! | 3.3 leaf node scans | `picker::leaf_scan` |
//! | 3.3 the degree of sequentiality per range query | `sequentiality`, watched by `cursor` |
//! | 3.3 overlap ratios, and the choice | `picker::distances`, `picker::overlaps`, `picker::paper` |
//! | 3.3 the compaction log: key and old file | the replaced-file word of a key record, and `job` |
//! | 4 get | `read` |
//! | 4 insert if absent, update if present | `conditional` |
//! | one budget for all memory | `memory` |
//! | not in the paper: what the system lacks for a moment | `lacks`, `descriptors`, `workers` |
//! | not in the paper: a copy of the store in use | `copy` |
//! | 5 recovery | `open`, `recovery`, `replay`; an index made from files alone: `rebuild`, `repair`; what spares it most of them: `checkpoint` |
//!
//! Beside the paper: `stats`, `approximate`, `verify`, `destroy`; what is told of it all: `trace`, and [`crate::Event`].
//!
//! Reading order: `store` (what there is), `traffic`, `write`, `conditional`, `flush`, `read`, `cursor`, `recovery`.

mod admission;
mod ahead;
mod approximate;
mod arena_kind;
mod arenas;
mod ask_ahead;
mod at_hand;
mod ballast;
mod checkpoint;
mod commit;
mod compaction;
mod compaction_pace;
mod conditional;
mod copy;
mod cursor;
mod delay;
mod descriptors;
mod destroy;
mod fast_tier;
mod fences;
mod file_numbers;
mod flush;
mod group_sync;
mod index_source;
mod job;
mod lacks;
mod location;
mod memory;
mod memtable_source;
mod merge;
mod names;
mod older_versions;
mod open;
mod ordered_key;
mod pacing;
mod picker;
mod publication;
mod read;
mod read_ahead;
mod rebuild;
mod recovery;
mod repair;
mod replaced;
mod replay;
mod retired;
mod room;
mod sequentiality;
mod set_aside;
mod setbacks;
mod snapshot;
mod snapshots;
mod stats;
mod store;
mod store_memory;
mod tables;
mod trace;
mod traffic;
mod verify;
mod waits;
mod workers;
mod write;

use std::path::Path;
use std::sync::Arc;

use slmdb_env::Result;

use crate::{Engine, Options, RepairProgress, RepairReport};

pub use destroy::{Destroyed, PoolFate, destroy, destroy_on};
pub use waits::WaitFor;

/// The name under which the MANIFEST records this engine.
pub const ENGINE_NAME: &str = "slm";

/// Opens, recovers or makes an SLM-DB store.
pub fn open(options: &Options, directory: &Path) -> Result<Arc<dyn Engine>> {
    open::open(options, directory)
}

/// Opens, recovers or makes an SLM-DB store that has a pool (of kind `Emulated` or `Dax`), on a medium that the caller brings
/// instead of the machine's own. This is for simulators: what survives what is as that medium does it.
pub fn open_on<M: slmdb_pmem::Medium + Clone>(
    options: &Options,
    directory: &Path,
    medium: M,
) -> Result<Arc<dyn Engine>> {
    open::open_on(options, directory, medium)
}

/// Repairs an SLM-DB store.
pub fn repair(options: &Options, directory: &Path, progress: &mut dyn FnMut(RepairProgress)) -> Result<RepairReport> {
    repair::repair(options, directory, progress)
}

/// Repairs an SLM-DB store that has a pool, on a medium that the caller brings, as with [`open_on`].
pub fn repair_on<M: slmdb_pmem::Medium + Clone>(
    options: &Options,
    directory: &Path,
    medium: &M,
) -> Result<RepairReport> {
    repair::repair_on(options, directory, medium)
}
