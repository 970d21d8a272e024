//! Tables and merges against a model.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use slmdb_env::ErrorKind;
use slmdb_pmem::{Claim, Dram, Extent, ExtentKind, Pool, PoolOptions, UNIT_BYTES};
use slmdb_structures::hash::{
    Deletes, DramWriter, HashTable, Identity, Lost, Merge, PoolBytes, Slot, TableBuilder, TableOptions, table_bytes,
};

use super::{Memory, Parts, UUID, built, check, extents, open, options, parts, pool, slot, written};

/// Hashes that are spread, together, or nearly equal.
fn identity(shard: u16) -> impl Strategy<Value = Identity> {
    let hash = prop_oneof![
        4 => any::<u64>(),
        1 => 0..300_u64,
        1 => (0..300_u64).prop_map(|low| u64::MAX - low),
        1 => (0..20_u64).prop_map(|high| high << 58),
    ];
    (hash, 0..3_u64).prop_map(move |(hash, rest)| Identity::new(shard, hash, rest))
}

fn some_parts(most: usize) -> impl Strategy<Value = Parts> {
    let part = |shard| {
        let slots = prop::collection::btree_map(identity(shard), any::<u32>(), 0..most);
        let made = |slots: BTreeMap<Identity, u32>| {
            slots.into_iter().map(|(identity, number)| (identity, slot(&identity, number))).collect::<BTreeMap<_, _>>()
        };
        prop::option::weighted(0.8, slots.prop_map(made)).prop_map(move |slots| (shard, slots))
    };
    [part(2), part(3), part(4), part(5), part(6)]
        .prop_map(|parts| parts.into_iter().filter_map(|(shard, slots)| Some((shard, slots?))).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_is_what_was_written(parts in some_parts(150), others in some_parts(20), load_percent in 0..120_u32) {
        let built = built(3, &parts, load_percent);
        let in_memory = HashTable::open(Memory(built.bytes().to_vec()), 3, UUID).unwrap();
        let pool = pool(Dram);
        let in_pool = open(&pool, built.write_to_pool(&pool, Claim::Privileged).unwrap(), 3).unwrap();
        prop_assert_eq!(in_memory.record(), built.record());
        check(&in_memory, &parts);
        check(&in_pool, &parts);
        for identity in others.values().flat_map(BTreeMap::keys) {
            let expected = parts.get(&identity.shard()).and_then(|part| part.get(identity)).copied();
            prop_assert_eq!(in_memory.get(identity).unwrap(), expected);
            prop_assert_eq!(in_pool.get(identity).unwrap(), expected);
        }
        prop_assert_eq!(pool.verify().len(), 0);
    }

    /// The newest wins, deletes vanish where they may, and every slot that is not there any more was told.
    #[test]
    fn a_merge_has_the_newest(
        newest in prop::collection::btree_map(identity(2), any::<u32>(), 0..60),
        tables in prop::collection::vec(some_parts(60), 0..4),
        deletes in prop_oneof![Just(Deletes::Kept), Just(Deletes::Dropped)],
    ) {
        let mut writer = DramWriter::new(75, 0);
        newest.iter().for_each(|(identity, number)| assert_eq!(writer.insert(slot(identity, *number)), None));
        let opened: Vec<_> = tables.iter().map(|parts| {
            HashTable::open(Memory(built(3, parts, 80).bytes().to_vec()), 3, UUID).unwrap()
        }).collect();
        let mut sources: Vec<Box<dyn Iterator<Item = _>>> = vec![Box::new(writer.slots().map(Ok))];
        opened.iter().for_each(|table| sources.push(Box::new(table.slots(2))));
        let (mut merge, mut lost, mut merged) = (Merge::new(sources, deletes).unwrap(), Vec::new(), Vec::new());
        while let Some(slot) = merge.next(|slot| lost.push(slot)).unwrap() {
            merged.push(slot);
        }
        let (mut model, mut expected_lost) = (BTreeMap::<Identity, Slot>::new(), Vec::new());
        let newest: BTreeMap<_, _> = newest.iter().map(|(identity, number)| (*identity, slot(identity, *number))).collect();
        let older = tables.iter().filter_map(|parts| parts.get(&2)).flatten();
        for (identity, slot) in newest.iter().chain(older) {
            match model.get(identity) {
                None => drop(model.insert(*identity, *slot)),
                Some(newer) if newer.place() == slot.place() => {}
                Some(_) => expected_lost.push(Lost::Replaced(*slot)),
            }
        }
        if deletes == Deletes::Dropped {
            expected_lost.extend(model.values().filter(|slot| slot.is_delete()).map(|slot| Lost::Vanished(*slot)));
            model.retain(|_, slot| !slot.is_delete());
        }
        prop_assert!(merged.iter().eq(model.values()));
        let key = |lost: &Lost| format!("{lost:?}");
        lost.sort_by_key(key);
        expected_lost.sort_by_key(key);
        prop_assert_eq!(lost, expected_lost);
    }
}

#[test]
fn long_parts_are_read_piece_by_piece() {
    let parts = parts([(2, 10_000), (3, 0), (6, 4096)], 1);
    let pool = pool(Dram);
    let table = open(&pool, written(&pool, 3, &parts), 3).unwrap();
    check(&table, &parts);
    let estimate = table_bytes(14_096, 3, 75);
    let length_bytes = table.record().length_bytes;
    assert!(length_bytes <= estimate && estimate < length_bytes + 2000, "{length_bytes}, not {estimate}");
    assert_eq!(table.bytes().extent().length_bytes, length_bytes.next_multiple_of(UNIT_BYTES));
    assert!(table.memory_bytes() < 1000);
}

/// A search asks for few units.
#[test]
fn a_search_reads_little() {
    #[derive(Debug)]
    struct Watched(Memory, std::sync::Mutex<Vec<(u64, usize)>>);
    impl slmdb_structures::hash::TableBytes for Watched {
        fn path(&self) -> &std::path::Path {
            self.0.path()
        }
        fn length_bytes(&self) -> u64 {
            self.0.length_bytes()
        }
        fn copy(&self, at: u64, into: &mut [u8]) -> slmdb_env::Result<()> {
            self.1.lock().unwrap().push((at, into.len()));
            self.0.copy(at, into)
        }
    }
    let parts = parts([(2, 20_000)], 1);
    let watched = Watched(Memory(built(3, &parts, 75).bytes().to_vec()), std::sync::Mutex::default());
    let table = HashTable::open(watched, 3, UUID).unwrap();
    table.bytes().1.lock().unwrap().clear();
    for (identity, slot) in &parts[&2] {
        assert_eq!(table.get(identity).unwrap(), Some(*slot));
    }
    let (others, mut missing) = (super::parts([(2, 20_000)], 2), 0);
    for identity in others[&2].keys() {
        missing += u32::from(table.get(identity).unwrap().is_none());
    }
    assert_eq!(missing, 20_000);
    let reads = std::mem::take(&mut *table.bytes().1.lock().unwrap());
    assert!(reads.len() < 54_000, "{} reads of 40,000 keys", reads.len());
    assert!(reads.iter().all(|&(at, length)| length == 256 && at % 256 == 0), "whole units");
}

#[test]
fn what_is_out_of_order_is_refused() {
    let refused = |result: slmdb_env::Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid);
    let small = slot(&Identity::new(3, 1, 1), 1);
    let large = slot(&Identity::new(3, 1, 2), 1);
    let mut builder = TableBuilder::new(options(1)).unwrap();
    refused(builder.add(small));
    refused(builder.begin_part(1, 75));
    refused(builder.begin_part(7, 75));
    builder.begin_part(3, 75).unwrap();
    refused(builder.begin_part(3, 75));
    refused(builder.begin_part(2, 75));
    builder.add(large).unwrap();
    refused(builder.add(large));
    refused(builder.add(small));
    builder.begin_part(4, 75).unwrap();
    builder.add(small).unwrap();
    let parts =
        Parts::from([(3, [(Identity::new(3, 1, 2), large)].into()), (4, [(Identity::new(4, 1, 1), small)].into())]);
    assert!(builder.length_bytes() > 256);
    check(&HashTable::open(Memory(builder.finish().unwrap().bytes().to_vec()), 1, UUID).unwrap(), &parts);
    for (shards, range) in [(0, 0..1), (3, 0..1), (8, 3..3), (8, 7..9), (1 << 15, 0..1), (8, 9..12)] {
        refused(TableBuilder::new(TableOptions { shards, range, ..options(1) }).map(drop));
    }
    let most = TableOptions { shards: 1 << 14, range: 0..1 << 14, ..options(1) };
    let empty = TableBuilder::new(most).unwrap().finish().unwrap();
    check(&HashTable::open(Memory(empty.bytes().to_vec()), 1, UUID).unwrap(), &Parts::new());
}

/// A pool without room refuses, and nothing is left behind.
#[test]
fn a_full_pool_is_told() {
    let options = PoolOptions { initial_bytes: 0, growth_bytes: 0, maximum_bytes: 6 * UNIT_BYTES, uuid: UUID };
    let pool = Arc::new(Pool::anonymous(Dram, &options).unwrap());
    let before = pool.extents();
    let large = built(3, &parts([(2, 20_000)], 1), 75);
    assert_eq!(large.write_to_pool(&pool, Claim::Privileged).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(pool.extents(), before);
    let fits = parts([(2, 2000)], 1);
    let extent = written(&pool, 4, &fits);
    check(&open(&pool, extent, 4).unwrap(), &fits);
    assert_eq!(extents(&pool), [extent]);
}

#[test]
fn another_number_or_store_is_refused() {
    let pool = pool(Dram);
    let parts = parts([(2, 20)], 1);
    let extent = written(&pool, 3, &parts);
    let kind = |extent, number| open(&pool, extent, number).unwrap_err().kind();
    assert_eq!(kind(extent, 4), ErrorKind::Corruption);
    let other = pool.set_extent_owner(extent.offset, 4).unwrap();
    assert_eq!(kind(extent, 3), ErrorKind::Corruption);
    assert_eq!(kind(other, 4), ErrorKind::Corruption);
    let bytes = || Memory(built(3, &parts, 75).bytes().to_vec());
    assert_eq!(HashTable::open(bytes(), 3, [8; 16]).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(HashTable::open(bytes(), 4, UUID).unwrap_err().kind(), ErrorKind::Corruption);
    let list = pool.allocate_extent(ExtentKind::List, 1, 3).unwrap();
    for extent in [list, Extent { kind: ExtentKind::HashTable, ..list }, Extent { offset: 1 << 40, ..other }] {
        assert_eq!(PoolBytes::new(Arc::clone(&pool), extent).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

/// Two slots that lead to one entry are no loss.
#[test]
fn an_entry_that_is_still_found_is_not_lost() {
    let slot = slot(&Identity::new(2, 7, 7), 1);
    let once = || -> Box<dyn Iterator<Item = _>> { Box::new([Ok(slot)].into_iter()) };
    let mut merge = Merge::new([once(), once()], Deletes::Dropped).unwrap();
    assert_eq!(merge.next(|lost| panic!("{lost:?}")).unwrap(), Some(slot));
    assert_eq!(merge.next(|lost| panic!("{lost:?}")).unwrap(), None);
}
