//! The skiplist under loom: the real list, with links that loom follows.

use std::sync::Arc;

use slmdb_sync::model::{check, thread};

use super::*;

/// A seed with which the entries numbered 1 to 3 are of height 1, and 4 and 5 of height 2.
fn seed() -> u64 {
    let fits = |seed: &u64| (1..=5).all(|sequence| height(mix(*seed), sequence) == if sequence < 4 { 1 } else { 2 });
    (0..).find(fits).unwrap()
}

/// A list with these keys, numbered from 1.
fn list_with(seed: u64, present: &[u8]) -> Arc<SkipList> {
    let list = SkipList::new(seed, &KeyOrder::Bytewise, b"", false);
    present.iter().zip(1..).for_each(|(&key, sequence)| insert(&list, key, sequence));
    Arc::new(list)
}

fn insert(list: &SkipList, key: u8, sequence: u64) {
    // All bytes, to point into.
    static BYTES: [u8; 256] = {
        let mut bytes = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            bytes[byte] = byte as u8;
            byte += 1;
        }
        bytes
    };
    let key = &BYTES[usize::from(key)..][..1];
    let (stored_key, kind) = (key.as_ptr(), EntryKind::Put);
    let entry = NewEntry { key, stored_key, value_length: 0, kind, sequence, slot: 0 };
    // SAFETY: the key is static, there is no value, and the splice is new.
    unsafe { list.insert(&mut Splice::new(), &entry) };
}

fn keys(list: &SkipList) -> Vec<u8> {
    std::iter::successors(list.first(), |entry| entry.next()).map(|entry| entry.key()[0]).collect()
}

/// Two threads insert an entry each, and both are on all their levels.
fn check_inserts(name: &str, present: &'static [u8], inserted: [(u8, u64); 2], preemptions: usize) {
    let seed = seed();
    check(name, preemptions, move || {
        let list = list_with(seed, present);
        let other = Arc::clone(&list);
        let writer = thread::spawn(move || insert(&other, inserted[1].0, inserted[1].1));
        insert(&list, inserted[0].0, inserted[0].1);
        writer.join().unwrap();
        let mut expected: Vec<u8> = present.iter().copied().chain(inserted.map(|(key, _)| key)).collect();
        expected.sort_unstable();
        assert_eq!(keys(&list), expected);
        for level in 0..list.height() {
            let on_level: Vec<u8> = list.level_from(level, None).map(|entry| entry.key()[0]).collect();
            let tall = |key: &u8| inserted.iter().any(|entry| entry.0 == *key && height(mix(seed), entry.1) > level);
            let expected: Vec<u8> = expected.iter().copied().filter(|key| level == 0 || tall(key)).collect();
            assert_eq!(on_level, expected, "level {level}");
        }
    });
}

/// A thread inserts entries while another reads.
fn check_reads(name: &str, present: &'static [u8], inserted: &'static [(u8, u64)], preemptions: usize) {
    let seed = seed();
    check(name, preemptions, move || {
        let list = list_with(seed, present);
        let other = Arc::clone(&list);
        let writer = thread::spawn(move || inserted.iter().for_each(|&(key, sequence)| insert(&other, key, sequence)));
        let found = keys(&list);
        assert!(found.is_sorted_by(|left, right| left < right), "{found:?}");
        assert!(present.iter().all(|key| found.contains(key)), "{found:?}");
        // Whoever is found by a look from the first on is found by a search, from then on.
        for key in found {
            assert_eq!(list.first_from(&[key], u64::MAX).map(|entry| entry.key()[0]), Some(key));
        }
        writer.join().unwrap();
    });
}

#[test]
fn loom_two_inserts_at_one_place() {
    check_inserts("skiplist: insert b and c behind a", b"a", [(b'b', 2), (b'c', 3)], 3);
    check_inserts("skiplist: insert c and b before d", b"d", [(b'c', 2), (b'b', 3)], 3);
    check_inserts("skiplist: insert c and b of two levels before d", b"d", [(b'c', 4), (b'b', 5)], 2);
}

#[test]
fn loom_insert_against_reads() {
    check_reads("skiplist: insert b between a and c, read all", b"ac", &[(b'b', 3)], 3);
    check_reads("skiplist: insert b and c of two levels behind a, read all", b"a", &[(b'b', 4), (b'c', 5)], 2);
}
