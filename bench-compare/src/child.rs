//! One store, measured in this process: the command has started itself for it.
//!
//! What comes of it goes to the standard output, an object a line: first `{"store", "setup"}`, then one a benchmark, as
//! `slmdb bench --json` has them.

use std::io::{Write, stdout};
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use slmdb_bench::{Bench, Opener};

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
    say(&json!({ "store": store.name, "setup": store.setup(&footing) }))?;
    let settings = run.settings();
    let told = |error: slmdb_bench::Error| error.to_string();
    let mut bench = Bench::new(opener, settings).map_err(told)?;
    for benchmark in &run.benchmarks {
        let outcome = bench.run(*benchmark, &mut |_| {}).map_err(|error| format!("{}: {error}", benchmark.name))?;
        say(&outcome.json(*benchmark, &store.name))?;
    }
    bench.close().map_err(told)
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
