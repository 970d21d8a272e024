//! One failure after the other, several at a time, watched.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use slmdb::EngineName;
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

use crate::common::{SetAtEnd, abort_with, budget, engine};
use crate::workload::{self, End, Store};

/// How many workloads run at a time: many of them sleep, because they wait for space.
const WORKERS: usize = 4;
/// A turn that takes so long never ends.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// How many of the last operations of a stuck turn are told.
const OPERATIONS_TOLD: usize = 40;

/// What a worker is at.
struct Turn {
    context: String,
    env: MemoryEnv,
    began: Instant,
}

/// Says at the end of a panic which turn it was.
struct SayIfPanicking<'a>(&'a str);

impl Drop for SayIfPanicking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was {}", self.0);
        }
    }
}

/// What all workers are at.
#[derive(Default)]
pub struct Watch {
    turns: [Mutex<Option<Turn>>; WORKERS],
    done: AtomicBool,
}

impl Watch {
    /// Ends the process if a turn takes too long: threads that wait for ever can't be ended otherwise.
    fn look(&self) {
        while !self.done.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(20));
            for turn in &self.turns {
                let Some(turn) = &*turn.lock().unwrap() else { continue };
                if turn.began.elapsed() > STUCK_AFTER {
                    let operations = turn.env.operations();
                    let last = operations[operations.len().saturating_sub(OPERATIONS_TOLD)..].join("\n    ");
                    let context = &turn.context;
                    abort_with(&format!("{context}: no end after {STUCK_AFTER:?}; its last operations:\n    {last}"));
                }
            }
        }
    }
}

/// Calls `turn` with 0, 1, 2, … and a machine, several at a time, until one of them says `false`. Returns with which.
pub fn in_turn(
    what: &str,
    machine: impl Fn() -> MemoryEnv + Sync,
    turn: impl Fn(u64, &MemoryEnv, &str) -> bool + Sync,
) -> u64 {
    let (next, end, watch) = (AtomicU64::new(0), AtomicU64::new(u64::MAX), Watch::default());
    std::thread::scope(|scope| {
        scope.spawn(|| watch.look());
        let _done = SetAtEnd(&watch.done);
        let work = |slot: &Mutex<Option<Turn>>| {
            // (After a panic nobody begins anything new.)
            while end.load(Ordering::Acquire) == u64::MAX && !watch.done.load(Ordering::Acquire) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let (env, context) = (machine(), format!("{what}, place {number}"));
                *slot.lock().unwrap() =
                    Some(Turn { context: context.clone(), env: env.clone(), began: Instant::now() });
                let said = SayIfPanicking(&context);
                let goes_on = turn(number, &env, &context);
                drop(said);
                *slot.lock().unwrap() = None;
                if !goes_on {
                    end.fetch_min(number, Ordering::AcqRel);
                }
            }
        };
        let workers: Vec<_> = watch.turns.iter().map(|slot| scope.spawn(move || work(slot))).collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    end.into_inner()
}

/// Runs the workload with a failure at each operation whose line begins like `what` and that it can strike, until none is
/// struck any more. What fails for good is much the same from one place to the next, and most of a store is the same for all engines:
/// then every second place is looked at, or on other engines than SLM-DB every third, others on each kind of store, unless there is time
/// (`SLMDB_TEST_BUDGET`).
pub fn every_place_in_turn(store: Store, what: &str, failure: Failure, repeat: Repeat) {
    let name = format!("{failure:?} {repeat:?} on {store:?}");
    let step = match (engine(), repeat) {
        _ if budget() > 1 => 1,
        (EngineName::Slm, Repeat::ForGood) => 2,
        (EngineName::Slm, _) => 1,
        _ => 3,
    };
    let first = if step > 1 { u64::from(store == Store::Device) } else { 0 };
    let places = in_turn(
        &name,
        || store.machine(),
        |number, env, context| {
            env.fail_after(first + step * number, what, failure, repeat);
            let options = store.options(env);
            let outcome = workload::run(store, &options, env, Some(failure));
            let is_struck = env.failures_struck() > 0;
            env.clear_failures();
            let ends = [(env.crash(), End::PowerCut), (env.kill(), End::Kill)];
            for (left, end) in ends.into_iter().skip(usize::from(store == Store::File)) {
                workload::check(&left, &options, &outcome, end, &format!("{context}, then {end:?}"));
            }
            is_struck
        },
    );
    // (LAB-DB's pool has the newest keys alone, and seldom grows.)
    let places_min = if what == "allocate /pool" && engine() != EngineName::Slm { 4 } else { 10 };
    assert!(step * places > places_min, "{name}: the workload has too few places to mean anything: {places}");
    println!("places: {places} of {name}");
}

/// Opens a store that a kill left, with a failure at each operation of recovery that it can strike. At once comes the next kill,
/// or a power cut.
pub fn every_place_of_recovery_in_turn(store: Store, failure: Failure) {
    let name = format!("{failure:?} in recovery on {store:?}");
    let (left, outcome) = workload::left_by_a_kill(store);
    let places = in_turn(
        &name,
        || left.kill(),
        |number, env, context| {
            env.fail_after(number, "", failure, Repeat::Once);
            for (left, end) in workload::recover(env, store, failure, &outcome) {
                workload::check(&left, &store.options(env), &outcome, end, &format!("{context}, then {end:?}"));
            }
            env.failures_struck() > 0
        },
    );
    assert!(places > 3, "{name}: recovery has too few places to mean anything");
    println!("places: {places} of {name}");
}
