//! [`Store`]: a small engine on levels, and a model of what it must answer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use slmdb_order::KeyOrder;

use super::memory_run::{Entry, MemoryOutput, MemoryRun};
use crate::{LevelOptions, Levels, MergeSettings, Plan, Run, Version, edit_of, merge};

/// Levels, and all versions that were ever put.
pub(super) struct Store {
    pub(super) order: KeyOrder,
    pub(super) levels: Levels<MemoryRun>,
    /// All versions of each key: number, and value or delete.
    pub(super) model: BTreeMap<Vec<u8>, BTreeMap<u64, Option<Vec<u8>>>>,
    pub(super) moments: BTreeSet<u64>,
    pub(super) sequence: u64,
    numbers: u32,
}

impl Store {
    pub(super) fn new(order: KeyOrder, options: LevelOptions) -> Store {
        let levels = Levels::open(options, order.clone(), []).unwrap();
        Store { order, levels, model: BTreeMap::new(), moments: BTreeSet::new(), sequence: 0, numbers: 0 }
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// New versions of these keys. `None`: deletes.
    pub(super) fn write(&mut self, writes: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (key, value) in writes {
            self.sequence += 1;
            self.model.entry(key.clone()).or_default().insert(self.sequence, value.clone());
            entries.push(Entry { key, sequence: self.sequence, value });
        }
        entries
    }

    /// A run of level 0 with new versions, all of which are kept.
    pub(super) fn flush(&mut self, writes: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
        let entries = self.write(writes);
        if entries.is_empty() {
            return;
        }
        let run = Arc::new(MemoryRun::new(self.number(), &self.order, entries));
        self.apply(&crate::Change { added: vec![(0, run)], ..Default::default() });
    }

    fn apply(&self, change: &crate::Change<MemoryRun>) {
        let edit = edit_of(change);
        assert_eq!(edit.files_removed.len(), change.removed.len());
        self.levels.check(change).unwrap();
        self.levels.apply(change).unwrap();
    }

    /// What a plan's merge makes of the inputs, and of entries from above.
    pub(super) fn merge(&self, plan: &Plan<MemoryRun>, inflow: &[Entry]) -> Vec<Vec<Entry>> {
        let mut sources: Vec<_> = plan.inputs().map(|run| run.source(64 << 10).unwrap()).collect();
        if !inflow.is_empty() {
            sources.push(MemoryRun::new(u32::MAX, &self.order, inflow.to_vec()).into_source());
        }
        let settings = MergeSettings {
            order: self.order.clone(),
            prefix: plan.prefix(),
            cut: plan.cut(),
            retention: plan.retention(self.moments.iter().copied().collect(), u64::MAX),
            report_every_bytes: 64,
            report: &mut |_| ControlFlow::Continue(()),
        };
        let (outputs, counts) = merge(sources, settings, MemoryOutput::default()).unwrap();
        assert_eq!(counts.entries_read, counts.entries_kept + counts.superseded + counts.deletes_dropped);
        outputs
    }

    /// Puts a merge's outputs in place of the plan's inputs.
    pub(super) fn commit(&mut self, plan: Plan<MemoryRun>, outputs: Vec<Vec<Entry>>) {
        let order = self.order.clone();
        let runs = outputs.into_iter().map(|entries| Arc::new(MemoryRun::new(self.number(), &order, entries)));
        let change = plan.change(runs.collect::<Vec<_>>());
        self.apply(&change);
    }

    /// A whole compaction.
    pub(super) fn compact(&mut self, plan: Plan<MemoryRun>, may_move: bool) {
        if may_move && plan.is_move() {
            return self.apply(&plan.change_of_move());
        }
        let outputs = self.merge(&plan, &[]);
        self.commit(plan, outputs);
    }

    /// The number of a run of level 0; 0 if there is none.
    pub(super) fn run_of_level_0(&self, which: u8) -> u32 {
        let version = self.levels.current();
        let runs = version.level(0);
        runs.get(usize::from(which) % runs.len().max(1)).map_or(0, |run| run.number())
    }

    /// What a key has at a moment.
    pub(super) fn wanted(&self, key: &[u8], moment: u64) -> Option<&Vec<u8>> {
        self.model.get(key)?.range(..=moment).next_back()?.1.as_ref()
    }

    /// Reads every key, at every moment and now, and checks the rules.
    pub(super) fn check(&self) {
        let version = self.levels.current();
        version.check().unwrap();
        check_ages(&version);
        for key in self.model.keys() {
            for moment in self.moments.iter().copied().chain([self.sequence]) {
                let found = version.get(key, moment).unwrap();
                let value =
                    found.filter(|found| found.kind == slmdb_table::EntryKind::Put).map(|found| found.value.to_vec());
                assert_eq!(value.as_ref(), self.wanted(key, moment), "{key:?} at {moment}");
            }
        }
    }
}

/// Of one key, what is further up is newer.
fn check_ages(version: &Version<MemoryRun>) {
    let mut lowest: BTreeMap<&[u8], u64> = BTreeMap::new();
    for (level, run) in version.runs() {
        for entry in run.entries() {
            let above = lowest.insert(&entry.key, entry.sequence);
            assert!(above.is_none_or(|above| above > entry.sequence), "{:?} on level {level}", entry.key);
        }
    }
}
