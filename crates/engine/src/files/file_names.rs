//! The names of a store's files.
//!
//! ```text
//! LOCK                the holder's process id; locked while the store is open
//! MANIFEST            what the store consists of
//! MANIFEST.destroyed  the same, of a store that is being destroyed
//! COPYING             says that a copy is being made here, which is no store before this file is gone
//! 0000000012.sst      a table file, by its number
//! 0000000003.checkpoint  an index checkpoint, by its number
//! 0000000012.hash     a hash table, by its number
//! INDEX               on Dram: the image of the index that a clean close has left
//! 0000000007.arena    on Dram: the arena of a MemTable, by its generation
//! 0000000007.space    space set aside for the table file of that MemTable; the next opening removes it
//! RESERVE.space       space that leads out of a full disk; the next opening makes it anew
//! ```
//! On persistent media arenas are extents of the pool.

use std::path::{Path, PathBuf};

/// The lock file.
pub const LOCK: &str = "LOCK";

/// The MANIFEST of a store that is being destroyed.
pub const DESTROYED: &str = "MANIFEST.destroyed";

/// Says that a copy of a store is being made in the directory.
pub const UNFINISHED_COPY: &str = "COPYING";

/// The image of the index.
pub const INDEX_IMAGE: &str = "INDEX";

/// The number of the space that leads out of a full disk. No MemTable's generation comes so far.
pub const RESERVE: u64 = u64::MAX;

const RESERVE_NAME: &str = "RESERVE.space";

/// The path of the image of the index.
pub fn index_image(directory: &Path) -> PathBuf {
    directory.join(INDEX_IMAGE)
}

/// The path of table file `number`.
pub fn table(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{number:010}.sst"))
}

/// The path of index checkpoint `number`.
pub fn checkpoint(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{number:010}.checkpoint"))
}

/// The path of hash table `number`.
pub fn hash_table(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{number:010}.hash"))
}

/// The path of the arena of `generation` on `Dram`.
pub fn arena(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("{generation:010}.arena"))
}

/// The path of the space set aside for the table file of the MemTable of `generation`, or of the [`RESERVE`].
pub fn space(directory: &Path, generation: u64) -> PathBuf {
    match generation {
        RESERVE => directory.join(RESERVE_NAME),
        generation => directory.join(format!("{generation:010}.space")),
    }
}

/// What a file of the directory is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A table file, by its number.
    Table(u32),
    /// An index checkpoint, by its number.
    Checkpoint(u32),
    /// A hash table, by its number.
    HashTable(u32),
    /// A MemTable's arena, by its generation.
    Arena(u64),
    /// Disk space that is set aside, by the generation of the MemTable that it is for.
    Space(u64),
    /// Anything else.
    Other,
}

/// The kind of the file with this name. A name that [`table`], [`checkpoint`], [`hash_table`], [`arena`] and
/// [`space`] don't make exactly so is [`FileKind::Other`].
pub fn kind(name: &str) -> FileKind {
    if name == RESERVE_NAME {
        return FileKind::Space(RESERVE);
    }
    let Some((stem, extension)) = name.split_once('.') else { return FileKind::Other };
    if stem.len() < 10 || !stem.bytes().all(|b| b.is_ascii_digit()) || (stem.len() > 10 && stem.starts_with('0')) {
        return FileKind::Other;
    }
    match extension {
        "sst" => stem.parse().map_or(FileKind::Other, FileKind::Table),
        "checkpoint" => stem.parse().map_or(FileKind::Other, FileKind::Checkpoint),
        "hash" => stem.parse().map_or(FileKind::Other, FileKind::HashTable),
        "arena" => stem.parse().map_or(FileKind::Other, FileKind::Arena),
        "space" => stem.parse().map_or(FileKind::Other, FileKind::Space),
        _ => FileKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let directory = Path::new("d");
        for number in [1, 9_999_999, u32::MAX] {
            let path = table(directory, number);
            assert_eq!(kind(path.file_name().unwrap().to_str().unwrap()), FileKind::Table(number));
            let path = checkpoint(directory, number);
            assert_eq!(kind(path.file_name().unwrap().to_str().unwrap()), FileKind::Checkpoint(number));
            let path = hash_table(directory, number);
            assert_eq!(kind(path.file_name().unwrap().to_str().unwrap()), FileKind::HashTable(number));
        }
        assert_eq!(space(directory, RESERVE), directory.join("RESERVE.space"));
        assert_eq!(kind("RESERVE.space"), FileKind::Space(RESERVE));
        for generation in [1, u64::from(u32::MAX), 99_999_999_999] {
            let path = arena(directory, generation);
            assert_eq!(kind(path.file_name().unwrap().to_str().unwrap()), FileKind::Arena(generation));
            let path = space(directory, generation);
            assert_eq!(kind(path.file_name().unwrap().to_str().unwrap()), FileKind::Space(generation));
        }
        for other in ["MANIFEST", "1.sst", "00000000012.sst", "x000000012.sst", "0000000012.sst.tmp", "99999999999.sst"]
        {
            assert_eq!(kind(other), FileKind::Other, "{other}");
        }
    }
}
