//! `get`: the value of one key.

use crate::arguments::StoreArguments;
use crate::bytes::{Word, escape_into};
use crate::failure::{Exit, Result};
use crate::output::{Output, tell_people};

const AFTER_HELP: &str = "\
A key without a value is exit code 1, and nothing is printed on standard output.

Examples:
  slmdb get --db fruit apple
  slmdb get --db photos --raw 'holiday/1.jpg' > 1.jpg";

/// What `get` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Print the exact bytes: no escapes, no line feed at the end
    #[arg(long)]
    raw: bool,
    /// The key
    #[arg(value_parser = Word::parser(), allow_hyphen_values = true)]
    key: Word,
}

/// Prints the value.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = arguments.store.open_for_reading()?;
    let Some(value) = db.get(&arguments.key)? else {
        tell_people("not found");
        return Ok(Exit::No);
    };
    let mut output = Output::standard();
    if arguments.raw {
        output.write(&value)?;
    } else {
        let mut line = Vec::with_capacity(value.len() + 1);
        escape_into(&mut line, &value);
        line.push(b'\n');
        output.write(&line)?;
    }
    output.flush()?;
    Ok(Exit::Done)
}
