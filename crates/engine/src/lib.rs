//! What any engine needs, and what the public interface asks of one.
//!
//! [`Engine`] is all that [`slmdb`'s interface](https://docs.rs/slmdb) asks of an engine. An engine joins the layers
//! below (the pool and its structures, table files, the MANIFEST) to one ordered, durable map. Each engine is a crate
//! of its own. What more than one needs is here, and knows no index.
//!
//! Nothing here makes a system call or knows a cache line: files come from [`slmdb_env`], the fast tier from
//! [`slmdb_pmem`].
//!
//! In a method's comment, `LOCKS: a, b; c` says that it takes lock a, then b while it holds a, then c without them, by
//! the names of [`lock_order`]. `LOCKS: a (held)` says that its caller holds lock a.
#![forbid(unsafe_code)]

mod amplification;
pub mod background;
pub mod batch;
pub mod context;
mod destroy_report;
pub mod directory;
mod engine_name;
pub mod events;
pub mod files;
pub mod flush;
pub mod lock_order;
pub mod memory;
pub mod observe;
pub mod options;
pub mod read;
pub mod recovery;
pub mod repair;
mod repair_report;
pub mod sharing;
pub mod space;
pub mod stall;
pub mod stats;
pub mod store;
mod verify_report;
pub mod write;

pub use amplification::WriteAmplification;
pub use batch::{Change, WriteBatch};
pub use destroy_report::{Destroyed, PoolFate};
pub use engine_name::EngineName;
pub use events::{Event, EventListener, Listener, SpaceFor};
pub use files::mapping::MapTables;
pub use options::{CompactionOptions, CompactionPolicy, DramIndex, Medium, Options, OwnOptions};
pub use repair_report::{Loss, RepairProgress, RepairReport};
pub use sharing::{Shared, SharedOptions};
pub use slmdb_env::{Error, ErrorKind, Result};
pub use slmdb_manifest::Counters;
pub use slmdb_order::{Comparator, KeyOrder};
pub use slmdb_pmem::{Emulation, LatencyModel};
pub use slmdb_structures::log::{MAXIMUM_BATCH_BYTES, MAXIMUM_KEY_BYTES, MAXIMUM_VALUE_BYTES};
pub use slmdb_structures::memtable::LinkPolicy;
pub use slmdb_table::{Compression, Slice};
pub use stall::stall_stats::StallCause;
pub use stats::{Approximate, Chosen, CompactionChoices, LevelStats, Memory, StallStats, Stats, TableFile};
pub use verify_report::{VerifyProgress, VerifyReport};

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// The version of all formats that this build writes to a directory or a pool.
pub const FORMAT_VERSION: u32 = 1;

/// The condition of a conditional write: see [`Engine::write_if`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition<'a> {
    /// This key has no value.
    Absent(&'a [u8]),
    /// This key has a value.
    Present(&'a [u8]),
}

/// What an engine can do, and what it does worse than others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The most table files that [`Engine::get`] reads a block of. `None`: it grows with the store.
    pub files_per_get: Option<u32>,
    /// Whether [`Engine::contains_key`], conditional writes and estimates may read table files.
    pub looks_read_files: bool,
    /// Whether cursors take about as long for each entry as for a get, because entries are not in order anywhere.
    pub cursors_are_slow: bool,
}

impl Capabilities {
    /// An index has the place of each entry: one block a get, none for a look, cursors in order.
    pub const INDEXED: Capabilities =
        Capabilities { files_per_get: Some(1), looks_read_files: false, cursors_are_slow: false };
    /// An index without an order has the place of each entry: one block a get, none for a look, cursors that search all files.
    pub const HASHED: Capabilities = Capabilities { cursors_are_slow: true, ..Capabilities::INDEXED };
    /// Levels are searched one after the other.
    pub const LEVELED: Capabilities =
        Capabilities { files_per_get: None, looks_read_files: true, cursors_are_slow: false };
}

/// One ordered map from byte strings to byte strings, durable as its medium promises.
///
/// All methods may be called from any number of threads at once.
pub trait Engine: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;
    /// Applies a batch: wholly or not at all, whatever happens. When it returns, every later read sees it, and it
    /// survives a kill of the process; with `sync`, also a power cut.
    fn write(&self, batch: &WriteBatch, sync: bool) -> Result<()>;
    /// Applies a batch, as [`Engine::write`] does, if the condition holds just before: no other write takes effect in
    /// between. Returns whether it was applied. With `sync`, what the answer rests on survives a power cut either way.
    fn write_if(&self, condition: Condition<'_>, batch: &WriteBatch, sync: bool) -> Result<bool>;
    /// The newest value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Slice>>;
    /// Whether `key` has a value. May read table files, by [`Capabilities::looks_read_files`].
    fn contains_key(&self, key: &[u8]) -> Result<bool>;
    /// A cursor over the map as it is now, however long the cursor lives.
    fn cursor(&self) -> Result<Box<dyn EngineCursor>>;
    /// The map as it is now, for as long as the snapshot is held. It stops no writer. Of MemTables and files it keeps
    /// only what no later read needs.
    fn snapshot(&self) -> Result<Arc<dyn EngineSnapshot>>;
    /// Makes everything acknowledged so far survive a power cut.
    fn sync(&self) -> Result<()>;
    /// Brings everything acknowledged so far into table files.
    fn flush(&self) -> Result<()>;
    /// Brings everything acknowledged so far into table files, and merges those with keys in the range, so that no two
    /// of them overlap there and they have no garbage.
    fn compact_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()>;
    /// Makes a copy of the store, as it is after a flush, in a new or empty directory.
    fn checkpoint(&self, directory: &Path) -> Result<()>;
    /// What the store holds and has done.
    fn stats(&self) -> Stats;
    /// The table files, by number.
    fn table_files(&self) -> Vec<TableFile>;
    /// The approximate size of a range. May read table files, by [`Capabilities::looks_read_files`].
    fn approximate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate>;
    /// Checks everything in the store against everything else.
    fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport>;
    /// Ends the background work and seals the store, so that the next opening can verify every byte. Writes are refused
    /// afterwards. Closing again does nothing.
    fn close(&self) -> Result<()>;
}

/// An [`Engine`]'s map at one moment. The methods are as the engine's own.
pub trait EngineSnapshot: Send + Sync {
    /// The number of the last write that it sees.
    fn sequence_number(&self) -> u64;
    /// The value that `key` had.
    fn get(&self, key: &[u8]) -> Result<Option<Slice>>;
    /// Whether `key` had a value.
    fn contains_key(&self, key: &[u8]) -> Result<bool>;
    /// A cursor over the map as it was. It may outlive the snapshot.
    fn cursor(&self) -> Result<Box<dyn EngineCursor>>;
}

/// A position in an [`Engine`]'s map at one moment. It is on an entry, or (not [`EngineCursor::valid`]) on none.
pub trait EngineCursor: Send {
    /// Moves to the first entry with a key at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the last entry with a key before `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the first entry.
    fn seek_first(&mut self) -> Result<()>;
    /// Moves to the last entry.
    fn seek_last(&mut self) -> Result<()>;
    /// Moves to the next entry in key order. REQUIRES: valid; otherwise nothing happens.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous entry in key order. REQUIRES: valid; otherwise nothing happens.
    fn prev(&mut self) -> Result<()>;
    /// Whether the cursor is on an entry.
    fn valid(&self) -> bool;
    /// The current key. Empty without an entry.
    fn key(&self) -> &[u8];
    /// The current value. Only this reads a block. [`Error::Invalid`] without an entry.
    fn value(&mut self) -> Result<Slice>;
    /// The current value, lent until the cursor moves: as [`EngineCursor::value`], without counting who has it.
    fn value_ref(&mut self) -> Result<&[u8]>;
}
