//! What a store consists of at one moment: plain data.
//!
//! Numbers that name things (files, generations, jobs) are given out once and never again; the `next_…` fields say where
//! to go on. That is what makes a key record's file number, an arena's checksum seed and a job in the pool unmistakable
//! after any number of crashes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use slmdb_env::{Error, FileIdentity, Result};

/// Everything the MANIFEST says about a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreState {
    /// The store's identity, drawn when it was created. Table files and arenas carry it.
    pub uuid: [u8; 16],
    /// The identity that table files and index checkpoints carry: that of the store itself, or, if it began as a copy of
    /// another, of the one that made them first.
    pub files_uuid: [u8; 16],
    /// The engine that made the store, by name; no other may open it.
    pub engine: String,
    /// The order of the keys, by name; opening with another is refused.
    pub comparator: String,
    /// Where the fast tier is.
    pub medium: MediumRecord,
    /// The table files, by number. Numbers start at 1: 0 means "none" in key records.
    pub files: BTreeMap<u32, FileRecord>,
    /// The sorted runs that lie in the pool and not in files, by number, for an engine that has them. Files and lists have their
    /// numbers in common. No entry of a list counts as live.
    pub lists: BTreeMap<u32, FileRecord>,
    /// The arenas whose MemTables are not flushed yet, by generation.
    pub arenas: BTreeMap<u64, ArenaRecord>,
    /// The number the next table file or list gets; larger than any ever used.
    pub next_file_number: u32,
    /// The generation the next arena gets; larger than any ever used.
    pub next_generation: u64,
    /// Every entry up to this sequence number is in a table file or a list, or was superseded there.
    pub flushed_through: u64,
    /// The last job whose edit was applied; 0 before the first. Recovery ignores jobs up to this number.
    pub last_job: u64,
    /// Set if the store was closed cleanly and not written since: its last sequence number then.
    pub closed_at_sequence: Option<u64>,
    /// Counters since the store was created, as of the last record that carried them.
    pub lifetime: Counters,
    /// A repair has begun to make the pool anew, and has not come to its end: there is no index. Only a repair may go on here.
    pub unfinished_repair: Option<UnfinishedRepair>,
    /// What the engine keeps here of its own.
    pub engine_section: EngineSection,
    /// Where a store that has a pool is at home. `None`: an older version made it, or it has no pool.
    pub home: Option<Home>,
}

/// What tells a store that has a pool from a copy of its directory, which names the same pool, and its pool from an older copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home {
    /// The store's directory.
    pub directory: FileIdentity,
    /// How often the pool had been opened for writing, at least.
    pub pool_openings: u32,
}

/// The pools of a repair that has not come to its end. Neither is the store's: it has none until the repair is through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnfinishedRepair {
    /// The identity of the pool that the store had, if it had one. What could be read of it is in table files.
    pub old_pool: Option<[u8; 16]>,
    /// The identity of the pool that is being made.
    pub new_pool: [u8; 16],
}

/// The medium of the fast tier, as it was when the MANIFEST was last written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediumRecord {
    /// Which kind.
    pub kind: MediumKind,
    /// The absolute path of the pool file; `None` without one.
    pub pool_path: Option<PathBuf>,
    /// The pool's identity: a pool with another one is not this store's.
    pub pool_uuid: Option<[u8; 16]>,
    /// The boot of the machine under which the pool was written last.
    pub boot_id: [u8; 16],
}

/// The kinds of media (`docs/guide/media.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediumKind {
    /// Plain memory for the index, and MemTables in mapped files of the directory.
    Dram = 1,
    /// A file that stands in for persistent memory.
    Emulated = 2,
    /// Persistent memory.
    Dax = 3,
}

/// A table file, or a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileRecord {
    /// Its length in bytes; a list's with the entries that it names.
    pub length_bytes: u64,
    /// All entries in it, tombstones included.
    pub entries: u64,
    /// The tombstones among them.
    pub deletes: u64,
    /// The puts that the index points to. (Tombstones are never among them, needed or not.)
    pub live_keys: u64,
    /// The smallest key in it, by the store's comparator.
    pub smallest_key: Vec<u8>,
    /// The largest key in it.
    pub largest_key: Vec<u8>,
    /// The lowest sequence number in it.
    pub lowest_sequence: u64,
    /// The highest sequence number in it.
    pub highest_sequence: u64,
    /// When it was made, in nanoseconds since 1970 UTC.
    pub created_unix_ns: u64,
    /// The level that it is on, for engines that have several; 0 otherwise.
    pub level: u8,
}

/// What an engine keeps in the MANIFEST of its own: parts, by their numbers. The engine alone knows what is in a part. A
/// part whose format changes gets another number.
pub type EngineSection = BTreeMap<u8, Vec<u8>>;

/// An arena that holds a MemTable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArenaRecord {
    /// The last sequence number in it, once nothing more is written to it. `None` while it may still grow.
    pub sealed_last_sequence: Option<u64>,
    /// The arena's length in bytes.
    pub length_bytes: u64,
}

/// What a store has done, named as `stats` names it; the MANIFEST keeps the sums over its life. All but the first are
/// costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Bytes of keys and values that users put.
    pub user_bytes_put: u64,
    /// Bytes written to files.
    pub file_bytes_written: u64,
    /// Fences of the fast tier that ordered something.
    pub persists: u64,
    /// Cache lines written back to the fast tier.
    pub lines_flushed: u64,
    /// Bytes the fast tier's medium had to write, in its own write units.
    pub media_bytes: u64,
    /// Bytes that were to be made durable in the fast tier, before they were rounded to cache lines and write units.
    pub fast_tier_bytes_asked: u64,
    /// Flushes of MemTables.
    pub flushes: u64,
    /// Compactions.
    pub compactions: u64,
    /// Bytes compactions read.
    pub compaction_bytes_read: u64,
    /// Bytes compactions wrote.
    pub compaction_bytes_written: u64,
    /// Microseconds that writers were delayed.
    pub stall_us: u64,
}

/// How many counters [`Counters`] has.
pub(crate) const LIFETIME_COUNTERS: usize = 11;

impl Counters {
    /// The sum of two, field by field.
    pub fn plus(&self, other: &Counters) -> Counters {
        let (these, others) = (self.named(), other.named());
        Counters::from_values(std::array::from_fn(|counter| these[counter].1.saturating_add(others[counter].1)))
    }

    /// Names and values, in the order they are stored.
    pub fn named(&self) -> [(&'static str, u64); LIFETIME_COUNTERS] {
        [
            ("user_bytes_put", self.user_bytes_put),
            ("file_bytes_written", self.file_bytes_written),
            ("persists", self.persists),
            ("lines_flushed", self.lines_flushed),
            ("media_bytes", self.media_bytes),
            ("fast_tier_bytes_asked", self.fast_tier_bytes_asked),
            ("flushes", self.flushes),
            ("compactions", self.compactions),
            ("compaction_bytes_read", self.compaction_bytes_read),
            ("compaction_bytes_written", self.compaction_bytes_written),
            ("stall_us", self.stall_us),
        ]
    }

    pub(crate) fn from_values(values: [u64; LIFETIME_COUNTERS]) -> Counters {
        let [
            user_bytes_put,
            file_bytes_written,
            persists,
            lines_flushed,
            media_bytes,
            fast_tier_bytes_asked,
            flushes,
            compactions,
            compaction_bytes_read,
            compaction_bytes_written,
            stall_us,
        ] = values;
        Counters {
            user_bytes_put,
            file_bytes_written,
            persists,
            lines_flushed,
            media_bytes,
            fast_tier_bytes_asked,
            flushes,
            compactions,
            compaction_bytes_read,
            compaction_bytes_written,
            stall_us,
        }
    }
}

impl StoreState {
    /// A store without files, arenas or history: numbers start at 1.
    pub fn new(uuid: [u8; 16], engine: &str, comparator: &str, medium: MediumRecord) -> StoreState {
        StoreState {
            uuid,
            files_uuid: uuid,
            engine: engine.to_string(),
            comparator: comparator.to_string(),
            medium,
            files: BTreeMap::new(),
            lists: BTreeMap::new(),
            arenas: BTreeMap::new(),
            next_file_number: 1,
            next_generation: 1,
            flushed_through: 0,
            last_job: 0,
            closed_at_sequence: None,
            lifetime: Counters::default(),
            unfinished_repair: None,
            home: None,
            engine_section: EngineSection::new(),
        }
    }

    /// The table files, and then the lists, with their numbers.
    pub fn runs(&self) -> impl Iterator<Item = (u32, &FileRecord)> + Clone {
        self.files.iter().chain(&self.lists).map(|(&number, record)| (number, record))
    }

    /// The record of a table file or a list.
    pub fn record(&self, number: u32) -> Option<&FileRecord> {
        self.files.get(&number).or_else(|| self.lists.get(&number))
    }

    /// The parts 1 to `N` of the engine's section, which are all that the engine knows. One that is not there is empty.
    /// [`Error::Unsupported`]: there is another one, which a newer version has written.
    pub fn engine_parts<const N: usize>(&self) -> Result<[&[u8]; N]> {
        let mut parts: [&[u8]; N] = [&[]; N];
        for (&number, bytes) in &self.engine_section {
            let what = || format!("part {number} of the section that the engine {} has in the MANIFEST", self.engine);
            let part = parts.get_mut(usize::from(number).wrapping_sub(1));
            *part.ok_or_else(|| Error::Unsupported { what: what(), file: None })? = bytes;
        }
        Ok(parts)
    }

    /// What the state takes in memory, in bytes, about.
    pub fn memory_bytes(&self) -> u64 {
        // A map's nodes are two thirds full on average; keys are allocations of their own.
        const KEY_BYTES: usize = 16;
        let keys = self.runs().map(|(_, file)| file.smallest_key.len() + file.largest_key.len()).sum::<usize>();
        let section: usize = self.engine_section.values().map(Vec::len).sum();
        let per_file = size_of::<(u32, FileRecord)>() * 3 / 2 + 2 * KEY_BYTES;
        let per_arena = size_of::<(u64, ArenaRecord)>() * 3 / 2;
        (size_of::<StoreState>()
            + section
            + keys
            + (self.files.len() + self.lists.len()) * per_file
            + self.arenas.len() * per_arena) as u64
    }
}
