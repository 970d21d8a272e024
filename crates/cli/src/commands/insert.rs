//! `insert`: one key, one value, if the key has none.

use crate::arguments::{Missing, WritableStoreArguments};
use crate::bytes::Word;
use crate::failure::{Exit, Result};
use crate::output::tell_people;

const AFTER_HELP: &str = "\
A key that has a value keeps it: exit code 1, and nothing is printed on standard output. Of several who insert one key
at once (in a `shell`, or by the library) exactly one gets 0. Durable as after `put`.

Examples:
  slmdb insert --db fruit apple red
  slmdb insert --db jobs --sync 42 \"worker $$\" && ./work 42";

/// What `insert` takes.
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

/// Inserts, making the store if there is none.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = arguments.store.open(Missing::Create)?;
    let applied = db.insert_if_absent(&arguments.key, &arguments.value)?;
    db.close()?;
    if applied {
        return Ok(Exit::Done);
    }
    tell_people("the key has a value already");
    Ok(Exit::No)
}
