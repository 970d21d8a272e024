//! Several compactions at once, which begin and end in any order.

use proptest::prelude::*;
use slmdb_order::KeyOrder;

use super::memory_run::{Entry, MemoryRun};
use super::merging::{Writes, key, small, writes};
use super::store::Store;
use crate::{Picked, Plan, PlanReason, Run};

#[derive(Debug, Clone)]
enum Step {
    Flush(Writes),
    /// Begins a compaction, and merges.
    Begin,
    BeginRange {
        level: u8,
        from: u8,
        to: u8,
        input_bytes_max: u64,
    },
    /// A run of any level, without its garbage.
    DropGarbage(prop::sample::Index),
    /// A range, in place.
    Rewrite {
        level: u8,
        from: u8,
        to: u8,
    },
    /// Ends one.
    Commit(prop::sample::Index),
    GiveUp(prop::sample::Index),
    Snapshot,
    Release,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = (0..5_u8, 0..24_u8, 0..24_u8);
    let step = prop_oneof![
        6 => writes().prop_map(Step::Flush),
        6 => Just(Step::Begin),
        3 => (range.clone(), prop_oneof![Just(u64::MAX), 0..400_u64]).prop_map(|((level, from, to), input_bytes_max)| {
            Step::BeginRange { level, from, to, input_bytes_max }
        }),
        4 => any::<prop::sample::Index>().prop_map(Step::DropGarbage),
        2 => range.prop_map(|(level, from, to)| Step::Rewrite { level, from, to }),
        9 => any::<prop::sample::Index>().prop_map(Step::Commit),
        1 => any::<prop::sample::Index>().prop_map(Step::GiveUp),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Release),
    ];
    prop::collection::vec(step, 1..80)
}

/// A compaction that has merged, and has not committed.
type Merged = (Plan<MemoryRun>, Vec<Vec<Entry>>);

fn begin(store: &Store, plan: Option<Plan<MemoryRun>>, running: &mut Vec<Merged>) {
    let Some(plan) = plan else { return };
    for run in plan.inputs() {
        let is_input = |(other, _): &Merged| other.inputs().any(|input| input.number() == run.number());
        assert!(!running.iter().any(is_input), "run {} is an input twice", run.number());
    }
    let outputs = store.merge(&plan, &[]);
    running.push((plan, outputs));
}

fn of(picked: Picked<MemoryRun>) -> Option<Plan<MemoryRun>> {
    match picked {
        Picked::Plan(plan) => Some(plan),
        Picked::Busy | Picked::Nothing => None,
    }
}

fn take(store: &mut Store, step: Step, running: &mut Vec<Merged>) {
    match step {
        Step::Flush(writes) => store.flush(writes),
        Step::Begin => begin(store, store.levels.pick(&|_| true), running),
        Step::DropGarbage(which) => {
            let version = store.levels.current();
            let runs: Vec<_> = version.runs().map(|(level, run)| (level, run.number())).collect();
            if !runs.is_empty() {
                let (level, number) = runs[which.index(runs.len())];
                begin(store, of(store.levels.plan_run_for(level, number, PlanReason::DiskSpace)), running);
            }
        }
        Step::BeginRange { level, from, to, .. } | Step::Rewrite { level, from, to } => {
            let (which, from, to) = (from, key(from), key(to));
            let range = (std::ops::Bound::Included(&from[..]), std::ops::Bound::Included(&to[..]));
            let picked = match step {
                Step::Rewrite { level: 0, .. } => store.levels.plan_run(0, store.run_of_level_0(which)),
                Step::BeginRange { input_bytes_max, .. } => {
                    store.levels.plan_range_within(level, range, input_bytes_max)
                }
                _ => store.levels.plan_rewrite(level, range),
            };
            begin(store, of(picked), running);
        }
        Step::Commit(which) if !running.is_empty() => {
            let (plan, outputs) = running.swap_remove(which.index(running.len()));
            store.commit(plan, outputs);
        }
        Step::GiveUp(which) if !running.is_empty() => drop(running.swap_remove(which.index(running.len()))),
        Step::Commit(_) | Step::GiveUp(_) => {}
        Step::Snapshot => _ = store.moments.insert(store.sequence),
        Step::Release => _ = store.moments.pop_first(),
    }
    store.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Merged at the beginning and committed at the end, in any order: nothing is lost, nothing comes back, and no
    /// two runs of a level meet.
    #[test]
    fn compactions_that_run_at_once_do_not_meet(steps in steps()) {
        let mut store = Store::new(KeyOrder::Bytewise, small());
        let mut running = Vec::new();
        for step in steps {
            take(&mut store, step, &mut running);
        }
        for (plan, outputs) in running {
            store.commit(plan, outputs);
            store.check();
        }
    }
}
