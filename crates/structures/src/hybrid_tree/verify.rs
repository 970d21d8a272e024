//! Checking a tree from end to end.

use std::collections::BTreeSet;

use slmdb_env::Error;
use slmdb_pmem::{ExtentKind, Medium};
use slmdb_sync::epoch;

use super::layout::{VALID_BITS, fingerprint};
use super::leaf::slots_of;
use super::record::Record;
use super::tree::{Counts, HybridTree};

/// A damaged tree may hold very many faults; the first few tell the story.
const FAULTS_MAX: usize = 64;

impl<M: Medium> HybridTree<M> {
    /// Checks all trees of a pool: the chains, the order of keys, fingerprints and checks, the directories, the counts, and
    /// that each slot has one use. Writers wait. Empty if all is well.
    ///
    /// Slots that wait for readers count as used. If that changes meanwhile, lost slots may go unnoticed.
    pub fn verify(trees: &[&HybridTree<M>]) -> Vec<Error> {
        let mut faults = Vec::new();
        let writers: Vec<_> = trees.iter().map(|tree| tree.writer()).collect();
        let mut reached = BTreeSet::new();
        for (tree, counts) in trees.iter().zip(&writers) {
            tree.verify_alone(counts, &mut reached, &mut faults);
        }
        if let (Some(tree), true) = (trees.first(), faults.is_empty()) {
            let kinds = [ExtentKind::Leaves, ExtentKind::Records];
            let used = |tree: &HybridTree<M>| kinds.iter().map(|&kind| tree.slots.usage(kind).used).sum::<u64>();
            let retiring_before = tree.slots.retiring();
            let used = used(tree);
            let retiring = retiring_before.max(tree.slots.retiring());
            if used > reached.len() as u64 + retiring {
                let lost = used - reached.len() as u64 - retiring;
                faults.push(tree.damaged(tree.root(), &format!("{lost} slots are used, and no tree has them")));
            }
        }
        faults.truncate(FAULTS_MAX);
        faults
    }

    fn verify_alone(&self, counts: &Counts, reached: &mut BTreeSet<u64>, faults: &mut Vec<Error>) {
        let guard = epoch::pin();
        let state = self.published.load_full();
        let chain = match self.chain(state.epoch) {
            Ok(chain) => chain,
            Err(error) => return faults.push(error),
        };
        if !chain.iter().map(|leaf| leaf.offset).eq(state.directory.all_leaves()) {
            faults.push(self.damaged(self.root(), "the directory has other leaves than the chain"));
        }
        let mut found = Counts::default();
        found.set_leaves(chain.len());
        let mut last: Option<Vec<u8>> = None;
        for leaf in &chain {
            self.reach(leaf.offset, reached, faults);
            let mut records = Vec::new();
            for slot in slots_of(leaf.commit() & VALID_BITS) {
                match Record::intact_at(&*self.pool, leaf.record(slot), &guard) {
                    Err(error) => faults.push(error),
                    Ok(record) => {
                        if leaf.fingerprint(slot) != fingerprint(record.key) {
                            faults.push(self.damaged(leaf.offset, "a fingerprint is not its key's"));
                        }
                        self.reach(leaf.record(slot), reached, faults);
                        self.check_place(leaf.offset, record.key, faults);
                        found.add(record.version.file, record.bytes());
                        records.push((record, leaf.record(slot)));
                    }
                }
            }
            super::read::sort(&mut records, &self.order);
            faults.extend(self.check_order(leaf, &records, last.as_deref()).err());
            if let Some((record, _)) = records.last() {
                last = Some(record.key.to_vec());
            }
            if faults.len() >= FAULTS_MAX {
                return;
            }
        }
        if faults.is_empty() && found != *counts {
            faults.push(self.damaged(self.root(), &format!("the tree has {found:?}, and {counts:?} was counted")));
        }
    }

    fn reach(&self, slot: u64, reached: &mut BTreeSet<u64>, faults: &mut Vec<Error>) {
        if !reached.insert(slot) {
            faults.push(self.damaged(slot, "a slot has two uses"));
        } else if self.slots.is_used(slot) != Some(true) {
            faults.push(self.damaged(slot, "a slot that is reached counts as free"));
        }
    }

    fn check_place(&self, leaf: u64, key: &[u8], faults: &mut Vec<Error>) {
        let directory = &self.published.load_full().directory;
        if directory.find(key, &self.order).is_none_or(|position| directory.leaf(position) != leaf) {
            faults.push(self.damaged(leaf, "a key stands in another leaf than the one that covers it"));
        }
    }
}
