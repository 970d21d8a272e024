//! Merges of sources that are lists in memory, against sorting.

use slmdb_env::Error;
use slmdb_order::KeyOrder;

use crate::read::merge::*;

/// Entries, and how many there are before one that can't be read.
struct List {
    entries: Vec<(Vec<u8>, u64)>,
    readable: usize,
    passed: usize,
}

impl List {
    fn new(mut entries: Vec<(Vec<u8>, u64)>) -> List {
        entries.sort_by(|(left, earlier), (right, later)| left.cmp(right).then(later.cmp(earlier)));
        List { entries, readable: usize::MAX, passed: 0 }
    }
}

impl Source for List {
    fn advance(&mut self) -> Result<bool> {
        if self.passed == self.readable {
            return Err(Error::corruption("list", 0, "unreadable"));
        }
        self.passed += 1;
        Ok(self.passed <= self.entries.len())
    }

    fn key(&self) -> &[u8] {
        self.entries.get(self.passed - 1).map_or(&[], |(key, _)| key)
    }

    fn sequence(&self) -> u64 {
        self.entries.get(self.passed - 1).map_or(0, |(_, sequence)| *sequence)
    }
}

/// All that is left, with the source of each.
fn drain(mut merge: Merge<List>) -> Vec<(Vec<u8>, u64, usize)> {
    let mut all = Vec::new();
    while let Some((number, list)) = merge.first() {
        all.push((list.key().to_vec(), list.sequence(), number));
        assert!(merge.first_of(list.key(), merge.first_head()).is_some());
        assert!(merge.first_of(b"another", merge.first_head()).is_none());
        merge.advance().unwrap();
    }
    assert!(merge.first_of(b"", 0).is_none());
    all
}

/// Keys with long common heads, some with none of the prefix, prefixes of others, and the empty one.
fn keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = [&b""[..], b"a", b"prefi", b"prefix", b"prefiy", b"z"].map(<[u8]>::to_vec).into();
    for number in 0..40_u64 {
        keys.push([b"prefix", &number.to_be_bytes()[..(number % 9) as usize]].concat());
        keys.push([&b"prefix\xff\xff\xff\xff\xff\xff\xff\xff"[..], &number.to_be_bytes()].concat());
    }
    keys.sort();
    keys.dedup();
    keys
}

#[test]
fn a_merge_has_all_entries_in_order_newest_versions_first() {
    let keys = keys();
    for sources in [0, 1, 2, 3, 5, 8, 13] {
        let mut lists = vec![Vec::new(); sources];
        let mut all = Vec::new();
        for (number, key) in keys.iter().cycle().take(if sources == 0 { 0 } else { 3 * keys.len() }).enumerate() {
            let (source, sequence) = (number * number % 7 % sources, (number * 7919 % 1009) as u64);
            lists[source].push((key.clone(), sequence));
            all.push((key.clone(), sequence, source));
        }
        all.sort_by(|(left, earlier, _), (right, later, _)| left.cmp(right).then(later.cmp(earlier)));
        for prefix in [&b""[..], b"prefix"] {
            let (tenth, last) = (Some(&keys[10][..]), keys.last().map(Vec::as_slice));
            for (from, until) in [(None, None), (Some(&keys[20][..]), None), (None, last), (tenth, Some(b"prefix\x01"))]
            {
                let lists = lists.iter().cloned().map(List::new).collect();
                let merge = Merge::new(lists, KeyOrder::Bytewise, prefix.to_vec(), (from, until)).unwrap();
                let wanted: Vec<_> = all
                    .iter()
                    .filter(|(key, ..)| from.is_none_or(|from| &key[..] >= from))
                    .filter(|(key, ..)| until.is_none_or(|until| &key[..] < until))
                    .cloned()
                    .collect();
                assert_eq!(drain(merge), wanted, "{sources} sources");
            }
        }
    }
}

/// Sources of several kinds are merged in boxes, and each is lent with the right to change it.
#[test]
fn sources_in_boxes_are_lent_one_by_one() {
    let list = |keys: &[u8]| Box::new(List::new(keys.iter().map(|&key| (vec![key], 1)).collect())) as Box<dyn Source>;
    let lists = vec![list(&[1, 4]), list(&[2, 3, 5])];
    let mut merge = Merge::new(lists, KeyOrder::Bytewise, Vec::new(), (None, None)).unwrap_or_else(|_| panic!("lists"));
    let mut found = Vec::new();
    while let Some((number, source)) = merge.first_mut() {
        found.push((number, source.key()[0], source.sequence()));
        merge.advance().unwrap();
    }
    assert_eq!(found, [(0, 1, 1), (1, 2, 1), (1, 3, 1), (0, 4, 1), (1, 5, 1)]);
}

#[test]
fn an_error_tells_which_source_it_is_of() {
    let list = |readable: usize| {
        let entries = (0..10).map(|number| (vec![number], 1)).collect();
        List { readable, ..List::new(entries) }
    };
    let merge = |lists: Vec<List>| Merge::new(lists, KeyOrder::Bytewise, Vec::new(), (None, None));
    assert!(matches!(merge(vec![list(11), list(0)]), Err((1, Error::Corruption { .. }))));
    let mut merge = merge(vec![list(11), list(11), list(4), list(11)]).unwrap_or_else(|_| panic!("readable"));
    let error = std::iter::from_fn(|| Some(merge.advance())).take(40).find_map(Result::err);
    assert!(matches!(error, Some((2, Error::Corruption { .. }))));
}

#[test]
fn what_all_keys_begin_with_is_what_their_bounds_begin_with() {
    let of = |bounds: &[&[u8]]| common_prefix(bounds.iter().copied());
    assert_eq!(of(&[]), b"");
    assert_eq!(of(&[b"same", b"same"]), b"same");
    assert_eq!(of(&[b"prefix a", b"prefix b", b"prefer"]), b"pref");
    assert_eq!(of(&[b"a", b""]), b"");
}
