//! `shell`: commands from standard input, each answered before the next is read. See [`crate::shell`].

use std::io::{self, IsTerminal};

use crate::arguments::{Missing, WritableStoreArguments};
use crate::failure::{Exit, Result};
use crate::shell::{interactive, scripted};

const AFTER_HELP: &str = "\
A command a line; words are separated by spaces or tabs; \"\" is the empty word, \\x20 a space; escapes as everywhere.
Each command is answered with data lines that begin with `= `, then one line: `ok`, `not found`, or `error KIND: TEXT`.
The `ok` after a put means that the put is done and survives a kill. An empty line is no command. Errors end nothing.
At the end of the input the exit code is 0, or the highest one met.

Commands:
  put K V · get K · del K             words are taken as they are, also those that look like options
  delrange FROM TO                    all keys from FROM on and before TO, at once
  insert K V · update K V             only if the key has no value, or only if it has one; else the answer is
                                      `not found`, and the code 1; not in a batch
  scan, import, export, stats, verify with the options of the command line; `import -` is not possible here
  begin · commit · abort              puts and deletes in between form a batch: each is answered `ok` once it is queued,
                                      and all take effect together when `commit` is answered `ok`; reads do not see
                                      them before; a batch that is open at the end (or at `exit`) is dropped, which a line
                                      on standard error tells, and the exit code is at least 2
  snapshot · release                  get, scan and export in between see the store as it was at `snapshot`; writes go on,
                                      and `insert` and `update` depend on what is there now
  flush                               write MemTables to table files now
  sync                                make everything answered so far outlive a power cut
  help · exit

Examples:
  slmdb shell --db fruit
  printf 'put apple red\\nget apple\\n' | slmdb shell --db fruit";

/// What `shell` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: WritableStoreArguments,
}

/// Runs the shell, making the store if there is none.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = arguments.store.open(Missing::Create)?;
    let for_people = io::stdin().is_terminal() && io::stdout().is_terminal();
    let highest_code = if for_people { interactive(db)? } else { scripted(db, io::stdin().lock())? };
    Ok(Exit::Answered(highest_code))
}
