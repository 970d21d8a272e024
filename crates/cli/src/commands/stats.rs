//! `stats`: what a store holds and has done.

use slmdb::Db;

use crate::arguments::StoreArguments;
use crate::failure::{Exit, Result};
use crate::output::Output;
use crate::reports::stats::{json, json_of_file, text};

const AFTER_HELP: &str = "\
`since open` counts from when this process opened the store: all zeros here, telling in the shell.

Examples:
  slmdb stats --db debs
  slmdb stats --db debs --files
  slmdb stats --db debs --json | jq .lifetime.file_bytes_written";

/// What `stats` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    options: StatsOptions,
}

/// How they are printed. The shell's `stats` takes the same.
#[derive(clap::Args, Debug)]
pub struct StatsOptions {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print the table files, and lists in the pool, instead: a line each (with --json: an object each)
    #[arg(long)]
    files: bool,
}

/// Writes the numbers to `output`, `before` in front of each line.
pub fn write_stats(options: &StatsOptions, db: &Db, output: &mut Output, before: &str) -> Result<()> {
    if options.files {
        return write_files(options, db, output, before);
    }
    let stats = db.stats();
    if options.json {
        output.line(&format!("{before}{}", json(&stats)))?;
    } else {
        for line in text(&stats) {
            output.line(&format!("{before}{line}"))?;
        }
    }
    Ok(())
}

/// Writes the table files.
fn write_files(options: &StatsOptions, db: &Db, output: &mut Output, before: &str) -> Result<()> {
    if options.json {
        return db.table_files().iter().try_for_each(|file| output.line(&format!("{before}{}", json_of_file(file))));
    }
    let table = slmdb_bench::description::table_files(&db.table_files());
    table.lines().try_for_each(|line| output.line(&format!("{before}{line}")))
}

/// Prints the numbers.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = arguments.store.open_for_reading()?;
    let mut output = Output::standard();
    write_stats(&arguments.options, &db, &mut output, "")?;
    output.flush()?;
    Ok(Exit::Done)
}
