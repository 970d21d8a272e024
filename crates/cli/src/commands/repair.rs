//! `repair`: a store with lost or damaged files, made whole from what can be read.

use serde_json::{Map, Value};
use slmdb::{Loss, RepairReport};

use crate::arguments::StoreArguments;
use crate::failure::{Exit, Result, one_line};
use crate::output::Output;
use crate::progress::Progress;
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
    let mut output = Output::standard();
    if arguments.json {
        output.line(&as_json(&report).to_string())?;
    } else {
        write_text(&report, &mut output)?;
    }
    output.flush()?;
    Ok(Exit::Done)
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

fn as_json(report: &RepairReport) -> Value {
    let texts = |texts: Vec<String>| Value::Array(texts.into_iter().map(Value::String).collect());
    let paths = |paths: &[std::path::PathBuf]| texts(paths.iter().map(|path| path.display().to_string()).collect());
    let losses = report.losses.iter().map(loss_as_json).collect();
    let fields = [
        ("table_files_checked", Value::from(report.table_files_checked)),
        ("index_keys", Value::from(report.index_keys)),
        ("memtable_entries_saved", Value::from(report.memtable_entries_saved)),
        ("damage", texts(report.damage.iter().map(ToString::to_string).collect())),
        ("losses", Value::Array(losses)),
        ("set_aside", paths(&report.set_aside)),
        ("pool", report.pool.as_ref().map_or(Value::Null, |pool| Value::from(pool.display().to_string()))),
    ];
    Value::Object(fields.map(|(name, value)| (name.to_string(), value)).into_iter().collect::<Map<_, _>>())
}

/// Keys are escaped as in the text.
fn loss_as_json(loss: &Loss) -> Value {
    let key = |key: &[u8]| Value::from(key.escape_ascii().to_string());
    let fields: Vec<(&str, Value)> = match loss {
        Loss::Key { key: lost, sequence } => vec![("key", key(lost)), ("sequence_number", Value::from(*sequence))],
        Loss::TableFile { number, entries, smallest_key, largest_key, lowest_sequence, highest_sequence } => vec![
            ("table_file", Value::from(*number)),
            ("entries", Value::from(*entries)),
            ("smallest_key", key(smallest_key)),
            ("largest_key", key(largest_key)),
            ("lowest_sequence_number", Value::from(*lowest_sequence)),
            ("highest_sequence_number", Value::from(*highest_sequence)),
        ],
        Loss::Writes { from_sequence } => vec![("writes_from_sequence_number", Value::from(*from_sequence))],
        Loss::Deletes { through_sequence } => vec![("deletes_through_sequence_number", Value::from(*through_sequence))],
        other => vec![("other", Value::from(other.to_string()))],
    };
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect::<Map<_, _>>())
}
