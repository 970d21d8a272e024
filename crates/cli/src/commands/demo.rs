//! `demo`: what the store does, shown on this machine. See [`crate::demo`].

use std::path::PathBuf;

use slmdb::EngineName;

use crate::arguments::{Missing, WritableStoreArguments, parse_engine};
use crate::demo;
use crate::failure::{Exit, Result};

const AFTER_HELP: &str = "\
Each line stands for work done and measured: keys written and read back with every value compared, a range both ways,
deletes, and a child process of its own killed with SIGKILL in the middle of writing, after which every acknowledged
put must be there and nothing else. All of it on both media of this version: plain memory, and an emulation of
persistent memory (in /dev/shm where there is room). Any wrong byte: exit code 3.

It works in a temporary directory, checks first that there is room, and removes the directory, even when it is
interrupted.

Examples:
  slmdb demo
  slmdb demo --keys 20000
  slmdb demo --db /mnt/disk --engine slm";

/// What `demo` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Keys to write on each medium
    #[arg(long, value_name = "N", default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(100..=50_000_000))]
    keys: u64,
    /// Make the temporary directory inside DIR [default: the system's place for such things]
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// The design of the stores, as `slmdb put --help` tells [default: slm]
    #[arg(long, value_name = "NAME", value_parser = parse_engine)]
    engine: Option<EngineName>,
}

/// What the process takes that `demo` kills.
#[derive(clap::Args, Debug)]
pub struct WriterArguments {
    #[command(flatten)]
    store: WritableStoreArguments,
    /// Number of the first key to put
    #[arg(long)]
    first: u64,
}

/// What the process takes that cleans up after a `demo` that was killed itself.
#[derive(clap::Args, Debug)]
pub struct SweeperArguments {
    directories: Vec<PathBuf>,
}

/// Shows it.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    demo::run(arguments.keys, arguments.db.as_deref(), arguments.engine)?;
    Ok(Exit::Done)
}

/// Puts until it is killed.
pub fn run_writer(arguments: &WriterArguments) -> Result<Exit> {
    let db = arguments.store.open(Missing::Create)?;
    demo::write_until_killed(&db, arguments.first)?;
    Ok(Exit::Done)
}

/// Waits until standard input ends, which is when the demo has, and removes what it left.
pub fn run_sweeper(arguments: &SweeperArguments) -> Result<Exit> {
    demo::sweep(&arguments.directories);
    Ok(Exit::Done)
}
