//! The verbs, one file each.

mod bench;
mod checkpoint;
mod compact;
mod del;
mod demo;
mod destroy;
pub mod export;
mod get;
pub mod import;
mod insert;
pub mod later;
mod put;
mod repair;
pub mod scan;
mod shell;
mod size;
pub mod stats;
mod update;
pub mod verify;

use crate::failure::{Exit, Result};

/// What a command line asks for.
#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// Store a value under a key
    Put(put::Arguments),
    /// Print the value of a key
    Get(get::Arguments),
    /// Delete a key, or all keys of a range
    Del(del::Arguments),
    /// Store a value under a key that has none
    Insert(insert::Arguments),
    /// Store a value under a key that has one
    Update(update::Arguments),
    /// Print the keys of a range and their values, in order
    Scan(scan::Arguments),
    /// Read records from a file or a pipe into the store
    Import(import::Arguments),
    /// Write all records to a file or a pipe, in key order
    Export(export::Arguments),
    /// Print what the store holds, and what it has done
    Stats(stats::Arguments),
    /// Tell about how many keys a range has, and how many bytes they take
    Size(size::Arguments),
    /// Read everything, compare it with its checksums and with the index, and print what is damaged
    Verify(verify::Arguments),
    /// Make a copy of the store, which shares its table files
    Checkpoint(checkpoint::Arguments),
    /// Merge table files now, and drop what is obsolete in them
    Compact(compact::Arguments),
    /// Make a store with lost or damaged files whole from what can be read, and print what can't
    Repair(repair::Arguments),
    /// Read commands from standard input, one a line, and answer each
    Shell(shell::Arguments),
    /// Remove a store with its fast tier, and nothing else
    Destroy(destroy::Arguments),
    /// Show on this machine, in under a minute, what the store does
    Demo(demo::Arguments),
    /// Measure the store on this machine, with db_bench's and YCSB's work
    Bench(Box<bench::Arguments>),

    /// The process that `demo` kills
    #[command(hide = true)]
    DemoWriter(demo::WriterArguments),
    /// The process that cleans up after a `demo` that was killed itself
    #[command(hide = true)]
    DemoSweeper(demo::SweeperArguments),
}

impl Command {
    /// Does it.
    pub fn run(self) -> Result<Exit> {
        match self {
            Command::Put(arguments) => put::run(&arguments),
            Command::Get(arguments) => get::run(&arguments),
            Command::Del(arguments) => del::run(&arguments),
            Command::Insert(arguments) => insert::run(&arguments),
            Command::Update(arguments) => update::run(&arguments),
            Command::Scan(arguments) => scan::run(&arguments),
            Command::Import(arguments) => import::run(&arguments),
            Command::Export(arguments) => export::run(&arguments),
            Command::Stats(arguments) => stats::run(&arguments),
            Command::Size(arguments) => size::run(&arguments),
            Command::Verify(arguments) => verify::run(&arguments),
            Command::Checkpoint(arguments) => checkpoint::run(&arguments),
            Command::Compact(arguments) => compact::run(&arguments),
            Command::Shell(arguments) => shell::run(&arguments),
            Command::Destroy(arguments) => destroy::run(&arguments),
            Command::Demo(arguments) => demo::run(&arguments),
            Command::Repair(arguments) => repair::run(&arguments),
            Command::Bench(arguments) => bench::run(&arguments),
            Command::DemoWriter(arguments) => demo::run_writer(&arguments),
            Command::DemoSweeper(arguments) => demo::run_sweeper(&arguments),
        }
    }
}
