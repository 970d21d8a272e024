//! `slmdb-compare`.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde_json::Value;
use slmdb_compare::about::{about, in_words};
use slmdb_compare::arguments::{Command, Designs, Paper, Run, Verb};
use slmdb_compare::summary::Summary;
use slmdb_compare::{child, designs, paper, picture, table, turns};

/// Not all could be measured.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let command = Command::parse();
    let raw: Vec<OsString> = std::env::args_os().skip(1).collect();
    let done = match &command.verb {
        Verb::Run(run) => match run.one() {
            Some((store, directory, pool)) => child::measure(run, store, directory, pool).map(|()| ExitCode::SUCCESS),
            None => compare(run, &raw),
        },
        Verb::Paper(paper) => again(paper, &raw),
        Verb::Designs(designs) => side_by_side(designs, &raw),
        Verb::Picture { runs } => draw(runs),
    };
    done.unwrap_or_else(|error| {
        eprintln!("slmdb-compare: {error}");
        ExitCode::from(FAILED)
    })
}

fn compare(run: &Run, raw: &[OsString]) -> Result<ExitCode, String> {
    run.check()?;
    if let Some(why) = turns::missing(run.memory_limit, run.places.loop_device) {
        println!("SKIPPED: {why}");
        return Ok(ExitCode::SUCCESS);
    }
    let turns = turns::take(run, raw, &mut |what| eprintln!("{what}"))?;
    let names = run.stores.0.iter().map(|store| store.name.clone()).collect();
    let summary = Summary::of(names, &turns);
    if run.json {
        println!("{}", summary.json(about(raw)));
    } else {
        let (command, machine) = in_words(&about(raw));
        println!("{command}\n{machine}\n");
        print!("{}", table::text(&summary));
    }
    Ok(if summary.has_failures() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

fn draw(runs: &[PathBuf]) -> Result<ExitCode, String> {
    let read = |path: &PathBuf| -> Result<Value, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let runs: Vec<Value> = runs.iter().map(read).collect::<Result<_, _>>()?;
    print!("{}", picture::svg(&runs)?);
    Ok(ExitCode::SUCCESS)
}

fn again(paper: &Paper, raw: &[OsString]) -> Result<ExitCode, String> {
    if let Some(why) = turns::missing(paper.memory_limit, paper.places.loop_device) {
        println!("SKIPPED: {why}");
        return Ok(ExitCode::SUCCESS);
    }
    let report = paper::measure(paper, about(raw), &mut |what| eprintln!("{what}"))?;
    write(&paper.out, &[("paper.json", &report.json.to_string()), ("paper.html", &report.page)])?;
    Ok(if report.has_failures { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

fn side_by_side(designs: &Designs, raw: &[OsString]) -> Result<ExitCode, String> {
    if let Some(why) = turns::missing(None, designs.places.loop_device) {
        println!("SKIPPED: {why}");
        return Ok(ExitCode::SUCCESS);
    }
    let report = designs::measure(designs, about(raw), &mut |what| eprintln!("{what}"))?;
    let json = report.json.to_string();
    write(&designs.out, &[("designs.json", &json), ("designs.html", &report.page), ("designs.md", &report.tables)])?;
    Ok(if report.has_failures { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// Writes files into a directory, and tells their names.
fn write(directory: &Path, files: &[(&str, &str)]) -> Result<(), String> {
    for (name, content) in files {
        let path = directory.join(name);
        let written = fs::create_dir_all(directory).and_then(|()| fs::write(&path, content));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}
