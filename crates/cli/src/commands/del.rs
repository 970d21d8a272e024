//! `del`: one key less.

use crate::arguments::{Missing, WritableStoreArguments};
use crate::bytes::Word;
use crate::failure::{Exit, Result};

const AFTER_HELP: &str = "\
Deleting a key that has no value is done, too: exit code 0.

Example:
  slmdb del --db fruit apple";

/// What `del` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: WritableStoreArguments,
    /// The key
    #[arg(value_parser = Word::parser(), allow_hyphen_values = true)]
    key: Word,
}

/// Deletes.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = arguments.store.open(Missing::Refuse)?;
    db.delete(&arguments.key)?;
    db.close()?;
    Ok(Exit::Done)
}
