//! The order in which a thread takes the locks of a store; `docs/internals/locking.md` explains this table.
//!
//! A thread that holds a lock takes only locks further down. Builds with debug assertions panic where that is broken
//! ([`slmdb_sync::Rank`]). Locks that are held for a few instructions, and under which no other is taken, have no rank.

use slmdb_sync::Rank;

macro_rules! order {
    ($($(#[$doc:meta])* $constant:ident = $level:literal, $name:literal;)*) => {
        $($(#[$doc])* pub const $constant: Rank = Rank { level: $level, name: $name };)*

        /// All of them.
        #[cfg(test)]
        const ALL: &[Rank] = &[$($constant),*];
    };
}

order! {
    /// One index checkpoint, or one copy of the store, is made at a time.
    INDEX_CHECKPOINT = 10, "index checkpoint";
    /// The position of the next leaf node scan.
    LEAF_NODE_SCAN = 15, "leaf node scan";
    /// A chunk is taken out of level 0.
    CHUNK = 16, "chunk";
    /// The index may be ahead of the MANIFEST.
    INDEXING = 20, "indexing";
    /// What is granted and set aside in the pool.
    POOL_GRANT = 30, "pool grant";
    /// The long keys in the index.
    INDEXED_KEYS = 32, "indexed keys";
    /// The MANIFEST.
    CATALOG = 40, "catalog";
    /// The MemTables, what is admitted to them, and which threads wait for what.
    MEMTABLES = 50, "memtables";
    /// Running compactions, and requested ones.
    COMPACTIONS = 60, "compactions";
    /// Files that seeks have named, or the paper's policy.
    CANDIDATES = 64, "compaction candidates";
    /// Table files that left the MANIFEST and may still be seen.
    OBSOLETE_WAITING = 66, "obsolete files, waiting";
    /// Snapshots, cursors, and the records that they still see.
    SNAPSHOTS = 68, "snapshots";
    /// The disk space that leads out of a full disk.
    RESERVE = 70, "reserve";
    /// A file whose space is set aside.
    RESERVED_FILE = 72, "reserved file";
    /// How a requested compaction has ended.
    COMPACTION_ENDED = 74, "end of a compaction";
    /// Arenas of flushed MemTables.
    ARENAS = 76, "arenas";
    /// Table files whose removal is being committed.
    OBSOLETE_LEAVING = 78, "obsolete files, leaving";
    /// Key segments that wait for their readers.
    RETIRED_SEGMENTS = 82, "retired key segments";
    /// Numbers of files.
    FILE_NUMBERS = 84, "file numbers";
    /// Slots of the compaction log.
    JOBS = 86, "jobs";
    /// Whether a leader syncs for all waiting callers.
    GROUP_SYNC = 88, "group sync";
    /// Ranges of keys that have no value.
    EMPTY_RANGES = 89, "empty ranges";
    /// The window of writes that are not published yet.
    PUBLICATION = 90, "publication";
    /// What the store takes of its memory budget.
    TOLD_BYTES = 91, "told bytes";
    /// The size of the block cache.
    CACHE_BYTES = 92, "cache size";
    /// The kind of the next arena.
    ARENA_KIND = 94, "arena kind";
    /// Since when writers wait, for events.
    EVENT_STALLS = 100, "events: stalls";
    /// What was refused last, for events.
    EVENT_REFUSALS = 102, "events: refusals";
    /// Events on their way to the listener.
    EVENT_QUEUE = 104, "events: queue";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants stand in their order, and the page that explains them has the same.
    #[test]
    fn the_page_about_locks_has_this_order() {
        assert!(ALL.windows(2).all(|two| two[0].level < two[1].level));
        let page = include_str!("../../../docs/internals/locking.md");
        let rows = page.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            let level = cells.next()?.parse::<u8>().ok()?;
            Some((level, cells.next()?))
        });
        let order: Vec<(u8, &str)> = ALL.iter().map(|rank| (rank.level, rank.name)).collect();
        assert_eq!(rows.collect::<Vec<_>>(), order);
    }
}
