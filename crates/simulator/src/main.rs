//! The simulator as a command: `scripts/torture` runs it for as long as one likes.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use slmdb::engines;
use slmdb_engine::EngineName;
use slmdb_simulator::call_paths::CallPaths;
use slmdb_simulator::crashed::replay;
use slmdb_simulator::explore::{Effort, Explorer, Looks};
use slmdb_simulator::failure::Failure;
use slmdb_simulator::picks::CrashId;
use slmdb_simulator::self_test;
use slmdb_simulator::workload::{MEDIA, Plan};
use slmdb_sync::turns;

/// Crashes slmdb stores of two tiers in every way, and checks what is left.
#[derive(Debug, Parser)]
struct Arguments {
    /// How long, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The first seed; the next are those that follow.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only stores of this engine. By default they take turns; what is for one engine is for the first.
    #[arg(long)]
    engine: Option<EngineName>,
    /// Only stores with a pool (`pool`), or without (`dram`).
    #[arg(long, value_parser = MEDIA)]
    medium: Option<String>,
    /// Lists the sites that flush, fence and sync.
    #[arg(long)]
    sites: bool,
    /// Switches each site off in turn, for so many seconds at most, and tells which were noticed.
    #[arg(long)]
    self_test: Option<u64>,
    /// With `--self-test`: crashes are made as if the step were missing in the code, not where it is known to be missed.
    #[arg(long)]
    blind: bool,
    /// With `--self-test`: only sites whose function or place contains this. With `--crash`: the first of these is switched off.
    #[arg(long, default_value = "")]
    site: String,
    /// Makes this one crash of the workload of the seed and the medium, as a failure told it, and checks it; without a crash only
    /// runs the workload. The same is found for sure in a build in which threads take turns, elsewhere mostly.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    crash: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(other) = arguments.engine.filter(|engine| !engines::names().any(|other| other == *engine)) {
        eprintln!("--engine: the simulator does not know {other}");
        return ExitCode::from(2);
    }
    if arguments.sites || arguments.self_test.is_some() {
        return prove(&arguments);
    }
    if let Some(crash) = &arguments.crash {
        return again(&arguments, crash);
    }
    let explorer = Explorer::new(CallPaths::new(), Effort::default());
    let (begun, time) = (Instant::now(), Duration::from_secs(arguments.seconds));
    let mut failures = Vec::new();
    let mut minutes_told = 0;
    for seed in arguments.seed.. {
        for engine in engines::names().filter(|engine| arguments.engine.is_none_or(|wanted| wanted == *engine)) {
            for (name, has_pool) in MEDIA.into_iter().zip([true, false]) {
                if arguments.medium.as_ref().is_none_or(|wanted| wanted == name) && failures.is_empty() {
                    failures = explorer.explore(&Plan::of_seed(engine, seed, has_pool), Some(begun + time));
                }
            }
        }
        if begun.elapsed() >= time || !failures.is_empty() {
            break;
        }
        let minutes = begun.elapsed().as_secs() / 60;
        if minutes > minutes_told {
            minutes_told = minutes;
            eprintln!("{minutes} min: {} images of {} workloads", explorer.counts().images, explorer.counts().runs);
        }
    }
    let (paths, opening_paths) = explorer.paths_crashed();
    println!("{:?}", explorer.counts());
    println!("{paths} call paths crashed in workloads, {opening_paths} in openings; {:.0?}", begun.elapsed());
    if turns::ARE_TAKEN {
        let (runs, places) = turns::counts();
        println!("{runs} runs in turns, with {places} places at which another could go on");
    }
    report(&failures)
}

/// One crash.
fn again(arguments: &Arguments, crash: &str) -> ExitCode {
    let crash = if crash.is_empty() { Ok(CrashId::default()) } else { crash.parse() };
    let crash = match crash {
        Ok(crash) => crash,
        Err(what) => {
            eprintln!("--crash: {what}");
            return ExitCode::from(2);
        }
    };
    let (paths, engine) = (CallPaths::new(), arguments.engine.unwrap_or_default());
    if !arguments.site.is_empty() {
        let mut sites =
            self_test::sites(engine, arguments.seed..arguments.seed + 1).into_iter().map(|known| known.site);
        let Some(site) = sites.find(|site| format!("{site:?}").contains(&arguments.site)) else {
            eprintln!("--site: nothing that this seed comes to contains {:?}", arguments.site);
            return ExitCode::from(2);
        };
        println!("without {:?} {} {}", site.step, site.function, site.place);
        paths.switch_off(Some(site));
    }
    let has_pool = arguments.medium.as_deref() != Some(MEDIA[1]);
    let failure = replay(&Plan::of_seed(engine, arguments.seed, has_pool), &crash, &paths);
    if failure.is_none() {
        println!("nothing wrong");
    }
    report(failure.as_slice())
}

fn report(failures: &[Failure]) -> ExitCode {
    for failure in failures {
        println!("FAILED: {failure}");
        println!("again: {}", failure.options());
        failure.trace.iter().for_each(|line| println!("    {line}"));
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn prove(arguments: &Arguments) -> ExitCode {
    let (paths, engine) = (CallPaths::new(), arguments.engine.unwrap_or_default());
    let sites = self_test::sites(engine, self_test::seeds(engine, arguments.seed));
    let Some(seconds) = arguments.self_test else {
        for known in &sites {
            let site = &known.site;
            println!("{:?} {} {} {:?}", site.step, site.function, site.place, known.plans);
        }
        println!("{} sites", sites.len());
        return ExitCode::SUCCESS;
    };
    let looks = if arguments.blind { Looks::Everywhere } else { Looks::AtOwed };
    let (mut noticed, mut tried) = (0, 0);
    for known in sites.iter().filter(|known| format!("{:?}", known.site).contains(&arguments.site)) {
        let site = &known.site;
        if site.step == slmdb_testkit::Step::CompareExchange {
            continue;
        }
        let begun = Instant::now();
        let verdict = self_test::try_site(&paths, known, looks, Duration::from_secs(seconds));
        tried += 1;
        noticed += u64::from(verdict.found.is_some());
        let found = verdict.found.map_or("NOT NOTICED".into(), |found| found.to_string());
        let found: String = found.chars().take(300).collect();
        println!(
            "{:?} {} {}, passed {} times, {:.1?}: {found}",
            site.step,
            site.function,
            site.place,
            verdict.passed,
            begun.elapsed()
        );
    }
    println!("{noticed} of {tried} sites noticed");
    if noticed == tried { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
