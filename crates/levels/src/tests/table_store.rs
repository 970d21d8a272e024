//! [`TableStore`]: a small engine whose levels are table files, and a model of what it must answer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::path::PathBuf;
use std::sync::Arc;

use slmdb_engine::context::StoreContext;
use slmdb_engine::events::delivery::Events;
use slmdb_engine::files::file_names as names;
use slmdb_engine::files::file_numbers::FileNumbers;
use slmdb_engine::files::obsolete_files::PinnedFiles;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::{MapTables, Options};
use slmdb_env::{Env, Error};
use slmdb_manifest::{Edit, MediumKind, MediumRecord, StoreState};
use slmdb_order::KeyOrder;
use slmdb_table::EntryKind;
use slmdb_testkit::MemoryEnv;

use super::memory_run::{Entry, MemoryRun};
use crate::{
    Change, LevelFiles, LevelOptions, Levels, LevelsCursor, MergeError, MergeSettings, Picked, Plan, Run, RunOutput,
    TableOutput, TableRun, TableRunSource, merge, runs_of, window_bytes,
};

pub(super) type Writes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Levels of table files in memory, their MANIFEST's state, and all versions that were ever put.
pub(super) struct TableStore {
    pub(super) env: MemoryEnv,
    pub(super) context: StoreContext,
    pub(super) numbers: FileNumbers,
    pub(super) tables: Arc<Tables>,
    pub(super) levels: Levels<TableRun>,
    pub(super) state: StoreState,
    /// All versions of each key: number, and value or delete.
    model: BTreeMap<Vec<u8>, BTreeMap<u64, Option<Vec<u8>>>>,
    pub(super) moments: BTreeSet<u64>,
    pub(super) sequence: u64,
    /// What a merge reads of an input at a time.
    pub(super) window_bytes: usize,
}

impl TableStore {
    pub(super) fn new(order: KeyOrder, map_tables: MapTables, block_bytes: usize, levels: LevelOptions) -> TableStore {
        let (env, directory) = (MemoryEnv::new(), PathBuf::from("/db"));
        env.create_directory(&directory).unwrap();
        let options = Options {
            env: Arc::new(env.clone()),
            comparator: order.clone(),
            map_tables,
            block_bytes,
            memory_budget_bytes: 1 << 20,
            ..Options::default()
        };
        let tables = Arc::new(Tables::new(&options, directory.clone(), [7; 16]));
        tables.set_table_bytes(1);
        let medium = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id: [0; 16] };
        TableStore {
            env,
            context: StoreContext::new(options, directory, ([1; 16], [7; 16]), Events::default()),
            numbers: FileNumbers::new(1),
            tables,
            levels: Levels::open(levels, order, []).unwrap(),
            state: StoreState::new([1; 16], "lab", "bytewise", medium),
            model: BTreeMap::new(),
            moments: BTreeSet::new(),
            sequence: 0,
            window_bytes: window_bytes(1),
        }
    }

    fn order(&self) -> &KeyOrder {
        &self.context.options.comparator
    }

    pub(super) fn files(&self) -> LevelFiles<'_> {
        LevelFiles { context: &self.context, numbers: &self.numbers, tables: &self.tables }
    }

    /// A table file on level 0 with new versions of these keys, all of which are kept. `None`: deletes.
    pub(super) fn flush(&mut self, writes: Writes) {
        let mut entries = Vec::new();
        for (key, value) in writes {
            self.sequence += 1;
            self.model.entry(key.clone()).or_default().insert(self.sequence, value.clone());
            entries.push(Entry { key, sequence: self.sequence, value });
        }
        let mut source = MemoryRun::new(u32::MAX, self.order(), entries).into_source();
        let mut output = TableOutput::new(self.files());
        while slmdb_engine::read::merge::Source::advance(&mut source).unwrap() {
            output.add(&mut source).unwrap();
        }
        let made = finish(output).unwrap();
        let added = made.into_iter().map(|run| (0, run)).collect();
        self.commit(Change { added, ..Change::default() });
    }

    /// Commits a change, and removes the files that nobody has any more.
    pub(super) fn commit(&mut self, change: Change<TableRun>) {
        let added: Vec<u32> = change.added.iter().map(|(_, run)| run.number()).collect();
        let next = added.iter().map(|number| number + 1).fold(self.state.next_file_number, u32::max);
        self.state.apply(&Edit { next_file_number: Some(next), ..crate::edit_of(&change) }).unwrap();
        self.levels.apply(&change).unwrap();
        added.into_iter().for_each(|number| self.numbers.end(number));
        let removed: Vec<u32> = change.removed.iter().map(|run| run.number()).collect();
        drop(change);
        for number in removed.into_iter().filter(|&number| !self.levels.pins(number)) {
            self.env.remove_file(&names::table(&self.context.directory, number)).unwrap();
            self.tables.forget(number);
        }
    }

    /// What a plan's merge makes of its inputs.
    pub(super) fn merge(&self, plan: &Plan<TableRun>) -> Result<Vec<Arc<TableRun>>, MergeError<Error>> {
        let mut sources: Vec<TableRunSource> = Vec::new();
        for run in plan.inputs() {
            sources.push(run.source(self.window_bytes).map_err(|error| MergeError::Source(sources.len(), error))?);
        }
        let settings = MergeSettings {
            order: self.order().clone(),
            prefix: plan.prefix(),
            cut: plan.cut(),
            retention: plan.retention(self.moments.iter().copied().collect(), u64::MAX),
            report_every_bytes: 1 << 20,
            report: &mut |_| ControlFlow::Continue(()),
        };
        merge(sources, settings, TableOutput::new(self.files())).map(|(made, _)| made)
    }

    /// A whole compaction.
    pub(super) fn compact(&mut self, plan: Plan<TableRun>, may_move: bool) {
        let change =
            if may_move && plan.is_move() { plan.change_of_move() } else { plan.change(self.merge(&plan).unwrap()) };
        drop(plan);
        self.commit(change);
    }

    /// Empties a level into the next.
    pub(super) fn empty(&mut self, level: u8) {
        while let Picked::Plan(plan) = self.levels.plan_range(level, (Bound::Unbounded, Bound::Unbounded)) {
            self.compact(plan, false);
        }
    }

    /// Opens the levels anew from the MANIFEST's state.
    pub(super) fn open_again(&mut self) {
        let runs = runs_of(&self.state, 0, &self.tables);
        self.levels = Levels::open(self.levels.options().clone(), self.order().clone(), runs).unwrap();
    }

    /// The numbers of the table files in the directory.
    pub(super) fn listed(&self) -> Vec<u32> {
        let entries = self.env.list_directory(&self.context.directory).unwrap();
        let number = |name: &str| match names::kind(name) {
            names::FileKind::Table(number) => number,
            other => panic!("{name}: {other:?}"),
        };
        let mut numbers: Vec<u32> = entries.iter().map(|entry| number(&entry.name)).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The numbers of the table files that the MANIFEST has.
    pub(super) fn recorded(&self) -> Vec<u32> {
        self.state.files.keys().copied().collect()
    }

    /// All keys and values at a moment, in the store's order.
    fn wanted(&self, moment: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
        let value = |versions: &BTreeMap<u64, Option<Vec<u8>>>| versions.range(..=moment).next_back()?.1.clone();
        let mut wanted: Vec<_> =
            self.model.iter().filter_map(|(key, versions)| Some((key.clone(), value(versions)?))).collect();
        wanted.sort_by(|left, right| self.order().compare(&left.0, &right.0));
        wanted
    }

    /// Reads everything, in every way, at every moment and now.
    pub(super) fn check(&self) {
        self.levels.current().check().unwrap();
        assert_eq!((self.listed(), self.numbers.under_way()), (self.recorded(), BTreeSet::new()));
        for moment in self.moments.iter().copied().chain([self.sequence]) {
            let wanted = self.wanted(moment);
            self.check_gets(moment, &wanted);
            self.check_walks(moment, &wanted);
        }
    }

    fn check_gets(&self, moment: u64, wanted: &[(Vec<u8>, Vec<u8>)]) {
        let version = self.levels.current();
        for key in self.model.keys() {
            let found = version.get(key, moment).unwrap().filter(|found| found.kind == EntryKind::Put);
            let value = wanted.iter().find(|(other, _)| other == key).map(|(_, value)| value.clone());
            assert_eq!(found.map(|found| found.value.to_vec()), value, "{key:?} at {moment}");
        }
    }

    fn check_walks(&self, moment: u64, wanted: &[(Vec<u8>, Vec<u8>)]) {
        let mut cursor = LevelsCursor::new(self.levels.current(), moment);
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        cursor.seek_first().unwrap();
        while cursor.valid() {
            forward.extend(put_of(&mut cursor));
            cursor.next().unwrap();
        }
        cursor.seek_last().unwrap();
        while cursor.valid() {
            backward.extend(put_of(&mut cursor));
            cursor.prev().unwrap();
        }
        backward.reverse();
        assert!(forward == wanted && backward == wanted, "at {moment}");
        for (key, value) in wanted {
            cursor.seek(key).unwrap();
            assert_eq!(cursor.value().unwrap(), value[..]);
            assert_eq!(cursor.key(), key);
            cursor.seek_before(key).unwrap();
            assert!(!cursor.valid() || self.order().compare(cursor.key(), key).is_lt());
        }
    }
}

fn put_of(cursor: &mut LevelsCursor<TableRun>) -> Option<(Vec<u8>, Vec<u8>)> {
    let is_put = cursor.kind() == Some(EntryKind::Put);
    let value = cursor.value_ref().unwrap().to_vec();
    is_put.then(|| (cursor.key().to_vec(), value))
}

/// The outputs of a merge from memory.
pub(super) fn finish(output: TableOutput<'_>) -> Result<Vec<Arc<TableRun>>, Error> {
    RunOutput::<super::memory_run::MemorySource>::finish(output)
}
