//! One workload, one crash, one check: each a run of its own, which follows from the seed of the plan and the crash.
//!
//! Where threads take turns ([`slmdb_sync::turns`]) all of this is the same whenever it is done again, so a crash is found by its
//! number alone ([`replay`]). Elsewhere the same seed gives a record that is much the same, and mostly the same failure.

use std::sync::Arc;

use slmdb_sync::turns;

use crate::call_paths::CallPaths;
use crate::failure::Failure;
use crate::machine::{Image, Record, Recorded};
use crate::oracle::{Ending, Expected, check, check_closed};
use crate::picks::{CrashId, Pick};
use crate::workload::{Done, Plan, run};

/// Runs a workload and gives its record, and what was done when; or what was wrong with it already.
pub fn record_workload(plan: &Plan, paths: &CallPaths) -> Result<(Record, Done), String> {
    let (plan, paths) = (*plan, paths.clone());
    turns::take(seed_of_turns(&plan, "workload"), move || {
        let machine = Recorded::starting_with(&Image::new(plan.setup), plan.setup, &paths);
        let done = run(&plan, &machine);
        (machine.record(), done)
    })
}

/// Who is next in a run of this plan.
fn seed_of_turns(plan: &Plan, what: &str) -> u64 {
    let hash = crc32c::crc32c(what.as_bytes());
    let mixed = u64::from(hash) << 32 | u64::from(crc32c::crc32c_append(hash ^ 1, what.as_bytes()));
    mixed ^ plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What a crash left, and what may be found there.
#[derive(Debug, Clone)]
pub(crate) struct Crashed {
    pub(crate) id: CrashId,
    pub(crate) image: Arc<Image>,
    pub(crate) expected: Arc<Expected>,
    /// What may be found if a power cut follows while it is opened.
    after_cut: Arc<Expected>,
    /// The store had been closed.
    closed: bool,
}

impl Crashed {
    /// After a crash of a workload, where its record stands.
    pub(crate) fn in_workload(plan: &Plan, record: &Record, done: &Done, moment: u64, pick: Pick) -> Crashed {
        let expected = |ending| Arc::new(Expected::at(done, moment, ending, plan.setup));
        Crashed {
            id: CrashId::default().and(moment, pick),
            image: Arc::new(pick.image(record)),
            expected: expected(pick.ending),
            after_cut: expected(Ending::PowerCut),
            closed: moment == record.end,
        }
    }

    /// After a crash while that was opened, where the record of the opening stands.
    pub(crate) fn in_opening(&self, record: &Record, moment: u64, pick: Pick) -> Crashed {
        let expected = if pick.ending == Ending::Kill { &self.expected } else { &self.after_cut };
        Crashed {
            id: self.id.and(moment, pick),
            image: Arc::new(pick.image(record)),
            expected: expected.clone(),
            after_cut: self.after_cut.clone(),
            closed: moment == record.end,
        }
    }

    /// Opens it and looks; what is wrong.
    pub(crate) fn check(&self, plan: &Plan, thorough: bool) -> Result<(), String> {
        let (crashed, setup) = (self.clone(), plan.setup);
        turns::take(seed_of_turns(plan, &self.id.to_string()), move || {
            check(&crashed.image, &crashed.expected, setup, thorough)?;
            if crashed.closed { check_closed(&crashed.image) } else { Ok(()) }
        })?
    }

    /// Opens and closes it on a machine that records that.
    pub(crate) fn record_opening(&self, plan: &Plan, paths: &CallPaths) -> Result<Record, String> {
        let (image, setup, paths) = (self.image.clone(), plan.setup, paths.clone());
        turns::take(seed_of_turns(plan, &format!("opening after {}", self.id)), move || {
            let machine = Recorded::starting_with(&image, setup, &paths);
            let engine = machine.open().map_err(|error| format!("does not open when that is recorded: {error:?}"))?;
            // (Whether it can be closed was checked.)
            let _ = engine.close();
            drop(engine);
            Ok(machine.record())
        })?
    }
}

/// Runs a workload, makes the one image of its crash, and checks that; what was wrong.
pub fn replay(plan: &Plan, id: &CrashId, paths: &CallPaths) -> Option<Failure> {
    let failure = |id: CrashId, what, record: Option<&Record>, image: Option<&Image>| Failure {
        plan: *plan,
        id,
        what,
        image: image.cloned().unwrap_or_default(),
        trace: record.map(|record| record.files.trace()).unwrap_or_default(),
    };
    let (mut record, done) = match record_workload(plan, paths) {
        Ok(recorded) => recorded,
        Err(what) => return Some(failure(CrashId::default(), what, None, None)),
    };
    let mut crashed: Option<Crashed> = None;
    for &(moment, pick) in &id.crashes {
        if let Some(before) = &crashed {
            record = match before.record_opening(plan, paths) {
                Ok(record) => record,
                Err(what) => return Some(failure(before.id.clone(), what, None, Some(&before.image))),
            };
        }
        record.to_moment(moment);
        crashed = Some(match &crashed {
            None => Crashed::in_workload(plan, &record, &done, moment, pick),
            Some(before) => before.in_opening(&record, moment, pick),
        });
    }
    let crashed = crashed?;
    let what = [false, true].into_iter().find_map(|thorough| crashed.check(plan, thorough).err());
    // What was found where it was recorded is found there.
    let what = what.or_else(|| crashed.record_opening(plan, paths).err());
    what.map(|what| failure(id.clone(), what, Some(&record), Some(&crashed.image)))
}
