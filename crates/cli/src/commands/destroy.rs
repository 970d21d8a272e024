//! `destroy`: a store is removed, with its pool, and nothing else.

use std::io::{self, BufRead, IsTerminal};

use slmdb::{Destroyed, PoolFate};

use crate::arguments::StoreArguments;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Output, tell};
use crate::progress::Progress;
use crate::units;

const AFTER_HELP: &str = "\
Removes the store's files, its pool if what lies there is this store's own, and the directory if nothing else is in it.
Of a symbolic link it removes what is behind it, and leaves the link.
Other files stay and are named. Refused while anybody has the store open. What was cut short is finished by the same
command. Without --yes it asks, if there is a terminal to ask on.
Exit codes: 0 destroyed; 1 the answer was not yes; 3 locked, or no store.

Examples:
  slmdb destroy --db fruit
  slmdb destroy --db fruit --yes";

/// What `destroy` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Don't ask
    #[arg(long)]
    yes: bool,
}

/// Destroys, after it was confirmed.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    if !arguments.yes && !is_confirmed(arguments)? {
        tell("not destroyed");
        return Ok(Exit::No);
    }
    let progress = Progress::of_time("destroying");
    let destroyed = arguments.store.destroy()?;
    drop(progress);
    tell_destroyed(arguments, &destroyed).map_err(|failure| failure.after("the store is destroyed"))?;
    Ok(Exit::Done)
}

fn tell_destroyed(arguments: &Arguments, destroyed: &Destroyed) -> Result<()> {
    let mut output = Output::standard();
    let files =
        if destroyed.files == 1 { "1 file".to_string() } else { format!("{} files", units::count(destroyed.files)) };
    output.line(&format!("destroyed: {files}, {}", units::bytes(destroyed.bytes)))?;
    match &destroyed.pool {
        PoolFate::Removed(path) => output.line(&format!("destroyed: the pool {}", path.display()))?,
        PoolFate::Missing(path) => output.line(&format!("missing: the pool {}", path.display()))?,
        PoolFate::Left { path: Some(path), why, .. } => output.line(&format!("left: {} ({why})", path.display()))?,
        PoolFate::Left { why, .. } => output.line(&format!("left: the pool ({why})"))?,
        _ => {}
    }
    for name in &destroyed.left {
        output.line(&format!("left: {}", arguments.store.db.join(name).display()))?;
    }
    let directory = &arguments.store.db;
    if directory.is_symlink() {
        output.line(&format!("left: {} (a link)", directory.display()))?;
    } else if destroyed.is_directory_left {
        output.line(&format!("left: {} (an empty directory that can't be removed)", directory.display()))?;
    }
    output.flush()
}

/// Asks the person at the terminal.
fn is_confirmed(arguments: &Arguments) -> Result<bool> {
    let input = io::stdin();
    if !input.is_terminal() {
        return Err(Failure::usage("nobody can be asked whether to destroy the store; say --yes"));
    }
    tell(&format!(
        "This removes the store in {} and everything in it. Type yes to go on:",
        arguments.store.db.display()
    ));
    let mut answer = String::new();
    input.lock().read_line(&mut answer).map_err(|error| Failure::io("read", "standard input", error))?;
    Ok(answer.trim() == "yes")
}
