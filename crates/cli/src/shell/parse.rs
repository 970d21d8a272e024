//! From a line to a request.
//!
//! The verbs that programs use most, `put get del insert update`, take their words as they are: a key that looks like an option is a
//! key. The others have options and go through the very parser of the command line.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::{Parser, Subcommand};

use crate::arguments::fold;
use crate::bytes::{escape, unescape};
use crate::commands::export::ExportOptions;
use crate::commands::import::ImportOptions;
use crate::commands::later::not_in_the_shell;
use crate::commands::scan::ScanOptions;
use crate::commands::stats::StatsOptions;
use crate::failure::{Failure, Result};

/// All verbs, for `help`, completion and the answer to an unknown one.
pub const VERBS: [&str; 22] = [
    "put",
    "get",
    "del",
    "delrange",
    "insert",
    "update",
    "scan",
    "import",
    "export",
    "stats",
    "verify",
    "checkpoint",
    "compact",
    "flush",
    "sync",
    "snapshot",
    "release",
    "begin",
    "commit",
    "abort",
    "help",
    "exit",
];

/// What a line asks for.
#[derive(Debug)]
pub enum Request {
    /// `put K V`
    Put(Vec<u8>, Vec<u8>),
    /// `get K`
    Get(Vec<u8>),
    /// `del K`
    Del(Vec<u8>),
    /// `delrange FROM TO`
    DelRange(Vec<u8>, Vec<u8>),
    /// `insert K V`
    Insert(Vec<u8>, Vec<u8>),
    /// `update K V`
    Update(Vec<u8>, Vec<u8>),
    /// A verb with options.
    Options(Verb),
    /// `flush`
    Flush,
    /// `checkpoint DIR`
    Checkpoint(Vec<u8>),
    /// `compact`
    Compact,
    /// `sync`
    Sync,
    /// `snapshot`
    Snapshot,
    /// `release`
    Release,
    /// `begin`
    Begin,
    /// `commit`
    Commit,
    /// `abort`
    Abort,
    /// `help`
    Help,
    /// `exit`
    Exit,
}

/// The verbs with options.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Print the keys of a range and their values, in order
    Scan(ScanOptions),
    /// Read records from a file into the store
    Import(ImportOptions),
    /// Write all records, in key order
    Export(ExportOptions),
    /// Print what the store holds, and what it has done
    Stats(StatsOptions),
    /// Read everything and print what is damaged
    Verify,
}

#[derive(Parser, Debug)]
#[command(no_binary_name = true, disable_help_subcommand = true)]
struct Line {
    #[command(subcommand)]
    verb: Verb,
}

/// Reads a line; none if there is nothing on it.
pub fn parse(line: &[u8]) -> Result<Option<Request>> {
    let mut words =
        line.split(|&byte| byte == b' ' || byte == b'\t').filter(|word| !word.is_empty()).map(|word| match word {
            b"\"\"" => &[][..],
            word => word,
        });
    let Some(verb) = words.next() else { return Ok(None) };
    let words: Vec<&[u8]> = words.collect();
    let request = match verb {
        b"put" => {
            let [key, value] = exactly("put K V", &words)?;
            Request::Put(bytes(key)?, bytes(value)?)
        }
        b"get" => {
            if let [_, b"--raw"] = words[..] {
                return Err(Failure::usage("get --raw would break the line an answer has; use it on the command line"));
            }
            let [key] = exactly("get K", &words)?;
            Request::Get(bytes(key)?)
        }
        b"del" => {
            let [key] = exactly("del K", &words)?;
            Request::Del(bytes(key)?)
        }
        b"delrange" => {
            let [from, to] = exactly("delrange FROM TO", &words)?;
            Request::DelRange(bytes(from)?, bytes(to)?)
        }
        b"insert" => {
            let [key, value] = exactly("insert K V", &words)?;
            Request::Insert(bytes(key)?, bytes(value)?)
        }
        b"update" => {
            let [key, value] = exactly("update K V", &words)?;
            Request::Update(bytes(key)?, bytes(value)?)
        }
        b"scan" | b"stats" | b"verify" => with_options(verb, words.iter().map(|word| Ok(word.to_vec())))?,
        // Their words are file names and names of fields, which nobody else unescapes.
        b"import" | b"export" => with_options(verb, words.iter().map(|word| bytes(word)))?,
        b"checkpoint" => {
            let [directory] = exactly("checkpoint DIR", &words)?;
            Request::Checkpoint(bytes(directory)?)
        }
        b"flush" => alone("flush", &words, Request::Flush)?,
        b"compact" => alone("compact", &words, Request::Compact)?,
        b"sync" => alone("sync", &words, Request::Sync)?,
        b"snapshot" => alone("snapshot", &words, Request::Snapshot)?,
        b"release" => alone("release", &words, Request::Release)?,
        b"begin" => alone("begin", &words, Request::Begin)?,
        b"commit" => alone("commit", &words, Request::Commit)?,
        b"abort" => alone("abort", &words, Request::Abort)?,
        b"help" => Request::Help,
        b"exit" => alone("exit", &words, Request::Exit)?,
        other => {
            return Err(not_in_the_shell(other).unwrap_or_else(|| {
                Failure::usage(format!("`{}` is no verb; there are {}", escape(other), VERBS.join(" ")))
            }));
        }
    };
    Ok(Some(request))
}

fn exactly<'w, const N: usize>(form: &str, words: &[&'w [u8]]) -> Result<[&'w [u8]; N]> {
    <[&[u8]; N]>::try_from(words).map_err(|_| {
        Failure::usage(format!("{} words after the verb, not {N}; it is `{form}`, with \\x20 for a space", words.len()))
    })
}

fn alone(verb: &str, words: &[&[u8]], request: Request) -> Result<Request> {
    if words.is_empty() { Ok(request) } else { Err(Failure::usage(format!("`{verb}` stands alone on its line"))) }
}

fn bytes(word: &[u8]) -> Result<Vec<u8>> {
    unescape(word).map_err(|why| Failure::usage(format!("`{}`: {why}", escape(word))))
}

fn with_options(verb: &[u8], words: impl Iterator<Item = Result<Vec<u8>>>) -> Result<Request> {
    let words: Vec<OsString> = std::iter::once(Ok(verb.to_vec()))
        .chain(words)
        .map(|word| word.map(OsString::from_vec))
        .collect::<Result<_>>()?;
    match Line::try_parse_from(words) {
        Ok(line) => Ok(Request::Options(line.verb)),
        Err(error) => Err(fold(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> String {
        match parse(line.as_bytes()) {
            Ok(None) => "nothing".to_string(),
            Ok(Some(request)) => format!("{request:?}"),
            Err(failure) => failure.line(),
        }
    }

    #[test]
    fn words_are_separated_by_spaces_or_tabs() {
        assert_eq!(parsed(""), "nothing");
        assert_eq!(parsed(" \t "), "nothing");
        assert!(matches!(parse(b" put \t a\tb ").unwrap(), Some(Request::Put(k, v)) if k == b"a" && v == b"b"));
        assert!(matches!(parse(b"put \"\" \\x20").unwrap(), Some(Request::Put(k, v)) if k.is_empty() && v == b" "));
        assert!(matches!(parse(b"get \\x22\\x22").unwrap(), Some(Request::Get(k)) if k == b"\"\""));
        assert!(matches!(parse(b"get \"a\"").unwrap(), Some(Request::Get(k)) if k == b"\"a\""));
        assert!(matches!(parse(b"get \xff").unwrap(), Some(Request::Get(k)) if k == b"\xff"));
    }

    #[test]
    fn keys_that_look_like_options_are_keys() {
        assert!(matches!(parse(b"put --sync -h").unwrap(), Some(Request::Put(k, v)) if k == b"--sync" && v == b"-h"));
        assert!(matches!(parse(b"get --raw").unwrap(), Some(Request::Get(k)) if k == b"--raw"));
        assert!(matches!(parse(b"del --help").unwrap(), Some(Request::Del(k)) if k == b"--help"));
        assert!(matches!(parse(b"insert -a -b").unwrap(), Some(Request::Insert(k, v)) if k == b"-a" && v == b"-b"));
        assert!(matches!(parse(b"update -a \"\"").unwrap(), Some(Request::Update(k, v)) if k == b"-a" && v.is_empty()));
        assert!(parsed("scan --from -a --to -- --limit 3").starts_with("Options(Scan"));
    }

    #[test]
    fn what_is_wrong_is_told_in_one_line() {
        for line in [
            "put a",
            "put a b c",
            "get",
            "get a --raw",
            "get \\q",
            "del",
            "delrange a",
            "insert a",
            "update a b c",
            "scan --sideways",
            "scan --limit x",
            "scan --from \\q",
            "import",
            "stats now",
            "flush now",
            "compact now",
            "exit now",
            "snapshot now",
            "release 1",
            "frob\\x00",
            "PUT a b",
        ] {
            let answer = parsed(line);
            assert!(answer.starts_with("usage: ") && !answer.contains('\n'), "{line}: {answer}");
        }
        for line in ["repair", "bench"] {
            let answer = parsed(line);
            assert!(answer.starts_with("unsupported: "), "{line}: {answer}");
        }
    }
}
