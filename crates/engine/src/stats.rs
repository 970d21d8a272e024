//! [`Stats`]: what a store holds and has done, as numbers. The names are those the command line prints.

use slmdb_manifest::Counters;

/// What a store holds now, and what it has done since it was opened and since it was made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Version of the formats on disk.
    pub format_version: u32,
    /// The engine, by its name: `slm`.
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
    /// Table files.
    pub table_files: u64,
    /// Their length, in bytes.
    pub table_bytes: u64,
    /// The part of [`Stats::table_bytes`] that belongs to entries the index still points to (by count of entries).
    pub live_bytes: u64,
    /// Table files that are mapped for reading ([`crate::MapTables`]).
    pub mapped_table_files: u64,
    /// How much of them is, in bytes. What of that is in memory is the system's, and is not part of [`Stats::memory_bytes`].
    pub mapped_table_bytes: u64,
    /// Space taken in the fast tier, in bytes.
    pub fast_tier_bytes: u64,
    /// The part of it that tree nodes take, in bytes.
    pub fast_tier_node_bytes: u64,
    /// The part of it that key segments take, in bytes.
    pub fast_tier_key_segment_bytes: u64,
    /// Nodes and key segments ÷ [`Stats::index_keys`]; 0 when there are none.
    pub fast_tier_index_bytes_per_key: f64,
    /// Levels of the B+-tree.
    pub index_height: u32,
    /// What the store keeps in plain memory, in bytes; `docs/internals/memory.md` tells how that was measured.
    pub memory_bytes: u64,
    /// What it was given to keep, in bytes ([`crate::Options::memory_budget_bytes`]). It takes more if it needs more.
    pub memory_budget_bytes: u64,
    /// The parts of [`Stats::memory_bytes`].
    pub memory: Memory,
    /// The newest sequence number that readers see.
    pub last_sequence_number: u64,
    /// Old versions of records kept for iterators and snapshots that are still open.
    pub replaced_records_kept: u64,
    /// DRAM that the map of them takes, about, in bytes. (Their values are in table files.)
    pub replaced_records_bytes: u64,
    /// Iterators and cursors that are open.
    pub open_cursors: u64,
    /// Snapshots that are held.
    pub open_snapshots: u64,
    /// How long writers have waited since this opening, and for what.
    pub stalls: StallStats,
    /// What a flush waits for now: a disk or pool that is full. `None`: nothing.
    pub flush_waits_for: Option<String>,
    /// What was chosen for compaction since this opening, and by what.
    pub choices: CompactionChoices,
    /// Since this opening.
    pub since_open: Counters,
    /// Since the store was made, as of the last MANIFEST record plus this opening.
    pub lifetime: Counters,
}

/// What a store keeps in plain memory, in bytes. What is in persistent memory, or in a file that imitates it, is not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Cached blocks, and the cache's own tables.
    pub block_cache_bytes: u64,
    /// What is known of table files that are held open.
    pub open_tables_bytes: u64,
    /// The skiplists over the MemTables, flushed ones that iterators still read included.
    pub memtable_lists_bytes: u64,
    /// On `Dram`: the MemTables' records.
    pub memtable_arenas_bytes: u64,
    /// On `Dram`: the index, that is nodes and key segments; space of theirs that is free again included. On other media: the
    /// tables that say where in the pool what lies.
    pub index_bytes: u64,
    /// Old versions of records that are kept for iterators.
    pub replaced_records_bytes: u64,
    /// Open iterators and cursors with the blocks that they are on (which may be in the cache, too).
    pub cursors_bytes: u64,
    /// What is known of the table files there are.
    pub catalog_bytes: u64,
    /// What flushes and compactions have at hand.
    pub background_bytes: u64,
}

impl Memory {
    /// All of it.
    pub fn total_bytes(&self) -> u64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Each part with its name.
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

/// What was chosen for compaction since the store was opened (paper, section 3.3). What `compact_range` was asked for does not
/// count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompactionChoices {
    /// Table files on the compaction candidate list now.
    pub candidates: u64,
    /// Leaf node scans that were made.
    pub leaf_node_scans: u64,
    /// Keys that they went over.
    pub leaf_node_scan_keys: u64,
    /// Files below the live-key threshold.
    pub by_live_key_ratio: Chosen,
    /// Files that a leaf node scan found in disorder.
    pub by_leaf_node_scans: Chosen,
    /// Files that a range query found in disorder.
    pub by_range_queries: Chosen,
    /// Files that cursors turned to too often.
    pub by_seeks: Chosen,
    /// Files that were on the list when the store was opened.
    pub by_manifest: Chosen,
    /// All compactions, of whatever files.
    pub all: Chosen,
}

impl CompactionChoices {
    /// Each way to become a candidate, and all together, with its name.
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

/// What came of the candidates that one scheme has named. A file counts for the scheme that named it first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Files that became candidates.
    pub candidates: u64,
    /// Files that were compacted.
    pub files: u64,
    /// Bytes written for them to new files. (A compaction's are divided among its files by what is needed of each.)
    pub rewritten_bytes: u64,
    /// By how much that was less than they had, in bytes: the garbage that was dropped.
    pub gained_bytes: u64,
}

impl Chosen {
    /// Each number with its name.
    pub fn named(&self) -> [(&'static str, u64); 4] {
        let Chosen { candidates, files, rewritten_bytes, gained_bytes } = *self;
        let bytes = [("rewritten_bytes", rewritten_bytes), ("gained_bytes", gained_bytes)];
        [("candidates", candidates), ("files", files), bytes[0], bytes[1]]
    }
}

/// How long writers have waited, in microseconds, and for what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StallStats {
    /// They were slowed, so that flushes keep up.
    pub pace_us: u64,
    /// They were slowed, so that compactions keep up.
    pub compaction_us: u64,
    /// For the oldest of as many Immutable MemTables as there may be to be flushed.
    pub flush_us: u64,
    /// For a new MemTable to be made.
    pub memtable_us: u64,
    /// For space to be set aside for what they write.
    pub space_us: u64,
    /// The longest single wait.
    pub longest_us: u64,
}

/// A table file, as the MANIFEST knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFile {
    /// Its number, which is its name.
    pub number: u32,
    /// Its length, in bytes.
    pub bytes: u64,
    /// All entries in it.
    pub entries: u64,
    /// The puts that the index points to. (Deletes are never among them, needed or not.)
    pub live: u64,
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

/// How much is in a range of keys, about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Approximate {
    /// Keys that have a value.
    pub keys: u64,
    /// Bytes of table files that their entries take.
    pub table_bytes: u64,
    /// Bytes of keys and values in MemTables, superseded ones included.
    pub memtable_bytes: u64,
}
