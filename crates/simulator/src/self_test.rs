//! The simulator proves itself: with a flush, a fence or a sync left out of the store, it must find something wrong.

use std::time::{Duration, Instant};

use crate::call_paths::{CallPaths, Site};
use crate::explore::{Effort, Explorer, Failure};
use crate::machine::{Image, Recorded};
use crate::workload::{Plan, run};

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

/// The sites that workloads with these seeds come to, with and without a pool, and what opens after their crashes.
pub fn sites(paths: &CallPaths, seeds: impl Iterator<Item = u64>) -> Vec<Site> {
    let effort = Effort { kills: 0, ..Effort::default() };
    let explorer = Explorer::new(paths.clone(), effort);
    for seed in seeds {
        for has_pool in [true, false] {
            let plan = Plan::of_seed(seed, has_pool);
            let machine = Recorded::starting_with(&Image::default(), plan.setup, paths);
            run(&plan, &machine);
            drop(machine);
            let _ = explorer.explore(&plan, Some(Instant::now() + Duration::from_secs(2)));
        }
    }
    paths.sites()
}

/// Switches a site off and crashes stores until something is wrong, or the time is up.
pub fn try_site(paths: &CallPaths, site: &Site, first_seed: u64, time: Duration) -> Verdict {
    let until = Instant::now() + time;
    paths.switch_off(Some(site.clone()));
    let explorer = Explorer::new(paths.clone(), Effort { hits: 3, images: 10, ..Effort::default() });
    let mut found = None;
    for seed in first_seed.. {
        for has_pool in [true, false] {
            if found.is_none() && Instant::now() < until {
                found = explorer.explore(&Plan::of_seed(seed, has_pool), Some(until)).into_iter().next();
            }
        }
        if found.is_some() || Instant::now() >= until {
            break;
        }
    }
    let passed = paths.passed();
    paths.switch_off(None);
    Verdict { site: site.clone(), found, passed }
}
