//! Crashes of the tree: a workload is recorded on the simulated medium, and every crash that its fences part is looked at.
//! After each, everything acknowledged is there, what was in flight is there or not, nothing is lost or leaked, and the
//! tree goes on working; also when the recovery crashes again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::support::{Random, Store, budget, hostile_keys, orders, pool_options};
use slmdb_order::{Direction, KeyOrder};
use slmdb_pmem::{Blocks, Dram, Medium, Pool};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{Decision, KeyRecord, Segment, SegmentEntry, Tree, set_replaced_file, write_segment};
use slmdb_sync::epoch;
use slmdb_testkit::Simulated;

type Model = BTreeMap<Vec<u8>, u64>;

/// What one operation changes: for each key what it has after, if anything.
type Changes = Vec<(Vec<u8>, Option<u64>)>;

/// The keys of a workload and the records there are for each.
struct Universe {
    keys: Vec<Vec<u8>>,
    records: Vec<Vec<u64>>,
    order: KeyOrder,
}

impl Universe {
    /// A store from the bytes that a crash has left.
    fn open(&self, image: Vec<u8>) -> Store<Dram> {
        Store::open_image_ordered(Dram, image, self.order.clone())
    }

    fn new<M: Medium>(store: &Store<M>, mut keys: Vec<Vec<u8>>) -> Universe {
        keys.sort_by(|left, right| store.tree.order().compare(left, right));
        keys.dedup();
        let records = (1..=2).map(|file| store.records(file, &keys)).collect();
        Universe { keys, records, order: store.tree.order().clone() }
    }

    /// One random operation, as the changes that it makes. `growth` of 16 decides whether keys come or go.
    fn operation(&self, random: &mut Random, growth: usize) -> Changes {
        let start = random.below(self.keys.len());
        let count = match random.below(12) {
            0 => 1 + random.below(40),
            1 => 2,
            _ => 1,
        };
        let change = |key: usize, random: &mut Random| {
            let put = random.below(16) < growth;
            (self.keys[key].clone(), put.then(|| self.records[random.below(2)][key]))
        };
        (start..self.keys.len()).take(count).map(|key| change(key, random)).collect()
    }
}

fn apply<M: Medium>(tree: &Tree<M>, changes: &Changes) {
    let decision = |index: usize| changes[index].1.map_or(Decision::Remove, Decision::Put);
    if let [(key, _)] = &changes[..] {
        tree.update(key, |_| Ok(decision(0))).unwrap();
    } else {
        tree.update_sorted(changes.iter().map(|(key, _)| &key[..]), |index, _| Ok(decision(index))).unwrap();
    }
}

fn apply_to_model(model: &mut Model, changes: &Changes) {
    for (key, record) in changes {
        match record {
            Some(record) => drop(model.insert(key.clone(), *record)),
            None => drop(model.remove(key)),
        }
    }
}

/// What was recorded: operations with the moment at which each was acknowledged.
struct Recorded {
    medium: Simulated,
    begin: u64,
    operations: Vec<(u64, Changes)>,
}

/// What the tree must hold after a crash: `model`, but the keys of `in_flight` may have what they get instead.
struct Expected<'e> {
    model: &'e Model,
    in_flight: Option<&'e Changes>,
}

impl Expected<'_> {
    /// Checks a tree and gives what it holds.
    fn check<M: Medium>(&self, store: &Store<M>) -> Model {
        let faults = store.tree.verify();
        assert!(faults.is_empty(), "{faults:#?}\n{}", store.tree.dump().unwrap_or_default());
        let guard = epoch::pin();
        let range = store.tree.range(Bound::Unbounded, Direction::Forward, &guard);
        let found: Model =
            range.map(|record| record.unwrap()).map(|record| (record.key().to_vec(), record.offset())).collect();
        let in_flight: BTreeMap<_, _> =
            self.in_flight.into_iter().flatten().map(|(key, record)| (key, record)).collect();
        let keys: BTreeSet<_> = self.model.keys().chain(found.keys()).collect();
        for key in keys {
            let (is, was) = (found.get(key), self.model.get(key));
            let may_be = in_flight.get(key).map(|record| record.as_ref());
            assert!(
                is == was || Some(is) == may_be,
                "key {}: {is:?}, was {was:?}, may be {may_be:?}",
                key.escape_ascii()
            );
            assert_eq!(store.get(key), is.copied());
        }
        for key in in_flight.keys() {
            assert_eq!(store.get(key), found.get(*key).copied());
        }
        found
    }
}

fn record(medium: Simulated, store: &Store<Simulated>, operations: Vec<Changes>) -> Recorded {
    let begin = medium.moment();
    let operations = operations
        .into_iter()
        .map(|changes| {
            apply(&store.tree, &changes);
            (medium.moment(), changes)
        })
        .collect();
    Recorded { medium, begin, operations }
}

/// How much is looked at.
struct Effort {
    /// Images of each crash.
    images: u64,
    /// Every so many images one is crashed again while it recovers.
    again_every: u64,
    /// Operations done after recovery.
    after: usize,
}

impl Recorded {
    /// Crashes at every fence. Gives the number of images looked at.
    fn crash_everywhere(&self, universe: &Universe, seed: u64, effort: &Effort) -> u64 {
        let mut replay = self.medium.history().replay();
        replay.to_moment(self.begin);
        let (mut model, mut next, mut images) = (Model::new(), 0, 0);
        let mut random = Random::new(seed);
        loop {
            while let Some((moment, changes)) =
                self.operations.get(next).filter(|(moment, _)| *moment <= replay.moment())
            {
                let _ = moment;
                apply_to_model(&mut model, changes);
                next += 1;
            }
            let expected = Expected { model: &model, in_flight: self.operations.get(next).map(|(_, changes)| changes) };
            for image in replay.images(effort.images, seed) {
                images += 1;
                if images % effort.again_every == 0 {
                    crash_again(image.clone(), universe, &expected, &mut random);
                }
                let store = universe.open(image);
                let found = expected.check(&store);
                go_on(&store, universe, found, &mut random, effort.after);
            }
            if !replay.to_next_crash() {
                assert_eq!(next, self.operations.len());
                return images;
            }
        }
    }
}

/// More operations on a recovered tree.
fn go_on<M: Medium>(store: &Store<M>, universe: &Universe, mut model: Model, random: &mut Random, count: usize) {
    let growth = 4 + random.below(9);
    for _ in 0..count {
        let changes = universe.operation(random, growth);
        apply(&store.tree, &changes);
        apply_to_model(&mut model, &changes);
    }
    if count > 0 {
        Expected { model: &model, in_flight: None }.check(store);
    }
}

/// Opens an image, does an operation or two, and crashes all along.
fn crash_again(image: Vec<u8>, universe: &Universe, expected: &Expected<'_>, random: &mut Random) {
    let medium = Simulated::new();
    let pool = Arc::new(Pool::from_image(medium.clone(), image).unwrap());
    let begin = medium.moment();
    let blocks = Arc::new(Blocks::open(Arc::clone(&pool)).unwrap());
    let tree = Tree::open(Arc::clone(&pool), Arc::clone(&blocks), universe.order.clone()).unwrap();
    let store = Store { pool, blocks, tree };
    let recovered = medium.moment();
    let found = expected.check(&store);
    let operations = (0..2).map(|_| universe.operation(random, 8)).collect();
    let recorded = record(medium, &store, operations);
    let mut replay = recorded.medium.history().replay();
    replay.to_moment(begin);
    while replay.to_next_crash() && replay.moment() < recovered {
        for image in replay.images(4, random.next()) {
            let store = universe.open(image);
            // The recovery completes or undoes what was in flight, in the same way whenever it is tried.
            expected.check(&store);
        }
    }
    let (mut model, mut next) = (found, 0);
    while replay.to_next_crash() {
        while recorded.operations.get(next).is_some_and(|(moment, _)| *moment <= replay.moment()) {
            apply_to_model(&mut model, &recorded.operations[next].1);
            next += 1;
        }
        let in_flight = recorded.operations.get(next).map(|(_, changes)| changes);
        for image in replay.images(2, random.next()) {
            Expected { model: &model, in_flight }.check(&universe.open(image));
        }
    }
}

/// Random operations that make the tree grow and shrink through several levels.
fn workload(seed: u64, order: KeyOrder, keys: Vec<Vec<u8>>, operations: usize, effort: &Effort) {
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let medium = Simulated::new();
    let store = Store::create_ordered(medium.clone(), 256, 16 << 20, order);
    let universe = Universe::new(&store, keys);
    let operations = (0..operations)
        .map(|number| universe.operation(&mut random, if number % operations < operations * 3 / 5 { 14 } else { 3 }))
        .collect();
    let recorded = record(medium, &store, operations);
    println!("{}", store.tree.dump().unwrap().lines().next().unwrap_or_default());
    let images = recorded.crash_everywhere(&universe, seed, effort);
    println!("{images} images");
}

fn short_keys(random: &mut Random, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|_| random.next().to_be_bytes()[..2].to_vec()).collect()
}

/// A crash anywhere in a random workload loses and leaks nothing.
#[test]
fn a_crash_anywhere_loses_and_leaks_nothing() {
    for seed in 0..2 * budget() as u64 {
        let keys = short_keys(&mut Random::new(seed), 260);
        workload(seed, KeyOrder::Bytewise, keys, 160, &Effort { images: 4, again_every: 40, after: 12 });
    }
}

#[test]
fn a_crash_anywhere_with_hostile_keys_loses_and_leaks_nothing() {
    for seed in 100..100 + budget() as u64 {
        let mut keys = hostile_keys(&mut Random::new(seed), 160);
        // Some of 65,535 bytes would make every image large; of these a few thousand do.
        keys.iter_mut().for_each(|key| key.truncate(3000));
        workload(seed, KeyOrder::Bytewise, keys, 90, &Effort { images: 3, again_every: 60, after: 8 });
    }
}

#[test]
fn fifty_operations_work_after_any_crash() {
    for seed in 200..200 + budget() as u64 {
        let keys = short_keys(&mut Random::new(seed), 120);
        workload(seed, KeyOrder::Bytewise, keys, 60, &Effort { images: 3, again_every: u64::MAX, after: 50 });
    }
}

#[test]
fn a_crash_anywhere_under_another_order_loses_and_leaks_nothing() {
    for (seed, order) in [(300, orders::backwards()), (301, orders::by_length())] {
        // Of several lengths, and too long for two of them to fit a node as its fences.
        let mut keys = hostile_keys(&mut Random::new(seed), 60);
        keys.iter_mut().for_each(|key| key.truncate(300));
        keys.extend(short_keys(&mut Random::new(seed), 120));
        workload(seed, order, keys, 60 * budget(), &Effort { images: 3, again_every: 60, after: 8 });
    }
}

#[test]
fn a_tree_whose_creation_crashed_is_created_again() {
    let medium = Simulated::new();
    let pool = Arc::new(Pool::anonymous(medium.clone(), &pool_options(16 << 20)).unwrap());
    let begin = medium.moment();
    let blocks = Arc::new(Blocks::open(Arc::clone(&pool)).unwrap());
    Tree::create(Arc::clone(&pool), blocks, 256, KeyOrder::Bytewise).unwrap();
    let mut replay = medium.history().replay();
    replay.to_moment(begin);
    let (mut there, mut not_there) = (0, 0);
    while replay.to_next_crash() {
        for image in replay.images(32, 1) {
            let pool = Arc::new(Pool::from_image(Dram, image).unwrap());
            let blocks = Arc::new(Blocks::open(Arc::clone(&pool)).unwrap());
            let tree = if Tree::exists(&pool).unwrap() {
                there += 1;
                Tree::open(Arc::clone(&pool), Arc::clone(&blocks), KeyOrder::Bytewise).unwrap()
            } else {
                not_there += 1;
                Tree::create(Arc::clone(&pool), Arc::clone(&blocks), 256, KeyOrder::Bytewise).unwrap()
            };
            assert!(tree.verify().is_empty(), "{:?}", tree.verify());
            let store = Store { pool, blocks, tree };
            let record = store.records(1, &[b"key"])[0];
            store.put(b"key", record);
            assert_eq!(store.get(b"key"), Some(record));
        }
    }
    assert!(there > 0 && not_there > 0);
}

#[test]
fn the_note_of_the_replaced_file_is_durable_before_the_swing() {
    let medium = Simulated::new();
    let store = Store::create_in(medium.clone(), 256, 16 << 20);
    let keys: Vec<Vec<u8>> = (0..40_u8).map(|number| vec![b'k', number]).collect();
    let first = store.records(1, &keys);
    // Every third key is deleted by file 2; the others are put again.
    let is_delete = |index: usize| index.is_multiple_of(3);
    let entries = keys.iter().enumerate().map(|(index, key)| SegmentEntry {
        key,
        sequence: 9,
        kind: if is_delete(index) { EntryKind::Delete } else { EntryKind::Put },
        block_offset: 0,
        block_length: 0,
    });
    let second = write_segment(&store.pool, 2, entries).unwrap();
    let guard = epoch::pin();
    let offsets: Vec<u64> = second.records(&store.pool, &guard).map(|record| record.unwrap().offset()).collect();
    for (key, &record) in keys.iter().zip(&first) {
        store.put(key, record);
    }
    let begin = medium.moment();
    let decide = |index: usize, current: Option<KeyRecord<'_>>| {
        set_replaced_file(&store.pool, offsets[index], current.map_or(0, |record| record.file()))?;
        Ok(if is_delete(index) { Decision::Remove } else { Decision::Put(offsets[index]) })
    };
    for (index, key) in keys.iter().enumerate().take(20) {
        store.tree.update(key, |current| decide(index, current)).unwrap();
    }
    let rest = keys[20..].iter().map(Vec::as_slice);
    store.tree.update_sorted(rest, |index, current| decide(index + 20, current)).unwrap();
    let mut replay = medium.history().replay();
    replay.to_moment(begin);
    let mut swung = 0;
    while replay.to_next_crash() {
        for image in replay.images(8, 3) {
            let crashed = Store::open_image(Dram, image);
            let segment = Segment::of_file(&crashed.pool, 2).unwrap();
            for (index, record) in segment.records(&crashed.pool, &guard).enumerate() {
                let now = crashed.get(&keys[index]);
                if now != Some(first[index]) {
                    assert_eq!(now, (!is_delete(index)).then_some(offsets[index]));
                    assert_eq!(record.unwrap().replaced_file(), 1, "key {index} was swung");
                    swung += 1;
                }
            }
        }
    }
    assert!(swung > 0);
}
