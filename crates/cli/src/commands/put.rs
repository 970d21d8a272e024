//! `put`: one key, one value.

use crate::arguments::{Missing, WritableStoreArguments};
use crate::bytes::Word;
use crate::failure::{Exit, Result};

const AFTER_HELP: &str = "\
When it returns, the value survives a kill; with --sync, also a power cut.
A key that begins like an option goes behind `--`.

Examples:
  slmdb put --db fruit apple red
  slmdb put --db fruit 'two\\nlines' ''
  slmdb put --db fruit --sync -- --db 'a key that looks like an option'
  slmdb put --db fast --pm emulated:/dev/shm/fast.pool apple red";

/// What `put` takes.
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

/// Puts, making the store if there is none.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = arguments.store.open(Missing::Create)?;
    db.put(&arguments.key, &arguments.value)?;
    db.close()?;
    Ok(Exit::Done)
}
