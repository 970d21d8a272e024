//! The shell for people: a prompt, line editing, history, completion of verbs and options, colours.
//!
//! History is kept from one session to the next under the user's state directory, where there is one.

use std::borrow::Cow;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use slmdb::Db;

use super::parse::VERBS;
use super::run::{Go, Session};
use crate::failure::{Failure, Result};
use crate::output::tell;

const PROMPT: &str = "slmdb> ";

/// What may follow a verb.
const OPTIONS: [(&str, &[&str]); 4] = [
    ("scan", &["--from", "--to", "--prefix", "--limit", "--reverse", "--keys-only", "--json"]),
    ("import", &["--format", "--key", "--skip-bad"]),
    ("export", &["--format"]),
    ("stats", &["--json"]),
];

struct Help {
    colours: bool,
}

impl Helper for Help {}
impl Validator for Help {}

impl Hinter for Help {
    type Hint = String;
}

impl Highlighter for Help {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _default: bool) -> Cow<'b, str> {
        if self.colours { Cow::Owned(format!("\x1b[1;34m{prompt}\x1b[0m")) } else { Cow::Borrowed(prompt) }
    }
}

impl Completer for Help {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        Ok(candidates(&line[..position]))
    }
}

/// Where the word under the cursor begins, and what it may become.
fn candidates(before: &str) -> (usize, Vec<Pair>) {
    let start = before.rfind([' ', '\t']).map_or(0, |space| space + 1);
    let (verb, word) = (before[..start].split_whitespace().next(), &before[start..]);
    let known: &[&str] = match verb {
        None => &VERBS,
        Some(verb) => {
            OPTIONS.iter().find(|(with_options, _)| *with_options == verb).map_or(&[], |(_, options)| options)
        }
    };
    let fitting = known.iter().filter(|candidate| candidate.starts_with(word) && (verb.is_none() || !word.is_empty()));
    (start, fitting.map(|found| Pair { display: (*found).to_string(), replacement: format!("{found} ") }).collect())
}

/// Answers what is typed until Ctrl-D or `exit`. Gives the highest code answered.
pub fn interactive(db: Db) -> Result<u8> {
    let colours = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && env::var_os("TERM").is_none_or(|terminal| terminal != "dumb");
    let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
    let broken = |error: ReadlineError| Failure::io("read", "terminal", std::io::Error::other(error.to_string()));
    let mut editor: Editor<Help, FileHistory> = Editor::with_config(config).map_err(broken)?;
    editor.set_helper(Some(Help { colours }));
    let history = history_file();
    if let Some(history) = &history {
        // The first session has none.
        let _ = editor.load_history(history);
    }
    tell("`help` lists the verbs, Tab completes them, Ctrl-D ends");

    let mut session = Session::new(db, colours);
    let ended = loop {
        match editor.readline(PROMPT) {
            Ok(line) => match session.answer(line.as_bytes()) {
                Ok(Go::On) => {}
                Ok(Go::End) => break Ok(()),
                Err(failure) => break Err(failure),
            },
            // Ctrl-C drops what has been typed.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break Ok(()),
            Err(error) => break Err(broken(error)),
        }
    };
    if let Some(history) = &history {
        // A history that can't be kept is no reason to end badly.
        let _ = history.parent().map(fs::create_dir_all);
        let _ = editor.save_history(history);
    }
    ended?;
    session.finish()
}

fn history_file() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    state.is_absolute().then(|| state.join(OsStr::new("slmdb")).join("shell_history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(before: &str) -> Vec<String> {
        candidates(before).1.into_iter().map(|pair| pair.replacement).collect()
    }

    #[test]
    fn verbs_and_their_options_are_completed() {
        assert_eq!(completed("pu"), ["put "]);
        assert_eq!(completed("s"), ["scan ", "stats ", "sync ", "snapshot "]);
        assert_eq!(completed("").len(), VERBS.len());
        assert_eq!(completed("scan --re"), ["--reverse "]);
        assert_eq!(completed("scan --from a --l"), ["--limit "]);
        assert_eq!(completed("put s"), [""; 0]);
        assert_eq!(completed("scan "), [""; 0]);
    }
}
