//! [`expected_prefix`]: what most keys of the next MemTable will begin with, so that its list compares what is behind that
//! ([`MemTableOptions::expected_prefix`](slmdb_structures::memtable::MemTableOptions::expected_prefix)).

use std::collections::BTreeMap;
use std::sync::Arc;

use slmdb_manifest::FileRecord;
use slmdb_pmem::AnyMedium;
use slmdb_structures::memtable::MemTable;

/// So many bytes at the end of a prefix are left out. Keys that ascend, such as times, soon differ in the last ones. Six of a head's
/// eight bytes still tell keys apart.
const CHANGING_BYTES: usize = 2;

/// What most keys of the newest MemTable begin with that has enough of them, but for the last bytes. Without one, what all keys in
/// table files do.
pub fn expected_prefix<'m>(
    newest_first: impl IntoIterator<Item = &'m Arc<MemTable<AnyMedium>>>,
    files: &BTreeMap<u32, FileRecord>,
) -> Vec<u8> {
    let mut of_memtables = newest_first.into_iter().map(|memtable| memtable.usual_prefix());
    let mut prefix = of_memtables.find(|prefix| !prefix.is_empty()).unwrap_or_else(|| shared_by_all(files).to_vec());
    prefix.truncate(prefix.len().saturating_sub(CHANGING_BYTES));
    prefix
}

/// What the smallest and the largest of all keys share, and so those in between.
fn shared_by_all(files: &BTreeMap<u32, FileRecord>) -> &[u8] {
    let smallest = files.values().map(|file| &*file.smallest_key).min().unwrap_or_default();
    let largest = files.values().map(|file| &*file.largest_key).max().unwrap_or_default();
    let shared = smallest.iter().zip(largest).take_while(|(one, other)| one == other).count();
    &smallest[..shared]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use slmdb_pmem::Arena;
    use slmdb_structures::log::Payload;
    use slmdb_structures::memtable::MemTableOptions;

    use super::*;

    fn memtable(keys: impl IntoIterator<Item = String>) -> Arc<MemTable<AnyMedium>> {
        let arena = Arena::from_bytes(AnyMedium::dram(), Path::new("/db/arena"), vec![0; 1 << 16]);
        let memtable = MemTable::create(arena, 1, [0; 16], &MemTableOptions::default());
        for (key, sequence) in keys.into_iter().zip(1..) {
            let mut payload = Payload::new();
            payload.delete(key.as_bytes()).unwrap();
            memtable.fill(memtable.try_reserve(payload.len_bytes(), payload.count()).unwrap(), &payload, sequence, 0);
        }
        Arc::new(memtable)
    }

    fn file(smallest: &str, largest: &str) -> FileRecord {
        FileRecord { smallest_key: smallest.into(), largest_key: largest.into(), ..FileRecord::default() }
    }

    #[test]
    fn keys_that_come_are_expected_to_be_like_the_last() {
        let none = BTreeMap::new();
        let users = memtable((100..200).map(|number| format!("user{number}")));
        let rows = memtable((100..200).map(|number| format!("row{number}")));
        let few = memtable(["a", "b"].map(str::to_owned));
        assert_eq!(expected_prefix([&users, &rows], &none), b"use");
        assert_eq!(expected_prefix([&few, &rows], &none), b"ro");
        assert_eq!(expected_prefix([&few], &none), b"");
        assert_eq!(expected_prefix([], &none), b"");
    }

    /// The next MemTable's keys would all be behind those with the prefix, and none would be told apart by its head.
    #[test]
    fn keys_that_ascend_keep_the_prefix_for_a_while() {
        let times = |from: u64| memtable((from..from + 500).map(|second| format!("2026-11-26 {second:06}")));
        let expected = expected_prefix([&times(1000)], &BTreeMap::new());
        assert_eq!(expected, b"2026-11-26 0");
        assert!((2..18).all(|later| times(later * 500).newest_entries().all(|entry| entry.key.starts_with(&expected))));
    }

    #[test]
    fn without_memtables_they_are_expected_to_be_like_those_in_table_files() {
        let few = memtable(["a", "b"].map(str::to_owned));
        let mut files = BTreeMap::from([(1, file("user0001", "user0500")), (2, file("user0002", "user0700"))]);
        assert_eq!(expected_prefix([&few], &files), b"use");
        files.insert(3, file("", "user0001"));
        assert_eq!(expected_prefix([&few], &files), b"");
    }
}
