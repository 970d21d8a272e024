//! [`take`]: who runs when. In each repeat every store runs once, from an empty directory, in a process of its own, so that memory
//! and processor time are one store's; in the next repeat the order is turned by one, so that none is always first on a quiet
//! machine and none always last on a warm one.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::{env, fs, process};

use clap::Parser;
use serde_json::Value;
use slmdb_bench::place;

use crate::arguments::{Command, Run, Verb};
use crate::confinement::Group;
use crate::loop_device::{self, LoopDevice};
use crate::spec::StoreSpec;
use crate::summary::Summary;

/// What came of one store in one repeat.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Which store, by its place in the list.
    pub store: usize,
    /// How it was set up.
    pub setup: String,
    /// An object a benchmark, in their order; fewer if it failed.
    pub results: Vec<Value>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// Runs all of it. `raw` are the arguments from the verb on, which each process is given, too. `watch` is told what is going
/// to run.
pub fn take(run: &Run, raw: &[OsString], watch: &mut dyn FnMut(&str)) -> Result<Vec<Turn>, String> {
    let stores = &run.stores.0;
    let (places, footing) = (Places::make(run)?, run.footing());
    let program = env::current_exe().map_err(|error| format!("this program's own file: {error}"))?;
    let mut turns = Vec::new();
    for repeat in 0..run.repeat as usize {
        for position in 0..stores.len() {
            let store = (position + repeat) % stores.len();
            watch(&format!("repeat {} of {}: {}", repeat + 1, run.repeat, stores[store].name));
            let group = run.memory_limit.map(|limit_bytes| {
                let name = format!("slmdb-compare-{}-{repeat}-{store}", process::id());
                Group::create(&name, limit_bytes + stores[store].fast_path_bytes(&footing))
            });
            let group = group.transpose()?;
            places.clear()?;
            let started = process::Command::new(&program)
                .args(raw)
                .args([OsStr::new("--one-store"), OsStr::new(&stores[store].name)])
                .args([OsStr::new("--one-directory"), places.store().as_os_str()])
                .args([OsStr::new("--one-pool"), places.pool().as_os_str()])
                .args(group.iter().flat_map(|group| [OsStr::new("--one-group"), group.directory().as_os_str()]))
                .stdin(Stdio::null())
                .stderr(Stdio::piped())
                .output();
            let output = started.map_err(|error| format!("{}: {error}", program.display()))?;
            turns.push(Turn::of(store, &stores[store], &output)?);
            places.clear()?;
        }
    }
    Ok(turns)
}

/// What a run of these arguments measures, which begin with `run`.
pub fn measured(raw: &[OsString], watch: &mut dyn FnMut(&str)) -> Result<Summary, String> {
    let program = [OsString::from("slmdb-compare")];
    let parsed = Command::try_parse_from(program.iter().chain(raw)).map_err(|error| error.to_string())?;
    let Verb::Run(run) = parsed.verb else { return Err("`run` was not read as `run`".to_string()) };
    let names = run.stores.0.iter().map(|store| store.name.clone()).collect();
    Ok(Summary::of(names, &take(&run, raw, watch)?))
}

/// Why the memory limit or the loop device that were asked for can't be had, if they can't.
pub fn missing(limit_bytes: Option<u64>, loop_device_bytes: Option<u64>) -> Option<String> {
    let group = |limit_bytes| Group::create(&format!("slmdb-compare-{}", process::id()), limit_bytes).err();
    let limit = limit_bytes.and_then(group).map(|why| format!("--memory-limit can't be had here: {why}"));
    let device = || loop_device_bytes.and_then(|_| loop_device::missing());
    limit.or_else(|| device().map(|why| format!("--loop-device can't be had here: {why}")))
}

impl Turn {
    fn of(store: usize, spec: &StoreSpec, output: &process::Output) -> Result<Turn, String> {
        let text = String::from_utf8_lossy(&output.stdout);
        // A process that was killed may have been in the middle of a line.
        let lines = text.lines().map(serde_json::from_str::<Value>);
        let mut lines: Vec<Value> = if output.status.success() {
            let told = |error| format!("{}: what its process said is no JSON: {error}", spec.name);
            lines.collect::<Result<_, _>>().map_err(told)?
        } else {
            lines.map_while(Result::ok).collect()
        };
        let setup = match lines.first().and_then(|line| line["setup"].as_str()) {
            Some(setup) => setup.to_string(),
            None => String::new(),
        };
        let results = lines.split_off(lines.len().min(1));
        let failure = (!output.status.success()).then(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            match said.trim() {
                "" => output.status.to_string(),
                said => said.to_string(),
            }
        });
        Ok(Turn { store, setup, results, failure })
    }
}

/// Where the stores and pools of a run are made.
struct Places {
    directory: PathBuf,
    pools: PathBuf,
    /// Within the directory: the stores' file system, if they have one of their own.
    device: Option<LoopDevice>,
    /// Both directories were made for this run, and are removed.
    is_temporary: bool,
}

impl Places {
    fn make(run: &Run) -> Result<Places, String> {
        let own = format!("slmdb-compare-{}", process::id());
        let shared_memory = Path::new("/dev/shm");
        let pools = match &run.places.pools {
            Some(pools) => pools.clone(),
            None if shared_memory.is_dir() => shared_memory.to_path_buf(),
            None => env::temp_dir(),
        };
        let directory = run.places.db.clone().unwrap_or_else(|| env::temp_dir().join(&own));
        place::may_be_cleared(&directory).map_err(|error| error.to_string())?;
        let mut places =
            Places { directory, pools: pools.join(own), device: None, is_temporary: run.places.db.is_none() };
        for directory in [&places.directory, &places.pools] {
            place::mark(directory).map_err(|error| error.to_string())?;
        }
        places.device = run.places.loop_device.map(|bytes| LoopDevice::create(&places.directory, bytes)).transpose()?;
        Ok(places)
    }

    fn store(&self) -> PathBuf {
        self.device.as_ref().map_or(self.directory.as_path(), LoopDevice::directory).join("db")
    }

    fn pool(&self) -> PathBuf {
        self.pools.join("pool")
    }

    /// Removes what the last store has left.
    fn clear(&self) -> Result<(), String> {
        let store = place::remove(&self.store()).map_err(|error| error.to_string());
        // A peer with levels in memory has a directory there.
        if self.pool().is_dir() {
            place::remove(&self.pool()).map_err(|error| error.to_string())?;
        }
        match fs::remove_file(self.pool()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("{}: {error}", self.pool().display()))
            }
            _ => store,
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        let _ = self.clear();
        self.device = None;
        let _ = place::remove(&self.pools);
        if self.is_temporary {
            let _ = place::remove(&self.directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn output(status: i32, stdout: &str) -> process::Output {
        let status = process::ExitStatus::from_raw(status);
        process::Output { status, stdout: stdout.into(), stderr: Vec::new() }
    }

    #[test]
    fn a_process_killed_within_a_line_keeps_its_results() {
        let spec = StoreSpec::parse("empty").unwrap();
        let said = "{\"store\":\"empty\",\"setup\":\"none\"}\n{\"benchmark\":\"a\"}\n{\"benchm";
        let turn = Turn::of(0, &spec, &output(9, said)).unwrap();
        assert_eq!((turn.setup.as_str(), turn.results.len()), ("none", 1));
        assert!(turn.failure.unwrap().contains("signal"));
        let error = Turn::of(0, &spec, &output(0, said)).unwrap_err();
        assert!(error.contains("no JSON"), "{error}");
    }
}
