//! `update`: one key, one value, if the key has one.

use crate::arguments::{Missing, WritableStoreArguments};
use crate::bytes::Word;
use crate::failure::{Exit, Result};
use crate::output::tell_people;

const AFTER_HELP: &str = "\
A key without a value stays without: exit code 1, and nothing is printed on standard output. Durable as after `put`.

Example:
  slmdb update --db fruit apple green";

/// What `update` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: WritableStoreArguments,
    /// The key: up to 65,535 bytes
    #[arg(value_parser = Word::parser(), allow_hyphen_values = true)]
    key: Word,
    /// The value: up to 256 MiB
    #[arg(value_parser = Word::parser(), allow_hyphen_values = true)]
    value: Word,
}

/// Updates.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = arguments.store.open(Missing::Refuse)?;
    let applied = db.update_if_present(&arguments.key, &arguments.value)?;
    db.close()?;
    if applied {
        return Ok(Exit::Done);
    }
    tell_people("not found");
    Ok(Exit::No)
}
