//! The command line: the reading of a whole one, and the help of the program itself.

use std::ffi::OsString;

use clap::Parser;

use crate::arguments::fold;
use crate::commands::Command;
use crate::failure::Result;

const AFTER_HELP: &str = "\
Keys and values are bytes. Written on the command line, in tsv files and in plain output, \\t \\n \\r \\\\ and \\xHH
stand for tab, line feed, carriage return, backslash and the byte HH.

Exit codes: 0 done; 1 the answer is no (get: no such key; insert, update: not applied;
verify: damage); 2 wrong usage; 3 anything else; 130, 143 an import or export ended by a signal.

Examples:
  slmdb demo
  slmdb put --db fruit apple red
  slmdb get --db fruit apple
  slmdb scan --db fruit --prefix a --limit 10
  apt-cache dumpavail | slmdb import --format paragraphs --key Package --db debs -";

/// An ordered key-value store (SLM-DB, FAST '19): what is put survives a crash, with --sync a power cut
#[derive(Parser, Debug)]
#[command(name = "slmdb", version, after_help = AFTER_HELP)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

/// Reads a whole command line, the program's name first.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command> {
    CommandLine::try_parse_from(arguments).map(|line| line.command).map_err(|error| fold(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn line(arguments: &[&str]) -> String {
        match parse(arguments.iter().map(OsString::from)) {
            Ok(command) => format!("{command:?}"),
            Err(failure) => failure.line(),
        }
    }

    #[test]
    fn clap_finds_no_contradiction() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn wrong_usage_is_one_line() {
        for arguments in [
            &["slmdb"][..],
            &["slmdb", "frobnicate"],
            &["slmdb", "get", "k"],
            &["slmdb", "get", "--db", "d"],
            &["slmdb", "get", "--db", "d", "k", "extra"],
            &["slmdb", "scan", "--db", "d", "--revrse"],
            &["slmdb", "scan", "--db", "d", "--limit", "many"],
            &["slmdb", "put", "--db", "d", "\\q", "v"],
            &["slmdb", "put", "--db", "d", "k", "\\x1"],
            &["slmdb", "put", "--db", "d", "--pm", "emulated:", "k", "v"],
            &["slmdb", "put", "--db", "d", "--pm", "emulated:p,latency=much", "k", "v"],
            &["slmdb", "put", "--db", "d", "--memory-budget", "much", "k", "v"],
            &["slmdb", "put", "--db", "d", "--compression", "best", "k", "v"],
            &["slmdb", "put", "--db", "d", "--engine", "rocksdb", "k", "v"],
            &["slmdb", "import", "--db", "d", "--format", "xml", "-"],
        ] {
            let line = line(arguments);
            assert!(line.starts_with("usage: ") && !line.contains('\n'), "{arguments:?}: {line}");
            assert!(!line.contains("error:") && !line.contains("Usage:"), "{arguments:?}: {line}");
        }
        assert!(line(&["slmdb", "get", "--db", "d"]).contains("<KEY>"));
        assert!(line(&["slmdb", "scan", "--db", "d", "--revrse"]).contains("--reverse"));
    }

    #[test]
    fn keys_may_start_with_a_hyphen() {
        assert!(line(&["slmdb", "put", "--db", "d", "-5", "--odd"]).starts_with("Put"));
        assert!(line(&["slmdb", "get", "--db", "d", "--", "--raw"]).starts_with("Get"));
        assert!(line(&["slmdb", "scan", "--db", "d", "--from", "-a"]).starts_with("Scan"));
    }
}
