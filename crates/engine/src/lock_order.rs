//! The order in which a thread takes the locks of a store: see `docs/internals/locking.md`, whose table this is.
//!
//! A thread that holds a lock takes only locks that stand further down. Builds with debug assertions panic where that is broken
//! ([`slmdb_sync::Rank`]). Locks that are held for a few instructions and under which nothing else is taken stand last.

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
    /// An index checkpoint or a copy of the store is being made.
    INDEX_CHECKPOINT = 10, "index checkpoint";
    /// Where the next leaf node scan begins.
    LEAF_NODE_SCAN = 15, "leaf node scan";
    /// The index may be ahead of the MANIFEST.
    INDEXING = 20, "indexing";
    /// The long keys in the index, and what is set aside in the pool.
    INDEXED_KEYS = 30, "indexed keys";
    /// The MANIFEST.
    CATALOG = 40, "catalog";
    /// The MemTables and who waits for them.
    TRAFFIC = 50, "traffic";
    /// Compactions that run, and those that were asked for.
    COMPACTIONS = 60, "compactions";
    /// The compaction candidate list.
    CANDIDATES = 64, "compaction candidates";
    /// Table files that are given up and are still read.
    RETIRED_WAITING = 66, "retired files, waiting";
    /// Snapshots, cursors, and the records that they still see.
    SNAPSHOTS = 68, "snapshots";
    /// The disk space that leads out of a full disk.
    RESERVE = 70, "reserve";
    /// A file whose space is set aside.
    SET_ASIDE = 72, "set aside";
    /// How a compaction that was asked for ended.
    COMPACTION_ENDED = 74, "end of a compaction";
    /// Arenas that nobody writes to any more.
    ARENAS = 76, "arenas";
    /// Table files that are given up and have not gone yet.
    RETIRED_LEAVING = 78, "retired files, leaving";
    /// Key segments that are given up.
    RETIRED_SEGMENTS = 82, "retired key segments";
    /// Numbers of files.
    FILE_NUMBERS = 84, "file numbers";
    /// Slots of the compaction log.
    JOBS = 86, "jobs";
    /// Who syncs for all.
    GROUP_SYNC = 88, "group sync";
    /// The window of writes that are not published yet.
    PUBLICATION = 90, "publication";
    /// How large the block cache is.
    CACHE_BYTES = 92, "cache size";
    /// What kind of arena comes next.
    ARENA_KIND = 94, "arena kind";
    /// The background threads.
    THREADS = 96, "threads";
    /// Write stalls that listeners were told of.
    EVENT_STALLS = 100, "events: stalls";
    /// Refusals that listeners were told of.
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
