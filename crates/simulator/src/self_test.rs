//! The simulator proves itself: with a flush, a fence or a sync left out of the store, it must find something wrong.
//!
//! A step that was left out leaves something *owed*: stores and changes of files that would be durable with it, until another step
//! makes them so. Just there crashes are made, with just that missing and all else there, or nothing else. Where stores notice
//! nothing the [layers] under them are tried, each operation of which is durable by itself; and then what is done to whole stores
//! ([upkeep]).

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use slmdb_engine::EngineName;

use crate::call_paths::{CallPaths, Site};
use crate::crashed::record_workload;
use crate::explore::{Effort, Explorer, Looks};
use crate::failure::Failure;
use crate::layers;
use crate::machine::Setup;
use crate::upkeep::{self, Work};
use crate::workload::Plan;

/// How something was found wrong.
#[derive(Debug, Clone)]
pub enum Found {
    /// A crash of a store.
    InStore(Box<Failure>),
    /// A crash of the layers under it.
    InLayers(String),
    /// A crash of a copy, a repair or a removal.
    InUpkeep(String),
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::InStore(failure) => failure.fmt(formatter),
            Found::InLayers(what) | Found::InUpkeep(what) => what.fmt(formatter),
        }
    }
}

/// What became of one site.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The site that was switched off.
    pub site: Site,
    /// What was found wrong without it; `None`: nothing.
    pub found: Option<Found>,
    /// How often it was passed meanwhile.
    pub passed: u64,
}

/// A site, and workloads that come to it.
#[derive(Debug, Clone)]
pub struct Known {
    /// The engine of these workloads.
    pub engine: EngineName,
    /// The site.
    pub site: Site,
    /// Seeds of such workloads, and whether they have a pool, those first that come to it before any crash; none, if only the layers
    /// come to it, or only copies, repairs and removals do.
    pub plans: Vec<(u64, bool)>,
}

/// Seeds of four workloads, from this one on: in two of them the store is opened again after it was closed.
pub fn seeds(engine: EngineName, first: u64) -> impl Iterator<Item = u64> {
    let reopens = move |seed: u64| Plan::of_seed(engine, seed, true).openings > 1;
    let of = |wanted: bool| (first..).filter(move |&seed| reopens(seed) == wanted).take(2);
    of(false).chain(of(true))
}

/// The sites that workloads of this engine with these seeds come to, with and without a pool, and what opens after their crashes.
pub fn sites(engine: EngineName, seeds: impl Iterator<Item = u64>) -> Vec<Known> {
    let mut known: BTreeMap<Site, [Vec<(u64, bool)>; 2]> = BTreeMap::new();
    let in_layers = CallPaths::new();
    let _ = layers::explore(&in_layers, 1, Looks::Everywhere, Instant::now());
    // (The layers' tests have steps of their own, and the machine has: to leave what was there before.)
    let is_ours = |site: &Site| !site.place.starts_with("simulator/");
    let in_upkeep = CallPaths::new();
    for (work, setup, seed) in upkeeps(engine).take_while(|(_, _, seed)| *seed < 3) {
        let until = Some(Instant::now() + Duration::from_millis(300));
        let _ = upkeep::explore(work, setup, seed, &in_upkeep, until, Looks::Everywhere);
    }
    for site in in_layers.sites().into_iter().chain(in_upkeep.sites()).filter(is_ours) {
        known.entry(site).or_default();
    }
    for seed in seeds {
        for has_pool in [true, false] {
            let plan = Plan::of_seed(engine, seed, has_pool);
            let here = CallPaths::new();
            record_workload(&plan, &here).expect("a workload of a sound store");
            let before_crashes = here.sites();
            let explorer = Explorer::new(here.clone(), Effort { kills: 4, again_one_in: 20, ..Effort::default() });
            let _ = explorer.explore(&plan, Some(Instant::now() + Duration::from_secs(2)));
            for site in here.sites().into_iter().filter(is_ours) {
                let is_before = before_crashes.binary_search(&site).is_ok();
                let [before, after] = known.entry(site).or_default();
                if is_before { before } else { after }.push((seed, has_pool));
            }
        }
    }
    known.into_iter().map(|(site, plans)| Known { engine, site, plans: plans.concat() }).collect()
}

/// Everything that is done to whole stores, with a first seed, a second, and so on.
fn upkeeps(engine: EngineName) -> impl Iterator<Item = (Work, Setup, u64)> {
    let of_seed = move |seed| upkeep::setups(engine, seed).map(move |setup| (setup, seed));
    let of_setup = |(setup, seed)| upkeep::works(setup).map(move |work| (work, setup, seed));
    (1..).flat_map(of_seed).flat_map(of_setup)
}

/// A workload has so large a part of the time at most.
const TIME_PART: u32 = 4;

/// Switches a site off and crashes stores until something is wrong, or the time is up; then layers, and then copies, repairs and
/// removals, each for as long. `Everywhere`: as if the
/// step were missing in the code, and nobody knew what is owed; otherwise in each way in turn.
pub fn try_site(paths: &CallPaths, known: &Known, looks: Looks, time: Duration) -> Verdict {
    paths.switch_off(Some(known.site.clone()));
    let in_store = || in_stores(paths, known, looks, time).map(|failure| Found::InStore(Box::new(failure)));
    let in_layers = || {
        let until = Instant::now() + time;
        (1..10).find_map(|seed| layers::explore(paths, seed, looks, until)).map(Found::InLayers)
    };
    let in_upkeep = || {
        let until = Instant::now() + time;
        let mut works = upkeeps(known.engine).take_while(|_| Instant::now() < until);
        works
            .find_map(|(work, setup, seed)| upkeep::explore(work, setup, seed, paths, Some(until), looks).err())
            .map(Found::InUpkeep)
    };
    let found = in_store().or_else(in_layers).or_else(in_upkeep);
    let passed = paths.passed();
    paths.switch_off(None);
    Verdict { site: known.site.clone(), found, passed }
}

fn in_stores(paths: &CallPaths, known: &Known, looks: Looks, time: Duration) -> Option<Failure> {
    let until = Instant::now() + time;
    let ways: &[Looks] = match looks {
        Looks::Everywhere => &[Looks::Everywhere],
        _ => &[Looks::AtOwed, Looks::AtOwedInOpenings, Looks::AtOwed, Looks::Everywhere],
    };
    for (round, &way) in (0..).zip(ways.iter().cycle()) {
        let images = if way == Looks::AtOwed { 8 } else { 24 };
        let directed =
            Effort { hits: 20, images, again_one_in: 30, thorough_one_in: 3, looks: way, ..Effort::default() };
        let effort = if looks == Looks::Everywhere { Effort::default() } else { directed };
        let explorer = Explorer::new(paths.clone(), effort);
        for &(seed, has_pool) in &known.plans {
            if Instant::now() >= until {
                return None;
            }
            let plan = Plan::of_seed(known.engine, seed + 1000 * round, has_pool);
            let its_end = until.min(Instant::now() + time / TIME_PART);
            let failure = explorer.explore(&plan, Some(its_end)).into_iter().next();
            if failure.is_some() {
                return failure;
            }
        }
        if known.plans.is_empty() {
            return None;
        }
    }
    None
}
