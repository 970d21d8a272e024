//! [`Options`]: what an engine is opened with. `slmdb::Options`, where users set them, says what each means and when to
//! change it.

use std::any::Any;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_env::{Env, Error, OsEnv, Result};
use slmdb_manifest::MediumKind;
use slmdb_order::KeyOrder;
use slmdb_pmem::Emulation;
use slmdb_pmem::persistent::MEDIA_UNIT_BYTES;
use slmdb_structures::memtable::{LinkPolicy, MemTableOptions};
use slmdb_sync::scheduled::processors;
use slmdb_table::{Compression, LARGEST_BLOCK_BYTES, SMALLEST_BLOCK_BYTES, TableOptions};

use crate::files::mapping::MapTables;
use crate::{EngineName, Listener, Shared};

/// The largest MemTable. It must fit one table file (4 GiB), with keys written twice and a head per entry.
const LARGEST_MEMTABLE_BYTES: u64 = 1 << 30;

/// The most compactions that may run at once, and the fewest by default, because one waits for the disk while another
/// computes.
pub const COMPACTIONS_MAX: usize = 4;
const COMPACTIONS_MIN: usize = 2;

/// The most keys of a range query that may be one sub-range.
pub const SUB_RANGE_KEYS_MAX: usize = 64;

/// Smallest allowed size of a compaction's table file, in bytes.
const SMALLEST_TABLE_FILE_BYTES: u64 = 1024;
/// Largest allowed size: the file may exceed it by one entry, and must stay below 4 GiB.
const LARGEST_TABLE_FILE_BYTES: u64 = 2 << 30;

/// Where the fast tier is: MemTables, index and key segments.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Medium {
    /// Plain memory; MemTables are mapped files of the store's directory. The default; it needs nothing. A returned put
    /// survives a kill of the process and, with `sync`, a power cut.
    Dram,
    /// Emulated persistent memory: a mapped file, on tmpfs or any other file system. A returned put survives a kill of
    /// the process; for power cuts nothing is promised. A pool that was open when the machine was restarted is refused, and
    /// `repair` gives up what lay only there: MemTables, and with [`EngineName::Tlsm`] all that had not
    /// left the pool.
    Emulated {
        /// The pool file itself, made together with the store.
        path: PathBuf,
    },
    /// Persistent memory: a file on a file system mounted for direct access (`-o dax`), mapped with `MAP_SYNC`, or a
    /// device-dax, which the pool takes whole. A returned put survives a kill of the process and a power cut, with no
    /// log and no sync.
    Dax {
        /// The pool file itself, made together with the store; or the device, whose first 64 KiB must then be zero.
        path: PathBuf,
    },
}

impl Medium {
    /// Its kind, as the MANIFEST has it.
    pub fn kind(&self) -> MediumKind {
        match self {
            Medium::Dram => MediumKind::Dram,
            Medium::Emulated { .. } => MediumKind::Emulated,
            Medium::Dax { .. } => MediumKind::Dax,
        }
    }

    /// The pool file, if there is one.
    pub fn pool_path(&self) -> Option<&Path> {
        match self {
            Medium::Dram => None,
            Medium::Emulated { path } | Medium::Dax { path } => Some(path),
        }
    }
}

/// How table files are chosen for compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CompactionPolicy {
    /// The paper's (section 3.3): of the candidates that live-key ratio, leaf node scans, range queries and seeks have
    /// named, the one that overlaps the others most, with those that it overlaps.
    Paper,
    /// First the files with the most garbage for what must be rewritten, and no more than the bound on space demands.
    /// Files that scans seek in much are put in order. The default.
    #[default]
    GarbageFirst,
    /// No compactions, unless the caller asks for them.
    Manual,
}

/// Which table files are compacted, and when (paper, section 3.3).
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionOptions {
    /// How files are chosen. [`CompactionPolicy::GarbageFirst`] suits most. The paper's policy is there for
    /// comparison, and `Manual` for a load that has quiet times of its own to compact in.
    pub policy: CompactionPolicy,
    /// How many compactions run at once, each with a thread of its own: from 1 to 4, or 0 (the default) for as many as
    /// the machine has processors, within 2 and 4. Writers are slowed only where these can't keep up. Set fewer where
    /// other work needs the processors more.
    pub threads: usize,
    /// Target size of the files that a compaction makes, in bytes; 64 MiB. Larger ones make fewer files and larger
    /// steps.
    pub table_file_bytes: u64,
    /// The most files that are merged at once; 10. Their keys are held in memory meanwhile.
    pub files_merged_max: usize,
    /// [`CompactionPolicy::GarbageFirst`]: the most that table files may take, as a multiple of what is needed of
    /// them; 1.4. With overwrites spread evenly, a smaller number costs bytes written (2 per byte put at 1.4, 3.2 at
    /// 1.2), a larger one saves some (1.4 at 1.8).
    pub space_amplification_max: f64,
    /// [`CompactionPolicy::Paper`], as all up to [`CompactionOptions::seeks`]: the live-key threshold. A file with a
    /// smaller part of live entries is a candidate. The paper's 0.7. Higher: less space is taken, and more is rewritten.
    /// On a disk that was just found full every policy goes by it.
    pub live_key_threshold: f64,
    /// Whether files below the live-key threshold become candidates.
    pub live_key_ratio: bool,
    /// Whether the leaf node scan that follows each compaction names candidates.
    pub leaf_node_scans: bool,
    /// The leaf node threshold: if the keys of one scan are in more files than this, these files are candidates. The
    /// paper's 10. Higher: less is rewritten, and scans of the store read more files.
    pub leaf_node_threshold: usize,
    /// A leaf node scan covers as many keys as this many table files have on average. The paper's 2.
    pub leaf_node_scan_files: usize,
    /// Whether range queries are watched, and name candidates.
    pub range_queries: bool,
    /// The sequentiality degree threshold: if a range query's worst sub-range is in more files than this, these files
    /// are candidates. The paper's 8.
    pub sequentiality_degree_threshold: usize,
    /// Keys of a range query per sub-range: from 2 to 64. The paper's 30.
    pub sub_range_keys: usize,
    /// Whether files that cursors often turn to are named, as in LevelDB, which the paper follows: as candidates of
    /// [`CompactionPolicy::Paper`], or for [`CompactionPolicy::GarbageFirst`] to put in order.
    pub seeks: bool,
    /// Bytes of a file per seek that it may take: LevelDB's 16 KiB ...
    pub seek_bytes: u64,
    /// ... and the fewest seeks that name it: LevelDB's 100.
    pub seeks_min: u32,
    /// [`CompactionPolicy::Paper`]: range queries alone have files compacted once there are more candidates than this.
    /// After a flush or a compaction the list is checked in any case.
    pub candidates_threshold: usize,
}

impl Default for CompactionOptions {
    fn default() -> CompactionOptions {
        CompactionOptions {
            policy: CompactionPolicy::default(),
            threads: 0,
            table_file_bytes: 64 << 20,
            files_merged_max: 10,
            space_amplification_max: 1.4,
            live_key_threshold: 0.7,
            live_key_ratio: true,
            leaf_node_scans: true,
            leaf_node_threshold: 10,
            leaf_node_scan_files: 2,
            range_queries: true,
            sequentiality_degree_threshold: 8,
            sub_range_keys: 30,
            seeks: true,
            seek_bytes: 16 << 10,
            seeks_min: 100,
            candidates_threshold: 10,
        }
    }
}

impl CompactionOptions {
    /// How many compactions run at once.
    pub fn threads_to_start(&self) -> usize {
        match self.threads {
            0 => processors().clamp(COMPACTIONS_MIN, COMPACTIONS_MAX),
            threads => threads,
        }
    }

    fn complaint(&self) -> Option<&'static str> {
        if self.threads > COMPACTIONS_MAX {
            Some("from 1 to 4 compactions may run at once (0: by the number of processors)")
        } else if !(SMALLEST_TABLE_FILE_BYTES..=LARGEST_TABLE_FILE_BYTES).contains(&self.table_file_bytes) {
            Some("table_file_bytes must be from 1 KiB to 2 GiB")
        } else if self.files_merged_max == 0 {
            Some("files_merged_max must be at least 1")
        } else if !(1.01..=100.0).contains(&self.space_amplification_max) {
            Some("space_amplification_max must be from 1.01 to 100")
        } else if !(0.0..=1.0).contains(&self.live_key_threshold) {
            Some("the live-key threshold must be from 0 to 1")
        } else if self.leaf_node_scan_files == 0 {
            Some("a leaf node scan has to go over at least 1 table file's keys")
        } else if !(2..=SUB_RANGE_KEYS_MAX).contains(&self.sub_range_keys) {
            Some("a sub-range must have from 2 to 64 keys")
        } else if self.seek_bytes == 0 || self.seeks_min == 0 {
            Some("seek_bytes and seeks_min must be at least 1")
        } else {
            None
        }
    }
}

/// Options that one engine alone looks at. Its crate has them.
pub trait OwnOptions: Any + Debug + Send + Sync {
    /// What is wrong with them, if anything.
    fn complaint(&self) -> Option<&'static str>;
}

/// Which index SLM-DB makes on [`Medium::Dram`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DramIndex {
    /// A tree made for plain memory. It needs the order by bytes: a store with a comparator has the other one.
    #[default]
    MemoryTree,
    /// FAST and FAIR, the paper's index, which is made for persistent memory.
    FastFair,
}

/// How to open a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether a missing store is made.
    pub create_if_missing: bool,
    /// Whether an existing store is an error.
    pub error_if_exists: bool,
    /// Open read-only: no byte of the store changes.
    pub read_only: bool,
    /// The engine. `None`: an existing store's own, or `slm` for a new one.
    pub engine: Option<EngineName>,
    /// What one engine alone looks at. Others ignore it.
    pub own: Option<Arc<dyn OwnOptions>>,
    /// The fast tier. `None`: an existing store's own, or `Dram` for a new one.
    pub medium: Option<Medium>,
    /// Latency and bandwidth to emulate, on [`Medium::Emulated`].
    pub emulation: Emulation,
    /// The fast tier's write unit, in bytes, in which writes to it are counted.
    pub media_unit_bytes: u64,
    /// On [`Medium::Dax`]: whether the machine's caches survive a power cut, so that no write-back is needed.
    pub caches_are_persistent: bool,
    /// The order of the keys; it must be the store's own.
    pub comparator: KeyOrder,
    /// Whether every write will be synced, so that arenas are made for that from the start.
    pub syncs_writes: bool,
    /// Size of a MemTable's arena, in bytes.
    pub memtable_bytes: u64,
    /// How the links of a MemTable's lowest level are kept. On media that are not persistent they are always rebuilt.
    pub memtable_links: LinkPolicy,
    /// How many Immutable MemTables may queue before writers wait.
    pub immutable_memtables_max: usize,
    /// Which table files are compacted, and when.
    pub compaction: CompactionOptions,
    /// Memory budget for everything, in bytes; the block cache gets what the rest leaves.
    pub memory_budget_bytes: u64,
    /// Target size of a table file's blocks before compression, in bytes.
    pub block_bytes: usize,
    /// Entries between two keys that are stored whole in a block.
    pub restart_interval: usize,
    /// Compression of blocks.
    pub compression: Compression,
    /// Which index SLM-DB makes on `Dram`.
    pub dram_index: DramIndex,
    /// Size of a B+-tree node of an index in a pool, in bytes.
    pub node_bytes: u32,
    /// First size of the pool, in bytes.
    pub pool_initial_bytes: u64,
    /// Step by which the pool grows, in bytes.
    pub pool_growth_bytes: u64,
    /// Largest size of the pool, in bytes.
    pub pool_maximum_bytes: u64,
    /// The most table files that are held open at once.
    pub open_tables_max: usize,
    /// Whether table files are mapped for reading.
    pub map_tables: MapTables,
    /// The listener for events.
    pub event_listener: Listener,
    /// What the store has in common with others of the process. `None`: nothing.
    pub shared: Option<Arc<Shared>>,
    /// An index checkpoint is taken after this many flushed entries.
    pub checkpoint_entries: u64,
    /// A clean close on `Dram` leaves an image of an index that has at least so many keys.
    pub index_image_keys_min: u64,
    /// Whether the store is a copy that is being made.
    pub is_copy: bool,
    /// The environment for every file operation.
    pub env: Arc<dyn Env>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create_if_missing: true,
            error_if_exists: false,
            read_only: false,
            engine: None,
            own: None,
            medium: None,
            emulation: Emulation::default(),
            media_unit_bytes: MEDIA_UNIT_BYTES,
            caches_are_persistent: false,
            comparator: KeyOrder::default(),
            syncs_writes: false,
            memtable_bytes: 64 << 20,
            memtable_links: LinkPolicy::default(),
            immutable_memtables_max: 2,
            compaction: CompactionOptions::default(),
            memory_budget_bytes: 256 << 20,
            block_bytes: 4096,
            restart_interval: 16,
            compression: Compression::Lz4,
            dram_index: DramIndex::default(),
            node_bytes: 512,
            pool_initial_bytes: 16 << 20,
            pool_growth_bytes: 64 << 20,
            pool_maximum_bytes: 1 << 40,
            open_tables_max: 500,
            map_tables: MapTables::default(),
            event_listener: Listener::default(),
            shared: None,
            checkpoint_entries: 4 << 20,
            index_image_keys_min: 1 << 20,
            is_copy: false,
            env: Arc::new(OsEnv::new()),
        }
    }
}

impl Options {
    /// How table files are written.
    pub fn table(&self) -> TableOptions {
        TableOptions {
            block_bytes: self.block_bytes,
            restart_interval: self.restart_interval,
            compression: self.compression,
            ..TableOptions::default()
        }
    }

    /// The engine's own options, or its defaults if they are not given.
    pub fn own<T: OwnOptions + Clone + Default>(&self) -> T {
        let own = self.own.as_deref().and_then(|own| (own as &dyn Any).downcast_ref());
        own.cloned().unwrap_or_default()
    }

    /// Where the options say that the pool is, as an absolute path; `None` if they don't.
    pub fn pool_path(&self) -> Result<Option<PathBuf>> {
        let path = self.medium.as_ref().and_then(Medium::pool_path);
        path.map(|path| self.env.absolute(path)).transpose()
    }

    /// The same for the directory that has this path at the moment: see [`Env::hold_directory`].
    pub fn holding(&self, directory: &Path) -> Result<Options> {
        Ok(Options { env: self.env.hold_directory(directory)?, ..self.clone() })
    }

    /// How MemTables on this medium are made. A medium that is not persistent may keep any part of what was not synced,
    /// so links on it would mean nothing.
    pub fn memtable(&self, is_persistent: bool) -> MemTableOptions {
        let links = if is_persistent { self.memtable_links } else { LinkPolicy::Rebuilt };
        MemTableOptions { links, order: self.comparator.clone(), ..MemTableOptions::default() }
    }

    /// Checks what can be checked before anything is touched.
    pub fn check(&self) -> Result<()> {
        self.compression.check()?;
        self.emulation.check()?;
        let complaint = if let Some(fault) = self.comparator.fault_of_name() {
            fault
        } else if let Some(complaint) = self.compaction.complaint() {
            complaint
        } else if let Some(complaint) = self.own.as_ref().and_then(|own| own.complaint()) {
            complaint
        } else if !(4096..=LARGEST_MEMTABLE_BYTES).contains(&self.memtable_bytes) {
            "memtable_bytes must be from 4096 bytes to 1 GiB"
        } else if self.immutable_memtables_max == 0 {
            "immutable_memtables_max must be at least 1"
        } else if !(SMALLEST_BLOCK_BYTES..=LARGEST_BLOCK_BYTES).contains(&self.block_bytes) {
            "block_bytes must be from 64 bytes to 1 MiB"
        } else if !(1..=usize::from(u16::MAX)).contains(&self.restart_interval) {
            "restart_interval must be from 1 to 65535"
        } else if !self.node_bytes.is_power_of_two() || !(256..=4096).contains(&self.node_bytes) {
            "node_bytes must be a power of two from 256 to 4096"
        } else if !self.media_unit_bytes.is_power_of_two() || !(64..=4096).contains(&self.media_unit_bytes) {
            "media_unit_bytes must be a power of two from 64 to 4096"
        } else if self.checkpoint_entries == 0 {
            "checkpoint_entries must be at least 1"
        } else if self.open_tables_max == 0 {
            "open_tables_max must be at least 1"
        } else {
            return Ok(());
        };
        Err(Error::invalid(complaint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compactions_run_at_once_as_options_or_processors_say() {
        let of = |threads| CompactionOptions { threads, ..CompactionOptions::default() };
        for threads in 1..=4 {
            assert_eq!(of(threads).threads_to_start(), threads);
        }
        assert_eq!(CompactionOptions::default().threads_to_start(), processors().clamp(2, 4));
        assert!((0..=4).all(|threads| of(threads).complaint().is_none()) && of(5).complaint().is_some());
    }
}
