//! `scan`: the keys of a range, in order or backwards, with or without their values.

use slmdb::Cursor;

use crate::arguments::StoreArguments;
use crate::failure::{Exit, Result};
use crate::formats::ExportFormat;
use crate::output::Output;
use crate::span::SpanArguments;

const AFTER_HELP: &str = "\
Prints KEY, a tab, VALUE. All limits given hold together, and with --reverse they are the same. What is printed was
there at one and the same moment.
If something can't be read, the scan ends with a message and exit code 3, never quietly.

Examples:
  slmdb scan --db fruit
  slmdb scan --db debs --prefix lib --limit 5 --keys-only
  slmdb scan --db log --from 2026-11-01 --to 2026-12-01 --reverse --limit 10
  slmdb scan --db fruit --json | jq .value";

/// What `scan` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    options: ScanOptions,
}

/// Which keys, and how they are printed. The shell's `scan` takes the same.
#[derive(clap::Args, Debug)]
pub struct ScanOptions {
    #[command(flatten)]
    span: SpanArguments,
    /// At most so many keys, counted from the end one starts at
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Print no values (and read none)
    #[arg(long)]
    keys_only: bool,
    /// Print a JSON object a line, as `export --format jsonl` does
    #[arg(long)]
    json: bool,
}

impl ScanOptions {
    /// Writes the records of a new cursor's moment to `output`, `before` in front of each line.
    pub fn write(&self, cursor: Cursor, output: &mut Output, before: &[u8]) -> Result<()> {
        let format = if self.json { ExportFormat::Jsonl } else { ExportFormat::Tsv };
        let mut line = Vec::new();
        self.span.span().walk(cursor, self.reverse, self.limit, |cursor| {
            line.clear();
            line.extend_from_slice(before);
            if self.keys_only {
                format.write_key(&mut line, cursor.key());
            } else {
                let value = cursor.value()?;
                format.write_record(&mut line, cursor.key(), &value);
            }
            output.write(&line)
        })?;
        Ok(())
    }
}

/// Prints the records.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = arguments.store.open_for_reading()?;
    let mut output = Output::standard();
    let written = arguments.options.write(db.cursor()?, &mut output, b"");
    // What was read before a failure is shown; the failure decides how the command ends.
    let flushed = output.flush();
    written?;
    flushed?;
    Ok(Exit::Done)
}
