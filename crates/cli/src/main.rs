//! The `slmdb` command: a store of slmdb from the command line.
//!
//! To be read in this order: [`command_line`] (the reading of it), [`arguments`] (what verbs share of it) and
//! [`failure`] (how a verb ends badly); [`bytes`] (how keys and values are written); then [`commands`], one short file a
//! verb. Behind them stand [`formats`] (what `import` reads and `export` writes), [`span`] (a range of keys, walked
//! either way), [`shell`] and [`demo`].
//!
//! What scripts may rely on (exit codes, the one line of a failure, the escapes, the shell's answers) is a contract;
//! where it left a choice, the verb's `--help` says what was chosen.
#![forbid(unsafe_code)]

mod arguments;
mod command_line;
mod commands;
mod demo;
mod failure;
mod input;
mod interruption;
mod output;
mod progress;
mod replacement;
mod shell;
mod span;

use std::process::ExitCode;

use slmdb_cli::{bytes, formats, pm, reports, units};

fn main() -> ExitCode {
    // Without it, too large a file ends the process without a word; with it or not, nothing else changes.
    let _ = interruption::survive_file_size_limit();
    let code = match command_line::parse(std::env::args_os()) {
        Ok(command) => match command.run() {
            Ok(exit) => exit.code(),
            Err(failure) => output::report(failure),
        },
        Err(failure) => output::report(failure),
    };
    ExitCode::from(code)
}
