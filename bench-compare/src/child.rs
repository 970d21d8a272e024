//! One store, measured in this process: the command has started itself for it.
//!
//! What comes of it goes to the standard output, an object a line: first `{"store", "setup"}`, then one a benchmark, as
//! `slmdb bench --json` has them.

use std::env;
use std::ffi::OsString;
use std::io::{Write, stdout};
use std::path::Path;
use std::process::{Command, Stdio, abort};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use slmdb_bench::{Bench, Benchmark, Error, Opener, Settings};

use crate::arguments::Run;
use crate::confinement::Confined;
use crate::spec::StoreSpec;

/// Measures it.
pub fn measure(run: &Run, store: &StoreSpec, directory: &Path, pool: &Path) -> Result<(), String> {
    let footing = run.footing();
    open_many_files();
    let mut opener: Box<dyn Opener> = store.opener(directory, pool, &footing)?;
    if let Some(group) = &run.one.one_group {
        opener = Box::new(Confined::new(opener, group)?);
    }
    let settings = run.settings();
    let told = |error: Error| error.to_string();
    if run.one.one_is_killed {
        return Err(write_and_die(opener, settings).map_or_else(told, |never| match never {}));
    }
    say(&json!({ "store": store.name, "setup": store.setup(&footing) }))?;
    let mut bench = Bench::new(opener, settings.clone()).map_err(told)?.with_killed(Box::new(have_another_killed));
    for step in &run.benchmarks {
        bench.set(step.settings(&settings));
        let benchmark = step.benchmark;
        let outcome = bench.run(benchmark, &mut |_| {}).map_err(|error| format!("{}: {error}", benchmark.name))?;
        say(&outcome.json(benchmark, &store.name))?;
    }
    bench.close().map_err(told)
}

/// Before a process dies it overwrites as many keys as there are, divided by this.
const WRITES_BEFORE_DEATH_DIVISOR: u64 = 2;

/// Writes into the store that is there, and dies without closing it.
fn write_and_die(opener: Box<dyn Opener>, settings: Settings) -> slmdb_bench::Result<std::convert::Infallible> {
    let writes = (settings.num / WRITES_BEFORE_DEATH_DIVISOR / settings.threads).max(1);
    let settings = Settings { use_existing: true, operations: None, writes: Some(writes), ..settings };
    let mut bench = Bench::new(opener, settings)?;
    let overwrite = Benchmark::by_name("overwrite").ok_or_else(|| refused("there is no benchmark `overwrite`"))?;
    bench.run(overwrite, &mut |_| {})?;
    // No picture of the memory is wanted.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    abort()
}

/// Has another process, told the same as this one, write into the store and die.
fn have_another_killed() -> slmdb_bench::Result<()> {
    let program = env::current_exe().map_err(|error| refused(&format!("this program's own file: {error}")))?;
    let told: Vec<OsString> = env::args_os().skip(1).chain(["--one-is-killed".into()]).collect();
    let output =
        Command::new(program).args(told).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| refused(&format!("another process: {error}")))?;
    match output.status.code() {
        None => Ok(()),
        Some(_) => Err(refused(&format!("it should have died: {}", String::from_utf8_lossy(&output.stderr).trim()))),
    }
}

fn refused(why: &str) -> Error {
    Error::Refused(why.to_string())
}

/// As many files as this process may have open: stores with many tables ask for a part of it.
fn open_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is not allowed the stores do with what there is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

fn say(object: &Value) -> Result<(), String> {
    let mut output = stdout().lock();
    writeln!(output, "{object}").and_then(|()| output.flush()).map_err(|error| format!("standard output: {error}"))
}
