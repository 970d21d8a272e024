//! `repair`: a store with lost or damaged files, made whole from what can be read.

use slmdb::RepairReport;

use crate::arguments::StoreArguments;
use crate::failure::{Exit, Result, one_line};
use crate::output::Output;
use crate::progress::Progress;
use crate::reports::repair::json;
use crate::units::count;

const AFTER_HELP: &str = "\
For a store that nobody has open. Reads its MANIFEST, table files, index checkpoints and what can be read of its pool,
makes the pool anew, and prints a line for each thing that could not be saved, then a summary. Damaged files keep
their bytes under names that end in .damaged.
Exit codes: 0 repaired, whatever was lost; 3 the store could not be repaired.

Examples:
  slmdb repair --db debs
  slmdb repair --db debs --json | jq .losses";

/// What `repair` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Repairs.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let progress = Progress::of_bytes("repairing", Some(0));
    let options = arguments.store.options();
    let report = options.repair(&arguments.store.db, &mut |so_far| {
        progress.at_of(so_far.done_bytes, so_far.total_bytes);
    })?;
    drop(progress);
    write(&report, arguments.json).map_err(|failure| failure.after("the store is repaired"))?;
    Ok(Exit::Done)
}

fn write(report: &RepairReport, as_json: bool) -> Result<()> {
    let mut output = Output::standard();
    if as_json {
        output.line(&json(report).to_string())?;
    } else {
        write_text(report, &mut output)?;
    }
    output.flush()
}

fn write_text(report: &RepairReport, output: &mut Output) -> Result<()> {
    for damage in &report.damage {
        output.line(&one_line(&format!("damaged: {damage}")))?;
    }
    for loss in &report.losses {
        output.line(&one_line(&format!("lost: {loss}")))?;
    }
    for path in &report.set_aside {
        output.line(&one_line(&format!("set aside: {}", path.display())))?;
    }
    if let Some(pool) = &report.pool {
        output.line(&one_line(&format!("new pool: {}", pool.display())))?;
    }
    if let Some(pool) = &report.left_pool {
        let pool = pool.display();
        output.line(&one_line(&format!(
            "left: {pool} (the pool of the directory that this one came from; remove it if that is gone)"
        )))?;
    }
    let lost = match report.losses.len() as u64 {
        0 => "nothing lost".to_string(),
        losses => format!("{} losses", count(losses)),
    };
    output.line(&format!(
        "repaired: {} table files checked, {} keys in the index, {} entries of MemTables saved, {lost}",
        count(report.table_files_checked),
        count(report.index_keys),
        count(report.memtable_entries_saved),
    ))
}
