//! [`Options`]: everything a caller may choose, each with its default and when to change it.

use std::sync::Arc;

use slmdb_engine::{
    CompactionOptions, CompactionPolicy, Comparator, Compression, EngineName, EventListener, KeyOrder, Listener,
    Medium, Shared,
};
use slmdb_env::Env;

use crate::advanced_options::AdvancedOptions;

/// How to open a store. Every setter returns the options, so that they chain.
///
/// ```
/// # fn main() -> slmdb::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let (path, pool) = (directory.path().join("db"), directory.path().join("pool"));
/// use slmdb::{Medium, Options};
///
/// let db = Options::default().medium(Medium::Emulated { path: pool }).memtable_bytes(16 << 20).open(&path)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options(slmdb_engine::Options);

impl Options {
    /// Those of them that an engine takes.
    pub(crate) fn of_engine(&self) -> &slmdb_engine::Options {
        &self.0
    }

    /// The design that the store follows. Default: an existing store's own, [`EngineName::Slm`] for a new one.
    ///
    /// A store keeps the engine that it was made with. Naming another is [`crate::Error::Invalid`]; one that this build lacks is
    /// [`crate::Error::Unsupported`]. Neither changes anything.
    pub fn engine(mut self, engine: EngineName) -> Options {
        self.0.engine = Some(engine);
        self
    }

    /// Whether a missing store is made. Default: true.
    pub fn create_if_missing(mut self, yes: bool) -> Options {
        self.0.create_if_missing = yes;
        self
    }

    /// Whether an existing store is an error. Default: false.
    pub fn error_if_exists(mut self, yes: bool) -> Options {
        self.0.error_if_exists = yes;
        self
    }

    /// Open for reading alone: no byte of the store changes (what has to be recovered stays in memory), and any number
    /// of read-only openers share a store, but never with a writer. Default: false.
    pub fn read_only(mut self, yes: bool) -> Options {
        self.0.read_only = yes;
        self
    }

    /// The fast tier. Default: an existing store's own; for a new one [`Medium::Dram`]. A store keeps the medium it was
    /// made with; naming another is an error, but a pool that was moved is accepted at its new path, which an opening for
    /// writing remembers.
    pub fn medium(mut self, medium: Medium) -> Options {
        self.0.medium = Some(medium);
        self
    }

    /// Whether the machine itself saves its processor caches to the persistent memory when the power goes (eADR, CXL with
    /// global persistent flush), so that a fence alone makes a store durable; on [`Medium::Dax`] alone, and for this
    /// opening. Default: false. Nothing can check this: on a machine that does not, `true` loses writes in a power cut.
    pub fn caches_are_persistent(mut self, yes: bool) -> Options {
        self.0.caches_are_persistent = yes;
        self
    }

    /// The order of the keys, if it is not to be that of their bytes. Taken when the store is made, which records its name:
    /// every later opening must name a comparator of the same name, and the command `slmdb`, which has none, refuses the
    /// store. Default: by bytes, which is faster and takes less of the fast tier (no key is then compared whole, nor kept
    /// whole as a separator), so encode keys for it where you can: numbers big-endian, for example.
    ///
    /// ```
    /// # fn main() -> slmdb::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// use std::cmp::Ordering;
    /// use slmdb::{Comparator, Options};
    ///
    /// struct NewestFirst;
    ///
    /// impl Comparator for NewestFirst {
    ///     fn name(&self) -> &str {
    ///         "example.newest-first.1" // another name for another order
    ///     }
    ///     fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
    ///         right.cmp(left)
    ///     }
    /// }
    ///
    /// let db = Options::default().comparator(NewestFirst).open(directory.path().join("db"))?;
    /// db.put("2025-01-01", "old")?;
    /// db.put("2026-01-01", "new")?;
    /// let first = db.iter()?.next().transpose()?;
    /// assert_eq!(first.unwrap().0, b"2026-01-01");
    /// # Ok(())
    /// # }
    /// ```
    pub fn comparator(mut self, comparator: impl Comparator) -> Options {
        self.0.comparator = KeyOrder::Custom(Arc::new(comparator));
        self
    }

    /// Whether each write returns only once it survives a power cut. On [`Medium::Dram`] that costs one `fdatasync`, which
    /// concurrent writers share; on [`Medium::Dax`] nothing. Default: false. [`crate::WriteOptions`] says it for one write.
    pub fn sync(mut self, yes: bool) -> Options {
        self.0.syncs_writes = yes;
        self
    }

    /// Size of a MemTable's arena, in bytes; a larger record gets one of its own. Default: 64 MiB (the paper's). Larger:
    /// fewer, larger table files; smaller: less memory and quicker opening. From 4 KiB to 1 GiB. An opening takes less, but
    /// not less than 128 KiB, where that is more than a 16th of the free disk space, and at most 2 MiB where the file
    /// system can't set space aside (no `fallocate`).
    pub fn memtable_bytes(mut self, bytes: u64) -> Options {
        self.0.memtable_bytes = bytes;
        self
    }

    /// How many Immutable MemTables may queue for their flush. Default: 2. As the queue fills, writers are slowed more and more;
    /// when it is full they wait. More ride out longer bursts, and take more memory or pool.
    pub fn immutable_memtables_max(mut self, count: usize) -> Options {
        self.0.immutable_memtables_max = count;
        self
    }

    /// How table files are chosen for compaction. Default: [`CompactionPolicy::GarbageFirst`], which suits most. `Manual` compacts only
    /// when [`Db::compact_range`](crate::Db::compact_range) is called: it suits a load that has quiet times of its own. `Paper` is there to be compared
    /// with; its thresholds are under [`Options::advanced`]. For this opening.
    pub fn compaction_policy(mut self, policy: CompactionPolicy) -> Options {
        self.0.compaction.policy = policy;
        self
    }

    /// How many compactions run at once, each on a thread of its own: from 1 to 4. Default: as many as the machine has
    /// processors, but at least 2 and at most 4. Fewer leave the processors to others; then writers may be slowed sooner.
    pub fn compaction_threads(mut self, threads: usize) -> Options {
        self.0.compaction.threads = threads;
        self
    }

    /// How many times the size of the live data table files may take: from 1.01 to 100. Default: 1.4. Lower takes less space, and
    /// overwrites write more: with overwrites spread evenly 3.2 bytes for each byte put at 1.2, 2 at 1.4, and 1.4 at 1.8.
    pub fn space_amplification_max(mut self, times: f64) -> Options {
        self.0.compaction.space_amplification_max = times;
        self
    }

    /// The same as [`AdvancedOptions::compaction`].
    #[doc(hidden)]
    pub fn compaction(self, compaction: CompactionOptions) -> Options {
        self.advanced(|advanced| advanced.compaction(compaction))
    }

    /// Memory for everything that the store keeps in plain memory, in bytes. Default: 256 MiB. More: reads find more of the data in
    /// memory.
    ///
    /// Open table files, MemTables' lists and iterators take what they need, on [`Medium::Dram`] also the MemTables themselves and
    /// the index, even beyond the budget. The cache of blocks has the rest, and at least a sixteenth. On [`Medium::Dram`] the
    /// budget should be more than the index (about 64 bytes a key, for keys of 20) and three MemTables, or the cache has only
    /// its sixteenth while writes go on. [`Stats::memory_bytes`](crate::Stats::memory_bytes) is the sum; `docs/internals/memory.md`
    /// says what counts.
    pub fn memory_budget_bytes(mut self, bytes: u64) -> Options {
        self.0.memory_budget_bytes = bytes;
        self
    }

    /// Target size of a table file's blocks before compression, in bytes. Default: 4096. Larger: better compression
    /// and scans, dearer single reads. From 64 bytes to 1 MiB.
    pub fn block_bytes(mut self, bytes: usize) -> Options {
        self.0.block_bytes = bytes;
        self
    }

    /// Compression of blocks. Default: LZ4; blocks that it does not shrink by an eighth are stored as they are. It is of
    /// what this opening writes: a store may hold files of every kind. [`Compression::Zstd`] needs the feature `zstd`, to
    /// read it again, too; without it opening gives [`crate::Error::Unsupported`].
    pub fn compression(mut self, compression: Compression) -> Options {
        self.0.compression = compression;
        self
    }

    /// First size of the pool, in bytes. Default: 16 MiB; it grows as it fills. (On a device-dax it has all its size at once.)
    pub fn pool_initial_bytes(mut self, bytes: u64) -> Options {
        self.0.pool_initial_bytes = bytes;
        self
    }

    /// By how much the pool grows at a time, in bytes. Default: 64 MiB.
    pub fn pool_growth_bytes(mut self, bytes: u64) -> Options {
        self.0.pool_growth_bytes = bytes;
        self
    }

    /// The most the pool may grow to, in bytes. Default: 1 TiB. As much address space is reserved, or about half of what a process
    /// with a limit on it has. On a device-dax the pool takes this much of the device, rounded up to its alignment.
    /// [`Error::Invalid`](crate::Error::Invalid) at the opening if no put could ever be taken with
    /// [`memtable_bytes`](Options::memtable_bytes) as they are.
    pub fn pool_maximum_bytes(mut self, bytes: u64) -> Options {
        self.0.pool_maximum_bytes = bytes;
        self
    }

    /// How many table files are held open at once. Default: 500. Where a process can open no more files, those that nobody reads
    /// are closed.
    pub fn open_tables_max(mut self, count: usize) -> Options {
        self.0.open_tables_max = count;
        self
    }

    /// A listener for what the store does: flushes, write stalls, failures, want of space. Default: none, which costs nothing.
    /// [`EventListener`] says how it is called. A store that is opened for reading alone sends no events.
    ///
    /// ```
    /// # fn main() -> slmdb::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// use slmdb::{Event, Options};
    ///
    /// let options = Options::default().event_listener(|event: &Event| match event {
    ///     Event::FlushEnded { bytes, duration, .. } => eprintln!("{bytes} bytes flushed in {duration:?}"),
    ///     Event::Failed { cause, .. } => eprintln!("the store is read-only: {cause}"),
    ///     _ => {} // there will be more in later versions
    /// });
    /// let db = options.open(directory.path().join("db"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn event_listener(mut self, listener: impl EventListener) -> Options {
        self.0.event_listener = Listener(Some(Arc::new(listener)));
        self
    }

    /// Opens the store with what others of the process have, too: background threads, a memory budget, open table files. Default:
    /// it has its own. It takes the place of [`memory_budget_bytes`](Options::memory_budget_bytes) and
    /// [`open_tables_max`](Options::open_tables_max); [`compaction_threads`](Options::compaction_threads) may still bound how many
    /// compactions of the store run at once. Worth it from a handful of stores on: each takes five or six threads by itself.
    ///
    /// ```
    /// # fn main() -> slmdb::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// use slmdb::{Options, Shared, SharedOptions};
    ///
    /// let shared = Shared::new(SharedOptions { memory_budget_bytes: 64 << 20, ..SharedOptions::default() })?;
    /// let options = Options::default().memtable_bytes(1 << 20).shared(&shared);
    /// let stores = (0..10).map(|n| options.clone().open(directory.path().join(n.to_string())));
    /// let stores = stores.collect::<slmdb::Result<Vec<_>>>()?;
    /// stores[7].put("k", "v")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn shared(mut self, shared: &Arc<Shared>) -> Options {
        self.0.shared = Some(shared.clone());
        self
    }

    /// Options for measurements, and for comparison with the paper: see [`AdvancedOptions`].
    pub fn advanced(self, change: impl FnOnce(AdvancedOptions) -> AdvancedOptions) -> Options {
        Options(change(AdvancedOptions(self.0)).0)
    }

    /// The environment that every file operation goes through. Default: the operating system. For tests and simulators.
    pub fn env(mut self, env: Arc<dyn Env>) -> Options {
        self.0.env = env;
        self
    }
}
