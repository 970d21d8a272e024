//! Random operations on a tree, and a map that has been told the same.

use std::collections::BTreeMap;

use slmdb_pmem::Medium;
use slmdb_structures::fast_fair::{Applied, Decision};

use super::{Random, Store};

/// Random operations on a fixed set of keys, each with a few records to point to.
pub struct Workload<'s, M: Medium> {
    pub store: &'s Store<M>,
    pub keys: Vec<Vec<u8>>,
    pub records: Vec<Vec<u64>>,
    pub model: BTreeMap<Vec<u8>, u64>,
}

impl<'s, M: Medium> Workload<'s, M> {
    pub fn new(store: &'s Store<M>, mut keys: Vec<Vec<u8>>) -> Self {
        keys.sort_by(|left, right| store.tree.order().compare(left, right));
        keys.dedup();
        let records = (1..=3).map(|file| store.records(file, &keys)).collect();
        Workload { store, keys, records, model: BTreeMap::new() }
    }

    pub fn record(&self, key: usize, random: &mut Random) -> u64 {
        self.records[random.below(self.records.len())][key]
    }

    pub fn put(&mut self, key: usize, record: u64) {
        let old = self.model.insert(self.keys[key].clone(), record);
        let applied = self.store.tree.insert_or_replace(&self.keys[key], record).unwrap();
        assert_eq!(applied, old.map_or(Applied::Inserted, |old| Applied::Replaced { old }));
    }

    pub fn remove(&mut self, key: usize) {
        let old = self.model.remove(&self.keys[key]);
        let applied = self.store.tree.remove(&self.keys[key]).unwrap();
        assert_eq!(applied, old.map_or(Applied::Nothing, |old| Applied::Removed { old }));
    }

    /// A batch of up to `count` keys from `from` on, `removes` of 8 of which are removed.
    pub fn batch(&mut self, from: usize, count: usize, removes: usize, random: &mut Random) {
        let chosen: Vec<usize> = (from..self.keys.len()).filter(|_| random.below(3) > 0).take(count).collect();
        let decisions: Vec<Decision> = chosen
            .iter()
            .map(|&key| match random.below(8) {
                choice if choice < removes => Decision::Remove,
                7 => Decision::Keep,
                _ => Decision::Put(self.record(key, random)),
            })
            .collect();
        let mut asked = 0;
        let keys = chosen.iter().map(|&key| &self.keys[key][..]);
        self.store
            .tree
            .update_sorted(keys, |index, current| {
                assert_eq!(index, asked, "each key is decided once, in order");
                asked += 1;
                let key = &self.keys[chosen[index]];
                assert_eq!(current.map(|record| record.offset()), self.model.get(key).copied());
                match decisions[index] {
                    Decision::Put(record) => drop(self.model.insert(key.clone(), record)),
                    Decision::Remove => drop(self.model.remove(key)),
                    Decision::Keep => {}
                }
                Ok(decisions[index])
            })
            .unwrap();
        assert_eq!(asked, chosen.len());
    }

    pub fn run(&mut self, steps: usize, random: &mut Random) {
        for step in 0..steps {
            // Phases of growing and shrinking, so that nodes are split and merged all the way.
            let shrinking = step / 400 % 2 == 1;
            let key = random.below(self.keys.len());
            match random.below(20) {
                0 if shrinking => self.batch(key, 200, 6, random),
                0 => self.batch(key, 200, 1, random),
                1 => {
                    let new = self.record(key, random);
                    let expected = if random.below(2) == 0 { new } else { self.record(key, random) };
                    let matches = self.model.get(&self.keys[key]) == Some(&expected);
                    assert_eq!(self.store.tree.compare_and_swap(&self.keys[key], expected, new).unwrap(), matches);
                    if matches {
                        self.model.insert(self.keys[key].clone(), new);
                    }
                }
                2..=8 => self.remove(key),
                9..=13 if shrinking => self.remove(key),
                _ => {
                    let record = self.record(key, random);
                    self.put(key, record);
                }
            }
            if step % 200 == 199 {
                self.check(random);
            }
        }
        self.check(random);
    }

    pub fn check(&self, random: &mut Random) {
        self.store.assert_same(&self.model);
        for key in &self.keys {
            assert_eq!(self.store.get(key), self.model.get(key).copied(), "key {}", key.escape_ascii());
        }
        let expected: Vec<Option<u64>> = self.keys.iter().map(|key| self.model.get(key).copied()).collect();
        assert_eq!(self.store.get_each(&self.keys), expected);
        let mixed: Vec<usize> = (0..100).map(|_| random.below(self.keys.len())).collect();
        let expected: Vec<Option<u64>> = mixed.iter().map(|&index| expected[index]).collect();
        assert_eq!(self.store.get_each(&mixed.iter().map(|&index| &self.keys[index]).collect::<Vec<_>>()), expected);
        let places: Vec<Vec<u8>> = (0..10).map(|_| self.keys[random.below(self.keys.len())].clone()).collect();
        self.store.assert_ranges(&self.model, &places);
        let nearby: Vec<Vec<u8>> = places.iter().map(|key| [&key[..key.len().min(30)], &[0]].concat()).collect();
        self.store.assert_ranges(&self.model, &nearby);
    }
}
