//! What the tree may come to need of the pool is never more than it says.

use std::collections::BTreeSet;

use crate::alone;
use crate::support::orders::{as_comparator, backwards, by_length};
use crate::support::{Random, Store, budget};
use slmdb_order::KeyOrder;
use slmdb_pmem::{Dram, Extent, ExtentKind, UNIT_BYTES};
use slmdb_structures::KeyLengths;
use slmdb_structures::fast_fair::Decision;
use slmdb_structures::fast_fair::space_bounds::ENTRIES_UNDER_ONE_GUARD;
use slmdb_sync::epoch;

const POOL_BYTES: u64 = 1 << 30;

/// What one flush does: keys in order, each put or removed.
type Batch = Vec<(Vec<u8>, bool)>;

struct Load {
    store: Store<Dram>,
    order: KeyOrder,
    file: u32,
    /// Take all of the pool but for what is to be there.
    arenas: Vec<Extent>,
    keys: KeyLengths,
}

impl Load {
    fn new(node_bytes: u32, order: &KeyOrder) -> Load {
        let store = Store::create_ordered(Dram, node_bytes, POOL_BYTES, order.clone());
        Load { store, order: order.clone(), file: 0, arenas: Vec::new(), keys: KeyLengths::default() }
    }

    /// Lets the tree have what it says it needs for this batch, in the smallest pieces, and no unit more. Gives how much of
    /// it was used.
    fn flush(&mut self, mut batch: Batch) -> (u64, u64) {
        batch.sort_by(|left, right| self.order.compare(&left.0, &right.0).then(left.1.cmp(&right.1)));
        batch.dedup_by(|left, right| left.0 == right.0);
        let pool = &self.store.pool;
        for arena in self.arenas.drain(..) {
            pool.free_extent(arena.offset).unwrap();
        }
        self.file += 1;
        let keys: Vec<&[u8]> = batch.iter().map(|(key, _)| &key[..]).collect();
        keys.iter().for_each(|key| self.keys.add(key.len()));
        let records = self.store.records(self.file, &keys);
        let piece_bytes = self.store.tree.piece_bytes(self.keys);
        let bound = self.store.tree.node_bytes_max(batch.len() as u64, self.keys).unwrap();
        assert_eq!(bound % piece_bytes, 0);
        assert!(bound < POOL_BYTES / 20 * 9, "{bound} bytes for {} entries", batch.len());
        pool.set_reserve(0, 0).unwrap();
        while let Ok(arena) = pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 0) {
            self.arenas.push(arena);
        }
        // Pieces, with a unit between them that is not free.
        self.arenas.sort_by_key(|arena| arena.offset);
        let (piece_units, mut left, mut row) = ((piece_bytes / UNIT_BYTES) as usize, bound / UNIT_BYTES, 0);
        let mut previous = None;
        self.arenas.retain(|arena| {
            row = if previous == Some(arena.offset) { row + 1 } else { 0 };
            previous = Some(arena.end());
            let free = left > 0 && row % (piece_units + 1) < piece_units;
            if free {
                pool.free_extent(arena.offset).unwrap();
                left -= 1;
            }
            !free
        });
        assert_eq!((left, pool.free_bytes()), (0, bound));
        self.swing(&batch, &records);
        (bound - pool.free_bytes(), bound)
    }

    /// As a flush of the engine does it.
    fn swing(&self, batch: &Batch, records: &[u64]) {
        let mut done = 0;
        for part in batch.chunks(ENTRIES_UNDER_ONE_GUARD) {
            let guard = epoch::pin();
            let decide =
                |index: usize| if part[index].1 { Decision::Put(records[done + index]) } else { Decision::Remove };
            let keys = part.iter().map(|(key, _)| &key[..]);
            self.store.tree.update_sorted(keys, |index, _| Ok(decide(index))).unwrap();
            guard.flush();
            done += part.len();
        }
    }

    fn verify(&self) {
        let faults = self.store.tree.verify();
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

fn number(value: u64, bytes: usize) -> Vec<u8> {
    let digits = value.to_be_bytes();
    [vec![b'p'; bytes - 8], digits.to_vec()].concat()
}

fn puts(keys: impl Iterator<Item = Vec<u8>>) -> Batch {
    keys.map(|key| (key, true)).collect()
}

/// Loads that make as many nodes as can be, one after the other into the same tree.
fn adversarial(order: &KeyOrder, node_bytes: u32, scale: u64, key_bytes: usize) -> Vec<(u64, u64)> {
    let slots = u64::from(node_bytes - 64) / 16;
    let mut random = Random::new(u64::from(node_bytes));
    let mut load = Load::new(node_bytes, order);
    let mut needs = Vec::new();
    let step = 1 << 32;
    // Ascending: full leaves.
    needs.push(load.flush(puts((0..scale).map(|index| number(index * step, key_bytes)))));
    // One key for each full leaf: all of them split.
    needs.push(load.flush(puts((0..scale / slots).map(|index| number(index * slots * step + 1, key_bytes)))));
    // Random ones.
    needs.push(load.flush(puts((0..scale).map(|_| number(random.next() % (scale * step), key_bytes)))));
    // Behind each other in one place, then all that is there but every tenth is removed, and put again.
    needs.push(load.flush(puts((0..scale).map(|index| number(step / 2 - index, key_bytes)))));
    needs.push(load.flush(
        (0..scale).filter(|index| index % 10 != 0).map(|index| (number(index * step, key_bytes), false)).collect(),
    ));
    needs.push(load.flush((0..scale).map(|index| (number(index * step, key_bytes), index % 3 != 0)).collect()));
    load.verify();
    // Small flushes, of which each begins with a tree where something waits to be used again.
    for _ in 0..20 {
        let around = random.next() % (scale * step);
        needs.push(load.flush(puts((0..300).map(|index| number(around + index * 3, key_bytes)))));
        needs.push(load.flush(
            (0..300).map(|_| (number(random.next() % (scale * step), key_bytes), random.below(2) == 0)).collect(),
        ));
    }
    load.verify();
    needs
}

/// Keys with long beginnings in common, of all lengths: their fences are as long as they are.
fn long_keys(order: &KeyOrder, node_bytes: u32, longest: usize, flushes: usize) -> Vec<(u64, u64)> {
    let mut random = Random::new(longest as u64);
    let mut load = Load::new(node_bytes, order);
    let mut needs = Vec::new();
    for flush in 0..flushes {
        let batch = (0..1 + 2_000_000 / (longest + 200))
            .map(|_| {
                let length =
                    [longest - 4, longest / 2, longest / 3, 8, 40][random.below(if flush % 4 == 3 { 5 } else { 3 })];
                let mut key = vec![b'a' + random.below(2) as u8; length.min(longest - 4)];
                key.extend_from_slice(&(random.next() as u32).to_be_bytes());
                (key, flush % 3 != 2 || random.below(4) == 0)
            })
            .collect();
        needs.push(load.flush(batch));
    }
    load.verify();
    needs
}

/// Where leaves begin, of a tree whose keys are decimal numbers of six digits, maybe with something behind them.
fn boundaries(load: &Load) -> Vec<u64> {
    let dump = load.store.tree.dump().unwrap();
    let (_, leaves) = dump.split_once("level 0\n").unwrap();
    let number = |line: &str| line.split_once('[')?.1.trim_start_matches('"').get(..6)?.parse().ok();
    leaves.lines().filter_map(number).collect()
}

/// Fences of 6 and of 18 bytes by turns, which stand in the nodes under a comparator, and no other keys of 18 bytes; then
/// those are gone, and short keys split every leaf: now its fences take a block.
fn short_keys_between_long_fences(node_bytes: u32, keys: u64) -> (u64, u64) {
    let key = |index: u64, bytes: usize| format!("{index:06}{}", "x".repeat(bytes - 6)).into_bytes();
    let mut load = Load::new(node_bytes, &as_comparator());
    load.flush(puts((0..keys).map(|index| key(index, 6))));
    let all = boundaries(&load);
    let long: BTreeSet<u64> = all.iter().copied().step_by(2).collect();
    let mut load = Load::new(node_bytes, &as_comparator());
    load.flush(puts((0..keys).map(|index| key(index, if long.contains(&index) { 18 } else { 6 }))));
    assert!(all.len() as u64 > keys / 200);
    assert_eq!(all, boundaries(&load));
    assert_eq!(load.store.blocks.used_count(64), 0, "fences are in blocks already");
    load.flush(long.iter().map(|&index| (key(index, 18), false)).collect());
    assert_eq!(load.store.blocks.used_count(64), 0, "fences are in blocks already");
    load.keys = KeyLengths::default();
    let need = load.flush(puts((0..keys).flat_map(|index| (7..11).map(move |bytes| key(index, bytes)))));
    assert!(load.store.blocks.used_count(64) >= long.len() as u64 / 2);
    load.verify();
    need
}

#[test]
fn a_flush_never_needs_more_than_the_tree_says() {
    let _alone = alone();
    let bytewise = &KeyOrder::Bytewise;
    let (backwards, by_length, as_comparator) = (&backwards(), &by_length(), &as_comparator());
    // Keys of 12 bytes: whole keys as fences, and just in the node; of 13: just not; of 32 and 33: short, and long.
    for (order, node_bytes, key_bytes) in [
        (bytewise, 256, 8),
        (bytewise, 512, 8),
        (bytewise, 512, 20),
        (bytewise, 512, 60),
        (bytewise, 4096, 20),
        (backwards, 256, 8),
        (as_comparator, 512, 12),
        (backwards, 512, 13),
        (as_comparator, 256, 20),
        (by_length, 512, 32),
        (as_comparator, 512, 33),
        (backwards, 512, 60),
    ] {
        let needs = adversarial(order, node_bytes, 20_000 * budget() as u64, key_bytes);
        println!("{}, nodes of {node_bytes}, keys of {key_bytes}: used, said {:?}", order.name(), &needs[..6]);
        // Not so much that it says nothing.
        let (used, said) = needs[..6].iter().fold((0, 0), |sum, need| (sum.0 + need.0, sum.1 + need.1));
        assert!(said < 100 * used, "{said} bytes said, {used} used");
    }
    for (order, node_bytes, longest) in [
        (bytewise, 256, 40),
        (bytewise, 512, 300),
        (bytewise, 512, 2000),
        (bytewise, 1024, 17_000),
        (bytewise, 512, 35_000),
        (bytewise, 256, 65_535),
        (as_comparator, 256, 40),
        (by_length, 512, 300),
        (backwards, 512, 2000),
        (backwards, 512, 35_000),
        (as_comparator, 256, 65_535),
    ] {
        let needs = long_keys(order, node_bytes, longest, 6 * budget());
        println!("{}, nodes of {node_bytes}, keys up to {longest}: used, said {needs:?}", order.name());
    }
    for node_bytes in [256, 512] {
        let need = short_keys_between_long_fences(node_bytes, 50_000);
        println!("nodes of {node_bytes}, short keys between fences of 18: used, said {need:?}");
    }
}
