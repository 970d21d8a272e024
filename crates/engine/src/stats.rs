//! [`Stats`]: what a store holds and has done, as numbers. The names are those that the command line prints.

use slmdb_manifest::Counters;

/// What a store holds now, and what it has done since it was opened and since it was made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Version of the formats on disk.
    pub format_version: u32,
    /// The engine's name: `slm`.
    pub engine: &'static str,
    /// The fast tier: `dram`, `emulated` or `dax`.
    pub medium: &'static str,
    /// Keys in the index: those with a value in a table file.
    pub index_keys: u64,
    /// Entries in MemTables: puts and deletes that are not in table files yet, superseded ones included.
    pub memtable_entries: u64,
    /// Bytes that the MemTables' records take in their arenas.
    pub memtable_bytes: u64,
    /// Immutable MemTables that wait for their flush or are being flushed.
    pub immutable_memtables: u64,
    /// Number of table files.
    pub table_files: u64,
    /// Their total length, in bytes.
    pub table_bytes: u64,
    /// The part of [`Stats::table_bytes`] of entries that the index points to (by count of entries). TLSM: of all runs, those in the
    /// pool included.
    pub live_bytes: u64,
    /// Table files that are mapped for reading ([`crate::MapTables`]).
    pub mapped_table_files: u64,
    /// Their mapped length, in bytes. What of it is in memory is the system's, and no part of [`Stats::memory_bytes`].
    pub mapped_table_bytes: u64,
    /// Bytes taken in the fast tier.
    pub fast_tier_bytes: u64,
    /// Bytes of these that tree nodes take; TLSM: lists without their entries.
    pub fast_tier_node_bytes: u64,
    /// Bytes of these that key segments take; TLSM: segments, where the entries of lists lie.
    pub fast_tier_key_segment_bytes: u64,
    /// Bytes of nodes and key segments ÷ [`Stats::index_keys`]; 0 without keys.
    pub fast_tier_index_bytes_per_key: f64,
    /// Levels of the B+-tree.
    pub index_height: u32,
    /// The levels of an LSM tree, from level 0 to the deepest that has something. SLM-DB has none.
    pub levels: Vec<LevelStats>,
    /// Lists in the pool that were written to files because others needed the space, since this opening (TLSM).
    pub demotions: u64,
    /// Bytes that the store keeps in plain memory; `docs/internals/memory.md` says how that was measured.
    pub memory_bytes: u64,
    /// Its budget for them, in bytes ([`crate::Options::memory_budget_bytes`]). It takes more if it needs more.
    pub memory_budget_bytes: u64,
    /// The parts of [`Stats::memory_bytes`].
    pub memory: Memory,
    /// The newest sequence number that readers see.
    pub last_sequence_number: u64,
    /// Old versions of records that open iterators and snapshots still see.
    pub replaced_records_kept: u64,
    /// Approximate DRAM of the map of these, in bytes. Their values are in table files.
    pub replaced_records_bytes: u64,
    /// Open iterators and cursors.
    pub open_cursors: u64,
    /// Open snapshots.
    pub open_snapshots: u64,
    /// How long writers have waited since this opening, and for what.
    pub stalls: StallStats,
    /// The full disk or pool that a flush waits for now, if one does.
    pub flush_waits_for: Option<String>,
    /// What was chosen for compaction since this opening, and by which source.
    pub choices: CompactionChoices,
    /// Reads of the fast tier that somebody waited for, since this opening. Counted only while its latencies are emulated,
    /// else 0.
    pub fast_tier_reads: u64,
    /// Counters since this opening.
    pub since_open: Counters,
    /// Counters since the store was made: as of the last MANIFEST record, plus this opening.
    pub lifetime: Counters,
}

impl Stats {
    /// The levels that have something, each with its number.
    pub fn levels_with_runs(&self) -> impl Iterator<Item = (usize, &LevelStats)> {
        self.levels.iter().enumerate().filter(|(_, level)| level.runs > 0)
    }
}

/// What a level of an LSM tree has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// Its runs: table files, and lists in the pool.
    pub runs: u64,
    /// What they take, in bytes; a list with its entries.
    pub bytes: u64,
    /// The part of these that lies in the pool, in bytes.
    pub bytes_in_pool: u64,
}

impl LevelStats {
    /// Each number, with its name.
    pub fn named(&self) -> [(&'static str, u64); 3] {
        let LevelStats { runs, bytes, bytes_in_pool } = *self;
        [("runs", runs), ("bytes", bytes), ("bytes_in_pool", bytes_in_pool)]
    }
}

/// What a store keeps in plain memory, in bytes. Persistent memory, and files that emulate it, are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Cached blocks, and the cache's own tables.
    pub block_cache_bytes: u64,
    /// Metadata of open table files.
    pub open_tables_bytes: u64,
    /// The skiplists over the MemTables, flushed ones that iterators still read included.
    pub memtable_lists_bytes: u64,
    /// On `Dram`: the MemTables' records.
    pub memtable_arenas_bytes: u64,
    /// On `Dram`: the index, that is nodes and key segments, including freed space. On other media: the tables of the
    /// pool's extents.
    pub index_bytes: u64,
    /// Old versions of records that are kept for iterators and snapshots.
    pub replaced_records_bytes: u64,
    /// Open iterators and cursors, with their current blocks (which may be in the cache, too).
    pub cursors_bytes: u64,
    /// Metadata of all table files.
    pub catalog_bytes: u64,
    /// Buffers of running flushes and compactions.
    pub background_bytes: u64,
}

impl Memory {
    /// The total.
    pub fn total_bytes(&self) -> u64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Each part, with its name.
    pub fn parts(&self) -> [(&'static str, u64); 9] {
        let Memory {
            block_cache_bytes,
            open_tables_bytes,
            memtable_lists_bytes,
            memtable_arenas_bytes,
            index_bytes,
            replaced_records_bytes,
            cursors_bytes,
            catalog_bytes,
            background_bytes,
        } = *self;
        [
            ("block_cache_bytes", block_cache_bytes),
            ("open_tables_bytes", open_tables_bytes),
            ("memtable_lists_bytes", memtable_lists_bytes),
            ("memtable_arenas_bytes", memtable_arenas_bytes),
            ("index_bytes", index_bytes),
            ("replaced_records_bytes", replaced_records_bytes),
            ("cursors_bytes", cursors_bytes),
            ("catalog_bytes", catalog_bytes),
            ("background_bytes", background_bytes),
        ]
    }
}

/// What was chosen for compaction since the store was opened (paper, section 3.3), without `compact_range`.
/// Under other policies than [the paper's](crate::CompactionPolicy) all is 0 but `by_seeks` and `all`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompactionChoices {
    /// Table files on the compaction candidate list now.
    pub candidates: u64,
    /// Leaf node scans.
    pub leaf_node_scans: u64,
    /// Keys that they covered.
    pub leaf_node_scan_keys: u64,
    /// Files below the live-key threshold.
    pub by_live_key_ratio: Chosen,
    /// Files that a leaf node scan found in disorder.
    pub by_leaf_node_scans: Chosen,
    /// Files that a range query found in disorder.
    pub by_range_queries: Chosen,
    /// Files that cursors turned to too often. [`CompactionPolicy::GarbageFirst`](crate::CompactionPolicy) counts those
    /// that it merges for order.
    pub by_seeks: Chosen,
    /// Files that were on the list when the store was opened.
    pub by_manifest: Chosen,
    /// All compactions, of any files.
    pub all: Chosen,
}

impl CompactionChoices {
    /// Each source of candidates, and all together, with its name.
    pub fn parts(&self) -> [(&'static str, Chosen); 6] {
        [
            ("live_key_ratio", self.by_live_key_ratio),
            ("leaf_node_scans", self.by_leaf_node_scans),
            ("range_queries", self.by_range_queries),
            ("seeks", self.by_seeks),
            ("manifest", self.by_manifest),
            ("all", self.all),
        ]
    }
}

/// What became of the candidates of one source. A file counts for the source that named it first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Files that became candidates.
    pub candidates: u64,
    /// Files that were compacted.
    pub files: u64,
    /// Bytes written to new files for them. Those of one compaction are divided among its files by their needed parts.
    pub rewritten_bytes: u64,
    /// Bytes by which that is less than the files had: the garbage that was dropped.
    pub gained_bytes: u64,
}

impl Chosen {
    /// Each number, with its name.
    pub fn named(&self) -> [(&'static str, u64); 4] {
        let Chosen { candidates, files, rewritten_bytes, gained_bytes } = *self;
        let bytes = [("rewritten_bytes", rewritten_bytes), ("gained_bytes", gained_bytes)];
        [("candidates", candidates), ("files", files), bytes[0], bytes[1]]
    }
}

/// How long writers have waited, in microseconds, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StallStats {
    /// Slowed, so that flushes keep up.
    pub pace_us: u64,
    /// Slowed, so that compactions keep up.
    pub compaction_us: u64,
    /// The part of [`StallStats::compaction_us`] in which fewer compactions ran than may.
    pub compaction_idle_while_paced_us: u64,
    /// Waiting for the oldest Immutable MemTable to be flushed, with the queue full.
    pub flush_us: u64,
    /// Waiting for a new MemTable to be made.
    pub memtable_us: u64,
    /// Waiting for space to be set aside for the write.
    pub space_us: u64,
    /// The longest single wait.
    pub longest_us: u64,
}

/// A table file, as the MANIFEST has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFile {
    /// Its number, which is its name.
    pub number: u32,
    /// Its level, from 0 for what flushes write. All of SLM-DB's are of level 0.
    pub level: u32,
    /// Whether it lies in the pool, and is no file (TLSM).
    pub is_in_pool: bool,
    /// Its length, in bytes; with its entries, if it lies in the pool.
    pub bytes: u64,
    /// All entries in it.
    pub entries: u64,
    /// The puts that the index points to. Deletes are never among them, needed or not.
    pub live_keys: u64,
    /// Deletes in it.
    pub deletes: u64,
    /// The smallest key in it.
    pub smallest_key: Vec<u8>,
    /// The largest key in it.
    pub largest_key: Vec<u8>,
    /// The lowest sequence number in it.
    pub lowest_sequence: u64,
    /// The highest sequence number in it.
    pub highest_sequence: u64,
    /// When it was made, in nanoseconds since 1970 UTC.
    pub created_unix_ns: u64,
}

/// The approximate size of a range of keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Approximate {
    /// Keys that have a value.
    pub keys: u64,
    /// Bytes of table files that their entries take.
    pub table_bytes: u64,
    /// Bytes of keys and values in MemTables, superseded ones included.
    pub memtable_bytes: u64,
}
