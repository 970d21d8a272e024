//! The simulator proves itself: with a flush, a fence or a sync left out of the store, it must find something wrong.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::call_paths::{CallPaths, Site};
use crate::crashed::record_workload;
use crate::explore::{Effort, Explorer, Failure};
use crate::workload::Plan;

/// What became of one site.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The site that was switched off.
    pub site: Site,
    /// What was found wrong without it; `None`: nothing.
    pub found: Option<Failure>,
    /// How often it was passed meanwhile.
    pub passed: u64,
}

/// A site, and workloads that come to it.
#[derive(Debug, Clone)]
pub struct Known {
    /// The site.
    pub site: Site,
    /// Seeds of such workloads, and whether they have a pool.
    pub plans: Vec<(u64, bool)>,
}

/// The sites that workloads with these seeds come to, with and without a pool, and what opens after their crashes.
pub fn sites(seeds: impl Iterator<Item = u64>) -> Vec<Known> {
    let mut known: BTreeMap<Site, Vec<(u64, bool)>> = BTreeMap::new();
    for seed in seeds {
        for has_pool in [true, false] {
            let plan = Plan::of_seed(seed, has_pool);
            let here = CallPaths::new();
            record_workload(&plan, &here).expect("a workload of a sound store");
            let explorer = Explorer::new(here.clone(), Effort { kills: 4, again_one_in: 20, ..Effort::default() });
            let _ = explorer.explore(&plan, Some(Instant::now() + Duration::from_secs(2)));
            // (The machine has files of its own to bring to where a kill left them.)
            for site in here.sites().into_iter().filter(|site| !site.place.starts_with("simulator/")) {
                known.entry(site).or_default().push((seed, has_pool));
            }
        }
    }
    known.into_iter().map(|(site, plans)| Known { site, plans }).collect()
}

/// Switches a site off and crashes stores until something is wrong, or the time is up.
pub fn try_site(paths: &CallPaths, known: &Known, time: Duration) -> Verdict {
    let until = Instant::now() + time;
    paths.switch_off(Some(known.site.clone()));
    let mut found = None;
    for round in 0.. {
        // First where it was left out; if that shows nothing, everywhere.
        let behind_left_out = if round % 3 == 2 { 0 } else { 8 };
        let effort = Effort { hits: 20, images: 24, again_one_in: 30, behind_left_out, ..Effort::default() };
        let explorer = Explorer::new(paths.clone(), effort);
        for &(seed, has_pool) in &known.plans {
            if found.is_none() && Instant::now() < until {
                let plan = Plan::of_seed(seed + 1000 * round, has_pool);
                found = explorer.explore(&plan, Some(until)).into_iter().next();
            }
        }
        if found.is_some() || Instant::now() >= until {
            break;
        }
    }
    let passed = paths.passed();
    paths.switch_off(None);
    Verdict { site: known.site.clone(), found, passed }
}
