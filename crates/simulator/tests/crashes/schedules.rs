//! Stores whose threads take turns as a seed says: schedules and crash images together, and each found again exactly.

use std::time::{Duration, Instant};

use slmdb::engines;
use slmdb_engine::EngineName;
use slmdb_simulator::call_paths::CallPaths;
use slmdb_simulator::crashed::{record_workload, replay};
use slmdb_simulator::explore::{Effort, Explorer, Looks};
use slmdb_simulator::failure::Failure;
use slmdb_simulator::picks::CrashId;
use slmdb_simulator::workload::Plan;
use slmdb_sync::turns;
use slmdb_testkit::Step;

use crate::budget;

/// Everything that a run of this plan did, as text.
fn history(plan: &Plan) -> String {
    let (record, done) = record_workload(plan, &CallPaths::new()).unwrap();
    format!("{record:#?}\n{done:#?}")
}

fn explore(plan: &Plan, paths: &CallPaths, effort: Effort) -> Vec<Failure> {
    Explorer::new(paths.clone(), effort).explore(plan, None)
}

#[test]
fn the_same_seed_gives_the_same_history_and_another_another() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..3 * budget() {
        for (engine, has_pool) in engines::names().flat_map(|engine| [(engine, true), (engine, false)]) {
            let plan = Plan::of_seed(engine, seed, has_pool);
            let first = history(&plan);
            // On another thread of the system, which has begun nothing yet.
            let second = std::thread::spawn(move || history(&plan)).join().unwrap();
            let differs = first.lines().zip(second.lines()).enumerate().find(|(_, (one, other))| one != other);
            assert_eq!(differs, None, "{engine}, seed {seed}, {}", plan.medium());
            assert_eq!(first.len(), second.len());
            assert!(seen.insert(first));
        }
    }
}

#[test]
fn schedules_and_crashes_together_leave_nothing_wrong() {
    let kinds = engines::names().flat_map(|engine| [(engine, 100, 1, true), (engine, 200, 3, false)]);
    for (engine, first, seeds, has_pool) in kinds {
        let effort = Effort { again_one_in: 200, ..Effort::default() };
        let explorer = Explorer::new(CallPaths::new(), effort);
        let begun = Instant::now();
        for seed in first..first + seeds * budget() {
            let failures = explorer.explore(&Plan::of_seed(engine, seed, has_pool), None);
            let told: Vec<_> = failures.iter().map(|failure| format!("{failure}\n  {}", failure.options())).collect();
            assert!(failures.is_empty(), "{}", told.join("\n"));
        }
        println!("{:?} {:?} in {:.1?}", explorer.counts(), explorer.paths_crashed(), begun.elapsed());
    }
    println!("runs, and places at which another could go on: {:?}", turns::counts());
}

/// A fence left out is noticed and the same crash alone shows it again.
#[test]
fn a_fence_left_out_is_noticed_and_its_crash_can_be_repeated() {
    engines::names().for_each(a_fence_left_out_is_noticed);
}

/// Why a store does not open. (Of some images the opening is recorded, too, and which opening tells of a failure depends on that.)
fn cause(what: &str) -> &str {
    what.split_once(": ").map_or(what, |(_, cause)| cause)
}

fn a_fence_left_out_is_noticed(engine: EngineName) {
    let plans = || (0..).map(|seed| Plan::of_seed(engine, seed, true));
    let known = CallPaths::new();
    plans().take(3).for_each(|plan| drop(record_workload(&plan, &known).unwrap()));
    let effort = Effort { images: 24, looks: Looks::AtOwed, ..Effort::default() };
    let until = Instant::now() + Duration::from_secs(600);
    for site in known.sites().into_iter().filter(|site| site.step == Step::Fence) {
        let without = || {
            let paths = CallPaths::new();
            paths.switch_off(Some(site.clone()));
            paths
        };
        let Some(failure) = plans().take(3).find_map(|plan| explore(&plan, &without(), effort).pop()) else {
            assert!(Instant::now() < until, "no fence that is left out is noticed");
            continue;
        };
        println!("without the one of {} at {}: {failure}", site.function, site.place);
        let id: CrashId = failure.id.to_string().parse().unwrap();
        for _ in 0..2 {
            let (plan, id, paths) = (failure.plan, id.clone(), without());
            let again = std::thread::spawn(move || replay(&plan, &id, &paths)).join().unwrap();
            let again = again.expect("it was found, and is not found again");
            assert_eq!(
                (cause(&again.what), again.image.fingerprint()),
                (cause(&failure.what), failure.image.fingerprint())
            );
        }
        assert!(replay(&failure.plan, &id, &CallPaths::new()).is_none(), "with the fence something is wrong, too");
        return;
    }
    panic!("no fence that is left out is noticed");
}
