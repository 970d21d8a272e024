//! `del`: one key less, or all keys of a range.

use crate::arguments::{Missing, WritableStoreArguments};
use crate::bytes::Word;
use crate::failure::{Exit, Result};
use crate::span::SpanArguments;

const AFTER_HELP: &str = "\
Deleting a key that has no value is done, too: exit code 0. A range goes at once, whatever it holds: all limits given
hold together, and `--from \"\"` alone is everything.

Examples:
  slmdb del --db fruit apple
  slmdb del --db debs --prefix lib
  slmdb del --db log --from 2026-11-01 --to 2026-12-01";

/// The options of [`SpanArguments`].
const LIMITS: [&str; 3] = ["from", "to", "prefix"];

/// What `del` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: WritableStoreArguments,
    /// The key
    #[arg(value_parser = Word::parser(), allow_hyphen_values = true, required_unless_present_any = LIMITS, conflicts_with_all = LIMITS)]
    key: Option<Word>,
    #[command(flatten)]
    span: SpanArguments,
}

/// Deletes.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = arguments.store.open(Missing::Refuse)?;
    match &arguments.key {
        Some(key) => db.delete(key)?,
        None => db.delete_range(arguments.span.span().bounds())?,
    }
    db.close()?;
    Ok(Exit::Done)
}
