//! A reader and a writer, interleaved in every way that matters: the writer does some of its stores, then the reader some
//! of its reads, then the writer some more stores, then the reader the rest. With nodes of 12 slots all of these can be
//! tried. And a reader that is held up in mid-scan while a writer does whole operations, one after the other.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use slmdb_order::{Comparator, KeyOrder};
use slmdb_pmem::{Blocks, Medium, Pool, PoolOptions};
use slmdb_sync::epoch;

use super::pause::{Gate, with_hook};
use crate::EntryKind;
use crate::fast_fair::fences::{Side, Target};
use crate::fast_fair::{Decision, LeafRead, SegmentEntry, Tree, write_segment};
use slmdb_order::Direction;

/// By bytes, but whole keys are compared.
struct WholeKeys;

impl Comparator for WholeKeys {
    fn name(&self) -> &str {
        "whole keys"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        left.cmp(right)
    }
}

fn orders() -> [KeyOrder; 2] {
    [KeyOrder::Bytewise, KeyOrder::Custom(Arc::new(WholeKeys))]
}

struct Store {
    gate: Gate,
    tree: Arc<Tree<Gate>>,
    keys: Vec<Vec<u8>>,
    records: Vec<u64>,
}

impl Store {
    /// With records for `keys`, in order, and those of `present` in the tree.
    fn new(order: &KeyOrder, keys: Vec<Vec<u8>>, present: impl Iterator<Item = usize>) -> Store {
        let gate = Gate::default();
        let options = PoolOptions { initial_bytes: 0, growth_bytes: 1 << 16, maximum_bytes: 16 << 20, uuid: [1; 16] };
        let pool = Arc::new(Pool::anonymous(gate.clone(), &options).unwrap());
        let blocks = Arc::new(Blocks::open(Arc::clone(&pool)).unwrap());
        let tree = Arc::new(Tree::create(Arc::clone(&pool), blocks, 256, order.clone()).unwrap());
        let records = records(&pool, 1, &keys);
        let store = Store { gate, tree, keys, records };
        present.for_each(|key| store.put(key));
        store
    }

    fn put(&self, key: usize) {
        self.tree.insert_or_replace(&self.keys[key], self.records[key]).unwrap();
    }

    fn remove(&self, key: usize) {
        self.tree.remove(&self.keys[key]).unwrap();
    }

    /// What a reader may rely on: reads in order, without doubles, with all keys that are there and none that is not.
    fn check_scan(&self, direction: Direction, there: &BTreeSet<usize>, perhaps: &[usize]) {
        let guard = epoch::pin();
        let (mut leaf, mut from, mut found) = (LeafRead::new(), Some(Bound::Unbounded), Vec::new());
        while let Some(bound) = from {
            self.tree.read_leaf(bound.as_ref().map(Vec::as_slice), direction, &guard, &mut leaf).unwrap();
            found.extend(
                leaf.records().iter().map(|record| self.records.iter().position(|known| known == record).unwrap()),
            );
            from = leaf.next().map(|bound| bound.map(<[u8]>::to_vec));
        }
        if direction == Direction::Backward {
            found.reverse();
        }
        assert!(found.is_sorted_by(|left, right| left < right), "{direction:?}: {found:?}");
        let found: BTreeSet<usize> = found.into_iter().collect();
        let missing: Vec<_> = there.difference(&found).collect();
        let surplus: Vec<_> = found.difference(there).filter(|key| !perhaps.contains(key)).collect();
        assert!(missing.is_empty() && surplus.is_empty(), "{direction:?}: missing {missing:?}, surplus {surplus:?}");
    }

    fn check_get(&self, key: usize, there: bool) {
        let guard = epoch::pin();
        let found = self.tree.get(&self.keys[key], &guard).unwrap().map(|record| record.offset());
        assert_eq!(found, there.then_some(self.records[key]), "key {key}");
    }
}

fn records<M: Medium>(pool: &Pool<M>, file: u32, keys: &[Vec<u8>]) -> Vec<u64> {
    let entries = keys.iter().map(|key| SegmentEntry {
        key,
        sequence: 1,
        kind: EntryKind::Put,
        block_offset: 0,
        block_length: 0,
    });
    let segment = write_segment(pool, file, entries).unwrap();
    let guard = epoch::pin();
    segment.records(pool, &guard).map(|record| record.unwrap().offset()).collect()
}

/// Keys whose heads tell them apart, and keys whose heads are all the same.
fn kinds_of_keys(count: u8) -> [Vec<Vec<u8>>; 2] {
    let short = (0..count).map(|number| vec![b'a' + number]).collect();
    let long = (0..count).map(|number| [b"the same head ".as_slice(), &[b'a' + number]].concat()).collect();
    [short, long]
}

/// Opens the gate whatever happens, so that a failing test ends.
struct OpenAtEnd<'g>(&'g Gate);

impl Drop for OpenAtEnd<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Runs `write` and `read` interleaved: so many stores before the read begins, and then, before the slot read number
/// `at_read`, so many more. Says whether the writer still had stores to do before and whether the reader came that far.
fn run_once(
    gate: &Gate,
    stores_before: u64,
    at_read: usize,
    stores_between: u64,
    write: impl FnOnce() + Send,
    read: impl FnOnce(),
) -> (bool, bool) {
    gate.close();
    std::thread::scope(|scope| {
        scope.spawn(|| gate.run(write));
        let open_at_end = OpenAtEnd(gate);
        let writing = gate.advance(stores_before);
        let hook = {
            let gate = gate.clone();
            move || {
                gate.advance(stores_between);
            }
        };
        let reached = with_hook(at_read, hook, read);
        drop(open_at_end);
        (writing, reached)
    })
}

/// All interleavings of a write and a read. `setup` makes a store, or the one from before ready to be used again.
fn interleave(
    mut setup: impl FnMut() -> Arc<Store>,
    write: impl Fn(&Store) + Sync,
    read: impl Fn(&Store),
    stores_between: &[u64],
) {
    let mut stores_before = 0;
    loop {
        let mut writing = true;
        for &between in stores_between {
            let mut at_read = 0;
            loop {
                let store = setup();
                let (still_writing, reached) =
                    run_once(&store.gate, stores_before, at_read, between, || write(&store), || read(&store));
                writing &= still_writing;
                if !reached {
                    break;
                }
                at_read += 1;
            }
        }
        if !writing {
            return;
        }
        stores_before += 1;
    }
}

/// Few numbers of stores stand for all: within one slot's change, one slot, some slots, to the end.
const STORES_BETWEEN: [u64; 4] = [1, 2, 7, u64::MAX];

#[test]
fn range_scan_sees_a_key_twice_or_out_of_order_during_a_shift() {
    orders().iter().for_each(range_scan_repeats_or_disorders_keys_during_a_shift_in);
}

/// Range scan sees a key twice or out of order during a shift.
fn range_scan_repeats_or_disorders_keys_during_a_shift_in(order: &KeyOrder) {
    for (keys, changes) in kinds_of_keys(12).into_iter().zip([[0, 10], [4, 11]]) {
        for changed in changes {
            let there: BTreeSet<usize> = (0..12).filter(|&key| key != changed).collect();
            let store = Arc::new(Store::new(order, keys.clone(), there.iter().copied()));
            for direction in [Direction::Forward, Direction::Backward] {
                let absent = || {
                    store.remove(changed);
                    Arc::clone(&store)
                };
                let scan = |store: &Store| store.check_scan(direction, &there, &[changed]);
                interleave(absent, |store| store.put(changed), scan, &STORES_BETWEEN);
                let present = || {
                    store.put(changed);
                    Arc::clone(&store)
                };
                interleave(present, |store| store.remove(changed), scan, &STORES_BETWEEN);
            }
        }
    }
}

#[test]
fn slot_0_passes_through_null() {
    orders().iter().for_each(slot_0_passes_through_null_in);
}

fn slot_0_passes_through_null_in(order: &KeyOrder) {
    // A change of the first slot, and readers of all the others: whoever takes an unready slot for the end of the node
    // misses everything behind it.
    for keys in kinds_of_keys(8) {
        let there: BTreeSet<usize> = (1..8).collect();
        let store = Arc::new(Store::new(order, keys, there.iter().copied()));
        for key in [1, 7] {
            let absent = || {
                store.remove(0);
                Arc::clone(&store)
            };
            interleave(absent, |store| store.put(0), |store| store.check_get(key, true), &STORES_BETWEEN);
            let present = || {
                store.put(0);
                Arc::clone(&store)
            };
            interleave(present, |store| store.remove(0), |store| store.check_get(key, true), &STORES_BETWEEN);
        }
    }
}

#[test]
fn a_reader_held_up_while_whole_operations_go_by_misses_nothing() {
    orders().iter().for_each(a_reader_held_up_during_whole_operations_misses_nothing_in);
}

/// A reader held up while whole operations go by misses nothing.
fn a_reader_held_up_during_whole_operations_misses_nothing_in(order: &KeyOrder) {
    // The directions of the changes alternate, and pairs return to slots that they have left.
    for keys in kinds_of_keys(12) {
        let there: BTreeSet<usize> = [1, 3, 4, 6, 8, 9].into_iter().collect();
        for operations in [[0, 2, 0, 2], [5, 7, 7, 5], [10, 0, 0, 10], [2, 2, 2, 2], [11, 0, 5, 11]] {
            let store = Arc::new(Store::new(order, keys.clone(), there.iter().copied()));
            for (start, count) in (0..2).flat_map(|start| (1..=4).map(move |count| (start, count))) {
                // Before the read, so that it begins in either direction; and in its middle.
                let prepare = |store: &Store| {
                    operations.iter().for_each(|&key| if start == 0 { store.remove(key) } else { store.put(key) })
                };
                let reads: [&dyn Fn(); 3] = [
                    &|| store.check_scan(Direction::Forward, &there, &operations),
                    &|| store.check_scan(Direction::Backward, &there, &operations),
                    &|| there.iter().for_each(|&key| store.check_get(key, true)),
                ];
                for read in reads {
                    let mut at_read = 0;
                    loop {
                        prepare(&store);
                        let other = Arc::clone(&store);
                        let hook = move || {
                            for (index, &key) in operations.iter().enumerate().take(count) {
                                if (index + start) % 2 == 0 { other.put(key) } else { other.remove(key) }
                            }
                        };
                        if !with_hook(at_read, hook, read) {
                            break;
                        }
                        at_read += 1;
                    }
                }
            }
        }
    }
}

/// All leaves are found at first go: the child that the root names for a key covers it. (If it did not, siblings and
/// fences would still lead to the right leaf, so that a search by the tree's own means shows nothing.)
fn check_children(store: &Store, keys: &[usize]) {
    let _guard = epoch::pin();
    for &key in keys {
        let target = Target::At(&store.keys[key]);
        let root = store.tree.root().unwrap();
        let Side::Inside(head) = root.fences(store.tree.pool()).unwrap().side(&target, store.tree.order()) else {
            panic!("the root covers all")
        };
        let child = store.tree.child(&root, &target, head).unwrap().expect("a child");
        let leaf = store.tree.node(child, 0).unwrap();
        let side = leaf.fences(store.tree.pool()).unwrap().side(&target, store.tree.order());
        assert!(matches!(side, Side::Inside(_)), "key {key}: the child is to the {side:?} of it");
    }
}

#[test]
fn inner_search_takes_the_wrong_child_during_a_shift() {
    orders().iter().for_each(inner_search_takes_the_wrong_child_during_a_shift_in);
}

fn inner_search_takes_the_wrong_child_during_a_shift_in(order: &KeyOrder) {
    let short: Vec<Vec<u8>> = (0..96_u8).map(|number| vec![number]).collect();
    let long = (0..96).map(|number| [b"a common beginning".as_slice(), &[number]].concat()).collect();
    for keys in [short, long] {
        // Every other key is there; odd ones then fill a leaf in the middle and split it, which shifts the root's slots.
        let fill: Vec<usize> = (25..48).step_by(2).collect();
        let ready = || Store::new(order, keys.clone(), (0..96).step_by(2));
        let store = ready();
        let children =
            |store: &Store| store.tree.root().unwrap().slots.iter().filter(|slot| slot.read().pointer != 0).count();
        let before = children(&store);
        assert!(store.tree.height().unwrap() == 2 && before >= 4);
        let splits = |&&key: &&usize| {
            store.put(key);
            children(&store) > before
        };
        let splitter = *fill.iter().find(splits).expect("one of them splits a leaf");
        let make = || {
            let store = ready();
            fill.iter().take_while(|&&key| key != splitter).for_each(|&key| store.put(key));
            Arc::new(store)
        };
        // The leaf that is split is somewhere between; these are not in it.
        let others = [0, 22, 50, 94];
        interleave(make, |store| store.put(splitter), |store| check_children(store, &others), &[2, u64::MAX]);
        let all = || make();
        let get = |store: &Store| others.iter().for_each(|&key| store.check_get(key, true));
        interleave(all, |store| store.put(splitter), get, &[u64::MAX]);
    }
}

/// Inner search takes the wrong child while whole operations go by.
#[test]
fn inner_search_errs_while_whole_operations_go_by() {
    orders().iter().for_each(inner_search_errs_while_whole_operations_go_by_in);
}

/// Inner search takes the wrong child while whole operations go by.
fn inner_search_errs_while_whole_operations_go_by_in(order: &KeyOrder) {
    // Leaves at the left end are merged while the root is searched, which shifts its slots to the left past a reader that
    // goes to the right; or split, the other way round.
    let keys: Vec<Vec<u8>> = (0..96_u8).map(|number| vec![number]).collect();
    for merge_first in [false, true] {
        let mut at_read = 0;
        loop {
            let store = Arc::new(Store::new(order, keys.clone(), (0..96).step_by(2)));
            // Leaves with half of their keys, so that they can be merged.
            (2..96).step_by(4).for_each(|key| store.remove(key));
            if merge_first {
                (0..20).step_by(2).for_each(|key| store.remove(key));
            }
            let other = Arc::clone(&store);
            let hook = move || match merge_first {
                false => (0..20).step_by(2).for_each(|key| other.remove(key)),
                true => (0..40).for_each(|key| other.put(key)),
            };
            let count =
                |store: &Store| store.tree.root().unwrap().slots.iter().filter(|slot| slot.read().pointer != 0).count();
            let before = count(&store);
            let reached = with_hook(at_read, hook, || check_children(&store, &[92, 72]));
            if !reached {
                break;
            }
            assert!(count(&store) != before, "children were merged or split");
            at_read += 1;
        }
        // By halves, fewer slots are read.
        assert!(at_read > if order.is_bytewise() { 12 } else { 4 });
    }
}

#[test]
fn a_batch_is_read_while_it_is_applied() {
    orders().iter().for_each(a_batch_is_read_while_it_is_applied_in);
}

fn a_batch_is_read_while_it_is_applied_in(order: &KeyOrder) {
    let keys: Vec<Vec<u8>> = (0..40_u8).map(|number| vec![number]).collect();
    let make = || Arc::new(Store::new(order, keys.clone(), (0..40).step_by(4)));
    let there: BTreeSet<usize> = (0..40).step_by(4).collect();
    let perhaps: Vec<usize> = (0..40).filter(|key| key % 4 != 0).collect();
    let write = |store: &Store| {
        let batch = perhaps.iter().map(|&key| &store.keys[key][..]);
        store.tree.update_sorted(batch, |index, _| Ok(Decision::Put(store.records[perhaps[index]]))).unwrap();
    };
    let read = |store: &Store| store.check_scan(Direction::Forward, &there, &perhaps);
    interleave(make, write, read, &[1, 4, u64::MAX]);
}
