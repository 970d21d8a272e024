//! From a request to its answer.
//!
//! An answer is written and flushed after the operation has returned, so that a reader of `ok` after a `put` may
//! pull any plug that the store's medium promises to survive.

use std::ffi::OsStr;
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt;

use slmdb::{Cursor, Db, Snapshot, WriteBatch};

use super::parse::{Request, VERBS, Verb, parse};
use crate::bytes::escape_into;
use crate::commands::export::export;
use crate::commands::import::import;
use crate::commands::stats::write_stats;
use crate::commands::verify::check;
use crate::failure::{Failure, Result};
use crate::formats::{Line, Lines};
use crate::output::{Output, report};
use crate::progress::Progress;

/// What every data line begins with.
const DATA: &str = "= ";

/// How a request ended that did not fail.
enum Verdict {
    Done,
    /// No such key; or a conditional write that did not apply: what it depends on was not found to be so.
    NotFound,
    /// `verify` found so many things.
    Damaged(u64),
}

/// Whether there will be more answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    /// There may be.
    On,
    /// That was the last one.
    End,
}

/// An open store and a conversation about it.
pub struct Session {
    /// `None` after `exit`.
    db: Option<Db>,
    /// Between `begin` and `commit` or `abort`.
    batch: Option<WriteBatch>,
    /// Between `snapshot` and `release`: what reads see.
    snapshot: Option<Snapshot>,
    output: Output,
    colours: bool,
    highest_code: u8,
}

impl Session {
    /// A conversation about `db` on standard output.
    pub fn new(db: Db, colours: bool) -> Session {
        Session { db: Some(db), batch: None, snapshot: None, output: Output::standard(), colours, highest_code: 0 }
    }

    /// Carries out a line and answers it. Only an answer that can't be written is a failure here, and a signal that asks
    /// the process to end.
    pub fn answer(&mut self, line: &[u8]) -> Result<Go> {
        match parse(line) {
            Ok(None) => Ok(Go::On),
            Ok(Some(Request::Exit)) => {
                // Answered after the close, so that another process may open the store on reading the answer.
                let closed = self.close();
                self.conclude(closed.map(|()| Verdict::Done))?;
                Ok(Go::End)
            }
            Ok(Some(request)) => {
                let verdict = self.carry_out(request);
                self.conclude(verdict)?;
                Ok(Go::On)
            }
            Err(failure) => {
                self.conclude(Err(failure))?;
                Ok(Go::On)
            }
        }
    }

    /// Writes the last line of an answer, and lets it go.
    fn conclude(&mut self, verdict: Result<Verdict>) -> Result<()> {
        const GREEN: &str = "32";
        const YELLOW: &str = "33";
        const RED: &str = "31";
        let (code, colour, text) = match verdict {
            Ok(Verdict::Done) => (0, GREEN, "ok".to_string()),
            Ok(Verdict::NotFound) => (1, YELLOW, "not found".to_string()),
            Ok(Verdict::Damaged(findings)) => (1, RED, format!("error corruption: {findings} findings, named above")),
            Err(Failure::ClosedPipe) => return Err(Failure::ClosedPipe),
            Err(interrupted) if interrupted.code() > 128 => {
                self.output.line(&format!("error {}", interrupted.line()))?;
                self.output.flush()?;
                return Err(interrupted);
            }
            Err(Failure::Help(text)) => {
                for line in text.lines() {
                    self.data(line)?;
                }
                (0, GREEN, "ok".to_string())
            }
            Err(failure) => (failure.code(), RED, format!("error {}", failure.line())),
        };
        self.highest_code = self.highest_code.max(code);
        if self.colours {
            self.output.line(&format!("\x1b[{colour}m{text}\x1b[0m"))?;
        } else {
            self.output.line(&text)?;
        }
        self.output.flush()
    }

    fn data(&mut self, text: &str) -> Result<()> {
        self.output.line(&format!("{DATA}{text}"))
    }

    fn carry_out(&mut self, request: Request) -> Result<Verdict> {
        let Some(db) = &self.db else { return Err(closed()) };
        match request {
            Request::Put(key, value) => match &mut self.batch {
                Some(batch) => batch.put(key, value)?,
                None => db.put(key, value)?,
            },
            Request::Del(key) => match &mut self.batch {
                Some(batch) => batch.delete(key)?,
                None => db.delete(key)?,
            },
            Request::DelRange(from, to) => match &mut self.batch {
                Some(batch) => batch.delete_range(from..to)?,
                None => db.delete_range(from..to)?,
            },
            Request::Get(key) => {
                let value = match &self.snapshot {
                    Some(snapshot) => snapshot.get(key)?,
                    None => db.get(key)?,
                };
                let Some(value) = value else { return Ok(Verdict::NotFound) };
                let mut line = DATA.as_bytes().to_vec();
                escape_into(&mut line, &value);
                line.push(b'\n');
                self.output.write(&line)?;
            }
            Request::Insert(key, value) => return self.conditional(|db| db.insert_if_absent(key, value)),
            Request::Update(key, value) => return self.conditional(|db| db.update_if_present(key, value)),
            Request::Options(verb) => return self.carry_out_options(verb),
            Request::Flush => db.flush()?,
            Request::Checkpoint(directory) => {
                let _progress = Progress::of_time("copying");
                db.checkpoint(OsStr::from_bytes(&directory))?;
            }
            Request::Compact => db.compact_range::<&[u8]>(..)?,
            Request::Sync => db.sync()?,
            Request::Snapshot => {
                if self.snapshot.is_some() {
                    return Err(Failure::usage("a snapshot is held already; `release` it first"));
                }
                self.snapshot = Some(db.snapshot()?);
            }
            Request::Release => {
                let none = || Failure::usage("no snapshot is held; `snapshot` takes one");
                self.snapshot.take().ok_or_else(none)?;
            }
            Request::Begin => {
                if self.batch.is_some() {
                    return Err(Failure::usage("a batch is open already; `commit` or `abort` it first"));
                }
                self.batch = Some(WriteBatch::new());
            }
            Request::Commit => {
                let batch = self.batch.take().ok_or_else(no_batch)?;
                db.write(&batch)?;
            }
            Request::Abort => {
                self.batch.take().ok_or_else(no_batch)?;
            }
            Request::Help => {
                self.data(&format!("verbs: {}", VERBS.join(" ")))?;
                self.data(
                    "`scan --help`, `import --help`, `export --help` show their options; `slmdb shell --help` the rest",
                )?;
            }
            Request::Exit => {}
        }
        Ok(Verdict::Done)
    }

    fn conditional(&self, write: impl FnOnce(&Db) -> slmdb::Result<bool>) -> Result<Verdict> {
        let Some(db) = &self.db else { return Err(closed()) };
        if self.batch.is_some() {
            return Err(Failure::usage(
                "`insert` and `update` are answered at once, so not in a batch; `commit` it first",
            ));
        }
        Ok(if write(db)? { Verdict::Done } else { Verdict::NotFound })
    }

    fn carry_out_options(&mut self, verb: Verb) -> Result<Verdict> {
        let Some(db) = &self.db else { return Err(closed()) };
        match verb {
            Verb::Scan(options) => options.write(self.cursor(db)?, &mut self.output, DATA.as_bytes())?,
            Verb::Import(options) => {
                if options.reads_standard_input() {
                    return Err(Failure::usage("standard input is where the commands come from; name a file"));
                }
                import(&options, || Ok(db.clone()))?;
            }
            Verb::Export(options) => export(&options, db, self.cursor(db)?, &mut self.output, DATA.as_bytes())?,
            Verb::Stats(options) => write_stats(&options, db, &mut self.output, DATA)?,
            Verb::Verify => {
                let findings = check(db, &mut self.output, DATA)?;
                if findings > 0 {
                    return Ok(Verdict::Damaged(findings));
                }
            }
        }
        Ok(Verdict::Done)
    }

    /// A cursor at the moment that reads see.
    fn cursor(&self, db: &Db) -> Result<Cursor> {
        Ok(match &self.snapshot {
            Some(snapshot) => snapshot.cursor()?,
            None => db.cursor()?,
        })
    }

    fn close(&mut self) -> Result<()> {
        if let Some(batch) = self.batch.take().filter(|batch| !batch.is_empty()) {
            let dropped = Failure::usage(format!(
                "the batch that was begun is dropped: it was never committed (writes: {}); end it with `commit` or `abort`",
                batch.len()
            ));
            self.highest_code = self.highest_code.max(report(dropped));
        }
        self.snapshot = None;
        match self.db.take() {
            Some(db) => Ok(db.close()?),
            None => Ok(()),
        }
    }

    /// Closes the store and gives the highest code that was answered.
    pub fn finish(mut self) -> Result<u8> {
        self.close()?;
        Ok(self.highest_code)
    }
}

fn closed() -> Failure {
    Failure::usage("the store is closed; start the shell again")
}

fn no_batch() -> Failure {
    Failure::usage("no batch is open; `begin` opens one")
}

/// Answers the lines of `input` until it ends, without prompt or echo. Gives the highest code answered.
pub fn scripted(db: Db, input: impl BufRead) -> Result<u8> {
    let mut session = Session::new(db, false);
    let mut lines = Lines::new(input);
    let mut line = Vec::new();
    loop {
        let go = match lines.next(&mut line) {
            Ok(Line::Whole) => session.answer(&line).map_err(|failure| {
                let line = lines.number();
                failure.after(format!("the command on line {line} was carried out or answered, none after it was"))
            })?,
            Ok(Line::TooLong) => {
                session.conclude(Err(Failure::usage(format!("{}; use `import`", lines.too_long().why))))?;
                Go::On
            }
            Ok(Line::End) => Go::End,
            Err(error) => return Err(Failure::io("read", "standard input", error)),
        };
        if go == Go::End {
            return session.finish();
        }
    }
}
