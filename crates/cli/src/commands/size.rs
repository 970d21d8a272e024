//! `size`: about how much is in a range.

use serde_json::json;

use crate::arguments::StoreArguments;
use crate::failure::{Exit, Result};
use crate::output::Output;
use crate::span::SpanArguments;
use crate::units;

const AFTER_HELP: &str = "\
Reads no table file and takes milliseconds, however much there is. A few thousand keys are counted exactly; of more the
number is about right (within 10 % in table files, within 20 % in MemTables), and so are the bytes where values are
about as long as each other. `slmdb scan --keys-only | wc -l` counts exactly.

Examples:
  slmdb size --db debs
  slmdb size --db debs --prefix lib
  slmdb size --db log --from 2026-11-01 --to 2026-12-01 --json | jq .table_bytes";

/// What `size` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    span: SpanArguments,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints the estimate.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = arguments.store.open_for_reading()?;
    let found = db.approximate(arguments.span.span().bounds())?;
    let mut output = Output::standard();
    if arguments.json {
        let object = json!({
            "keys": found.keys,
            "table_bytes": found.table_bytes,
            "memtable_bytes": found.memtable_bytes,
        });
        output.line(&object.to_string())?;
    } else {
        output.line(&format!("about {} keys", units::count(found.keys)))?;
        output.line(&format!("about {} in table files", units::bytes(found.table_bytes)))?;
        output.line(&format!("about {} in MemTables", units::bytes(found.memtable_bytes)))?;
    }
    output.flush()?;
    Ok(Exit::Done)
}
